"""SQL expressions to typed scalars.

What a column name, an aggregate or a nested query means depends on where the expression stands, so an
:class:`Environment` answers for these; everything else is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol, TypeAlias

from sqlglot import exp

from viewlet.core.arithmetic import literal_decimal
from viewlet.core.scalar import Const, Scalar, call, nullable
from viewlet.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    TIMESTAMP,
    VARCHAR,
    bounds,
)
from viewlet.sql import scalars
from viewlet.sql.casts import cast_of
from viewlet.sql.functions import FUNCTIONS, NONDETERMINISTIC, UnknownFunctionError
from viewlet.sql.intervals import Interval, add_interval, interval_of
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.typing import TypeMismatchError


class Environment(Protocol):
    """What an expression needs to know about the place where it stands."""

    def column(self, node: exp.Column) -> Scalar:
        """The value of a column name."""
        ...

    def aggregate(self, node: exp.Expr) -> Scalar:
        """The value of an aggregate function call."""
        ...

    def scalar_query(self, query: exp.Query) -> Scalar:
        """The one value of a nested query."""
        ...

    def exists_query(self, query: exp.Query) -> Scalar:
        """Whether a nested query has rows."""
        ...

    def any_query(self, op: str, operands: Sequence[Scalar], query: exp.Query) -> Scalar:
        """Whether the operands compare TRUE with some row of a nested query."""
        ...


COMPARISON_OPS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
NEGATED_OPS = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
ARITHMETIC_OPS: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Mod: "%",
    exp.IntDiv: "div",
}
AGGREGATES: tuple[type[exp.Expr], ...] = (exp.AggFunc, exp.Filter, exp.WithinGroup)


def scalar_of(node: exp.Expr, env: Environment) -> Scalar:
    """The scalar that an expression means where ``env`` says it stands."""
    read = _READERS.get(type(node))
    try:
        if read is not None:
            return read(node, env)
        if isinstance(node, AGGREGATES):
            return env.aggregate(node)
        build = FUNCTIONS.get(type(node))
        if build is not None:
            return build(node, lambda part: scalar_of(part, env))
    except TypeMismatchError as error:
        raise invalid(node, str(error)) from None
    except UnknownFunctionError:
        pass
    raise _refusal(node)


def _refusal(node: exp.Expr) -> Exception:
    """Why an expression of this kind cannot be part of a maintained view."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else type(node).__name__
    if isinstance(node, NONDETERMINISTIC) or name in ("monotonically_increasing_id", "now", "random"):
        return unsupported(
            node,
            f"the non-deterministic function {name}",
            "a view's result must follow from its tables alone",
        )
    if isinstance(node, exp.Window):
        return unsupported(
            node, "a window function (OVER) outside of SELECT, QUALIFY and ORDER BY", "use a derived table"
        )
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return unsupported(node, "a parameter", "write the value into the query")
    if isinstance(node, exp.Func):
        called = name if isinstance(node, exp.Anonymous) else node.sql_name().lower()
        return unsupported(
            node, f"the function {called}", "see the documentation for the functions there are"
        )
    return unsupported(node, f"the expression {node.sql()!r} ({name})", "rewrite it with the supported SQL")


def _column(node: exp.Column, env: Environment) -> Scalar:
    return env.column(node)


def _paren(node: exp.Paren, env: Environment) -> Scalar:
    return scalar_of(node.this, env)


def _literal(node: exp.Literal, env: Environment) -> Scalar:
    return literal(node.this, node.is_string)


def literal(written: str, is_string: bool = False) -> Const:
    """The constant that a literal means.

    >>> str(literal("3000000000").type), str(literal("0.050").type), str(literal("1e3").type)
    ('BIGINT', 'DECIMAL(3,3)', 'DOUBLE')
    """
    if is_string:
        return Const(written, VARCHAR)
    if "e" in written.lower():
        if not isfinite(float(written)):
            raise TypeMismatchError(f"the number {written} is out of range for DOUBLE")
        return Const(float(written), DOUBLE)
    try:
        if "." in written:
            kind = literal_decimal(written)
            return Const(int(written.replace(".", "") or "0"), kind)
        value = int(written)
        for kind in (INT, BIGINT):
            least, greatest = bounds(kind) or (0, 0)
            if least <= value <= greatest:
                return Const(value, kind)
        return Const(value, literal_decimal(written))
    except ValueError:
        raise TypeMismatchError(
            f"the number {written} has more than 38 digits; write it with an exponent"
        ) from None


