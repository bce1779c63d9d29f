"""Records: a count and several sums that live and move together.

A record is a tuple ``(count, sum1, sum2, ...)``; field 0 is always the count. Records form a group
under :func:`plus` and :func:`minus`.
"""

from __future__ import annotations

from typing import TypeAlias

from viewlet.errors import ViewletError

Number: TypeAlias = int | float
Record: TypeAlias = tuple[Number, ...]


class IndexStructureError(ViewletError):
    """An ordered structure was asked for something it cannot hold: a wrong width, an unknown key."""


def zero(width: int) -> Record:
    """The record of nothing.

    >>> zero(3)
    (0, 0, 0)
    """
    return (0,) * width


def plus(a: Record, b: Record) -> Record:
    """Add field by field.

    >>> plus((1, 5), (2, -5))
    (3, 0)
    """
    return tuple(x + y for x, y in zip(a, b, strict=True))


def minus(a: Record, b: Record) -> Record:
    """Subtract field by field.

    >>> minus((3, 0), (2, -5))
    (1, 5)
    """
    return tuple(x - y for x, y in zip(a, b, strict=True))


def is_empty(record: Record) -> bool:
    """Tell whether a record may be dropped: its count and every exact sum are zero.

    Floats do not keep a record alive, because a residue of rounding would keep it for ever. A zero
    count alone does not drop one: in the middle of a batch, +7 -5 +5 under one key passes through
    count 0 with sum 2, and forgetting the 2 would give 5 instead of 7.

    >>> is_empty((0, 0, 1e-17)), is_empty((0, 2)), is_empty((-1, 0))
    (True, False, False)
    """
    return record[0] == 0 and all(isinstance(x, float) or x == 0 for x in record)


def require_width(record: Record, width: int, owner: str) -> None:
    """Refuse a record with the wrong number of fields."""
    if len(record) != width:
        raise IndexStructureError(
            f"{owner} holds records of {width} fields (a count, then {width - 1} sums), got {record}"
        )
