"""How much a statement does: which maps it reads, by which access path, inside which loops.

======  ===================================================  ====================
get     all keys known: a hash lookup                        O(1)
slice   some keys known: a secondary index                   O(matches)
scan    no key known                                         O(entries)
search  a sum along one key under monotone conditions:       O(log entries)
        an ordered index with prefix sums
edge    where conditions on running sums change their mind:  O(log entries)
        a walk down an ordered index that knows the sums
turn    the same for conditions on minima or maxima up to a  O(log entries)
        point of an ordered index that holds them
end     a minimum or maximum: the end of an ordered index    O(log entries)
range   a loop that conditions confine on both sides         O(log entries + visits)
======  ===================================================  ====================

Whether an engine has the ordered ones it says by ``searches``: all or none, or all but along some maps. The
reference engine, which has them all, finds edges too by asking at keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from viewlet.calculus.ranges import as_range
from viewlet.calculus.running import needed, openings, running_sums
from viewlet.calculus.schedule import schedule
from viewlet.core.scalar import Const, Scalar

SAME: Mapping[str, str] = {}
"""Maps under their own names."""

SHIFT = " (in place of a key shift)"
"""An edge on running sums is what a tree under keys that shift would tell, at several times the cost."""

MATCHING = (" by key", " that cross", "the keys of a change")
"""How a loop over a part of a map's entries is told."""

Path: TypeAlias = Literal["get", "slice", "scan", "search", "edge", "turn", "end", "range"]


@dataclass(frozen=True, slots=True)
class AllBut:
    """Compiled ordered access paths along all maps but some, whose keys or sums cannot be ordered."""

    maps: frozenset[str]


Ordered: TypeAlias = bool | AllBut


@dataclass(frozen=True, slots=True)
class Access:
    """One read of a map: by which of its keys, inside how many loops, and inside a nested factor or not."""

    map: str
    bound: tuple[int, ...]
    path: Path
    loops: tuple[str, ...]
    threshold: bool = False
    nested: bool = False

    @property
    def title(self) -> str:
        """The access path in the field's words; a search for a ``threshold`` computes what it asks for."""
        match self.path:
            case "search":
                return "threshold search" if self.threshold else "range aggregate"
            case "edge" | "turn":
                return "threshold search"
            case "end":
                return "ordered multiset"
            case "range":
                return "crossing"
            case "get":
                return "lookup"
            case "slice" | "scan":
                return self.path


def accesses(query: Query, searches: Ordered, given: frozenset[str] = frozenset()) -> list[Access]:
    """Every read of a map that a query does, in order; ``searches`` if there are ordered indexes."""
    return [access for term in query for access in _term_accesses(term, given, (), searches)]


def _term_accesses(
    term: Term, given: frozenset[str], loops: tuple[str, ...], searches: Ordered
) -> list[Access]:
    known = set(given)
    found: list[Access] = []
    ordered = schedule(term.factors, given)
    for i, factor in enumerate(ordered):
        match factor:
            case MapRef(name):
                bound = tuple(
                    i
                    for i, arg in enumerate(arguments(factor))
                    if isinstance(arg, Const) or is_parameter(arg) or arg.name in known
                )
                path: Path = "get" if len(bound) == len(factor.keys) else "slice" if bound else "scan"
                if path == "scan" and has_order(name, searches):
                    confined = as_range(factor, ordered[i + 1 :], frozenset(known))
                    path = "range" if confined is not None and confined.is_closed else path
                found.append(Access(name, bound, path, loops))
                if path != "get":
                    loops = (*loops, _visited(name, path))
            case Delta(table):
                loops = (*loops, f"rows of {table}'s change")
            case Lift() if (search := search_of(factor, known)) is not None and has_order(
                search.atom.name, searches
            ):
                found += _nested(_searched(search, "search", given_keys(factor, known), loops, searches))
            case Extremum() if (end := end_of(factor, known)) is not None and has_order(
                end.interval.atom.name, searches
            ):
                inner = given_keys(factor, known)
                found += _nested(_searched(end.interval, "end", inner, loops, searches))
                found += _nested(a for t in end.points for a in _term_accesses(t, inner, loops, searches))
            case (
                Lift(keys=keys, query=query)
                | Extremum(keys=keys, query=query)
                | Exists(keys=keys, query=query)
            ):
                inner = given_keys(factor, known)
                found += _nested(a for t in query for a in _term_accesses(t, inner, loops, searches))
                if isinstance(factor, Exists) and not all(k.name in known or is_parameter(k) for k in keys):
                    loops = (*loops, _enumerated(factor, inner))
        known |= {var.name for var in factor_variables(factor)}
    return found


def _nested(found: Iterable[Access]) -> list[Access]:
    return [replace(access, nested=True) for access in found]


def _searched(
    search: Search, path: Path, given: frozenset[str], loops: tuple[str, ...], searches: Ordered
) -> list[Access]:
    """A search, and what is read at each step of it; or beforehand, where one walk finds an edge."""
    deeper = (*loops, f"log {search.atom.name}")
    once = _term_accesses(Term(search.flat), given, loops, searches)
    known = given | {v.name for f in search.flat for v in factor_variables(f)} | {search.key.name}
    asked: list[Access] = []
    threshold = False
    for conditions in (search.rising, search.falling):
        sums = running_sums(search, conditions, known) if isinstance(searches, AllBut) else None
        if sums and all(has_order(sum_.atom.name, searches) for sum_ in sums):
            asked += [Access(s.atom.name, (), "edge", (*loops, f"log {s.atom.name}")) for s in sums]
            for within in (sum_.within for sum_ in sums if sum_.within is not None):
                if within.rising or within.falling:
                    asked += _searched(within, path, known, loops, searches)
                else:
                    asked += _term_accesses(Term(within.flat), known, loops, searches)
        elif parts := _opened(search, conditions, known, searches):
            best = any(isinstance(f, Extremum) for f in needed(search.dependents, conditions))
            kind: Path = "turn" if best else "edge"
            asked += [Access(p.atom.name, (), kind, (*loops, f"log {p.atom.name}")) for p in parts]
        else:
            dependents = needed(search.dependents, conditions)
            asked += _term_accesses(Term(tuple(dependents)), known, deeper, searches)
            threshold |= bool(dependents)
    return [*once, Access(search.atom.name, (), path, deeper, threshold), *asked]


