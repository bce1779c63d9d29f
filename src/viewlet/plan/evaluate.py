"""What a plan means: direct evaluation over bags of rows, with no calculus, deltas or maps.

This is the definition that every engine is tested against. It recomputes everything, but not foolishly:
equality conditions become hash lookups, and whatever depends on a few outer variables is kept per value of
these variables, so a correlated subquery runs once per distinct value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, assert_never

from viewlet.core.aggregates import aggregate, exact, mode, percentile
from viewlet.core.functions import common_type, compile_scalar, in_type, only
from viewlet.core.scalar import TRUE, Call, Scalar, Var, conjunction, conjuncts
from viewlet.core.types import BOOLEAN, Value
from viewlet.errors import UnsupportedError
from viewlet.plan.bags import Bag, Names, Row, consolidate, cut, tuple_of
from viewlet.plan.conditions import reads
from viewlet.plan.nodes import (
    Aggregate,
    AggregateCall,
    Apply,
    Distinct,
    ExistsQuery,
    Filter,
    Join,
    Nested,
    Plan,
    Project,
    QuantifiedQuery,
    Query,
    ScalarQuery,
    Scan,
    SetOperation,
    Top,
    Unit,
)
from viewlet.plan.products import factors_of, next_factor, split_equality
from viewlet.plan.scope import free_variables, outputs
from viewlet.sql.catalog import Table

Pairs: TypeAlias = Sequence[tuple[Row, int]]
T = TypeVar("T")
Run: TypeAlias = Callable[[Row], T]


def evaluate_query(query: Query, contents: Mapping[str, Bag], tables: Mapping[str, Table]) -> Bag:
    """The result of a query over the present rows of the tables it reads.

    ``tables`` says which column is where in the rows of ``contents``; a catalog serves.
    """
    plan = query.plan.input if isinstance(query.plan, Top) else query.plan
    relation = _relation(plan, (), _Database(contents, tables))
    return cut(query, relation.names, consolidate(relation.run(())))


@dataclass(frozen=True, slots=True)
class _Database:
    contents: Mapping[str, Bag]
    tables: Mapping[str, Table]


@dataclass(frozen=True, slots=True)
class _Relation:
    """A plan ready to run: given the values of the outer variables, the rows over ``names``."""

    names: Names
    run: Run[Pairs]


def _relation(plan: Plan, outer: Names, db: _Database) -> _Relation:
    """``plan`` as a function of the outer variables it reads, remembered per value of these."""
    names = _names(plan)

    def build(needed: Names) -> Run[Pairs]:
        return _build(plan, needed, db)

    return _Relation(names, _remembered(free_variables(plan).keys(), outer, build))


def _names(plan: Plan) -> Names:
    return tuple(var.name for var in outputs(plan))


def _remembered(free: Iterable[str], outer: Names, build: Callable[[Names], Run[T]]) -> Run[T]:
    """A function of the outer row, computed once per value of the outer variables that are ``free`` in it.

    Where all are, nothing is remembered: then the caller's caller already does.
    """
    free = frozenset(free)
    needed = tuple(name for name in outer if name in free)
    run = build(needed)
    if needed == outer:
        return run
    pick = tuple_of([outer.index(name) for name in needed])
    known: dict[Row, T] = {}

    def remembered(row: Row) -> T:
        key = pick(row)
        if key not in known:
            known[key] = run(key)
        return known[key]

    return remembered


def _compiled(scalars: Iterable[Scalar], names: Names) -> Callable[[Row], Row]:
    """Several scalars as one function from rows over ``names`` to the row of their values."""
    slots = {name: slot for slot, name in enumerate(names)}
    scalars = list(scalars)
    if all(isinstance(scalar, Var) for scalar in scalars):
        return tuple_of([slots[scalar.name] for scalar in scalars if isinstance(scalar, Var)])
    functions = [compile_scalar(scalar, slots) for scalar in scalars]
    return lambda row: tuple([function(row) for function in functions])


def _condition(condition: Scalar, names: Names) -> Callable[[Row], bool] | None:
    """Is the condition TRUE (not FALSE, not unknown)? ``None`` if it is the constant TRUE."""
    if condition == TRUE:
        return None
    test = compile_scalar(condition, {name: slot for slot, name in enumerate(names)})
    return lambda row: test(row) is True


def _build(plan: Plan, outer: Names, db: _Database) -> Run[Pairs]:
    match plan:
        case Unit():
            return lambda row: [((), 1)]
        case Scan(table, binds):
            columns = db.tables[table].column_names
            pick = tuple_of([columns.index(column) for column, _ in binds])
            return lambda _: [(pick(row), weight) for row, weight in db.contents[table].items()]
        case Filter() | Join(kind="inner"):
            return _product(plan, outer, db)
        case Join():
            return _outer_join(plan, outer, db)
        case Project(inner, columns):
            relation = _relation(inner, outer, db)
            compute = _compiled((scalar for _, scalar in columns), outer + relation.names)
            return lambda row: [(compute(row + inner), w) for inner, w in relation.run(row)]
        case Aggregate():
            return _aggregate(plan, outer, db)
        case Distinct(inner):
            relation = _relation(inner, outer, db)
            return lambda row: [(distinct, 1) for distinct in {inner for inner, _ in relation.run(row)}]
        case SetOperation():
            return _set_operation(plan, outer, db)
        case Apply(inner, nested):
            return _apply(inner, nested, outer, db)
        case Top():
            raise UnsupportedError(
                "ORDER BY ... LIMIT inside a query: make the inner query a view of its own"
            )
        case _:
            assert_never(plan)


# Joins.


def _product(plan: Plan, outer: Names, db: _Database) -> Run[Pairs]:
    """Join the factors one by one, next one that an equality connects; test conditions once they can be."""
    factors, conditions = factors_of(plan)
    known: Names = outer
    run: Run[Pairs] = lambda row: [((), 1)]  # noqa: E731
    while factors:
        factor = next_factor(factors, conditions, known)
        factors.remove(factor)
        names = known + _names(factor)
        ready = [condition for condition in conditions if reads(condition) <= {*names}]
        conditions = [condition for condition in conditions if condition not in ready]
        run = _extend(run, known[len(outer) :], factor, conjunction(*ready), outer, db)
        known = names
    order = tuple_of([known.index(name) - len(outer) for name in _names(plan)])
    return lambda row: [(order(inner), weight) for inner, weight in run(row)]


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The candidates of a join on its right side, and the conditions that remain to be tested."""

    candidates: Run[Pairs]
    test: Callable[[Row], bool] | None


