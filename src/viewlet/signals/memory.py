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

from viewlet.signals.chunks import Values

LARGE = 1 << 20  # bytes; smaller arrays the allocator keeps at hand by itself
PAGE = 1 << 21  # large arrays begin where a huge page does
LIMIT = 1 << 28  # bytes kept for later, per thread; batches of ordinary size need a tenth of that

_kept = threading.local()


def empty(shape: int | tuple[int, ...], dtype: Any = np.int64) -> Values:
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
    array: Values = raw[begin : begin + size].view(dtype).reshape(shape)
    return array


def _unused(size: int) -> Values:
    """Memory that no array refers to any more: a view counts as a reference to what it shows."""
    buffers: list[Values] = _kept.__dict__.setdefault("buffers", [])  # those asked for last at the end
    for i in range(len(buffers)):
        fits = size + PAGE <= len(buffers[i]) <= 2 * size + PAGE
        if fits and sys.getrefcount(buffers[i]) == 2:  # the list, and the argument
            buffers.append(buffers.pop(i))
            return buffers[-1]
    buffers.append(np.empty(size + PAGE, np.uint8))
    while len(buffers) > 1 and sum(map(len, buffers)) > LIMIT:
        buffers.pop(0)
    return buffers[-1]
