"""The rival and the judge: DuckDB evaluates every view's query over the same rows, from scratch.

Only the queries are timed, over tables that DuckDB holds already: keeping its tables up to date would come on
top. Its answers must equal the maintained views.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import sqlglot

from viewlet.database import Database
from viewlet.demo.scenes import Scene
from viewlet.errors import BackendError
from viewlet.sql.catalog import TableKind

REPEATS = 3


@dataclass(frozen=True, slots=True)
class Reevaluation:
    """DuckDB's best time for one view, ``None`` if it was stopped; ``agrees``: did it find the same rows?"""

    view: str
    seconds: float | None
    agrees: bool | None


def reevaluate(db: Database, scene: Scene, limit: float) -> list[Reevaluation]:
    """Evaluate each view's query in DuckDB, each time for at most ``limit`` seconds."""
    try:
        import duckdb
    except ImportError:
        raise BackendError("DuckDB is not installed: pip install 'viewlet[duckdb]'") from None
    with duckdb.connect() as rival:
        for table in db.catalog.values():
            if table.kind is not TableKind.VIEW:
                rival.register("rows_", db.table(table.name).to_arrow())
                rival.execute(f"CREATE TABLE {table.name} AS SELECT * FROM rows_")
        found = []
        for name, query in scene.views.items():
            (text,) = sqlglot.transpile(query.strip().rstrip(";"), read="spark", write="duckdb")
            seconds, rows = _timed(rival, text, limit)
            agrees = None if rows is None else same_rows(rows, db.view(name).rows())
            found.append(Reevaluation(name, seconds, agrees))
        return found


def _timed(rival: Any, text: str, limit: float) -> tuple[float | None, list[tuple[Any, ...]] | None]:
    import duckdb

    best, rows = None, None
    for _ in range(REPEATS):
        stop = threading.Timer(limit, rival.interrupt)
        stop.start()
        began = time.perf_counter()
        try:
            rows = rival.execute(text).fetchall()
        except duckdb.InterruptException:
            return None, None
        finally:
            stop.cancel()
        seconds = time.perf_counter() - began
        best = seconds if best is None else min(best, seconds)
    return best, rows


def same_rows(left: Iterable[tuple[Any, ...]], right: Iterable[tuple[Any, ...]]) -> bool:
    """Are two bags of rows equal: exact values exactly, DOUBLEs nearly?

    DuckDB averages DECIMALs as DOUBLEs, PostgreSQL with more places, Viewlet as DECIMALs: these may differ by
    one in the last place of the shorter.

    >>> same_rows([(1, Decimal("2.50")), ("a", None)], [("a", None), (1, 2.5)])
    True
    >>> same_rows([(1,), (1,)], [(1,)]), same_rows([(Decimal("2.50"),)], [(Decimal("2.51"),)])
    (False, False)
    >>> same_rows([(Decimal("0.67"),)], [(Decimal("0.6666667"),)])
    True
    """
    ours, theirs = sorted(left, key=_order), sorted(right, key=_order)
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(_same, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


def _order(row: tuple[Any, ...]) -> tuple[tuple[tuple[str, str], ...], tuple[float, ...]]:
    """By what is not a number, then by the numbers, so that rounding errors leave rows in their place."""
    numbers = tuple(float(value) for value in row if isinstance(value, (int, float, Decimal)))
    others = tuple((type(v).__name__, str(v)) for v in row if not isinstance(v, (int, float, Decimal)))
    return others, numbers


def _same(a: Any, b: Any) -> bool:
    if a == b:
        return True
    rounded = isinstance(a, Decimal) and isinstance(b, Decimal) and _unit(a) != _unit(b)
    if not (rounded or isinstance(a, float) or isinstance(b, float)):
        return False
    if not all(isinstance(value, (int, float, Decimal)) for value in (a, b)):
        return False
    unit = max(_unit(value) for value in (a, b))
    return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=unit)


def _unit(value: float | Decimal) -> float:
    """One in the last place of a DECIMAL."""
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else None
    return 10.0**exponent if isinstance(exponent, int) else 0.0
