"""The scalar functions that SQL text turns into, and the typed constructors that build them.

Every scalar of a resolved query is a ``Const``, a ``Var`` or a ``Call`` whose ``op`` is listed in
:data:`OPERATIONS`; ``core/functions.py`` gives each its meaning. The type on a call is Spark's (ANSI mode).
Values are physical (``core/types.py``), so the argument types matter:

*Numbers.* ``+ - * / % div`` and comparisons may have operands of different exact types: align them by
their scales. If either operand is floating, both are taken as floats. A result that does not fit its type,
and a division by zero of any type, is an error; a result with more digits after the point than its type has
is rounded half up. Every other function gets arguments of exactly the types that its line below names,
because conversions are explicit ``cast`` calls.

*NULL.* A function is strict (NULL in, NULL out) unless its line says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viewlet.core.arithmetic import arithmetic_type
from viewlet.core.scalar import Call, Const, Scalar, call, is_null
from viewlet.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTEGER_BITS,
    NULL,
    TIMESTAMP,
    VARCHAR,
    Kind,
    Type,
    same_identity,
)
from viewlet.sql.typing import TypeMismatchError, wider, widest

OPERATIONS: Mapping[str, str] = {
    # arithmetic
    "+": "(a, b) numbers",
    "-": "(a, b) numbers",
    "*": "(a, b) numbers",
    "/": "(a, b) numbers; the result is DOUBLE or DECIMAL, never an integer type",
    "%": "(a, b) numbers; the sign is the dividend's",
    "div": "(a, b) exact numbers; the quotient without its fraction, BIGINT",
    "neg": "(a) number",
    "abs": "(a) number",
    "sign": "(a DOUBLE) -1.0, 0.0 or 1.0, DOUBLE",
    "round": "(a number, digits INT literal, maybe negative) half up, away from zero",
    "floor": "(a number) BIGINT, or DECIMAL with scale 0",
    "ceil": "(a number) BIGINT, or DECIMAL with scale 0",
    "sqrt": "(a DOUBLE) DOUBLE; an error below zero",
    "exp": "(a DOUBLE) DOUBLE",
    "ln": "(a DOUBLE above zero) DOUBLE",
    "power": "(a DOUBLE, b DOUBLE) DOUBLE",
    "expm1": "(a DOUBLE) DOUBLE; so is what follows",
    **dict.fromkeys(("log10", "log1p", "cbrt", "rint", "degrees", "radians"), "(a DOUBLE) DOUBLE"),
    **dict.fromkeys(("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan"), "(a DOUBLE) DOUBLE"),
    **dict.fromkeys(("sinh", "cosh", "tanh"), "(a DOUBLE) DOUBLE"),
    **dict.fromkeys(("atan2", "hypot"), "(a DOUBLE, b DOUBLE) DOUBLE"),
    "bround": "(a number, digits INT literal, maybe negative) halves to the even digit",
    "width_bucket": "(a DOUBLE, low DOUBLE, high DOUBLE, parts BIGINT) BIGINT; NULL where there is no range",
    **dict.fromkeys(("try_add", "try_subtract", "try_multiply"), "(a, b) numbers; NULL out of range"),
    "try_divide": "(a, b) numbers; NULL by zero and out of range",
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), "(a, b) integers of one type, which is the result's"),
    "bit_not": "(a integer) its type",
    **dict.fromkeys(
        ("shift_left", "shift_right", "shift_right_unsigned"),
        "(a INT or BIGINT, distance INT, modulo its bits) a's type; bits beyond are lost",
    ),
    "interpolate": "(low DOUBLE, high DOUBLE, place exact) DOUBLE; between, by the fraction of the place",
    # comparisons and logic
    "=": "(a, b) comparable: two numbers, or the same type; likewise the others",
    "<>": "(a, b)",
    "<": "(a, b)",
    "<=": "(a, b)",
    ">": "(a, b)",
    ">=": "(a, b)",
    "==": "(a, b) identity: NULL == NULL is TRUE, never NULL",
    "and": "(conditions...) three-valued",
    "or": "(conditions...) three-valued",
    "not": "(condition)",
    "is_null": "(a) never NULL",
    "is_true": "(condition) never NULL",
    "in": "(a, literals...) = ANY in three-valued logic: a literal may be NULL",
    "like": "(a VARCHAR, pattern VARCHAR[, escape VARCHAR of one character, default backslash])",
    # choices
    "case": "(c1, v1, c2, v2, ..., else) the first v whose c is TRUE; values have the call's type",
    "coalesce": "(a...) the first that is not NULL; arguments have the call's type",
    "cast": "(a) to the call's type; text that does not parse and values out of range are errors",
    "try_cast": "(a) to the call's type; NULL for these",
    # strings
    "concat": "(a VARCHAR...) VARCHAR",
    "substring": "(a VARCHAR, start INT[, length INT]) from 1; 0 counts as 1, below 0 from the end",
    "left": "(a VARCHAR, n INT)",
    "right": "(a VARCHAR, n INT)",
    "upper": "(a VARCHAR)",
    "lower": "(a VARCHAR)",
    "trim": "(a VARCHAR[, characters VARCHAR, default a space])",
    "ltrim": "(a VARCHAR[, characters VARCHAR])",
    "rtrim": "(a VARCHAR[, characters VARCHAR])",
    "replace": "(a VARCHAR, search VARCHAR, replacement VARCHAR); an empty search changes nothing",
    "length": "(a VARCHAR) in code points, INT",
    "position": "(needle VARCHAR, a VARCHAR[, start INT]) from 1, 0 if absent, INT",
    "starts_with": "(a VARCHAR, prefix VARCHAR) BOOLEAN",
    "ends_with": "(a VARCHAR, suffix VARCHAR) BOOLEAN",
    "contains": "(a VARCHAR, part VARCHAR) BOOLEAN",
    "lpad": "(a VARCHAR, n INT, padding VARCHAR) cut to n if longer",
    "rpad": "(a VARCHAR, n INT, padding VARCHAR) cut to n if longer",
    "repeat": "(a VARCHAR, n INT)",
    "reverse": "(a VARCHAR)",
    "initcap": "(a VARCHAR) words are what blanks separate",
    "split_part": "(a VARCHAR, delimiter VARCHAR, n INT) from 1, or from -1 at the end; an error for 0",
    "substring_index": "(a VARCHAR, delimiter VARCHAR, n INT) before the n-th, or behind it from the end",
    "overlay": "(a VARCHAR, new VARCHAR, start INT[, length INT])",
    "translate": "(a VARCHAR, from VARCHAR, to VARCHAR) letter by letter",
    "levenshtein": "(a VARCHAR, b VARCHAR) INT",
    "soundex": "(a VARCHAR)",
    "ascii": "(a VARCHAR) the first code point, 0 of nothing, INT",
    "chr": "(code BIGINT) VARCHAR, modulo 256",
    **dict.fromkeys(("bit_length", "octet_length"), "(a VARCHAR) in UTF-8, INT"),
    **dict.fromkeys(("md5", "sha1", "sha224", "sha256", "sha384", "sha512"), "(a VARCHAR) of UTF-8, in hex"),
    "crc32": "(a VARCHAR) of UTF-8, BIGINT",
    "hex": "(a BIGINT or VARCHAR) VARCHAR in upper case",
    "bin": "(a BIGINT) VARCHAR",
    "regexp_like": "(a VARCHAR, pattern VARCHAR) BOOLEAN; see core/patterns.py",
    "regexp_extract": "(a VARCHAR, pattern VARCHAR[, group INT, default 1]) of the first match",
    "regexp_replace": "(a VARCHAR, pattern VARCHAR, replacement VARCHAR)",
    "regexp_count": "(a VARCHAR, pattern VARCHAR) INT",
    # dates and times; x is DATE or TIMESTAMP
    "year": "(x) INT",
    "quarter": "(x) INT",
    "month": "(x) INT",
    "week": "(x) ISO week, INT",
    "day": "(x) of the month, INT",
    "dayofweek": "(x) 1 is Sunday, INT",
    "weekday": "(x) 0 is Monday, INT",
    "dayofyear": "(x) INT",
    "hour": "(x TIMESTAMP) INT",
    "minute": "(x TIMESTAMP) INT",
    "second": "(x TIMESTAMP) whole seconds if INT, with microseconds if DECIMAL(8,6)",
    "unix_seconds": "(x TIMESTAMP) since 1970, rounded down, BIGINT",
    "unix_millis": "(x TIMESTAMP) since 1970, rounded down, BIGINT",
    "unix_micros": "(x TIMESTAMP) since 1970, BIGINT",
    "date_trunc": "(unit VARCHAR literal: year quarter month week day hour minute second, x) x's type",
    "add_days": "(x DATE, n INT) DATE",
    "add_months": "(x, n INT) x's type; the day is clamped to the month's last",
    "add_micros": "(x TIMESTAMP, n BIGINT) TIMESTAMP",
    "days_between": "(later DATE, earlier DATE) INT",
    "last_day": "(x DATE) the last day of its month, DATE",
    "make_date": "(year INT, month INT, day INT) DATE",
    "months_between": "(later TIMESTAMP, earlier TIMESTAMP, rounded BOOLEAN) DOUBLE",
    "whole_months": "(later TIMESTAMP, earlier TIMESTAMP) BIGINT",
    "micros_between": "(later TIMESTAMP, earlier TIMESTAMP) BIGINT",
    "date_format": "(x TIMESTAMP, pattern VARCHAR) VARCHAR; core/formats.py says which patterns there are",
    "parse_moment": "(a VARCHAR, pattern VARCHAR) TIMESTAMP",
}


def cast(scalar: Scalar, kind: Type) -> Scalar:
    """``scalar`` as a value of that type; a literal NULL just changes its type.

    >>> cast(Const(None, NULL), BIGINT)
    Const(value=None, type=Type(kind=<Kind.BIGINT: 'BIGINT'>, precision=0, scale=0))
    """
    if is_null(scalar):
        return Const(None, kind)
    if scalar.type == kind:
        return scalar
    if {scalar.type.kind, kind.kind} in FORBIDDEN_CASTS:
        raise TypeMismatchError(f"{scalar.type} cannot be cast to {kind}")
    return call("cast", scalar, type=kind)


FORBIDDEN_CASTS = tuple(
    {moment, other}
    for moment in (Kind.DATE, Kind.TIMESTAMP)
    for other in (*INTEGER_BITS, Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE, Kind.BOOLEAN)
)


def number(scalar: Scalar, beside: Type, what: str) -> Scalar:
    """``scalar`` as an operand of arithmetic: text is read as a number, NULL takes the other side's type."""
    kind = scalar.type
    if kind == VARCHAR:
        return cast(scalar, BIGINT if beside.is_integer else DOUBLE)
    if kind == NULL:
        return Const(None, beside if beside.is_numeric else DOUBLE)
    if not kind.is_numeric:
        raise TypeMismatchError(f"{what} needs numbers, got {kind}")
    return scalar


