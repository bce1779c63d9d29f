"""Extrema behind a threshold: the first value up to which a running total is large enough.

::

    min v<k>(values(k, v) * (c := sum<k, v>(rows(k, w) * {w <= v})) * (n := ..) * {c >= 0.75 * n})

A change of one row moves the total of every value behind it, so nobody should keep which values pass. With
maps M of the values and V of the rows an ordered index finds the first of them in one walk, when asked::

    min v<k>(M[k, v] * (c := sum<k, v>(V[k, w] * {w <= v})) * (n := ..) * {c >= 0.75 * n})
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from viewlet.calculus.extreme import as_end
from viewlet.calculus.nodes import (
    Cond,
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
    factor_variables,
)
from viewlet.core.scalar import Var
from viewlet.core.types import Kind


@dataclass(frozen=True, slots=True)
class Threshold:
    """The values that an extremum is taken of, and what each of them is tested by."""

    values: Query
    tests: tuple[Factor, ...]


def as_threshold(extremum: Extremum) -> Threshold | None:
    """An extremum over tables as one behind a threshold, if an index will find it."""
    parts = [_split(term) for term in extremum.query]
    if not parts or extremum.of.type.kind is Kind.VARCHAR:
        return None
    (_, tests), *others = parts
    if any(set(test) != set(tests) for _, test in others):
        return None
    if not all(isinstance(f, Rel | Cond | Let | Value) for term, _ in parts for f in term.factors):
        return None
    kept = [_over_maps(test, extremum.of) for test in tests]
    asked = [factor for factor in kept if factor is not None]
    if len(asked) < len(kept):
        return None
    keys = (*extremum.keys, extremum.of)
    if not _reads(*tests) <= {var.name for var in (*keys, *_bound(tests))}:
        return None
    foreseen = Term((MapRef("", keys), *asked))
    end = as_end(replace(extremum, query=(foreseen,)), frozenset(key.name for key in extremum.keys))
    if end is None or end.is_nested or not end.interval.needs:
        return None
    return Threshold(tuple(term for term, _ in parts), tests)


def _split(term: Term) -> tuple[Term, tuple[Factor, ...]]:
    """The factors that say which values there are, and nested ones with all that reads what they bind."""
    tests: list[Factor] = [f for f in term.factors if isinstance(f, Lift | Extremum | Exists)]
    while True:
        bound = {var.name for var in _bound(tests)}
        more = [
            f
            for f in term.factors
            if isinstance(f, Cond | Let | Value) and f not in tests and _reads(f) & bound
        ]
        if not more:
            return replace(term, factors=tuple(f for f in term.factors if f not in tests)), tuple(tests)
        tests += more


def _bound(tests: Iterable[Factor]) -> list[Var]:
    return [f.var for f in tests if isinstance(f, Lift | Extremum | Let)]


def _reads(*factors: Factor) -> set[str]:
    return {var.name for factor in factors for var in factor_variables(factor)}


def _over_maps(test: Factor, of: Var) -> Factor | None:
    """A test as it will be once tables have become maps, whose names do not matter; ``None`` if it cannot.

    A sum over rows that conditions alone tie to ``of`` will be one over a map by what they compare.
    """
    match test:
        case Lift(_, keys, (term,)):
            tied = [f for f in term.factors if isinstance(f, Cond) and of.name in _reads(f)]
            rest = [f for f in term.factors if f not in tied]
            if any(isinstance(f, Lift | Extremum | Exists) or of.name in _reads(f) for f in rest):
                return None
            given = [key for key in keys if key != of]
            own = _own(tied, {key.name for key in keys})
            return replace(test, query=(replace(term, factors=(MapRef("", (*given, *own)), *tied)),))
        case Cond() | Let():
            return test
        case _:
            return None


def _own(tied: Iterable[Factor], given: set[str]) -> list[Var]:
    found = {var.name: var for factor in tied for var in factor_variables(factor) if var.name not in given}
    return list(found.values())
