"""Durations and time columns.

A query's clock is either the units of its time column (durations are integers) or nanoseconds (durations
are strings such as "100ms"). Mixing the two in one query is refused: 100 and "100ms" may differ by 10^6.
Instants are counted from the epoch in UTC, so daylight saving never bends a period.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from viewlet.signals.chunks import Ints
from viewlet.signals.errors import UnitError

Duration: TypeAlias = "int | str"

NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*")


def parse_duration(text: str) -> int:
    """A duration in nanoseconds.

    >>> parse_duration("1.5ms")
    1500000
    """
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in NANOSECONDS:
        raise UnitError(f"{text!r} is no duration; write a number and one of {', '.join(NANOSECONDS)}")
    nanoseconds = Fraction(match[1]) * NANOSECONDS[match[2]]
    if nanoseconds.denominator != 1:
        raise UnitError(f"{text!r} is not a whole number of nanoseconds")
    return int(nanoseconds)


def read_times(column: pa.Array, name: str, clock: str, unit: str | None) -> Ints:
    """A time column as integers of the query's clock."""
    if column.null_count:
        row = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
        raise UnitError(f"time column {name!r} is NULL in row {row}; every event needs a time")
    if pa.types.is_date32(column.type):
        column = column.cast(pa.timestamp("ms"))
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        unit = column.type.unit
        column = column.cast(pa.int64())
    elif not pa.types.is_integer(column.type):
        raise UnitError(
            f"time column {name!r} has type {column.type}; a signal needs integers, timestamps or dates"
        )
    ticks: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return ticks * _scale(name, clock, unit) if clock == "ns" else ticks


def write_times(times: Ints, like: pa.DataType, name: str, clock: str, unit: str | None) -> pa.Array:
    """Times of the query's clock as a column of the type that they were read from."""
    if pa.types.is_date32(like):
        like = pa.timestamp("ms")
    if pa.types.is_timestamp(like) or pa.types.is_duration(like):
        unit = like.unit
    if clock == "ns" and (scale := _scale(name, clock, unit)) != 1:
        ticks, rest = np.divmod(times, scale)
        if rest.any():
            bad = times[np.flatnonzero(rest)[0]]
            raise UnitError(
                f"result time {bad} ns does not fit column {name!r} of unit {unit}; cast it to ns"
            )
        times = ticks
    return pa.array(times).cast(like) if pa.types.is_integer(like) else pa.array(times).view(like)


def _scale(name: str, clock: str, unit: str | None) -> int:
    if unit is None:
        raise UnitError(
            f"durations are given with units, but time column {name!r} holds plain integers: "
            f"say source(..., unit='ms'), or give durations as integers"
        )
    if unit not in NANOSECONDS:
        raise UnitError(f"unknown unit {unit!r} of time column {name!r}; use one of {', '.join(NANOSECONDS)}")
    return NANOSECONDS[unit]


def describe_time(time: Any, clock: str) -> str:
    """A time for an error message."""
    return f"{time} ns" if clock == "ns" else str(time)