def _lookup(known: Names, right: Plan, condition: Scalar, db: _Database) -> _Lookup:
    """For rows over ``known``, the rows of ``right`` that may match: by hash where equalities allow it."""
    names = _names(right)
    lateral = frozenset(free_variables(right))
    equalities, rest = [], []
    for part in conjuncts(condition):
        sides = split_equality(part, frozenset(known), frozenset(names))
        if sides is None:
            rest.append(part)
        else:
            equalities.append(sides)
    test = _condition(conjunction(*rest), known + names)
    if not equalities:
        return _Lookup(_relation(right, known, db).run, test)
    probe = _compiled((near for near, _ in equalities), known)

    def index(needed: Names) -> Run[dict[Row, list[tuple[Row, int]]]]:
        relation = _relation(right, needed, db)
        key_of = _compiled((far for _, far in equalities), relation.names)
        return lambda row: _indexed(relation.run(row), key_of)

    index_of = _remembered(lateral, known, index)
    return _Lookup(lambda row: index_of(row).get(probe(row), ()), test)


def _indexed(pairs: Pairs, key_of: Callable[[Row], Row]) -> dict[Row, list[tuple[Row, int]]]:
    """Rows by key, without the keys that hold NULL: these equal nothing."""
    index: dict[Row, list[tuple[Row, int]]] = {}
    for pair in pairs:
        key = key_of(pair[0])
        if None not in key:
            index.setdefault(key, []).append(pair)
    return index


