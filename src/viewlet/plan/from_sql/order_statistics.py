"""Aggregates that ask for a place in the order of values: how they are written, and what they come to.

    MEDIAN(x)                                            =  PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)
    PERCENTILE(x, p), QUANTILE_CONT(x, p)                =  PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x)
    PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x DESC)    =  PERCENTILE_CONT(1 - p) WITHIN GROUP (ORDER BY x)
    APPROX_PERCENTILE(x, p [, accuracy])                 =  PERCENTILE_DISC(p) WITHIN GROUP (ORDER BY x)
    MODE(x)                                              =  MODE() WITHIN GROUP (ORDER BY x)

An approximation may be exact, so it is. Of values that are equally frequent MODE is the first in the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from viewlet.core.scalar import Const
from viewlet.core.types import decimal
from viewlet.plan.nodes import AggregateOp
from viewlet.sql.position import invalid, unsupported

MOST_DIGITS = 15
"""A share times a count is a DECIMAL: so many digits leave room for any count."""

HALF = Const(5, decimal(2, 1))
PERCENTILES: dict[type[exp.Expr], AggregateOp] = {
    exp.PercentileCont: "percentile_cont",
    exp.PercentileDisc: "percentile_disc",
    exp.Quantile: "percentile_cont",
    exp.ApproxQuantile: "percentile_disc",
}
ORDER_STATISTICS = (*PERCENTILES, exp.WithinGroup, exp.Median, exp.Mode)


@dataclass(frozen=True, slots=True)
class OrderStatistic:
    """The aggregate that a text means, and the expression whose values it orders."""

    op: AggregateOp
    argument: exp.Expr
    share: Const | None = None
    descending: bool = False


def order_statistic(node: exp.Expr) -> OrderStatistic:
    """What an aggregate asks of the order of values.

    >>> from sqlglot import parse_one
    >>> text = "percentile_cont(0.2) WITHIN GROUP (ORDER BY x DESC)"
    >>> found = order_statistic(parse_one(text, read="spark"))
    >>> found.op, found.argument.sql(), found.share.value, str(found.share.type)
    ('percentile_cont', 'x', 8, 'DECIMAL(2,1)')
    """
    if isinstance(node, exp.WithinGroup):
        return _within_group(node)
    if isinstance(node, exp.Median):
        return OrderStatistic("percentile_cont", node.this, HALF)
    if isinstance(node, exp.Mode):
        if node.this is None:
            raise unsupported(node, "mode() without an order", "write mode(x)")
        return OrderStatistic("mode", node.this)
    share = node.args.get("quantile") or node.args.get("expression")
    if share is None:
        raise unsupported(node, f"{node.sql()} without an order", "add WITHIN GROUP (ORDER BY x)")
    return OrderStatistic(PERCENTILES[type(node)], node.this, _share(share))


def _within_group(node: exp.WithinGroup) -> OrderStatistic:
    function, keys = node.this, node.expression.expressions
    if len(keys) != 1:
        raise unsupported(node, "WITHIN GROUP over several keys", "order by one")
    (key,) = keys
    descending = bool(key.args.get("desc"))
    if isinstance(function, exp.Mode) and function.this is None:
        return OrderStatistic("mode", key.this, None, descending)
    if not isinstance(function, exp.PercentileCont | exp.PercentileDisc) or function.expression:
        raise unsupported(
            node,
            f"{function.sql()} WITHIN GROUP",
            "there are percentile_cont(p), percentile_disc(p) and mode()",
        )
    share = _share(function.this)
    if isinstance(function, exp.PercentileDisc):
        return OrderStatistic("percentile_disc", key.this, share, descending)
    return OrderStatistic("percentile_cont", key.this, _rest(share) if descending else share)


def _share(node: exp.Expr) -> Const:
    """A number from 0 to 1, exactly as it is written."""
    if not isinstance(node, exp.Literal) or node.is_string:
        raise unsupported(
            node, "a percentile at anything but a number", "write the number; take one call for each"
        )
    number = Decimal(node.name)
    if not 0 <= number <= 1:
        raise invalid(node, f"a percentile is at a number from 0 to 1, not at {node.name}")
    return _literal(number, node)


def _literal(number: Decimal, node: exp.Expr) -> Const:
    digits = max(0, -int(number.normalize().as_tuple().exponent))
    if digits > MOST_DIGITS:
        raise unsupported(node, f"a percentile at {node.name}", f"write at most {MOST_DIGITS} digits")
    return Const(int(number.scaleb(digits)), decimal(digits + 1, digits))


def _rest(share: Const) -> Const:
    """``1 - p``"""
    assert isinstance(share.value, int), "a share is a number"
    return Const(10**share.type.scale - share.value, share.type)
