"""Implication by z3, where it is installed: linear arithmetic and propositional logic that intervals miss.

``strong`` implies ``weak`` if no values make ``strong`` TRUE and ``weak`` not TRUE. SQL's third truth value
is kept: every variable has a value and may be NULL, and a condition has a formula for being TRUE and one for
being FALSE. What is not linear arithmetic over integers, such as a product of columns, is a variable of its
own: equal expressions are equal, and nothing else is known of them. So a yes is right, and a no may be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from viewlet.core.scalar import Call, Const, Scalar, Var, variables
from viewlet.core.types import Kind, Type
from viewlet.sketches.facts import quantity

MILLISECONDS = 300
"""After so long the answer is no."""
COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


@cache
def available() -> bool:
    """Is z3 installed?"""
    return find_spec("z3") is not None


def implies_by_z3(strong: Scalar, weak: Scalar) -> bool:
    """Is ``weak`` TRUE whenever ``strong`` is, as far as z3 can tell?"""
    found = (*variables(strong), *variables(weak))
    return _implies(strong, weak, frozenset((var.name, var.type, var.nullable) for var in found))


@lru_cache(maxsize=1000)
def _implies(strong: Scalar, weak: Scalar, _: frozenset[tuple[str, Type, bool]]) -> bool:
    """The same, remembered by what variables stand for too: they are equal by their names alone."""
    encoding = Encoding(import_module("z3"))
    solver = encoding.z3.Solver()
    solver.set("timeout", MILLISECONDS)
    solver.add(encoding.truth(strong)[0], encoding.z3.Not(encoding.truth(weak)[0]))
    return bool(solver.check() == encoding.z3.unsat)


@dataclass(slots=True)
class Encoding:
    """Scalars as formulas of z3, each expression that is not understood as one unknown."""

    z3: Any
    unknowns: dict[Scalar, tuple[Any, Any]] = field(default_factory=dict)

    def truth(self, condition: Scalar) -> tuple[Any, Any]:
        """When a condition is TRUE, and when it is FALSE."""
        z3 = self.z3
        match condition:
            case Const(None):
                return z3.BoolVal(False), z3.BoolVal(False)
            case Const(bool(value)):
                return z3.BoolVal(value), z3.BoolVal(not value)
            case Call("and", args):
                parts = [self.truth(arg) for arg in args]
                return z3.And(*(t for t, _ in parts)), z3.Or(*(f for _, f in parts))
            case Call("or", args):
                parts = [self.truth(arg) for arg in args]
                return z3.Or(*(t for t, _ in parts)), z3.And(*(f for _, f in parts))
            case Call("not", (arg,)):
                true, false = self.truth(arg)
                return false, true
            case Call("is_true", (arg,)):
                true, _ = self.truth(arg)
                return true, z3.Not(true)
            case Call("is_null", (arg,)) if arg.type.kind is not Kind.BOOLEAN:
                _, null = self.value(arg)
                return null, z3.Not(null)
            case Call(op, (left, right)) if op in COMPARISONS and _comparable(left, right):
                return self._comparison(op, left, right)
            case _:
                true, null = self._unknown(condition, z3.BoolSort())
                return z3.And(true, z3.Not(null)), z3.And(z3.Not(true), z3.Not(null))

    def _comparison(self, op: str, left: Scalar, right: Scalar) -> tuple[Any, Any]:
        z3 = self.z3
        (a, a_null), (b, b_null) = self.value(left), self.value(right)
        known = z3.Not(z3.Or(a_null, b_null))
        holds = {
            "=": lambda: a == b,
            "<>": lambda: a != b,
            "<": lambda: a < b,
            "<=": lambda: a <= b,
            ">": lambda: a > b,
            ">=": lambda: a >= b,
        }[op]()
        return z3.And(known, holds), z3.And(known, z3.Not(holds))

    def value(self, scalar: Scalar) -> tuple[Any, Any]:
        """The number that an expression is, and when it is NULL."""
        z3 = self.z3
        match scalar:
            case Const(None):
                return z3.RealVal(0), z3.BoolVal(True)
            case Const(value, kind) if quantity(value, kind) is not None:
                number = quantity(value, kind)
                return z3.RealVal(str(number)), z3.BoolVal(False)
            case Call("neg", (arg,)) if _exact(scalar):
                number, null = self.value(arg)
                return -number, null
            case Call("+" | "-" as op, (left, right)) if _exact(scalar):
                (a, a_null), (b, b_null) = self.value(left), self.value(right)
                return (a + b if op == "+" else a - b), z3.Or(a_null, b_null)
            case Call("*", (Const() as factor, other) | (other, Const() as factor)) if _exact(scalar):
                (a, a_null), (b, b_null) = self.value(factor), self.value(other)
                return a * b, z3.Or(a_null, b_null)
            case Call("cast", (arg,)) if arg.type.is_integer and scalar.type.kind is Kind.DECIMAL:
                return self.value(arg)
            case _:
                number, null = self._unknown(
                    scalar, z3.IntSort() if scalar.type.is_integer else z3.RealSort()
                )
                return (z3.ToReal(number) if scalar.type.is_integer else number), null

    def _unknown(self, scalar: Scalar, sort: Any) -> tuple[Any, Any]:
        if scalar not in self.unknowns:
            number = len(self.unknowns)
            never = isinstance(scalar, Var) and not scalar.nullable
            null = self.z3.BoolVal(False) if never else self.z3.Bool(f"null{number}")
            self.unknowns[scalar] = (self.z3.Const(f"value{number}", sort), null)
        return self.unknowns[scalar]


def _exact(scalar: Call) -> bool:
    """Is it computed without rounding? Doubles are not, nor are decimals out of room for digits."""
    return scalar.type.is_integer and all(arg.type.is_integer for arg in scalar.args)


def _comparable(left: Scalar, right: Scalar) -> bool:
    return all(side.type.is_numeric or side.type.kind is Kind.NULL for side in (left, right))