def arithmetic(op: str, left: Scalar, right: Scalar) -> Scalar:
    """``left op right`` with Spark's result type.

    >>> from viewlet.core.scalar import Var
    >>> str(arithmetic("/", Var("a", INT), Var("b", INT)).type)
    'DOUBLE'
    """
    a, b = number(left, right.type, op), number(right, left.type, op)
    return call(op, a, b, type=arithmetic_type(op, a, b))


def compare(op: str, left: Scalar, right: Scalar) -> Scalar:
    """``left op right`` after bringing both to comparable types; numbers of any two types compare as is.

    >>> from viewlet.core.scalar import Var
    >>> compare("<", Var("d", DATE), Const("2024-01-31", VARCHAR)).args[1].type == DATE
    True
    """
    a, b = comparable(left, right.type, op), comparable(right, left.type, op)
    if op == "==" and not same_identity(a.type, b.type):
        return _equal_or_null(a, b)
    return call(op, a, b, type=BOOLEAN)


def _equal_or_null(left: Scalar, right: Scalar) -> Scalar:
    """``left == right`` of types that have other representations of one value, as have 1 and 1.00."""
    equal = call("is_true", call("=", left, right, type=BOOLEAN))
    return call("or", equal, call("and", call("is_null", left), call("is_null", right)))


