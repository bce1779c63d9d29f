"""Random numbers as a pure function of (seed, name of the draw, number of the event).

A generator that keeps no state can make any range of events on any machine and get the same events: that is
what lets one definition serve a NumPy array and a Spark partition. The mixing function is SplitMix64's
finalizer, a bijection on 64 bits.

>>> bool((uniform(7, "price", np.arange(10))[4:] == uniform(7, "price", np.arange(4, 10))).all())
True
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Index: TypeAlias = NDArray[np.int64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def bits(seed: int, draw: str, index: Index) -> NDArray[np.uint64]:
    """64 random bits per event, independent for different seeds and draws."""
    start = int.from_bytes(blake2b(f"{seed}/{draw}".encode(), digest_size=8).digest(), "little")
    with np.errstate(over="ignore"):
        x = np.asarray(index).astype(np.uint64) * _STEP + np.uint64(start)
        x = (x ^ (x >> np.uint64(30))) * _MIX_1
        x = (x ^ (x >> np.uint64(27))) * _MIX_2
        return x ^ (x >> np.uint64(31))


def uniform(seed: int, draw: str, index: Index) -> NDArray[np.float64]:
    """Numbers in [0, 1)."""
    return (bits(seed, draw, index) >> np.uint64(11)).astype(np.float64) * np.float64(2.0**-53)


def integers(seed: int, draw: str, index: Index, low: int, high: int) -> NDArray[np.int64]:
    """Integers in [low, high)."""
    if high <= low:
        raise ValueError(f"no integers in [{low}, {high})")
    return low + np.floor(uniform(seed, draw, index) * (high - low)).astype(np.int64)


def chance(seed: int, draw: str, index: Index, probability: float) -> NDArray[np.bool_]:
    """TRUE with the given probability."""
    return uniform(seed, draw, index) < probability


def zipf(seed: int, draw: str, index: Index, values: int, skew: float) -> NDArray[np.int64]:
    """Integers in [0, values), the k-th with a probability in proportion to (k + 1) ** -skew.

    ``skew`` 0 is uniform; no upper bound on it, unlike NumPy's, since the domain is finite.

    >>> np.bincount(zipf(1, "x", np.arange(30_000), 3, 1.0)).argmax()
    np.int64(0)
    """
    if skew == 0:
        return integers(seed, draw, index, 0, values)
    mass = np.cumsum(np.arange(1, values + 1, dtype=np.float64) ** -skew)
    found: NDArray[np.int64] = np.searchsorted(mass[:-1], uniform(seed, draw, index) * mass[-1], side="right")
    return found


def choice(
    seed: int, draw: str, index: Index, options: tuple[str, ...], skew: float = 0.0
) -> NDArray[np.str_]:
    """One of ``options`` per event, earlier ones more often if ``skew`` is positive."""
    return np.array(options)[zipf(seed, draw, index, len(options), skew)]
