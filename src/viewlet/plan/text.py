"""How plans read: one node per line, what it is made of indented below it.

::

    query a, total = s
      aggregate [a] s:BIGINT? = sum(b)
        filter b > 0
          scan r(a:BIGINT, b:BIGINT?)

Where a variable is bound, its type follows, with ``?`` if it may be NULL. ``show`` prints a query and
``parse_plan`` reads it back; golden files, ``explain`` and bug reports use this form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, assert_never, get_args

from viewlet.core.scalar import Const, Scalar, Var
from viewlet.core.text import Tokens, read_scalar, read_type
from viewlet.core.text import show as show_scalar
from viewlet.errors import PlanError
from viewlet.plan.nodes import (
    Aggregate,
    AggregateCall,
    AggregateOp,
    Apply,
    Distinct,
    ExistsQuery,
    Filter,
    Join,
    JoinKind,
    Nested,
    Plan,
    Project,
    QuantifiedQuery,
    Query,
    ScalarQuery,
    Scan,
    SetKind,
    SetOperation,
    SortKey,
    Top,
    Unit,
)
from viewlet.plan.scope import inputs, outputs

STEP = "  "
JOIN_KINDS: tuple[JoinKind, ...] = get_args(JoinKind)
SET_KINDS: tuple[SetKind, ...] = get_args(SetKind)
AGGREGATE_OPS: tuple[AggregateOp, ...] = get_args(AggregateOp)


def show(query: Query | Plan) -> str:
    """The text of a query or a plan.

    >>> print(show(Filter(Scan("r", (("a", Var("a")),)), Var("a"))))
    filter a
      scan r(a:BIGINT?)
    """
    if isinstance(query, Query):
        names = ", ".join(_pair(_name(name), var.name) for name, var in query.columns)
        return "\n".join([f"query {names}", *(STEP + line for line in _lines(query.plan))])
    return "\n".join(_lines(query))


def _lines(plan: Plan) -> Iterator[str]:
    yield _head(plan)
    for below in inputs(plan):
        yield from (STEP + line for line in _lines(below))
    if isinstance(plan, Apply):
        for nested in plan.nested:
            yield STEP + _nested_head(nested)
            yield from (2 * STEP + line for line in _lines(nested.query))


def _head(plan: Plan) -> str:
    """The line of one node."""
    match plan:
        case Unit():
            return "unit"
        case Scan(table, binds):
            return f"scan {_name(table)}({', '.join(_bind(column, var) for column, var in binds)})"
        case Filter(_, condition):
            return f"filter {show_scalar(condition)}"
        case Project(_, columns):
            return f"project {_definitions(columns)}".rstrip()
        case Join(kind, _, _, condition):
            return f"join {kind} on {show_scalar(condition)}"
        case Aggregate(_, groups, aggregates):
            calls = ", ".join(f"{declare(var)} = {show_aggregate(call)}" for var, call in aggregates)
            return f"aggregate [{_definitions(groups)}] {calls}".rstrip()
        case Distinct():
            return "distinct"
        case SetOperation(kind, columns=columns):
            return f"{kind} {', '.join(declare(var) for var in columns)}"
        case Apply():
            return "apply"
        case Top(_, keys, limit, offset):
            parts = ["top", ", ".join(_show_key(key) for key in keys)]
            parts += [f"limit {limit}"] * (limit is not None) + [f"offset {offset}"] * bool(offset)
            return " ".join(part for part in parts if part)
        case _:
            assert_never(plan)


def _nested_head(nested: Nested) -> str:
    match nested:
        case ScalarQuery(output):
            return f"scalar {declare(output)}"
        case ExistsQuery(output):
            return f"exists {declare(output)}"
        case QuantifiedQuery(output, op, operands):
            return f"any {declare(output)} ({', '.join(show_scalar(s) for s in operands)}) {op}"
        case _:
            assert_never(nested)


def declare(var: Var) -> str:
    """A variable with its type, as it stands where it is bound."""
    return f"{var.name}:{var.type}{'?' if var.nullable else ''}"


def show_aggregate(call: AggregateCall) -> str:
    """The text of one aggregate."""
    inner = "*" if call.argument is None else show_scalar(call.argument)
    share = "" if call.share is None else f"{show_scalar(call.share)}, "
    order = " desc" if call.descending else ""
    text = f"{call.op}({share}{'distinct ' if call.distinct else ''}{inner}{order})"
    return text if call.filter is None else f"{text} filter ({show_scalar(call.filter)})"


def _definitions(columns: Sequence[tuple[Var, Scalar]]) -> str:
    return ", ".join(
        var.name if scalar == var else f"{declare(var)} = {show_scalar(scalar)}" for var, scalar in columns
    )


def _bind(column: str, var: Var) -> str:
    return declare(var) if column == var.name else f"{_name(column)} as {declare(var)}"


def _pair(name: str, value: str) -> str:
    return name if name == value else f"{name} = {value}"


def _name(name: str) -> str:
    """A table or column name, in quotes if it is not a plain word."""
    return name if re.fullmatch(r"[^\W\d]\w*", name) else "'" + name.replace("'", "''") + "'"


def _show_key(key: SortKey) -> str:
    direction = "desc" if key.descending else "asc"
    return f"{show_scalar(key.scalar)} {direction} nulls {'first' if key.nulls_first else 'last'}"


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the text and the lines indented below it."""

    text: str
    below: tuple[_Line, ...]