def _null(node: exp.Null, env: Environment) -> Scalar:
    return Const(None, NULL)


def _boolean(node: exp.Boolean, env: Environment) -> Scalar:
    return Const(bool(node.this), BOOLEAN)


def _connective(node: exp.Connector, env: Environment) -> Scalar:
    """``a AND b AND c``; long chains are left-deep trees, so they are walked, not recursed into."""
    kind = type(node)
    parts: list[exp.Expr] = []
    place: exp.Expr = node
    while type(place) is kind:
        parts.append(place.expression)
        place = place.this
    parts.append(place)
    word = "and" if kind is exp.And else "or"
    return call(word, *(scalars.condition(scalar_of(part, env), word.upper()) for part in reversed(parts)))


def _not(node: exp.Not, env: Environment) -> Scalar:
    return call("not", scalars.condition(scalar_of(node.this, env), "NOT"))


def _comparison(node: exp.Binary, env: Environment) -> Scalar:
    op = COMPARISON_OPS[type(node)]
    if isinstance(node.expression, exp.Any | exp.All):
        return _quantified(op, node, env)
    if isinstance(node.this, exp.Tuple) and isinstance(node.expression, exp.Tuple):
        return _compare_rows(op, node, env)
    return scalars.compare(op, scalar_of(node.this, env), scalar_of(node.expression, env))


def _compare_rows(op: str, node: exp.Binary, env: Environment) -> Scalar:
    """``(a, b) = (c, d)`` is ``a = c AND b = d``."""
    left, right = node.this.expressions, node.expression.expressions
    if op not in ("=", "<>") or len(left) != len(right):
        raise unsupported(node, f"{op} between rows", "compare column by column")
    equal = call(
        "and",
        *(
            scalars.compare("=", scalar_of(a, env), scalar_of(b, env))
            for a, b in zip(left, right, strict=True)
        ),
    )
    return equal if op == "=" else call("not", equal)


def _quantified(op: str, node: exp.Binary, env: Environment) -> Scalar:
    """``x op ALL (q) = NOT (x negated-op ANY (q))``."""
    query = _query_in(node.expression.this)
    if query is None:
        raise unsupported(node, f"{op} ANY/ALL over a list", "write IN (...) or a subquery")
    operands = _row(node.this, env)
    if isinstance(node.expression, exp.All):
        return call("not", env.any_query(NEGATED_OPS[op], operands, query))
    return env.any_query(op, operands, query)


