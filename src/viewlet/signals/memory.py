"""Large arrays for kernels, used again once nobody refers to them.

A session works on arrays of the same sizes batch after batch. Asking the system for them each time costs a
page fault for every four kilobytes, which is a third of the whole cost of a grouped query.
"""

from __future__ import annotations

import math
import sys
import threading
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

LARGE = 1 << 17  # bytes; smaller arrays the allocator keeps at hand by itself
STRIP = 1 << 24  # bytes of a strip, for results that come in blocks
PAGE = 1 << 21  # large arrays begin where a huge page does
LIMIT = 1 << 29  # bytes kept for later, per thread: ten million rows of a result, and what they are made in

_kept = threading.local()


def empty(shape: int | tuple[int, ...], dtype: Any = np.int64) -> npt.NDArray[Any]:
    """An array of arbitrary content, like ``numpy.empty``.

    >>> addresses = []
    >>> def again() -> None:
    ...     addresses.extend(empty(1 << 18).ctypes.data for _ in range(3))
    >>> thread = threading.Thread(target=again)
    >>> thread.start(), thread.join()
    (None, None)
    >>> len(set(addresses))
    1
    """
    shape = (shape,) if isinstance(shape, int) else shape
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    raw = _unused(size)
    begin = -_begin(raw) % PAGE
    array: npt.NDArray[Any] = raw[begin : begin + size].view(dtype).reshape(shape)
    return array


class Strip:
    """Memory for blocks whose lengths are known only when they are written: each goes behind the last one.

    >>> strip = Strip()
    >>> blocks = [strip.keep(strip.room((1 << 15, 2), np.float64), rows) for rows in (10, 20)]
    >>> joined(blocks).base is blocks[0].base
    True
    """

    def __init__(self) -> None:
        self._rest = np.empty(0, np.uint8)

    def room(self, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """An array of arbitrary content, behind what was kept."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < LARGE:
            return np.empty(shape, dtype)
        if size > len(self._rest):
            self._rest = empty(max(size, STRIP), np.uint8)
        array: npt.NDArray[Any] = self._rest[:size].view(dtype).reshape(shape)
        return array

    def keep(self, array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
        """The first rows of the room given last; what is behind them is free again."""
        kept = array[:rows]
        if _begin(array) == _begin(self._rest):
            self._rest = self._rest[kept.nbytes :]
        return kept


def joined(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Arrays one after the other, like ``numpy.concatenate``; not copied where they lie so already.

    >>> joined([np.array([1, 2]), np.array([3])])
    array([1, 2, 3])
    """
    shape = (sum(map(len, arrays)), *arrays[0].shape[1:])
    whole = arrays[0].base
    if whole is not None and all(follows(*pair) for pair in pairwise(arrays)):
        begin = _begin(arrays[0]) - _begin(whole)
        size = math.prod(shape) * arrays[0].itemsize
        together: npt.NDArray[Any] = whole[begin : begin + size].view(arrays[0].dtype).reshape(shape)
        return together
    return np.concatenate(arrays, out=empty(shape, np.result_type(*arrays)))


def follows(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Do the two lie side by side in one piece of memory of bytes?"""
    whole = one.base
    if not isinstance(whole, np.ndarray) or whole.dtype != np.uint8 or whole is not other.base:
        return False
    return (
        one.dtype == other.dtype
        and one.flags.carray
        and other.flags.carray
        and _begin(one) + one.nbytes == _begin(other)
    )


def _begin(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _unused(size: int) -> npt.NDArray[Any]:
    """Memory that no array refers to any more: a view counts as a reference to what it shows."""
    buffers: list[npt.NDArray[Any]] = _kept.__dict__.setdefault(
        "buffers", []
    )  # those asked for last at the end
    for i in reversed(range(len(buffers))):  # what is needed again and again was asked for lately
        fits = size + PAGE <= len(buffers[i]) <= 2 * size + PAGE
        if fits and sys.getrefcount(buffers[i]) == 2:  # the list, and the argument
            buffers.append(buffers.pop(i))
            return buffers[-1]
    buffers.append(np.empty(size + PAGE, np.uint8))
    while len(buffers) > 1 and sum(map(len, buffers)) > LIMIT:
        buffers.pop(0)
    return buffers[-1]
