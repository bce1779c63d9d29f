"""How much a statement does: which maps it reads, by which access path, inside which loops.

======  ==========================================  ====================
path    all keys known: a hash lookup               O(1)
slice   some keys known: a secondary index          O(matches)
scan    no key known                                O(entries)
======  ==========================================  ====================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.calculus.nodes import (
    Delta,
    Exists,
    Extremum,
    Lift,
    MapRef,
    Query,
    Term,
    arguments,
    factor_variables,
    is_parameter,
)
from viewlet.calculus.schedule import schedule
from viewlet.core.scalar import Const

Path: TypeAlias = Literal["get", "slice", "scan"]


@dataclass(frozen=True, slots=True)
class Access:
    """One read of a map: by which of its keys, and inside how many loops."""

    map: str
    bound: tuple[int, ...]
    path: Path
    loops: tuple[str, ...]


def accesses(query: Query, known: Iterable[str] = ()) -> list[Access]:
    """Every read of a map that evaluating a query does, in order."""
    given = frozenset(known)
    return [access for term in query for access in _term_accesses(term, given, ())]


def _term_accesses(term: Term, given: frozenset[str], loops: tuple[str, ...]) -> list[Access]:
    known = set(given)
    found: list[Access] = []
    for factor in schedule(term.factors, given):
        match factor:
            case MapRef(name):
                bound = tuple(
                    i
                    for i, arg in enumerate(arguments(factor))
                    if isinstance(arg, Const) or is_parameter(arg) or arg.name in known
                )
                path: Path = "get" if len(bound) == len(factor.keys) else "slice" if bound else "scan"
                found.append(Access(name, bound, path, loops))
                if path != "get":
                    loops = (*loops, f"{name} by key" if bound else name)
            case Delta(table):
                loops = (*loops, f"rows of {table}'s change")
            case (
                Lift(keys=keys, query=query)
                | Extremum(keys=keys, query=query)
                | Exists(keys=keys, query=query)
            ):
                inner = frozenset(key.name for key in keys if key.name in known)
                found += [access for t in query for access in _term_accesses(t, inner, loops)]
                if isinstance(factor, Exists) and not all(k.name in known or is_parameter(k) for k in keys):
                    loops = (*loops, "its domain")
        known |= {var.name for var in factor_variables(factor)}
    return found


def order_of(query: Query) -> str:
    """The work of a statement in O-notation: the largest product of loops around any of its reads.

    >>> from viewlet.calculus.nodes import product
    >>> from viewlet.core.scalar import Var
    >>> order_of(product(MapRef("m", (Var("@k"),)))), order_of(product(MapRef("m", (Var("k"),))))
    ('O(1)', 'O(m)')
    """
    nests = {_loops(access) for access in accesses(query)}
    longest = max((len(nest) for nest in nests), default=0)
    if not longest:
        return "O(1)"
    return "O(" + " + ".join(sorted({" x ".join(nest) for nest in nests if len(nest) == longest})) + ")"


def _loops(access: Access) -> tuple[str, ...]:
    if access.path == "get":
        return access.loops
    return (*access.loops, f"{access.map} by key" if access.path == "slice" else access.map)
