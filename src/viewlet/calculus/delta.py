"""How a query changes.

Declared once, by class: tables are linear, conditions and values constant, nested queries recomputed.
Products are multilinear, so the delta of a term is taken in one step. With ``lin`` its tables and ``G1..Gm``
its affected nested factors, grouped by equal domain::

    d(lin * G1..Gm) =   d(lin) * new(G1..Gm)
                      + sum over i of  lin * old(G1..Gi-1) * dom_i * (new(Gi) - old(Gi)) * new(Gi+1..Gm)
    d(lin)          =   sum over non-empty sets of R's occurrences: the change there, R as it was elsewhere

Factors of one group change together (the sum and the count of one subquery), so they are new or old together.
``new(G)`` has the inner query Q + dQ, simplified, with like terms collected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from viewlet.calculus.canonical import named_text
from viewlet.calculus.childless import without_children
from viewlet.calculus.domain import Domain, extract_domain
from viewlet.calculus.events import Event
from viewlet.calculus.nodes import (
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    MapRef,
    Nested,
    Query,
    Rel,
    Term,
    Value,
    add,
    product,
    tables,
    times,
)
from viewlet.calculus.simplify import simplify_query
from viewlet.calculus.substitute import freshen
from viewlet.core.delta import DeltaClass, DeltaTable
from viewlet.core.names import Names

CLASSES = DeltaTable("calculus")
CLASSES.constant(Cond, Value, Let, Delta)
CLASSES.linear(Rel, MapRef)
CLASSES.recomputed(Lift, Extremum, Exists)


@dataclass(frozen=True, slots=True)
class Affected:
    """A nested factor that an event changes: its new form, and for which keys it can differ."""

    old: Nested
    new: Nested
    domain: Domain | None


def delta(query: Query, event: Event, names: Names) -> Query:
    """The change of a query: ``evaluate(query, db + event) = evaluate(query, db) + evaluate(delta, db)``."""
    return add(*(delta_term(term, event, names) for term in query))


def delta_term(term: Term, event: Event, names: Names) -> Query:
    """The change of one term, multiplied out but not yet simplified."""
    changing = [f for f in term.factors if isinstance(f, Rel) and f.table == event.table.name]
    names.check((2 ** len(changing) - 1) * len(changing))  # each of its products names every occurrence
    affected = [a for f in term.factors if (a := affected_by(f, event, names)) is not None]
    touched = {id(f) for f in changing} | {id(a.old) for a in affected}
    constant = tuple(f for f in term.factors if id(f) not in touched)
    new_nested = tuple(a.new for a in affected)
    terms: list[Query] = [
        times(
            without_children(changed, (*constant, *factors, *new_nested), event.unreferred),
            product(coefficient=term.coefficient),
        )
        for changed, factors in delta_product(changing, event)
    ]
    groups = _by_domain(affected)
    for i, group in enumerate(groups):
        before = tuple(a.old for g in groups[:i] for a in g)
        after = tuple(a.new for g in groups[i + 1 :] for a in g)
        context = (*constant, *changing, *before, *(group[0].domain or ()), *after)
        terms.append(product(*context, *(a.new for a in group), coefficient=term.coefficient))
        terms.append(product(*context, *(a.old for a in group), coefficient=-term.coefficient))
    return add(*terms)


def delta_product(atoms: Sequence[Rel], event: Event) -> list[tuple[list[Rel], tuple[Factor, ...]]]:
    """``d(R * R) = dR * R + R * dR + dR * dR``, each with the occurrences that change."""
    return [
        (
            [atoms[i] for i in chosen],
            tuple(
                f for i, atom in enumerate(atoms) for f in (event.change(atom) if i in chosen else (atom,))
            ),
        )
        for size in range(1, len(atoms) + 1)
        for chosen in combinations(range(len(atoms)), size)
    ]


def affected_by(factor: Factor, event: Event, names: Names) -> Affected | None:
    """What an event does to a nested factor; ``None`` for any other factor, or if its delta is zero."""
    if CLASSES.of(factor) is not DeltaClass.RECOMPUTED:
        return None
    assert isinstance(factor, Lift | Extremum | Exists)
    if event.table.name not in tables(factor.query):
        return None
    keys = (*factor.keys, factor.of) if isinstance(factor, Extremum) else factor.keys
    frozen = [key.name for key in keys]
    change = simplify_query(delta(factor.query, event, names), frozen, names)
    if not change:
        return None
    inner = simplify_query(add(factor.query, freshen(change, keys, names)), frozen, names)
    return Affected(factor, replace(factor, query=inner), extract_domain(factor, change))


def _by_domain(affected: Sequence[Affected]) -> list[list[Affected]]:
    """Factors with the same domain, up to the names of local variables, form one group."""
    groups: dict[str, list[Affected]] = {}
    for item in affected:
        groups.setdefault(_domain_name(item), []).append(item)
    return list(groups.values())


def _domain_name(item: Affected) -> str:
    if item.domain is None:
        return "unrestricted"
    return named_text(product(*item.domain), item.old.keys)
