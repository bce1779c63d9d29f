"""Incidents in a city that does not exist: crimes-like data, with a few busy places and many quiet ones.

Row i is a pure function of (seed, i): a million rows take about a second, and any range can be made alone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewlet.workloads import draws, schema
from viewlet.workloads.ddl import arrow_schemas, conform

BEATS = 280
FIRST_YEAR, LAST_YEAR = 2001, 2023


def crimes(rows: int, *, first: int = 0, beats: int = BEATS, skew: float = 0.8, seed: int = 0) -> pa.Table:
    """Rows ``first`` to ``first + rows`` of the table ``crimes``; beats are Zipf with exponent ``skew``.

    A beat lies in one district, and in at most two wards and community areas.

    >>> crimes(1_000).num_rows
    1000
    """
    index = np.arange(first, first + rows, dtype=np.int64)
    beat = draws.zipf(seed, "beat", index, beats, skew)
    part = draws.integers(seed, "part of the beat", index, 0, 2)
    columns = {
        "id": index,
        "beat": beat,
        "district": beat // 12 + 1,
        "ward": (beat + part) % 50 + 1,
        "community_area": (beat * 3 + part) % 77 + 1,
        "year": draws.integers(seed, "year", index, FIRST_YEAR, LAST_YEAR + 1),
    }
    return conform(columns, arrow_schemas(schema("imp"))["crimes"], seed)
