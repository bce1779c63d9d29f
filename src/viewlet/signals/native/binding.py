"""How Python reaches the C kernels: whole NumPy buffers as pointers, numbers as 64-bit integers.

ctypes releases the interpreter lock while a kernel runs.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.signals.chunks import PerKey, Values
from viewlet.signals.native.build import build

SOURCES = ("grouping.c", "sampling.c", "runs.c", "filters.c", "windows.c", "fft.c")
HEADERS = ("kernels.h", "vectors.h")
ALLOCATING = ("vs_fir", "vs_rational", "vs_window", "vs_unwindow", "vs_rfft", "vs_irfft", "vs_fft")

_Buffer = ctypes.c_byte * 0


@cache
def load() -> ctypes.CDLL:
    """The compiled kernels; builds them on first use."""
    sources, headers = ([Path(__file__).with_name(name) for name in names] for names in (SOURCES, HEADERS))
    return ctypes.CDLL(str(build(sources, headers)))


@cache
def _kernel(name: str) -> Any:
    kernel = getattr(load(), name)
    kernel.restype = ctypes.c_int64
    return kernel


def call(name: str, *args: Any) -> int:
    """Call a kernel; arrays must be contiguous."""
    kernel = _kernel(name)
    if kernel.argtypes is None:
        kernel.argtypes = [ctypes.c_int64 if isinstance(arg, int) else ctypes.c_void_p for arg in args]
    result: int = kernel(*[_pointer(arg) if isinstance(arg, np.ndarray) else arg for arg in args])
    if result == -1 and name in ALLOCATING:
        raise MemoryError(f"{name} could not allocate its scratch buffer")
    return result


def state_pointers(state: PerKey, *names: str) -> Any:
    """The addresses of arrays of a state, found out once for as long as the state does not grow."""
    found = state.addresses.get(names)
    if found is None:
        found = state.addresses[names] = tuple(_pointer(state[name]) for name in names)
    return found


def _pointer(array: Values) -> Any:
    """The address of an array; a buffer of no bytes tells it five times as quickly as NumPy does."""
    try:
        return _Buffer.from_buffer(array)  # type: ignore[arg-type]  # NumPy declares no buffer
    except (TypeError, ValueError):  # of memory that may not be written
        return array.ctypes.data


def contiguous(array: Any) -> Any:
    """The array, copied where its items do not lie side by side."""
    return np.ascontiguousarray(array)


def width(values: Values) -> int:
    """Doubles per sample: 1 real, 2 complex, c for c channels."""
    return int(np.prod(values.shape[1:], dtype=np.int64)) * (2 if values.dtype == np.complex128 else 1)
