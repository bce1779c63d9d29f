"""Projections vanish into what reads them."""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.core.scalar import Call, Scalar, Var, substitute
from viewlet.plan.nodes import (
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
    Top,
    Unit,
)
from viewlet.plan.scope import outputs
from viewlet.plan.traverse import over_query, over_scalars, transform

MAX_SIZE = 40
Definitions = Mapping[str, Scalar]


def inline_projections(query: Query) -> Query:
    """A variable that a projection defines is replaced by its definition::

        σ[p(x)](π[x=e](A))       = σ[p(e)](A)
        π[x=e](A) ⋈[p(x)] B      = A ⋈[p(e)] B
        γ[x; sum(y)](π[x=e, y=f](A)) = γ[x=e; sum(f)](A)
        π[y=f(x)](π[x=e](A))     = π[y=f(e)](A)

    One projection is left where rows are compared as wholes or leave the plan: at the root, under DISTINCT
    and set operations, in nested queries, and below the side of an outer join that is filled up with NULLs.
    So is one with a large expression, since it may be read many times.
    """
    root = query.plan
    if isinstance(root, Top):
        return Query(Top(_closed(root.input), root.keys, root.limit, root.offset), query.columns)
    return Query(_closed(root), query.columns)


def _closed(plan: Plan) -> Plan:
    """The same plan with the same variables, and at most one projection on top."""
    inner, definitions = _open(plan)
    wanted = outputs(plan)
    if not definitions and outputs(inner) == wanted:
        return inner
    return Project(inner, tuple((var, definitions.get(var.name, var)) for var in wanted))


def _open(plan: Plan) -> tuple[Plan, Definitions]:
    """A plan without projections on top, and what their variables mean over its rows."""
    match plan:
        case Unit() | Scan():
            return plan, {}
        case Project(below, columns):
            return _open_project(below, columns)
        case Filter(below):
            inner, definitions = _open(below)
            return _over(Filter(inner, plan.condition), definitions), definitions
        case Apply(below, nested):
            inner, definitions = _open(below)
            queries = tuple(
                over_query(item, lambda q: _closed(_deep_substitute(q, definitions))) for item in nested
            )
            return _over(Apply(inner, queries), definitions), definitions
        case Join():
            return _open_join(plan)
        case Aggregate(below, groups, aggregates):
            inner, definitions = _open(below)
            return _over(Aggregate(inner, groups, aggregates), definitions), {}
        case Distinct(below):
            return Distinct(_closed(below)), {}
        case SetOperation(kind, left, right, columns):
            return SetOperation(kind, _closed(left), _closed(right), columns), {}
        case Top(below, keys, limit, offset):
            return Top(_closed(below), keys, limit, offset), {}


def _open_project(below: Plan, columns: tuple[tuple[Var, Scalar], ...]) -> tuple[Plan, Definitions]:
    inner, definitions = _open(below)
    values = {var.name: substitute(scalar, definitions) for var, scalar in columns}
    if any(size(value) > MAX_SIZE for value in values.values()):
        return Project(inner, tuple((var, values[var.name]) for var, _ in columns)), {}
    return inner, {name: value for name, value in values.items() if value != Var(name)}


def _open_join(join: Join) -> tuple[Plan, Definitions]:
    """A padded side keeps its projection: NULL in e is not NULL in f(e)."""
    if join.kind == "full":
        left, definitions = _closed(join.left), dict[str, Scalar]()
    else:
        left, opened = _open(join.left)
        definitions = dict(opened)
    right = _deep_substitute(join.right, definitions) if definitions else join.right
    if join.kind == "inner":
        right, more = _open(right)
        definitions |= more
    else:
        right = _closed(right)
    return _over(Join(join.kind, left, right, join.condition), definitions), definitions


def _over(plan: Plan, definitions: Definitions) -> Plan:
    """The scalars of one node, read over the definitions."""
    return over_scalars(plan, lambda scalar: substitute(scalar, definitions)) if definitions else plan


def _deep_substitute(plan: Plan, definitions: Definitions) -> Plan:
    """A plan that reads outer variables, with these replaced everywhere in it."""
    return transform(plan, lambda node: _over(node, definitions)) if definitions else plan


def size(scalar: Scalar) -> int:
    """How many constants, variables and calls a scalar has."""
    return 1 + sum(size(arg) for arg in scalar.args) if isinstance(scalar, Call) else 1