def _query_in(node: exp.Expr | None) -> exp.Query | None:
    """The query inside parentheses, if that is what they hold."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node if isinstance(node, exp.Query) else None


def _row(node: exp.Expr, env: Environment) -> tuple[Scalar, ...]:
    parts = node.expressions if isinstance(node, exp.Tuple) else [node]
    return tuple(scalar_of(part, env) for part in parts)


def _in(node: exp.In, env: Environment) -> Scalar:
    query = _query_in(node.args.get("query"))
    if query is not None:
        return env.any_query("=", _row(node.this, env), query)
    if node.args.get("unnest") or node.args.get("field"):
        raise unsupported(node, "IN over an array", "list the values or use a subquery")
    if isinstance(node.this, exp.Tuple):
        rows = [exp.EQ(this=node.this, expression=choice) for choice in node.expressions]
        return call("or", *(_comparison(row, env) for row in rows))
    return scalars.membership(scalar_of(node.this, env), [scalar_of(part, env) for part in node.expressions])


def _exists(node: exp.Exists, env: Environment) -> Scalar:
    query = _query_in(node.this)
    if query is None:
        raise unsupported(node, "EXISTS over an array", "use a subquery")
    return env.exists_query(query)


def _subquery(node: exp.Subquery | exp.Select, env: Environment) -> Scalar:
    return env.scalar_query(node)


def _between(node: exp.Between, env: Environment) -> Scalar:
    if node.args.get("symmetric"):
        raise unsupported(node, "BETWEEN SYMMETRIC", "write least(a, b) and greatest(a, b) as the bounds")
    item = scalar_of(node.this, env)
    low, high = scalar_of(node.args["low"], env), scalar_of(node.args["high"], env)
    return call("and", scalars.compare(">=", item, low), scalars.compare("<=", item, high))


def _is(node: exp.Is, env: Environment) -> Scalar:
    """IS NULL, IS TRUE, IS FALSE; the negations are NOT of these."""
    item = scalar_of(node.this, env)
    if isinstance(node.expression, exp.Null):
        return call("is_null", item)
    if isinstance(node.expression, exp.Boolean):
        test = scalars.condition(item, "IS TRUE")
        return call("is_true", test if node.expression.this else call("not", test))
    raise unsupported(node, "IS with anything but NULL, TRUE and FALSE", "use <=>")


def _identical(node: exp.Binary, env: Environment) -> Scalar:
    same = scalars.compare("==", scalar_of(node.this, env), scalar_of(node.expression, env))
    return call("not", same) if isinstance(node, exp.NullSafeNEQ) else same


def _like(node: exp.Like | exp.ILike, env: Environment, escape: tuple[Scalar, ...] = ()) -> Scalar:
    """LIKE; ILIKE compares in lower case. ``NOT LIKE`` is a flag of the node."""
    if isinstance(node.expression, exp.Any | exp.All):
        return _like_several(node, env)
    item, pattern = (scalars.text(scalar_of(part, env)) for part in (node.this, node.expression))
    if isinstance(node, exp.ILike):
        item, pattern = call("lower", item), call("lower", pattern)
    found = call("like", item, pattern, *escape, type=BOOLEAN)
    return call("not", found) if node.args.get("negate") else found


def _like_several(node: exp.Like | exp.ILike, env: Environment) -> Scalar:
    """``x LIKE ANY (p, q)`` is ``x LIKE p OR x LIKE q``, with ALL it is AND; NOT stands before each LIKE."""
    patterns = node.expression.this
    if not isinstance(patterns, exp.Tuple | exp.Paren) or isinstance(patterns.unnest(), exp.Query):
        raise unsupported(node, "LIKE ANY/ALL of a query", "list the patterns")
    listed = patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns.this]
    negate = node.args.get("negate")
    each = (type(node)(this=node.this, expression=pattern, negate=negate) for pattern in listed)
    return call("or" if isinstance(node.expression, exp.Any) else "and", *(_like(one, env) for one in each))


def _escape(node: exp.Escape, env: Environment) -> Scalar:
    character = scalar_of(node.expression, env)
    if not (isinstance(character, Const) and isinstance(character.value, str) and len(character.value) == 1):
        raise invalid(node, "ESCAPE needs one character")
    return _like(node.this, env, (character,))


def _arithmetic(node: exp.Binary, env: Environment) -> Scalar:
    op = ARITHMETIC_OPS[type(node)]
    left, right = _operand(node.this, env), _operand(node.expression, env)
    if isinstance(left, Interval) or isinstance(right, Interval):
        return _with_interval(op, left, right, node)
    if op == "+" and right.type == DATE:
        left, right = right, left
    if op in "+-" and left.type == DATE and right.type.is_integer:
        days = right if op == "+" else call("neg", right)
        return call("add_days", left, scalars.whole(days, op))
    if op == "-" and left.type in (DATE, TIMESTAMP) and right.type in (DATE, TIMESTAMP):
        raise unsupported(node, "the difference of two dates (an INTERVAL)", "write datediff(later, earlier)")
    return scalars.arithmetic(op, left, right)


_Operand: TypeAlias = "Scalar | Interval"


def _operand(node: exp.Expr, env: Environment) -> _Operand:
    inner = node.unnest()
    if isinstance(inner, exp.Interval):
        return interval_of(inner)
    return scalar_of(node, env)


def _with_interval(op: str, left: _Operand, right: _Operand, node: exp.Expr) -> Scalar:
    """``x + INTERVAL``, ``INTERVAL + x``, ``x - INTERVAL``."""
    if isinstance(left, Interval) and op == "+":
        left, right = right, left
    if isinstance(left, Interval) or not isinstance(right, Interval) or op not in ("+", "-"):
        raise unsupported(node, f"{op} on an INTERVAL", "add intervals to dates and timestamps one by one")
    return add_interval(left, right if op == "+" else right.negated())


def _divide(node: exp.Div, env: Environment) -> Scalar:
    """``/`` by the dialect's rules: of two integers it may be an integer, and x / 0 may be NULL."""
    left, right = scalar_of(node.this, env), scalar_of(node.expression, env)
    truncates = node.args.get("typed") and left.type.is_integer and right.type.is_integer
    quotient = scalars.arithmetic("div" if truncates else "/", left, right)
    if not node.args.get("safe"):
        return quotient
    zero = scalars.compare("=", right, Const(0, INT))
    return scalars.case([(zero, Const(None, NULL))], quotient)


