"""How calculus reads; see ``nodes.py`` for the notation.

>>> from viewlet.calculus.nodes import product
>>> from viewlet.core.scalar import call
>>> a, v = Var("a"), Var("v")
>>> show_query(product(Rel("r", (("a", a), ("v", v))), Cond(call("<", v, Const(5))), Value(v)))
'r(a: a, v: v) * {v < 5} * <v>'
"""

from __future__ import annotations

from viewlet.calculus.nodes import (
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    MapRef,
    Query,
    Rel,
    Term,
    Value,
)
from viewlet.core.scalar import Const, Var
from viewlet.core.text import ABOVE_COMPARISONS, show


def show_query(query: Query) -> str:
    """The text of a sum of terms."""
    return " + ".join(map(show_term, query)) or "0"


def show_term(term: Term) -> str:
    """The text of a product."""
    factors = [show_factor(factor) for factor in term.factors]
    if term.coefficient != 1 or not factors:
        factors.insert(0, str(term.coefficient))
    return " * ".join(factors)


def show_factor(factor: Factor) -> str:
    """The text of one factor."""
    match factor:
        case Rel(table, binds):
            return f"{table}({_binds(binds)})"
        case Delta(table, binds, absolute):
            return f"{f'|d{table}|' if absolute else f'd{table}'}({_binds(binds)})"
        case MapRef(name, keys):
            return f"{name}[{', '.join(show(key) for key in keys)}]"
        case Cond(scalar):
            return f"{{{show(scalar)}}}"
        case Value(scalar):
            return f"<{show(scalar, ABOVE_COMPARISONS)}>"
        case Let(var, scalar):
            return f"({var.name} := {show(scalar)})"
        case Lift(var, keys, query):
            return f"({var.name} := sum<{_names(keys)}>({show_query(query)}))"
        case Extremum(var, op, of, keys, query):
            return f"({var.name} := {op} {of.name}<{_names(keys)}>({show_query(query)}))"
        case Exists(keys, query, negated):
            return f"{'N' if negated else 'E'}<{_names(keys)}>({show_query(query)})"


def _binds(binds: tuple[tuple[str, Var | Const], ...]) -> str:
    return ", ".join(f"{column}: {show(argument)}" for column, argument in binds)


def _names(keys: tuple[Var, ...]) -> str:
    return ", ".join(key.name for key in keys)
