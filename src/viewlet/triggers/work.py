"""How much a statement does: which maps it reads, by which access path, inside which loops.

======  ===================================================  ====================
get     all keys known: a hash lookup                        O(1)
slice   some keys known: a secondary index                   O(matches)
scan    no key known                                         O(entries)
search  a sum along one key under monotone conditions:       O(log entries)
        an ordered index with prefix sums
end     a minimum or maximum: the end of an ordered index    O(log entries)
======  ===================================================  ====================

Which of the ordered ones an engine has it says by ``searches``: all or none of them, or some by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.calculus.extreme import End, as_end
from viewlet.calculus.monotone import Search, as_search
from viewlet.calculus.nodes import (
    Delta,
    Exists,
    Extremum,
    Lift,
    MapRef,
    Nested,
    Query,
    Term,
    arguments,
    factor_variables,
    is_parameter,
)
from viewlet.calculus.schedule import schedule
from viewlet.core.scalar import Const

Path: TypeAlias = Literal["get", "slice", "scan", "search", "end"]
Ordered: TypeAlias = bool | frozenset[Path]


@dataclass(frozen=True, slots=True)
class Access:
    """One read of a map: by which of its keys, and inside how many loops."""

    map: str
    bound: tuple[int, ...]
    path: Path
    loops: tuple[str, ...]


def accesses(query: Query, searches: Ordered) -> list[Access]:
    """Every read of a map that a query does, in order; ``searches`` if there are ordered indexes."""
    return [access for term in query for access in _term_accesses(term, frozenset(), (), searches)]


def _term_accesses(
    term: Term, given: frozenset[str], loops: tuple[str, ...], searches: Ordered
) -> list[Access]:
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
            case Lift() if _has("search", searches) and (search := _search(factor, known)) is not None:
                found += _searched(search, "search", _shared(factor, known), loops, searches)
            case Extremum() if _has("end", searches) and (end := _end(factor, known)) is not None:
                given = _shared(factor, known)
                found += _searched(end.interval, "end", given, loops, searches)
                found += [access for t in end.points for access in _term_accesses(t, given, loops, searches)]
            case (
                Lift(keys=keys, query=query)
                | Extremum(keys=keys, query=query)
                | Exists(keys=keys, query=query)
            ):
                inner = _shared(factor, known)
                found += [access for t in query for access in _term_accesses(t, inner, loops, searches)]
                if isinstance(factor, Exists) and not all(k.name in known or is_parameter(k) for k in keys):
                    loops = (*loops, _enumerated(factor))
        known |= {var.name for var in factor_variables(factor)}
    return found


def _searched(
    search: Search, path: Path, given: frozenset[str], loops: tuple[str, ...], searches: Ordered
) -> list[Access]:
    """A search, and what is read at each step of it."""
    deeper = (*loops, f"log {search.atom.name}")
    asked = Term((*search.flat, *search.dependents))
    inner = _term_accesses(asked, given | {search.key.name}, deeper, searches)
    return [Access(search.atom.name, (), path, deeper), *inner]


def _has(path: Path, searches: Ordered) -> bool:
    return searches if isinstance(searches, bool) else path in searches


def _shared(factor: Nested, known: set[str]) -> frozenset[str]:
    return frozenset(key.name for key in factor.keys if key.name in known)


def _enumerated(factor: Exists) -> str:
    match factor.query:
        case (Term((MapRef(name),)),):
            return name
        case _:
            return "the keys of a change"


def _search(lift: Lift, known: set[str]) -> Search | None:
    if len(lift.query) != 1:
        return None
    return as_search(lift.query[0], _shared(lift, known))


def _end(extremum: Extremum, known: set[str]) -> End | None:
    return as_end(extremum, _shared(extremum, known))


def order_of(query: Query, searches: Ordered = True) -> str:
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


def is_at_most_logarithmic(query: Query, searches: Ordered = True) -> bool:
    """Is there no loop over entries, but lookups and searches alone?"""
    nests = (_loops(access) for access in accesses(query, searches))
    return all(loop.startswith("log ") for nest in nests for loop in nest)


def _loops(access: Access) -> tuple[str, ...]:
    if access.path in ("get", "search", "end"):
        return access.loops
    return (*access.loops, f"{access.map} by key" if access.path == "slice" else access.map)
