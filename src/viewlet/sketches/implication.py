"""Does one condition imply another? Sound and incomplete: intervals per expression, and equal parts.

Where z3 is installed, it is asked about what intervals cannot tell (``smt.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from viewlet.core.scalar import FLIPPED, Call, Const, Scalar, call, conjuncts
from viewlet.sketches import smt
from viewlet.sketches.closed import NEGATED
from viewlet.sketches.facts import quantity


@dataclass(frozen=True, slots=True)
class Bounds:
    """``low (<|<=) e (<|<=) high``; ``None`` is no limit."""

    low: Any = None
    low_strict: bool = False
    high: Any = None
    high_strict: bool = False

    def within(self, other: Bounds) -> bool:
        """Does every value of this interval lie in the other?"""
        low = other.low is None or (
            self.low is not None
            and (
                self.low > other.low or (self.low == other.low and (self.low_strict or not other.low_strict))
            )
        )
        high = other.high is None or (
            self.high is not None
            and (
                self.high < other.high
                or (self.high == other.high and (self.high_strict or not other.high_strict))
            )
        )
        return low and high

    def meet(self, other: Bounds) -> Bounds:
        """The values in both."""
        low, low_strict = self.low, self.low_strict
        if low is None or (other.low is not None and (other.low, other.low_strict) > (low, low_strict)):
            low, low_strict = other.low, other.low_strict
        high, high_strict = self.high, self.high_strict
        if high is None or (
            other.high is not None and (other.high, not other.high_strict) < (high, not high_strict)
        ):
            high, high_strict = other.high, other.high_strict
        return Bounds(low, low_strict, high, high_strict)


def implies(strong: Scalar, weak: Scalar) -> bool:
    """Is ``weak`` TRUE whenever ``strong`` is?

    >>> from viewlet.core.scalar import Var, call
    >>> x = Var("x")
    >>> implies(call("<", x, Const(5)), call("<=", x, Const(7)))
    True
    >>> implies(call("<", x, Const(5)), call(">", x, Const(0)))
    False
    """
    known = conjuncts(positive(strong))
    if all(_follows(known, part) for part in conjuncts(positive(weak))):
        return True
    return smt.available() and smt.implies_by_z3(strong, weak)


def positive(condition: Scalar) -> Scalar:
    """The same condition as AND and OR of comparisons, where its parts allow; TRUE for the same rows::

        NOT (a AND b) -> NOT a OR NOT b      NOT a < b -> a >= b
        x IN (a, b)   -> x = a OR x = b      a <> b    -> a < b OR a > b

    >>> from viewlet.core.scalar import Var, call
    >>> from viewlet.core.text import show
    >>> x = Var("x")
    >>> show(positive(call("not", call("in", x, Const(1), Const(4)))))
    '(x < 1 or x > 1) and (x < 4 or x > 4)'
    """
    match condition:
        case Call("and" | "or" as op, args):
            return call(op, *(positive(arg) for arg in args))
        case Call("<>", (left, right)):
            return call("or", call("<", left, right), call(">", left, right))
        case Call("in", (value, *options)) if options:
            return call("or", *(call("=", value, option) for option in options))
        case Call("not", (Call("not", (inner,)),)):
            return positive(inner)
        case Call("not", (Call("and" | "or" as op, args),)):
            return call("or" if op == "and" else "and", *(positive(call("not", arg)) for arg in args))
        case Call("not", (Call(op, (left, right)),)) if op in NEGATED:
            return positive(call(NEGATED[op], left, right))
        case Call("not", (Call("in", (value, *options)),)) if options:
            return call("and", *(positive(call("<>", value, option)) for option in options))
        case _:
            return condition


def _follows(known: tuple[Scalar, ...], wanted: Scalar) -> bool:
    if wanted in known:
        return True
    if isinstance(wanted, Call) and wanted.op == "or":
        one = any(all(_follows(known, part) for part in conjuncts(arg)) for arg in wanted.args)
        if one or _covered(known, wanted.args):
            return True
    for part in known:
        if isinstance(part, Call) and part.op == "or":
            others = tuple(other for other in known if other is not part)
            if all(_follows(others + conjuncts(arg), wanted) for arg in part.args):
                return True
    target = bounds_of(wanted)
    if target is None:
        return False
    expression, needed = target
    found = _interval(known, expression)
    return found.within(needed) and found != Bounds()


def _interval(known: tuple[Scalar, ...], expression: Scalar) -> Bounds:
    """Where an expression lies, by conditions that all hold."""
    found = Bounds()
    for part in known:
        own = bounds_of(part)
        if own is not None and own[0] == expression:
            found = found.meet(own[1])
    return found


def _covered(known: tuple[Scalar, ...], parts: tuple[Scalar, ...]) -> bool:
    """Do intervals of one expression, one per part of an OR, cover where it lies?

    >>> from viewlet.core.scalar import Var, call
    >>> x = Var("x")
    >>> between = call("and", call(">", x, Const(2)), call("<", x, Const(8)))
    >>> implies(between, call("or", call("<=", x, Const(5)), call(">", x, Const(5))))
    True
    >>> _covered(conjuncts(between), (call("<", x, Const(5)), call(">", x, Const(5))))
    False
    """
    bounded = [[bounds_of(part) for part in conjuncts(arg)] for arg in parts]
    flat = [bound for group in bounded for bound in group]
    if None in flat or len({bound[0] for bound in flat if bound is not None}) != 1:
        return False
    (expression,) = {bound[0] for bound in flat if bound is not None}
    rest = _interval(known, expression)
    if rest == Bounds():
        return False
    intervals = [_interval(conjuncts(arg), expression) for arg in parts]
    for _ in intervals:
        for interval in intervals:  # what an interval covers from the low end on is covered
            if rest.within(interval):
                return True
            start = Bounds(rest.low, rest.low_strict, rest.low, rest.low_strict)
            if interval.high is not None and (
                interval.low is None or (rest.low is not None and start.within(replace(interval, high=None)))
            ):
                rest = rest.meet(Bounds(low=interval.high, low_strict=not interval.high_strict))
    return False


def bounds_of(condition: Scalar) -> tuple[Scalar, Bounds] | None:
    """The expression that a comparison with a literal bounds, and how."""
    match condition:
        case Call("=" | "<" | "<=" | ">" | ">=" as op, (Const(), right)) if not isinstance(right, Const):
            return bounds_of(Call(FLIPPED[op], (right, condition.args[0]), condition.type))
        case Call(op, (expression, Const(value, kind))):
            limit: Any = quantity(value, kind)
            if limit is None:
                limit = value if isinstance(value, str) or kind == expression.type else None
            if limit is None:
                return None
            found = {
                "=": Bounds(limit, False, limit, False),
                "<": Bounds(high=limit, high_strict=True),
                "<=": Bounds(high=limit),
                ">": Bounds(low=limit, low_strict=True),
                ">=": Bounds(low=limit),
            }.get(op)
            return None if found is None else (expression, found)
    return None
