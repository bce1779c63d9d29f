"""Fourier transforms in C for windows of 2^k samples; of any other length through SciPy."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from viewlet.signals import reference
from viewlet.signals.chunks import Values
from viewlet.signals.memory import empty
from viewlet.signals.native.binding import call

SHORTEST, LONGEST = 32, 1 << 16  # beyond, a transform no longer fits the second-level cache
SHORT = (16, 32)  # real windows that are transformed eight at a time
SKEW = 40  # as in fft.c
DIRECT_TAPS = 64  # up to here the direct form beats overlap-save (benchmarks/signals.py)


def rfft(windows: Values) -> Values:
    """The non-negative half of the spectrum of each real window."""
    size = windows.shape[1]
    if not _suits_pairs(windows, size, np.float64):
        return reference.rfft(windows)
    out = empty((len(windows), size // 2 + 1), np.complex128)
    call("vs_rfft", len(windows), *_rows(windows), size, 0, table(size // 2), turn(size), out)
    return out


def fft(windows: Values) -> Values:
    """The spectrum of each window."""
    size = windows.shape[1]
    out = empty(windows.shape[:2], np.complex128)
    if _suits_pairs(windows, size, np.float64):
        call("vs_rfft", len(windows), *_rows(windows), size, 1, table(size // 2), turn(size), out)
    elif _suits(windows, size, np.complex128):
        call("vs_fft", len(windows), *_rows(windows), size, 0, table(size), out)
    else:
        return reference.fft(windows)
    return out


def irfft(windows: Values, size: int) -> Values:
    """Real windows of ``size`` samples from the non-negative halves of their spectra."""
    if not _suits_pairs(windows, size, np.complex128) or windows.shape[1] != size // 2 + 1:
        return reference.irfft(windows, size)
    out = empty((len(windows), size), np.float64)
    call("vs_irfft", len(windows), np.ascontiguousarray(windows), size, table(size // 2), turn(size), out)
    return out


def ifft(windows: Values) -> Values:
    """The windows whose spectra these are."""
    size = windows.shape[1]
    if not _suits(windows, size, np.complex128):
        return reference.ifft(windows)
    out = empty((len(windows), size), np.complex128)
    call("vs_fft", len(windows), *_rows(windows), size, 1, table(size), out)
    return out


def transforms(size: int) -> bool:
    """Is there a kernel for real windows of ``size`` samples?"""
    half = size // 2
    return size in SHORT or (size % 2 == 0 and SHORTEST <= half <= LONGEST and half & (half - 1) == 0)


def _suits(windows: Values, size: int, dtype: type) -> bool:
    """Can these windows go through a complex transform of ``size``?"""
    power = SHORTEST <= size <= LONGEST and size & (size - 1) == 0
    return power and windows.ndim == 2 and windows.dtype == dtype


def _suits_pairs(windows: Values, size: int, dtype: type) -> bool:
    """Can real windows of ``size`` samples be transformed, as half as many complex numbers?"""
    return transforms(size) and windows.ndim == 2 and windows.dtype == dtype


def _rows(windows: Values) -> tuple[int, Values]:
    """The distance of rows in samples, and the array; rows may overlap or lie apart, samples may not."""
    step, inner = windows.strides
    if inner != windows.itemsize or step % inner or step < 0:
        windows = np.ascontiguousarray(windows)
    return windows.strides[0] // windows.itemsize, windows


@cache
def table(size: int) -> Values:
    """Cosine and sine of p, 2 p and 3 p times 2 pi / size for p < size / 4, in rows that are skewed."""
    angle = 2 * np.pi * np.arange(size // 4) / size
    rows = [wave(times * angle) for times in (1, 2, 3) for wave in (np.cos, np.sin)]
    return np.concatenate([np.pad(row, (0, SKEW)) for row in rows])


@cache
def turn(size: int) -> Values:
    """Cosine, then sine, of 2 pi k / size for k up to size / 2; the kernel reads whole vectors."""
    angle = 2 * np.pi * np.arange(size // 2 + 1) / size
    return np.concatenate((np.cos(angle), np.sin(angle), np.zeros(8)))


@cache
def waves(size: int) -> tuple[Values, Values]:
    """Cosine and sine of 2 pi k / size."""
    angle = 2 * np.pi * np.arange(size) / size
    return np.cos(angle), np.sin(angle)


def block_length(taps: int, longest: int) -> int:
    """The transform length for a filter: about four times the taps, 0 where the direct form is cheaper."""
    if taps <= DIRECT_TAPS or longest < taps:
        return 0
    block = 1 << (min(4 * taps, longest + taps) - 1).bit_length()
    return block if SHORTEST <= block <= LONGEST else 0


@lru_cache(maxsize=16)
def response(taps: bytes, size: int) -> Values:
    """The spectrum of a filter over ``size`` samples, divided by ``size``: real parts before imaginary."""
    spectrum = np.fft.fft(np.frombuffer(taps), size) / size
    return np.concatenate((spectrum.real, spectrum.imag))
