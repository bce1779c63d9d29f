"""Which rows of its partition a row sees through a window: conditions on a peer, written in the row's terms.

With ``<`` the order that ORDER BY asks for, with its directions and its place for NULL, o for its keys, e for
a peer and d for the row:

    RANGE UNBOUNDED PRECEDING       =  e.o <= d.o
    RANGE CURRENT ROW .. UNBOUNDED  =  d.o <= e.o
    RANGE BETWEEN n PRECEDING ..    =  d.o - n <= e.o OR, where NULL comes last, e.o IS NULL, else d.o IS NULL
    RANGE .. n FOLLOWING            =  e.o <= d.o + n OR, where it comes first, e.o IS NULL, else d.o IS NULL

and where no two rows are at the same place, with #e for the number of a row, how many come up to it:

    ROWS .. CURRENT ROW             =  RANGE .. CURRENT ROW
    ROWS n PRECEDING                =  #d - n <= #e AND e.o <= d.o
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from sqlglot import exp

from viewlet.sql.position import unsupported

Column = Callable[[exp.Expr], exp.Column]
TOTAL = "let ORDER BY end with the PRIMARY KEY of the table, or the part of it that PARTITION BY leaves"


@dataclass(frozen=True, slots=True)
class Order:
    """The keys of ORDER BY as a peer and the row itself have them."""

    keys: Sequence[exp.Ordered]
    peer: Column
    mine: Column

    def before(self) -> exp.Expr:
        """Does the peer come strictly before? By the first key in which they differ."""
        return _before(self.keys, self.peer, self.mine)

    def after(self) -> exp.Expr:
        """Does the peer come strictly after?"""
        return _before(self.keys, self.mine, self.peer)

    def upto(self) -> exp.Expr:
        """Does the peer come before, or at the same place?"""
        return _upto(self.keys, self.peer, self.mine)

    def onward(self) -> exp.Expr:
        """Does the peer come after, or at the same place?"""
        return _upto(self.keys, self.mine, self.peer)


def seen(
    window: exp.Window, order: Order, is_total: Callable[[], bool], number: Callable[[Column], exp.Expr]
) -> Iterator[exp.Expr]:
    """The conditions under which the row sees a peer of its partition, by the frame of its window.

    ``number`` gives the number of a row in its partition.

    >>> from sqlglot import parse_one
    >>> window = parse_one("sum(b) OVER (ORDER BY a RANGE BETWEEN 5 PRECEDING AND UNBOUNDED FOLLOWING)")
    >>> order = Order(window.args["order"].expressions, lambda n: exp.column(n.name, "e"), lambda n: n)
    >>> [condition.sql() for condition in seen(window, order, lambda: False, lambda column: exp.null())]
    ['e.a >= a - 5 OR a IS NULL']
    """
    spec = window.args.get("spec")
    if spec is not None and (excluded := spec.args.get("exclude")):
        raise unsupported(window, f"EXCLUDE {excluded} in a frame", "subtract what it would leave out")
    if not order.keys:
        if spec is not None and not _is_whole(spec):
            raise unsupported(window, "a frame without an order", "add ORDER BY")
        return
    if spec is None:
        yield order.upto()
        return
    start, end = spec.args["start"], spec.args.get("end") or "CURRENT ROW"
    is_counted = spec.args.get("kind") != "RANGE" and not _is_whole(spec)
    if spec.args.get("kind") == "GROUPS":
        raise unsupported(window, f"the frame {spec.sql()}", "use RANGE, or whole partitions")
    if is_counted and not is_total():
        raise unsupported(window, f"the frame {spec.sql()} over rows whose order is not decided", TOTAL)

    def within(distance: exp.Expr, side: str, *, is_start: bool) -> exp.Expr:
        if is_counted:
            return _counted(order, number, distance, side, is_start=is_start)
        return _within(window, order, distance, side, is_start=is_start)

    if start == "CURRENT ROW":
        yield order.onward()
    elif _is_distance(start):
        yield within(start, spec.args["start_side"], is_start=True)
    if end == "CURRENT ROW":
        yield order.upto()
    elif _is_distance(end):
        yield within(end, spec.args["end_side"], is_start=False)


def _is_whole(spec: exp.WindowSpec) -> bool:
    return spec.args.get("start") == "UNBOUNDED" and spec.args.get("end") == "UNBOUNDED"


def _is_distance(bound: exp.Expr | str) -> TypeGuard[exp.Expr]:
    return isinstance(bound, exp.Expr)


def _within(window: exp.Window, order: Order, distance: exp.Expr, side: str, is_start: bool) -> exp.Expr:
    """Is the peer on the right side of the row's key moved by a distance?

    NULL, moved, stays NULL, and lies before or after all values: where it is on the right side of them, any
    peer that is NULL is, and where it is on the wrong side, a row that is NULL sees every peer.
    """
    if len(order.keys) != 1:
        raise unsupported(window, "a frame by distance over several keys", "ORDER BY one key")
    (key,) = order.keys
    falls = bool(key.args.get("desc"))
    peer, mine = order.peer(key.this), order.mine(key.this)
    moved = (exp.Sub if (side == "PRECEDING") != falls else exp.Add)(this=mine, expression=distance.copy())
    compared = (exp.GTE if is_start != falls else exp.LTE)(this=peer, expression=moved)
    is_beyond = bool(key.args.get("nulls_first")) != is_start
    return exp.or_(compared, _is_null(peer if is_beyond else mine))


def _counted(
    order: Order, number: Callable[[Column], exp.Expr], distance: exp.Expr, side: str, *, is_start: bool
) -> exp.Expr:
    """Is the number of the peer on the right side of the row's own moved by a distance?"""
    if not distance.is_int:
        raise unsupported(distance, "a frame by a varying number of rows", "write the number")
    moved = exp.Sub if side == "PRECEDING" else exp.Add
    bound = moved(this=number(order.mine), expression=distance.copy())
    return (exp.GTE if is_start else exp.LTE)(this=number(order.peer), expression=bound)


def _before(keys: Sequence[exp.Ordered], left: Column, right: Column) -> exp.Expr:
    ways = []
    for place, key in enumerate(keys):
        equal = [same(left(before.this), right(before.this)) for before in keys[:place]]
        ways.append(exp.and_(*equal, _less(key, left, right, exp.LT, exp.GT)))
    return exp.or_(*ways)


def _upto(keys: Sequence[exp.Ordered], left: Column, right: Column) -> exp.Expr:
    *first, last = keys
    equal = [same(left(key.this), right(key.this)) for key in first]
    neither = exp.and_(_is_null(left(last.this)), _is_null(right(last.this)))
    reached = exp.or_(_less(last, left, right, exp.LTE, exp.GTE), neither)
    return exp.or_(*([_before(first, left, right)] if first else []), exp.and_(*equal, reached))


def _less(
    key: exp.Ordered, left: Column, right: Column, up: type[exp.Binary], down: type[exp.Binary]
) -> exp.Expr:
    """One key alone, with its direction and with NULL at its end."""
    one, other = left(key.this), right(key.this)
    compared = (down if key.args.get("desc") else up)(this=one, expression=other)
    null, known = (one, other) if key.args.get("nulls_first") else (other, one)
    return exp.or_(compared, exp.and_(_is_null(null), exp.not_(_is_null(known))))


def same(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Are two values the same, NULL and NULL included?"""
    return exp.NullSafeEQ(this=left, expression=right)


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=node.copy(), expression=exp.Null())