def _extend(
    run: Run[Pairs], inner: Names, factor: Plan, condition: Scalar, outer: Names, db: _Database
) -> Run[Pairs]:
    """The rows of ``run``, each paired with the rows of ``factor`` for which the condition is TRUE."""
    lookup = _lookup(outer + inner, factor, condition, db)
    candidates, test = lookup.candidates, lookup.test

    def extended(row: Row) -> Pairs:
        result = []
        for left, weight in run(row):
            known = row + left
            for right, times in candidates(known):
                if test is None or test(known + right):
                    result.append((left + right, weight * times))
        return result

    return extended


def _outer_join(plan: Join, outer: Names, db: _Database) -> Run[Pairs]:
    """LEFT pads unmatched left rows with NULL; FULL also unmatched right rows."""
    left = _relation(plan.left, outer, db)
    lookup = _lookup(outer + left.names, plan.right, plan.condition, db)
    candidates, test = lookup.candidates, lookup.test
    right_padding = (None,) * len(outputs(plan.right))
    left_padding = (None,) * len(left.names)
    all_right = _relation(plan.right, outer, db) if plan.kind == "full" else None

    def joined(row: Row) -> Pairs:
        result: list[tuple[Row, int]] = []
        matched: set[Row] = set()
        for near, weight in left.run(row):
            known, found = row + near, False
            for far, times in candidates(known):
                if test is None or test(known + far):
                    found = True
                    result.append((near + far, weight * times))
                    if all_right is not None:
                        matched.add(far)
            if not found:
                result.append((near + right_padding, weight))
        if all_right is not None:
            unmatched = ((far, times) for far, times in all_right.run(row) if far not in matched)
            result.extend((left_padding + far, times) for far, times in unmatched)
        return result

    return joined


# Grouping and set operations.


def _aggregate(plan: Aggregate, outer: Names, db: _Database) -> Run[Pairs]:
    relation = _relation(plan.input, outer, db)
    names = outer + relation.names
    key_of = _compiled((scalar for _, scalar in plan.groups), names)
    calls = [(var, call) for var, call in plan.aggregates]
    arguments = _compiled((_argument(call) for _, call in calls), names)

    def grouped(row: Row) -> Pairs:
        groups: dict[Row, list[dict[Value, int]]] = {} if plan.groups else {(): [{} for _ in calls]}
        for inner, weight in relation.run(row):
            known = row + inner
            key = key_of(known)
            if key not in groups:
                groups[key] = [{} for _ in calls]
            for bag, value in zip(groups[key], arguments(known), strict=True):
                if value is not None:
                    bag[value] = bag.get(value, 0) + weight
        return [
            (key + tuple(_folded(*call, bag) for call, bag in zip(calls, bags, strict=True)), 1)
            for key, bags in groups.items()
        ]

    return grouped


def _argument(call: AggregateCall) -> Scalar:
    """What is aggregated: NULL where the filter is not TRUE, and TRUE for COUNT(*)."""
    argument = TRUE if call.argument is None else call.argument
    return argument if call.filter is None else Call("case", (call.filter, argument), argument.type)


def _folded(var: Var, call: AggregateCall, bag: dict[Value, int]) -> Value:
    argument = BOOLEAN if call.argument is None else call.argument.type
    present = {value: 1 if call.distinct else weight for value, weight in bag.items() if weight}
    if call.op in ("percentile_cont", "percentile_disc"):
        assert call.share is not None, "a percentile has a share"
        return percentile(call.op, present, argument, exact(call.share), descending=call.descending)
    if call.op == "mode":
        return mode(present, descending=call.descending)
    return aggregate(call.op, present, argument, var.type)


def _set_operation(plan: SetOperation, outer: Names, db: _Database) -> Run[Pairs]:
    left, right = (_aligned(side, plan.columns, outer, db) for side in (plan.left, plan.right))

    def combined(row: Row) -> Pairs:
        a, b = left(row), right(row)
        match plan.kind:
            case "union_all":
                return [*a.items(), *b.items()]
            case "union":
                return [(each, 1) for each in a | b]
            case "intersect":
                return [(each, 1) for each in a if each in b]
            case "intersect_all":
                return [(each, min(n, b[each])) for each, n in a.items() if each in b]
            case "except":
                return [(each, 1) for each in a if each not in b]
            case "except_all":
                return [(each, n - b.get(each, 0)) for each, n in a.items() if n > b.get(each, 0)]
            case _:
                assert_never(plan.kind)

    return combined


