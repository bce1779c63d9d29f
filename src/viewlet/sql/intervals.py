"""INTERVAL literals, folded into the addition of months, days and microseconds.

Intervals are not values of their own here: months have no fixed length, so an interval means something only
once it is added to a date.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from viewlet.core.scalar import Const, Scalar, call
from viewlet.core.types import BIGINT, DATE, INT, TIMESTAMP
from viewlet.sql import scalars
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.typing import TypeMismatchError

SECOND = 1_000_000
DAY = 86_400 * SECOND
MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
MICROS = {
    "WEEK": 7 * DAY,
    "DAY": DAY,
    "HOUR": 3_600 * SECOND,
    "MINUTE": 60 * SECOND,
    "SECOND": SECOND,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}


@dataclass(frozen=True, slots=True)
class Interval:
    """So many months, and so many microseconds on top; ``whole_days`` if no unit below a day was written."""

    months: int
    micros: int
    whole_days: bool

    def negated(self) -> Interval:
        """The interval that takes this one back."""
        return Interval(-self.months, -self.micros, self.whole_days)


def interval_of(node: exp.Interval) -> Interval:
    """The interval that a literal means.

    >>> import sqlglot
    >>> interval_of(sqlglot.parse_one("INTERVAL '3' MONTH"))
    Interval(months=3, micros=0, whole_days=True)
    """
    amount, unit = node.this, node.unit
    sign = 1
    if isinstance(amount, exp.Neg):
        sign, amount = -1, amount.this
    if not isinstance(amount, exp.Literal):
        raise unsupported(node, "an INTERVAL of varying length", "use date_add(date, days) or add_months")
    name = (unit.name if isinstance(unit, exp.Var) else "").upper().removesuffix("S")
    if name not in MONTHS and name not in MICROS:
        raise unsupported(
            node, f"the INTERVAL {node.sql()!r}", "use one unit: YEAR, MONTH, DAY, HOUR, MINUTE, SECOND"
        )
    try:
        count = sign * Decimal(amount.name)
    except InvalidOperation:
        raise invalid(node, f"{amount.name!r} is not a number of {name}S") from None
    months, micros = count * MONTHS.get(name, 0), count * MICROS.get(name, 0)
    if months % 1 or micros % 1:
        raise invalid(node, f"{amount.name!r} is not a whole number of {name}S")
    return Interval(int(months), int(micros), name in MONTHS or name in ("WEEK", "DAY"))


def add_interval(moment: Scalar, interval: Interval) -> Scalar:
    """``moment + interval``: a DATE stays one unless hours or less are added.

    >>> from viewlet.core.scalar import Var
    >>> add_interval(Var("d", DATE), Interval(3, 0, True)).op
    'add_months'
    """
    if moment.type not in (DATE, TIMESTAMP):
        raise TypeMismatchError(f"an INTERVAL can be added to a DATE or a TIMESTAMP, not to {moment.type}")
    if interval.months:
        moment = call("add_months", moment, Const(interval.months, INT))
    if not interval.micros:
        return moment
    if moment.type == DATE and interval.whole_days:
        return call("add_days", moment, Const(interval.micros // DAY, INT))
    return call("add_micros", scalars.cast(moment, TIMESTAMP), Const(interval.micros, BIGINT))