def comparable(scalar: Scalar, other: Type, what: str) -> Scalar:
    """``scalar`` in the type in which it is compared with a value of type ``other``."""
    kind = scalar.type
    if kind == other or (kind.is_numeric and other.is_numeric):
        return scalar
    common = wider(kind, other)
    if common is None:
        raise TypeMismatchError(f"{what} compares {kind} with {other}; cast one of them")
    if kind.is_numeric and common.is_numeric:
        return scalar
    return cast(scalar, common)


def condition(scalar: Scalar, what: str) -> Scalar:
    """``scalar`` as a condition."""
    if is_null(scalar):
        return Const(None, BOOLEAN)
    if scalar.type != BOOLEAN:
        raise TypeMismatchError(f"{what} needs a condition, got {scalar.type}")
    return scalar


def alike(scalars: Sequence[Scalar], what: str) -> tuple[Scalar, ...]:
    """The scalars cast to their wider type, as the results of CASE and COALESCE are."""
    common = widest((scalar.type for scalar in scalars), what)
    return tuple(cast(scalar, common) for scalar in scalars)


def case(branches: Sequence[tuple[Scalar, Scalar]], otherwise: Scalar) -> Scalar:
    """CASE WHEN c1 THEN v1 ... ELSE otherwise END."""
    results = alike([*(value for _, value in branches), otherwise], "CASE")
    tests = [condition(test, "WHEN") for test, _ in branches]
    flat = [part for pair in zip(tests, results[:-1], strict=True) for part in pair]
    return call("case", *flat, results[-1], type=results[-1].type)