def _aligned(side: Plan, columns: tuple[Var, ...], outer: Names, db: _Database) -> Run[Bag]:
    """One side of a set operation as a bag, its values in the representation of the result's columns."""
    relation = _relation(side, outer, db)
    scalars = (in_type(var, column.type) for var, column in zip(outputs(side), columns, strict=True))
    convert = _compiled(scalars, relation.names)
    return lambda row: consolidate((convert(inner), weight) for inner, weight in relation.run(row))


# Nested queries.


def _apply(inner: Plan, nested: tuple[Nested, ...], outer: Names, db: _Database) -> Run[Pairs]:
    """Each nested query sees the row and the values bound before it."""
    relation = _relation(inner, outer, db)
    names = outer + relation.names
    steps: list[Callable[[Row], Value]] = []
    for item in nested:
        steps.append(_nested(item, names, db))
        names = (*names, item.output.name)
    width = len(outer)

    def extended(row: Row) -> Pairs:
        result = []
        for each, weight in relation.run(row):
            known = row + each
            for step in steps:
                known = (*known, step(known))
            result.append((known[width:], weight))
        return result

    return extended


def _nested(item: Nested, names: Names, db: _Database) -> Callable[[Row], Value]:
    query = item.query

    def bag_of(needed: Names) -> Run[Bag]:
        relation = _relation(query, needed, db)
        return lambda row: consolidate(relation.run(row))

    rows = _remembered(free_variables(query).keys(), names, bag_of)
    match item:
        case ExistsQuery():
            return lambda row: bool(rows(row))
        case ScalarQuery():
            return lambda row: _one_value(rows(row))
        case QuantifiedQuery():
            return _quantified(item, names, db)
        case _:
            assert_never(item)


def _one_value(bag: Bag) -> Value:
    return only(sum(bag.values()), next((row[0] for row in bag), None))


def _quantified(item: QuantifiedQuery, names: Names, db: _Database) -> Callable[[Row], Value]:
    """``operands op ANY (query)``: TRUE if TRUE for one row, else unknown if unknown for one, else FALSE.

    For ``=`` the rows without NULL are looked up, the others (usually none) compared one by one.
    """
    columns = outputs(item.query)
    kinds = [common_type(x.type, column.type) for x, column in zip(item.operands, columns, strict=True)]
    operands = _compiled((in_type(x, kind) for x, kind in zip(item.operands, kinds, strict=True)), names)

    def split(needed: Names) -> Run[tuple[frozenset[Row], list[Row]]]:
        relation = _relation(item.query, needed, db)
        convert = _compiled(
            (in_type(column, kind) for column, kind in zip(columns, kinds, strict=True)), relation.names
        )

        def run(row: Row) -> tuple[frozenset[Row], list[Row]]:
            rows = frozenset(convert(inner) for inner, _ in relation.run(row))
            return rows, [each for each in rows if None in each]

        return run

    rows_of = _remembered(free_variables(item.query).keys(), names, split)
    pairs = [(Var(f"l{i}", kind), Var(f"r{i}", kind)) for i, kind in enumerate(kinds)]
    compare = compile_scalar(
        conjunction(*(Call(item.op, pair, BOOLEAN) for pair in pairs)),
        {var.name: slot for slot, var in enumerate([*(a for a, _ in pairs), *(b for _, b in pairs)])},
    )

    def value(row: Row) -> Value:
        rows, with_null = rows_of(row)
        subject = operands(row)
        compared: Iterable[Row] = rows
        if item.op == "=" and None not in subject:
            if subject in rows:
                return True
            compared = with_null
        answers = {compare(subject + each) for each in compared}
        return True if True in answers else None if None in answers else False

    return value
