"""An order book: bids and asks that come and are cancelled.

Order number k arrives at time k; everything about it (side, broker, volume, price, whether and when it is
cancelled) is a pure function of (seed, k). A stream is the sequence of arrivals and cancellations in the
order of their times, so a longer stream only adds events at the end.

>>> book = stream(5_000, drawn(50, skew=1.0), seed=1)
>>> len(book), sorted(book.changes)
(5000, ['asks', 'bids'])
>>> longer = stream(6_000, drawn(50, skew=1.0), seed=1)
>>> longer.first(5_000).changes["bids"] == book.changes["bids"]
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.workloads import WorkloadError, draws
from viewlet.workloads.draws import Index
from viewlet.workloads.stream import Stream, interleave, weighted

SIDES = ("bids", "asks")

Integers: TypeAlias = NDArray[np.int64]
# From (seed, numbers of orders) to the price level of each, counted from 0.
Levels: TypeAlias = Callable[[int, Index], Integers]


def drawn(prices: int, skew: float = 0.0) -> Levels:
    """Levels from a domain of ``prices``: Zipf with exponent ``skew``, low levels most; 0: uniform."""
    return lambda seed, order: draws.zipf(seed, "price", order, prices, skew)


def walk(prices: int, spread: int = 10) -> Levels:
    """The benign book: levels within ``spread`` of a random walk, so that boundaries move little."""

    def levels(seed: int, order: Index) -> Integers:
        steps = draws.integers(seed, "step", np.arange(order.max(initial=0) + 1), -1, 2)
        near = draws.integers(seed, "near", order, -spread, spread + 1)
        return _reflected(prices // 2 + np.cumsum(steps)[order] + near, prices)

    return levels


def stream(
    events: int,
    levels: Levels,
    *,
    tick: int = 1,
    brokers: int = 10,
    volumes: int = 100,
    negatives: float = 0.0,
    deletions: float = 0.2,
    lifetime: int = 1_000,
    nulls: float = 0.0,
    seed: int = 0,
) -> Stream:
    """Orders at the prices ``tick * (level + 1)``, with volumes of 1 to ``volumes``.

    A share ``negatives`` of the volumes is negative. In the long run a share ``deletions`` (at most one half)
    of the events cancels an order, which then lived for up to ``lifetime`` further orders. A share ``nulls``
    of the values of every column but the id is NULL.
    """
    if not 0 <= deletions <= 0.5:
        raise WorkloadError(f"deletions={deletions}: between 0 and 0.5 of the events can be cancellations")
    order = np.arange(events, dtype=np.int64)
    sign = 1 - 2 * draws.chance(seed, "sign", order, negatives).astype(np.int64)
    nullable = {
        "t": order,
        "broker_id": draws.integers(seed, "broker", order, 0, brokers),
        "volume": sign * draws.integers(seed, "volume", order, 1, volumes + 1),
        "price": tick * (levels(seed, order) + 1),
    }
    columns = {
        name: pa.array(values, mask=draws.chance(seed, f"{name} is null", order, nulls))
        for name, values in nullable.items()
    }
    cancelled = np.flatnonzero(draws.chance(seed, "cancelled", order, deletions / (1 - deletions)))
    leaves = cancelled + 0.5 + draws.integers(seed, "lifetime", cancelled, 0, lifetime)
    side = draws.integers(seed, "side", order, 0, 2)
    both = np.concatenate([order, cancelled])
    return _by_side(
        pa.table({**columns, "id": order}).take(pa.array(both)),
        np.concatenate([np.ones(events, np.int64), np.full(len(cancelled), -1, np.int64)]),
        side[both],
        np.concatenate([order.astype(np.float64), leaves]),
    ).first(events)


def adversarial(events: int, prices: int, *, tick: int = 1, brokers: int = 10, seed: int = 0) -> Stream:
    """The book that ruins a boundary cursor: once full, every event moves VWAP's boundary across it.

    On each side the lowest level outweighs all others together, so that a quarter of the volume is reached
    only there; then an order ten times as heavy comes and goes at the highest level, on both sides in turn.
    """
    heavy = 1_000 * prices
    fill = np.arange(2 * prices, dtype=np.int64)
    swing = np.arange(max(events - len(fill), 0), dtype=np.int64)
    # A swing is the same order each time it comes, one per side.
    order = np.concatenate([fill, len(fill) + swing % 2])
    volume = np.where(order < 2, heavy, draws.integers(seed, "volume", order, 1, 101))
    rows: Mapping[str, Integers] = {
        "t": order,
        "id": order,
        "broker_id": draws.integers(seed, "broker", order, 0, brokers),
        "volume": np.where(order >= len(fill), 10 * heavy, volume),
        "price": tick * (np.minimum(order // 2, prices - 1) + 1),
    }
    weight = np.concatenate([np.ones(len(fill), np.int64), 1 - 2 * (swing // 2 % 2)])
    return _by_side(pa.table(dict(rows)), weight, order % 2, np.arange(len(order), dtype=np.float64)).first(
        events
    )


def _by_side(rows: pa.Table, weight: Integers, side: Integers, time: NDArray[np.float64]) -> Stream:
    changes = weighted(rows.select(["t", "id", "broker_id", "volume", "price"]), weight)
    own = [np.flatnonzero(side == i) for i in range(len(SIDES))]
    return interleave({name: (changes.take(pa.array(own[i])), time[own[i]]) for i, name in enumerate(SIDES)})


def _reflected(level: Integers, levels: int) -> Integers:
    """Fold the line onto [0, levels): a walk that meets an end turns back.

    >>> _reflected(np.array([-2, -1, 0, 3, 4, 5]), 4).tolist()
    [1, 0, 0, 3, 3, 2]
    """
    turn = level % (2 * levels)
    return np.where(turn < levels, turn, 2 * levels - 1 - turn)