def _opened(
    search: Search, conditions: Sequence[Scalar], known: frozenset[str], searches: Ordered
) -> list[Search]:
    """The aggregates at an entry of which conditions turn, if an engine finds it by one walk."""
    found = openings(search, conditions, known) if isinstance(searches, AllBut) else None
    return found if found and all(has_order(part.atom.name, searches) for part in found) else []


def has_order(name: str, searches: Ordered) -> bool:
    """Does an engine have the ordered access paths along a map?"""
    return name not in searches.maps if isinstance(searches, AllBut) else searches


def given_keys(factor: Nested, known: set[str]) -> frozenset[str]:
    """What a nested factor may take as given: its keys, as far as they are known."""
    return frozenset(key.name for key in factor.keys if key.name in known)


def _enumerated(factor: Exists, given: frozenset[str]) -> str:
    match factor.query:
        case (Term((MapRef(name) as groups,)),):
            known = any(is_parameter(v) or v.name in given for v in factor_variables(groups))
            return _visited(name, "slice") if known else f"groups of {name}"
        case _:
            return "the keys of a change"


def search_of(lift: Lift, known: set[str]) -> Search | None:
    """A nested sum as a search, with its known keys given."""
    if len(lift.query) != 1:
        return None
    return as_search(lift.query[0], given_keys(lift, known))


def end_of(extremum: Extremum, known: set[str]) -> End | None:
    """A nested extremum as the end of an interval, with its known keys given."""
    return as_end(extremum, given_keys(extremum, known))


def order_of(query: Query, searches: Ordered = True, names: Mapping[str, str] = SAME) -> str:
    """The work of a statement in O-notation: the largest product of loops around any of its reads.

    A search counts for less than a loop, however many are nested.

    ``names`` says what maps are to be called: those of one record have the same entries.

    >>> from viewlet.calculus.nodes import product
    >>> from viewlet.core.scalar import Var
    >>> order_of(product(MapRef("m", (Var("@k"),)))), order_of(product(MapRef("m", (Var("k"),))))
    ('O(1)', 'O(m)')
    """
    nests = {tuple(_called(loop, names) for loop in _loops(a)) for a in accesses(query, searches)}
    most = max(map(_size, nests), default=(0, 0))
    if not any(most):
        return "O(1)"
    return "O(" + " + ".join(sorted({" x ".join(nest) for nest in nests if _size(nest) == most})) + ")"


def _size(nest: Sequence[str]) -> tuple[int, int]:
    return sum(not loop.startswith("log ") for loop in nest), len(nest)


def _called(loop: str, names: Mapping[str, str]) -> str:
    return " ".join(names.get(word, word) for word in loop.split(" "))


def ordered_paths(query: Query, searches: Ordered = True, names: Mapping[str, str] = SAME) -> list[str]:
    """The ordered access paths of a statement, each with its map, and the general algorithm where it scans.

    >>> from viewlet.calculus.nodes import Cond, Value, product
    >>> from viewlet.core.scalar import Var, call
    >>> p, x = Var("p"), Var("x")
    >>> below = Term((MapRef("m", (p,)), Cond(call("<", p, Var("@price")))))
    >>> ordered_paths(product(Lift(x, (), (below,)), Value(x)))
    ['range aggregate along m']
    """
    found = accesses(query, searches)
    searched = [a for a in found if a.path in ("search", "edge", "turn", "end", "range")]
    paths = [f"{a.title} along {names.get(a.map, a.map)}{SHIFT * (a.path == 'edge')}" for a in searched]
    return list(dict.fromkeys([*(_called(path, names) for path in _gone_through(found)), *paths]))


def _gone_through(found: Sequence[Access]) -> list[str]:
    """The general algorithm: all levels of a map, and at each what is nested is looked up or sought."""
    asked = dict.fromkeys(loop for access in found if access.nested for loop in access.loops)
    scanned = {access.map for access in found if access.path == "scan"}
    gone = [loop for loop in asked if loop in scanned or loop.startswith("groups of ")]
    return [f"general algorithm over {loop}" for loop in gone]


def scans(query: Query, searches: Ordered = True, given: frozenset[str] = frozenset()) -> bool:
    """Is there a loop over all entries of a map, or over all groups, and not only over those that match?"""
    loops = (loop for access in accesses(query, searches, given) for loop in _loops(access))
    return any(not loop.startswith(("log ", "rows of ")) and not loop.endswith(MATCHING) for loop in loops)


def is_at_most_logarithmic(query: Query, searches: Ordered = True) -> bool:
    """Is there no loop over entries, but lookups and searches alone?"""
    nests = (_loops(access) for access in accesses(query, searches))
    return all(loop.startswith("log ") for nest in nests for loop in nest)


def _loops(access: Access) -> tuple[str, ...]:
    if access.path in ("get", "search", "edge", "turn", "end"):
        return access.loops
    return (*access.loops, _visited(access.map, access.path))


def _visited(name: str, path: Path) -> str:
    match path:
        case "slice":
            return f"{name} by key"
        case "range":
            return f"{name} that cross"
        case _:
            return name