Env = Mapping[str, Var]
T = TypeVar("T")


def parse_query(text: str) -> Query:
    """Read a query.

    >>> text = "query a\\n  filter a > 1\\n    scan r(a:BIGINT)"
    >>> show(parse_query(text)) == text
    True
    """
    (line,) = _tree(text)
    tokens = Tokens(line.text)
    tokens.expect("query")
    plan = _read(_only(line), {})
    env = _visible(plan)
    columns: list[tuple[str, Var]] = []
    while tokens.peek():
        name = _read_name(tokens)
        columns.append((name, _known(tokens, env) if tokens.accept("=") else env[name]))
        if not tokens.accept(","):
            break
    tokens.end()
    return Query(plan, tuple(columns))


def parse_plan(text: str, outer: Env | None = None) -> Plan:
    """Read a plan; ``outer`` gives the variables that it may read from around it."""
    (line,) = _tree(text)
    return _read(line, outer or {})


def _tree(text: str) -> tuple[_Line, ...]:
    """The lines of a text as a tree, by indentation."""
    lines = [line for line in text.splitlines() if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    forest, rest = _forest([line[margin:] for line in lines], 0)
    if rest or len(forest) != 1:
        raise PlanError(f"a plan has one root, this text has {len(forest)}: {text!r}")
    return forest


def _forest(lines: list[str], depth: int) -> tuple[tuple[_Line, ...], list[str]]:
    roots: list[_Line] = []
    while lines and (len(lines[0]) - len(lines[0].lstrip())) == depth * len(STEP):
        below, rest = _forest(lines[1:], depth + 1)
        roots.append(_Line(lines[0].strip(), below))
        lines = rest
    return tuple(roots), lines


def _only(line: _Line) -> _Line:
    """The one line below a line."""
    if len(line.below) != 1:
        raise PlanError(f"one plan must stand below {line.text!r}, there are {len(line.below)}")
    return line.below[0]


def _visible(plan: Plan) -> dict[str, Var]:
    """The variables of a plan's rows; those that an outer join fills up may be NULL."""
    match plan:
        case Join(kind, left, right):
            ours, theirs = _visible(left), _visible(right)
            if kind == "full":
                ours = _padded(ours)
            return ours | (theirs if kind == "inner" else _padded(theirs))
        case Filter(inner) | Distinct(inner) | Top(inner):
            return _visible(inner)
        case Apply(inner, nested):
            return _visible(inner) | {item.output.name: item.output for item in nested}
        case _:
            return {var.name: var for var in outputs(plan)}


def _padded(variables: Env) -> dict[str, Var]:
    return {name: Var(name, var.type, True) for name, var in variables.items()}


def _read(line: _Line, outer: Env) -> Plan:
    """Read a node: first what is below it, then the line itself, which reads the variables from below."""
    word, _, rest = line.text.partition(" ")
    if word == "apply":
        return _read_apply(line, outer)
    plans: list[Plan] = []
    env = dict(outer)
    for below in line.below:
        # The right side of a join may read the left: a lateral join.
        plans.append(_read(below, env if word == "join" else outer))
        env |= _visible(plans[-1])
    tokens = Tokens(rest)
    plan = _read_head(word, tokens, plans, env)
    tokens.end()
    return plan


def _read_head(word: str, tokens: Tokens, plans: list[Plan], env: Env) -> Plan:
    match word, plans:
        case "unit", []:
            return Unit()
        case "scan", []:
            return _read_scan(tokens)
        case "filter", [below]:
            return Filter(below, read_scalar(tokens, env))
        case "project", [below]:
            return Project(below, _read_definitions(tokens, env, ""))
        case "join", [left, right]:
            kind = _one_of(tokens, JOIN_KINDS)
            tokens.expect("on")
            return Join(kind, left, right, read_scalar(tokens, env))
        case "aggregate", [below]:
            tokens.expect("[")
            groups = _read_definitions(tokens, env, "]")
            return Aggregate(below, groups, _read_aggregates(tokens, env))
        case "distinct", [below]:
            return Distinct(below)
        case "top", [below]:
            return _read_top(tokens, below, env)
        case _, [left, right] if word in SET_KINDS:
            kinds = {kind: kind for kind in SET_KINDS}
            return SetOperation(
                kinds[word], left, right, tuple(_list(tokens, lambda: _read_declared(tokens)))
            )
        case _:
            raise PlanError(f"there is no plan node {word!r} over {len(plans)} plans")


def _read_apply(line: _Line, outer: Env) -> Plan:
    if not line.below:
        raise PlanError("a plan must stand below 'apply'")
    first, *rest = line.below
    below = _read(first, outer)
    env = {**outer, **_visible(below)}
    nested: list[Nested] = []
    for item in rest:
        tokens = Tokens(item.text)
        word = tokens.next()
        output = _read_declared(tokens)
        query = _read(_only(item), env)
        match word:
            case "scalar":
                nested.append(ScalarQuery(output, query))
            case "exists":
                nested.append(ExistsQuery(output, query))
            case "any":
                operands = _read_operands(tokens, env)
                nested.append(QuantifiedQuery(output, tokens.next(), operands, query))
            case _:
                raise tokens.error(f"there is no nested query {word!r}")
        tokens.end()
    return Apply(below, tuple(nested))


def _read_operands(tokens: Tokens, env: Env) -> tuple[Scalar, ...]:
    tokens.expect("(")
    return tuple(tokens.separated(")", lambda: read_scalar(tokens, env)))


def _read_scan(tokens: Tokens) -> Scan:
    table = _read_name(tokens)
    tokens.expect("(")
    binds: list[tuple[str, Var]] = []
    while not tokens.accept(")"):
        if binds:
            tokens.expect(",")
        if tokens.peek(1) == "as":
            column = _read_name(tokens)
            tokens.expect("as")
            binds.append((column, _read_declared(tokens)))
        else:
            var = _read_declared(tokens)
            binds.append((var.name, var))
    return Scan(table, tuple(binds))


def _read_declared(tokens: Tokens) -> Var:
    name = tokens.next()
    tokens.expect(":")
    kind = read_type(tokens)
    return Var(name, kind, tokens.accept("?"))


def _read_definitions(tokens: Tokens, env: Env, closing: str) -> tuple[tuple[Var, Scalar], ...]:
    def definition() -> tuple[Var, Scalar]:
        if tokens.peek(1) != ":":
            var = _known(tokens, env)
            return var, var
        var = _read_declared(tokens)
        tokens.expect("=")
        return var, read_scalar(tokens, env)

    return tuple(_list(tokens, definition, closing))


def _read_aggregates(tokens: Tokens, env: Env) -> tuple[tuple[Var, AggregateCall], ...]:
    def definition() -> tuple[Var, AggregateCall]:
        var = _read_declared(tokens)
        tokens.expect("=")
        return var, _read_aggregate(tokens, env)

    return tuple(_list(tokens, definition))


def _read_aggregate(tokens: Tokens, env: Env) -> AggregateCall:
    op = _one_of(tokens, AGGREGATE_OPS)
    tokens.expect("(")
    share = _read_share(tokens, env) if op in ("percentile_cont", "percentile_disc") else None
    distinct = tokens.accept("distinct")
    argument = None if tokens.accept("*") else read_scalar(tokens, env)
    descending = tokens.accept("desc")
    tokens.expect(")")
    condition = None
    if tokens.accept("filter", "("):
        condition = read_scalar(tokens, env)
        tokens.expect(")")
    return AggregateCall(op, argument, distinct, condition, share, descending)


def _read_share(tokens: Tokens, env: Env) -> Const:
    share = read_scalar(tokens, env)
    tokens.expect(",")
    if not isinstance(share, Const):
        raise tokens.error("the share of a percentile is a literal")
    return share


def _read_top(tokens: Tokens, below: Plan, env: Env) -> Top:
    keys: list[SortKey] = []
    while tokens.peek() and not (tokens.peek() in ("limit", "offset") and tokens.peek(1).isdigit()):
        if keys:
            tokens.expect(",")
        scalar = read_scalar(tokens, env)
        descending = _one_of(tokens, ("asc", "desc")) == "desc"
        tokens.expect("nulls")
        keys.append(SortKey(scalar, descending, _one_of(tokens, ("first", "last")) == "first"))
    limit = int(tokens.next()) if tokens.accept("limit") else None
    return Top(below, tuple(keys), limit, int(tokens.next()) if tokens.accept("offset") else 0)


def _list(tokens: Tokens, read: Callable[[], T], closing: str = "") -> list[T]:
    """Items between commas, up to ``closing`` or the end of the line."""
    items: list[T] = []
    while tokens.peek() != closing:
        if items:
            tokens.expect(",")
        items.append(read())
    if closing:
        tokens.expect(closing)
    return items


def _read_name(tokens: Tokens) -> str:
    word = tokens.next()
    return word[1:-1].replace("''", "'") if word.startswith("'") else word


def _known(tokens: Tokens, env: Env) -> Var:
    name = tokens.next()
    if name not in env:
        raise tokens.error(f"unknown variable {name!r}; known: {', '.join(sorted(env)) or 'none'}")
    return env[name]


def _one_of(tokens: Tokens, choices: Sequence[T]) -> T:
    word = tokens.next()
    for choice in choices:
        if choice == word:
            return choice
    raise tokens.error(f"expected one of {', '.join(map(str, choices))}, found {word!r}")