def _negate(node: exp.Neg, env: Environment) -> Scalar:
    """``-x``; of a literal it is part of the literal."""
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return literal("-" + inner.this)
    operand = scalars.number(scalar_of(inner, env), DOUBLE, "-")
    return call("neg", operand)


def _cast(node: exp.Cast, env: Environment) -> Scalar:
    return cast_of(node, scalar_of(node.this, env))


def _case(node: exp.Case, env: Environment) -> Scalar:
    """Both forms of CASE: ``CASE x WHEN v`` is ``CASE WHEN x = v``."""
    subject = scalar_of(node.this, env) if node.this else None
    branches: list[tuple[Scalar, Scalar]] = []
    for branch in node.args["ifs"]:
        test = scalar_of(branch.this, env)
        if subject is not None:
            test = scalars.compare("=", subject, test)
        branches.append((test, scalar_of(branch.args["true"], env)))
    default = node.args.get("default")
    return scalars.case(branches, scalar_of(default, env) if default else Const(None, NULL))


def _if(node: exp.If, env: Environment) -> Scalar:
    default = node.args.get("false")
    otherwise = scalar_of(default, env) if default else Const(None, NULL)
    return scalars.case([(scalar_of(node.this, env), scalar_of(node.args["true"], env))], otherwise)


def _coalesce(node: exp.Coalesce, env: Environment) -> Scalar:
    arguments = scalars.alike([scalar_of(part, env) for part in (node.this, *node.expressions)], "COALESCE")
    needed = next((i for i, argument in enumerate(arguments) if not nullable(argument)), len(arguments)) + 1
    return call("coalesce", *arguments[:needed], type=arguments[0].type)


def _nullif(node: exp.Nullif, env: Environment) -> Scalar:
    item, other = scalar_of(node.this, env), scalar_of(node.expression, env)
    return scalars.case([(scalars.compare("=", item, other), Const(None, item.type))], item)


def _nvl2(node: exp.Nvl2, env: Environment) -> Scalar:
    absent = call("is_null", scalar_of(node.this, env))
    return scalars.case([(absent, scalar_of(node.args["false"], env))], scalar_of(node.args["true"], env))


def _lone_interval(node: exp.Interval, env: Environment) -> Scalar:
    raise unsupported(node, "an INTERVAL value of its own", "add it to a date or timestamp")


_READERS: Mapping[type[exp.Expr], Callable[[Any, Environment], Scalar]] = {
    exp.Column: _column,
    exp.Paren: _paren,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.And: _connective,
    exp.Or: _connective,
    exp.Not: _not,
    **dict.fromkeys(COMPARISON_OPS, _comparison),
    **dict.fromkeys(ARITHMETIC_OPS, _arithmetic),
    exp.Div: _divide,
    exp.Neg: _negate,
    exp.In: _in,
    exp.Exists: _exists,
    exp.Subquery: _subquery,
    exp.Select: _subquery,
    exp.Between: _between,
    exp.Is: _is,
    exp.NullSafeEQ: _identical,
    exp.NullSafeNEQ: _identical,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Nvl2: _nvl2,
    exp.Interval: _lone_interval,
}
