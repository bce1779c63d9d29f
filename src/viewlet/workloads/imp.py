"""Tables for the queries that provenance sketches are tried on: crimes-like, synthetic, a running example.

In the synthetic tables ``a`` is the group; the means of ``c`` and ``d`` grow with it, so that the HAVING
clauses keep the lower groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.workloads import draws, schema
from viewlet.workloads.crimes import crimes
from viewlet.workloads.ddl import arrow_schemas, conform

BRANDS = ("Apple", "Lenovo", "Dell", "HP", "Asus", "Acer")


def tables(rows: int, *, groups: int = 500, beats: int = 280, seed: int = 0) -> dict[str, pa.Table]:
    """All tables of the suite: ``rows`` rows each, but for the small ``tjoinhelp`` and ``sales``."""
    schemas = arrow_schemas(schema("imp"))
    columns = {
        "r500": grouped(np.arange(rows), groups, seed),
        "t1gbjoin": grouped(np.arange(rows), groups, seed + 1),
        "tjoinhelp": {"ttid": np.arange(0, groups, 2)},
        "sales": _sales(np.arange(max(rows // 10, 12)), seed),
    }
    made = {name: conform(values, schemas[name], seed) for name, values in columns.items()}
    return {"crimes": crimes(rows, beats=beats, seed=seed), **made}


def grouped(index: NDArray[np.int64], groups: int, seed: int) -> dict[str, NDArray[np.int64]]:
    """Rows by number: the group ``a``, and measures ``b``, ``c``, ``d``, the last two depending on it."""
    a = draws.integers(seed, "a", index, 0, groups)
    scale = 2_000 // groups
    return {
        "a": a,
        "b": draws.integers(seed, "b", index, 0, 2_000),
        "c": a * scale + draws.integers(seed, "c", index, -50, 51),
        "d": a * scale + draws.integers(seed, "d", index, -50, 51),
    }


def _sales(index: NDArray[np.int64], seed: int) -> dict[str, Any]:
    return {
        "brand": draws.choice(seed, "brand", index, BRANDS, 0.5),
        "price": draws.integers(seed, "price", index, 100, 2_000),
        "num_sold": draws.integers(seed, "num_sold", index, 1, 4),
    }
