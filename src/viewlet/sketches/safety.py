"""Which attributes give sketches that answer a query: refused unless one of the rules S1 to S9 says so.

Let ``D'`` be ``D`` with some tables restricted to fragments that hold at least the lineage of ``Q(D)``. Then
``Q(D') = Q(D)`` if every row of ``Q(D')`` has a counterpart in ``Q(D)``: the counterpart is a result row, all
its lineage is in ``D'``, so the two are equal. :func:`judge` walks a plan bottom-up and keeps track of

- *exactness*: ``N(D') = σ(N(D))``, the node's rows are exactly those whose attribute lies in the sketch.
  Grouping by what determines the attribute keeps or drops whole groups (S2);
- *relations* (``facts.py``): otherwise values of groups move in a known direction, and conditions on them
  must be closed in that direction (S3), orders likewise (S4).

A superset of the fragments is as good, since the argument needs no more than the lineage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from viewlet.core.scalar import Call, Scalar, Var, conjuncts, nullable
from viewlet.plan.conditions import reads
from viewlet.plan.facts import key_of
from viewlet.plan.nodes import (
    ORDER_STATISTICS,
    Aggregate,
    Apply,
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    Query,
    Scan,
    SetOperation,
    SortKey,
    Top,
    Unit,
)
from viewlet.plan.scope import free_variables, outputs, tables_of
from viewlet.plan.text import show_aggregate
from viewlet.sketches.closed import closed, culprit
from viewlet.sketches.errors import UnsafeError
from viewlet.sketches.facts import (
    Assumption,
    Fact,
    Facts,
    Limits,
    Relation,
    aggregate_fact,
    fact_of,
    landmark,
    weaker,
)
from viewlet.sql.catalog import Catalog

Attribute: TypeAlias = tuple[str, str]
"""A table and one of its columns."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a query may be answered from sketches on these attributes, and why."""

    safe: bool
    reason: str
    rules: frozenset[str] = frozenset()
    assumes: frozenset[Assumption] = frozenset()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of a plan's rows over the kept data.

    ``carriers`` are variables that equal a restricted attribute; ``determinants`` sets of variables that
    determine it. Both are of use only while ``exact``.
    """

    facts: Facts
    restricted: frozenset[Attribute] = frozenset()
    exact: bool = True
    carriers: Mapping[Attribute, frozenset[str]] = field(default_factory=dict)
    determinants: Mapping[Attribute, frozenset[frozenset[str]]] = field(default_factory=dict)
    rules: frozenset[str] = frozenset()
    assumes: frozenset[Assumption] = frozenset()


def check(query: Query, attributes: frozenset[Attribute], catalog: Catalog, limits: Limits) -> Verdict:
    """May the query be answered from sketches on all these attributes at once? It assumes what it has to."""
    touched = tables_of(query.plan)
    for table, column in sorted(attributes):
        if table not in touched:
            return Verdict(False, f"the query does not read {table}")
        if column not in catalog[table].column_names:
            return Verdict(False, f"table {table} has no column {column}")
    for known in weaker(limits):
        try:
            judgement = judge(query.plan, attributes, catalog, known)
            break
        except UnsafeError as error:
            refused = str(error)
    else:
        return Verdict(False, refused)
    rules = judgement.rules or frozenset({"S1"})
    reason = "; ".join(_RULES[rule] for rule in sorted(rules))
    if judgement.assumes:
        reason += f"; as long as {' and '.join(sorted(map(str, judgement.assumes)))}"
    return Verdict(True, reason, rules, judgement.assumes)


_RULES = {
    "S1": "S1: rows are kept or skipped one by one",
    "S2": "S2: the groups determine the attribute, so groups are kept or skipped whole",
    "S3": "S3: skipping rows moves the groups' values away from the condition only",
    "S4": "S4: skipping rows moves no row up in the order",
    "S6": "S6: only the side that rows come from is restricted, or both sides alike",
}


def judge(plan: Plan, attributes: frozenset[Attribute], catalog: Catalog, limits: Limits) -> Judgement:
    """What restricting these attributes does to a plan; an :class:`UnsafeError` where too little is known."""

    def below(inner: Plan) -> Judgement:
        return judge(inner, attributes, catalog, limits)

    match plan:
        case Unit():
            return Judgement({})
        case Scan():
            return _scan(plan, attributes, catalog, limits)
        case Filter(inner, condition):
            return _filter(below(inner), condition)
        case Project(inner, columns):
            return _project(below(inner), columns)
        case Join("inner", left, right, condition):
            _refuse_lateral(right, below(left), below(right))
            return _inner_join(below(left), below(right), condition)
        case Join(kind, left, right, condition):
            _refuse_lateral(right, below(left), below(right))
            return _outer_join(kind, below(left), below(right), condition, plan)
        case Aggregate():
            return _aggregate(plan, below(plan.input))
        case Distinct(inner):
            return _distinct(below(inner))
        case SetOperation(kind, left, right, columns):
            return _set_operation(plan, below(left), below(right))
        case Apply(inner, nested):
            _refuse_nested(plan, below(inner), attributes)
            judgement = below(inner)
            return replace(judgement, facts={**judgement.facts, **{q.output.name: Fact() for q in nested}})
        case Top():
            return _top(plan, below(plan.input))
        case _:
            assert_never(plan)


def _scan(plan: Scan, attributes: frozenset[Attribute], catalog: Catalog, limits: Limits) -> Judgement:
    facts = {
        var.name: landmark(plan.table, column, *limits(plan.table, column))
        if var.type.is_numeric
        else Fact(label=f"{plan.table}.{column}")
        for column, var in plan.binds
    }
    binds = {column: var.name for column, var in plan.binds}
    restricted = frozenset(attribute for attribute in attributes if attribute[0] == plan.table)
    carriers = {a: frozenset({binds[a[1]]} if a[1] in binds else ()) for a in restricted}
    key = catalog[plan.table].key
    keys = {frozenset(binds[column] for column in key)} if key and all(c in binds for c in key) else set()
    determinants = {a: frozenset(keys | {frozenset({name}) for name in carriers[a]}) for a in restricted}
    return Judgement(facts, restricted, True, carriers, determinants)


def _filter(judgement: Judgement, condition: Scalar) -> Judgement:
    """σ keeps a row's counterpart if the condition is closed under the row's moves."""
    moving, assumes = closed(condition, judgement.facts)
    rules = judgement.rules | ({"S3"} if moving else frozenset())
    return replace(judgement, rules=rules, assumes=judgement.assumes | assumes)


def _project(judgement: Judgement, columns: tuple[tuple[Var, Scalar], ...]) -> Judgement:
    facts = {var.name: fact_of(scalar, judgement.facts) for var, scalar in columns}
    return _renamed(judgement, facts, columns)


def _renamed(judgement: Judgement, facts: Facts, columns: tuple[tuple[Var, Scalar], ...]) -> Judgement:
    """Carriers and determinants under the new names of the columns that merely pass on a variable."""
    copies: dict[str, list[str]] = {}
    for var, scalar in columns:
        if isinstance(scalar, Var):
            copies.setdefault(scalar.name, []).append(var.name)
    carriers = {
        attribute: frozenset(new for name in names for new in copies.get(name, ()))
        for attribute, names in judgement.carriers.items()
    }
    determinants = {
        attribute: frozenset(
            frozenset(copies[name][0] for name in names) for names in sets if names <= copies.keys()
        )
        | {frozenset({name}) for name in carriers[attribute]}
        for attribute, sets in judgement.determinants.items()
    }
    return replace(judgement, facts=facts, carriers=carriers, determinants=determinants)


def _refuse_lateral(right: Plan, left_judgement: Judgement, right_judgement: Judgement) -> None:
    if free_variables(right) and (left_judgement.restricted or right_judgement.restricted):
        raise UnsafeError("S9: a lateral join is not analysed")


def _equalities(condition: Scalar) -> list[tuple[str, str]]:
    pairs = []
    for part in conjuncts(condition):
        match part:
            case Call("=" | "==", (Var(left), Var(right))):
                pairs += [(left, right), (right, left)]
    return pairs


def _aligned(left: Judgement, right: Judgement, pairs: list[tuple[str, str]]) -> bool:
    """Is every attribute that both sides restrict joined with itself?"""
    return all(
        any(a in left.carriers[attribute] and b in right.carriers[attribute] for a, b in pairs)
        for attribute in left.restricted & right.restricted
    )


def _inner_join(left: Judgement, right: Judgement, condition: Scalar) -> Judgement:
    """σL ⋈ σR = σ(L ⋈ R), unless one attribute is restricted on both sides and not joined with itself."""
    pairs = _equalities(condition)
    merged = _merged(left, right, left.exact and right.exact and _aligned(left, right, pairs))
    carriers = {
        attribute: names | {b for a, b in pairs if a in names} for attribute, names in merged.carriers.items()
    }
    determinants = {
        attribute: sets | {frozenset({name}) for name in carriers[attribute]}
        for attribute, sets in merged.determinants.items()
    }
    return _filter(replace(merged, carriers=carriers, determinants=determinants), condition)


def _merged(left: Judgement, right: Judgement, exact: bool) -> Judgement:
    """The pairs of rows of two judged plans."""
    attributes = left.restricted | right.restricted
    nothing: frozenset[str] = frozenset()
    none: frozenset[frozenset[str]] = frozenset()
    return Judgement(
        {**left.facts, **right.facts},
        attributes,
        exact,
        {a: left.carriers.get(a, nothing) | right.carriers.get(a, nothing) for a in attributes},
        {a: left.determinants.get(a, none) | right.determinants.get(a, none) for a in attributes},
        left.rules | right.rules,
        left.assumes | right.assumes,
    )


def _outer_join(kind: str, left: Judgement, right: Judgement, condition: Scalar, plan: Join) -> Judgement:
    """L' ⟕ R = (L ⟕ R)'; a restricted right side would pad rows with NULL that have partners."""
    merged = _merged(left, right, left.exact and right.exact)
    if not merged.restricted:
        return merged
    if _moves(condition, merged.facts):
        raise UnsafeError(f"S6: an outer join on {culprit(condition, merged.facts)}, which skipping moves")
    alike = right.exact and left.exact and right.restricted <= left.restricted
    if kind == "full" or (right.restricted and not (alike and _aligned(left, right, _equalities(condition)))):
        tables = ", ".join(sorted({table for table, _ in right.restricted or left.restricted}))
        raise UnsafeError(f"S6: the {kind} outer join would pad rows whose partners in {tables} are skipped")
    padded = {var.name for var in outputs(plan.right)}
    carriers = {attribute: names - padded for attribute, names in merged.carriers.items()}
    determinants = {
        attribute: frozenset(names for names in sets if not names & padded)
        for attribute, sets in merged.determinants.items()
    }
    return replace(merged, carriers=carriers, determinants=determinants, rules=merged.rules | {"S6"})


def _moves(scalar: Scalar, facts: Facts) -> bool:
    return any(facts[name].relation is not Relation.EQUAL for name in reads(scalar))


def _aggregate(plan: Aggregate, judgement: Judgement) -> Judgement:
    """γ commutes with σ if the groups determine the attributes (S2); else the aggregates move (S3)."""
    columns = tuple((var, scalar) for var, scalar in plan.groups)
    grouped = {scalar.name for _, scalar in columns if isinstance(scalar, Var)}
    whole = judgement.exact and all(
        any(names <= grouped for names in judgement.determinants[attribute])
        for attribute in judgement.restricted
    )
    if judgement.restricted and not plan.groups:
        raise UnsafeError("S9: an aggregate without GROUP BY has a row even over nothing; every row counts")
    facts: dict[str, Fact] = {}
    for var, scalar in columns:
        facts[var.name] = fact_of(scalar, judgement.facts)
        if facts[var.name].relation is not Relation.EQUAL:
            raise UnsafeError(f"S5: GROUP BY {culprit(scalar, judgement.facts)}, which skipping rows moves")
    for var, call in plan.aggregates:
        if call.op in ORDER_STATISTICS:
            raise UnsafeError(f"{show_aggregate(call)}: databases disagree about percentiles and modes")
        facts[var.name] = aggregate_fact(call, judgement.facts, whole, show_aggregate(call))
    result = _renamed(judgement, facts, columns)
    if not judgement.restricted:
        return result
    if whole:
        return replace(result, rules=result.rules | {"S2"})
    # Partial groups: the rows are no longer a selection of the rows over all data.
    return replace(result, exact=False)


def _distinct(judgement: Judgement) -> Judgement:
    for name, fact in judgement.facts.items():
        if fact.relation is not Relation.EQUAL:
            raise UnsafeError(f"S5: DISTINCT over {fact.label or name}, which skipping rows moves")
    return judgement


def _set_operation(plan: SetOperation, left: Judgement, right: Judgement) -> Judgement:
    """UNION and INTERSECT keep containment; EXCEPT only on its left side, or if both sides are cut alike."""
    sides = [
        _positional(judgement, side, plan.columns)
        for judgement, side in ((left, plan.left), (right, plan.right))
    ]
    if plan.kind != "union_all":
        left, right = (_distinct(side) for side in sides)
    else:
        left, right = sides
    attributes = left.restricted | right.restricted
    both = {a: left.carriers.get(a, frozenset()) & right.carriers.get(a, frozenset()) for a in attributes}
    alike = left.exact and right.exact and left.restricted == right.restricted and all(both.values())
    rules = left.rules | right.rules
    if plan.kind in ("except", "except_all"):
        if right.restricted and not alike:
            tables = ", ".join(sorted({table for table, _ in right.restricted}))
            raise UnsafeError(f"S6: EXCEPT would keep rows whose match in {tables} is skipped")
        if not right.restricted:
            return replace(left, assumes=left.assumes | right.assumes, rules=rules | {"S6"})
        rules |= {"S6"}
    facts = {var.name: _either(left.facts[var.name], right.facts[var.name]) for var in plan.columns}
    determinants = {a: frozenset(frozenset({name}) for name in names) for a, names in both.items()}
    return Judgement(facts, attributes, alike, both, determinants, rules, left.assumes | right.assumes)


def _positional(judgement: Judgement, side: Plan, columns: tuple[Var, ...]) -> Judgement:
    pairs = tuple(zip(columns, outputs(side), strict=True))
    return _renamed(judgement, {new.name: judgement.facts[old.name] for new, old in pairs}, pairs)


def _either(left: Fact, right: Fact) -> Fact:
    relations = {left.relation, right.relation} - {Relation.EQUAL}
    relation = (
        Relation.EQUAL if not relations else relations.pop() if len(relations) == 1 else Relation.UNKNOWN
    )
    return Fact(
        relation,
        None if left.low is None or right.low is None else min(left.low, right.low),
        None if left.high is None or right.high is None else max(left.high, right.high),
        left.assumes | right.assumes,
        left.label or right.label,
    )


def _refuse_nested(plan: Apply, judgement: Judgement, attributes: frozenset[Attribute]) -> None:
    """A nested query may read neither a restricted table nor a value that moves: its lineage is not kept."""
    tables = {table for table, _ in attributes}
    for nested in plan.nested:
        inside = tables & tables_of(nested.query)
        if inside:
            raise UnsafeError(
                f"S9: a nested query reads {', '.join(sorted(inside))}; its lineage is not kept"
            )
        read = [
            *free_variables(nested.query),
            *(n for s in getattr(nested, "operands", ()) for n in reads(s)),
        ]
        for name in read:
            if name in judgement.facts and judgement.facts[name].relation is not Relation.EQUAL:
                label = judgement.facts[name].label or name
                raise UnsafeError(f"S9: a nested query reads {label}, which skipping rows moves")


def _top(plan: Top, judgement: Judgement) -> Judgement:
    """Top-k over rows that keep their values, or that move down the order only, in a total order."""
    if not judgement.restricted or (plan.limit is None and not plan.offset):
        return judgement
    ordered = {key.scalar.name for key in plan.keys if isinstance(key.scalar, Var)}
    unique = key_of(plan.input)
    if not (unique is not None and unique <= ordered) and not ordered >= {v.name for v in outputs(plan)}:
        raise UnsafeError("S9: LIMIT without a total order; add columns to ORDER BY until rows differ")
    assumes = judgement.assumes
    for key in plan.keys:
        fact = fact_of(key.scalar, judgement.facts)
        if fact.relation is not Relation.EQUAL:
            _require_sinking(key, fact)
            assumes |= fact.assumes
    return replace(judgement, rules=judgement.rules | {"S4"}, assumes=assumes)


def _require_sinking(key: SortKey, fact: Fact) -> None:
    """A value that moves may only move towards the end of the order, and NULL must be there already."""
    if fact.relation is not (Relation.LOWER if key.descending else Relation.HIGHER):
        direction = "DESC" if key.descending else "ASC"
        raise UnsafeError(f"S4: skipping rows can move a group up in the order of {fact.label} {direction}")
    if key.nulls_first and nullable(key.scalar):
        raise UnsafeError(f"S4: {fact.label} can become NULL, which is first in the order; use NULLS LAST")
