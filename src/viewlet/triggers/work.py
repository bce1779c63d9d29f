"""How much a statement does: which maps it reads, by which access path, inside which loops.

======  ===================================================  ====================
get     all keys known: a hash lookup                        O(1)
slice   some keys known: a secondary index                   O(matches)
scan    no key known                                         O(entries)
search  a sum along one key under monotone conditions:       O(log entries)
        an ordered index with prefix sums
======  ===================================================  ====================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.calculus.monotone import Search, as_search
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

Path: TypeAlias = Literal["get", "slice", "scan", "search"]


@dataclass(frozen=True, slots=True)
class Access:
    """One read of a map: by which of its keys, and inside how many loops."""

    map: str
    bound: tuple[int, ...]
    path: Path
    loops: tuple[str, ...]


def accesses(query: Query, searches: bool) -> list[Access]:
    """Every read of a map that a query does, in order; ``searches`` if there are ordered indexes."""
    return [access for term in query for access in _term_accesses(term, frozenset(), (), searches)]


def _term_accesses(term: Term, given: frozenset[str], loops: tuple[str, ...], searches: bool) -> list[Access]:
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
            case Lift(keys=keys) if searches and (search := _search(factor, known)) is not None:
                inner = frozenset(key.name for key in keys if key.name in known) | {search.key.name}
                deeper = (*loops, f"log {search.atom.name}")
                found.append(Access(search.atom.name, (), "search", deeper))
                found += _term_accesses(Term((*search.flat, *search.dependents)), inner, deeper, searches)
            case (
                Lift(keys=keys, query=query)
                | Extremum(keys=keys, query=query)
                | Exists(keys=keys, query=query)
            ):
                inner = frozenset(key.name for key in keys if key.name in known)
                found += [access for t in query for access in _term_accesses(t, inner, loops, searches)]
                if isinstance(factor, Exists) and not all(k.name in known or is_parameter(k) for k in keys):
                    loops = (*loops, _enumerated(factor))
        known |= {var.name for var in factor_variables(factor)}
    return found


def _enumerated(factor: Exists) -> str:
    match factor.query:
        case (Term((MapRef(name),)),):
            return name
        case _:
            return "the keys of a change"


def _search(lift: Lift, known: set[str]) -> Search | None:
    if len(lift.query) != 1:
        return None
    return as_search(lift.query[0], frozenset(key.name for key in lift.keys if key.name in known))


def order_of(query: Query, searches: bool = True) -> str:
    """The work of a statement in O-notation: the largest product of loops around any of its reads.

    >>> from viewlet.calculus.nodes import product
    >>> from viewlet.core.scalar import Var
    >>> order_of(product(MapRef("m", (Var("@k"),)))), order_of(product(MapRef("m", (Var("k"),))))
    ('O(1)', 'O(m)')
    """
    nests = {_loops(access) for access in accesses(query, searches)}
    longest = max((len(nest) for nest in nests), default=0)
    if not longest:
        return "O(1)"
    return "O(" + " + ".join(sorted({" x ".join(nest) for nest in nests if len(nest) == longest})) + ")"


def is_at_most_logarithmic(query: Query, searches: bool = True) -> bool:
    """Is there no loop over entries, but lookups and searches alone?"""
    nests = (_loops(access) for access in accesses(query, searches))
    return all(loop.startswith("log ") for nest in nests for loop in nest)


def _loops(access: Access) -> tuple[str, ...]:
    if access.path in ("get", "search"):
        return access.loops
    return (*access.loops, f"{access.map} by key" if access.path == "slice" else access.map)
