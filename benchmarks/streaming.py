"""Pathway, where it is installed: events per CPU second of the few queries that it can keep by sums.

It takes rows from a Python generator and refreshes its result every ten milliseconds, not after each event.
"""

from __future__ import annotations

import importlib.util
import logging
import time
from typing import Any

import numpy as np

from cells import Cell

COLUMNS = {
    "bsv": ("weight", "broker", "volume", "price"),
    "q06": ("weight", "shipdate", "discount", "quantity", "price"),
}
"""The rows that the limit programs take too: integers, decimals in hundredths, dates in days."""

MOST = 100_000
IN_1994 = (8_766, 9_131)


def is_known(name: str) -> bool:
    """Can Pathway be asked for this query here?"""
    return name in COLUMNS and importlib.util.find_spec("pathway") is not None


def through_pathway(name: str, rows: np.ndarray) -> Cell:
    """The rate over the first rows of a stream."""
    import pathway as pw

    logging.disable(logging.INFO)
    given = [dict(zip(COLUMNS[name], row, strict=True)) for row in rows[:MOST].tolist()]

    class Source(pw.io.python.ConnectorSubject):  # type: ignore[misc]
        def run(self) -> None:
            for row in given:
                self.next(**row)

    kinds = pw.schema_from_types(**dict.fromkeys(COLUMNS[name], int))
    table = pw.io.python.read(Source(), schema=kinds, autocommit_duration_ms=10)
    found: list[Any] = []
    result = _bsv(pw, table) if name == "bsv" else _q06(pw, table)
    pw.io.subscribe(result, on_change=lambda key, row, time, is_addition: found.append(row))
    began = time.process_time()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    assert found, "Pathway gave no result"
    return Cell(len(given) / (time.process_time() - began), len(given), partial=len(given) < len(rows))


def _bsv(pw: Any, bids: Any) -> Any:
    sums = bids.groupby(bids.broker).reduce(
        bids.broker, s=pw.reducers.sum(bids.weight * bids.volume * bids.price)
    )
    return sums.select(sums.broker, bsv=sums.s * sums.s * 0.5)


def _q06(pw: Any, lines: Any) -> Any:
    first, last = IN_1994
    chosen = lines.filter(
        (lines.shipdate >= first)
        & (lines.shipdate < last)
        & (lines.discount >= 5)
        & (lines.discount <= 7)
        & (lines.quantity < 2_400)
    )
    return chosen.reduce(revenue=pw.reducers.sum(chosen.weight * chosen.price * chosen.discount))
