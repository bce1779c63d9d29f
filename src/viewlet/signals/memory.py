"""Large arrays for kernels, used again once nobody refers to them.

A session works on arrays of the same sizes batch after batch. Asking the system for them each time costs a
page fault for every four kilobytes, which is a third of the whole cost of a grouped query.
"""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

LARGE = 1 << 20  # bytes; smaller arrays the allocator keeps at hand by itself
PAGE = 1 << 21  # large arrays begin where a huge page does
LIMIT = 1 << 28  # bytes kept for later, per thread; batches of ordinary size need a tenth of that

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
    begin = -raw.__array_interface__["data"][0] % PAGE
    array: npt.NDArray[Any] = raw[begin : begin + size].view(dtype).reshape(shape)
    return array


def joined(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Arrays one after the other, like ``numpy.concatenate``.

    >>> joined([np.array([1, 2]), np.array([3])])
    array([1, 2, 3])
    """
    shape = (sum(map(len, arrays)), *arrays[0].shape[1:])
    return np.concatenate(arrays, out=empty(shape, np.result_type(*arrays)))


def _unused(size: int) -> npt.NDArray[Any]:
    """Memory that no array refers to any more: a view counts as a reference to what it shows."""
    buffers: list[npt.NDArray[Any]] = _kept.__dict__.setdefault(
        "buffers", []
    )  # those asked for last at the end
    for i in range(len(buffers)):
        fits = size + PAGE <= len(buffers[i]) <= 2 * size + PAGE
        if fits and sys.getrefcount(buffers[i]) == 2:  # the list, and the argument
            buffers.append(buffers.pop(i))
            return buffers[-1]
    buffers.append(np.empty(size + PAGE, np.uint8))
    while len(buffers) > 1 and sum(map(len, buffers)) > LIMIT:
        buffers.pop(0)
    return buffers[-1]