def membership(item: Scalar, choices: Sequence[Scalar]) -> Scalar:
    """``item IN (choices)``: one call over literals, else an OR of equalities."""
    equalities = [compare("=", item, choice) for choice in choices]
    literals = [eq.args[1] for eq in equalities if isinstance(eq, Call)]
    same_item = all(isinstance(eq, Call) and eq.args[0] == item for eq in equalities)
    if same_item and all(isinstance(choice, Const) for choice in literals):
        return call("in", item, *literals, type=BOOLEAN)
    return call("or", *equalities)


def text(scalar: Scalar) -> Scalar:
    """``scalar`` as an argument of a string function."""
    return cast(scalar, VARCHAR)


def whole(scalar: Scalar, what: str) -> Scalar:
    """``scalar`` as an INT argument such as a length or a number of days."""
    if scalar.type.is_integer or is_null(scalar) or scalar.type == VARCHAR:
        return cast(scalar, INT)
    raise TypeMismatchError(f"{what} needs an integer, got {scalar.type}")


def real(scalar: Scalar, what: str) -> Scalar:
    """``scalar`` as a DOUBLE argument."""
    return cast(number(scalar, DOUBLE, what), DOUBLE)


def moment(scalar: Scalar, what: str) -> Scalar:
    """``scalar`` as an argument that is a DATE or a TIMESTAMP; text is read as a DATE."""
    if scalar.type in (DATE, TIMESTAMP):
        return scalar
    return day(scalar, what)


def day(scalar: Scalar, what: str) -> Scalar:
    """``scalar`` as a DATE argument."""
    if scalar.type in (DATE, TIMESTAMP, VARCHAR, NULL):
        return cast(scalar, DATE)
    raise TypeMismatchError(f"{what} needs a date, got {scalar.type}")
