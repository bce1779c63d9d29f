"""Functions of numbers: each node of the parser to the scalar it means."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sqlglot import exp

from viewlet.core.arithmetic import arithmetic_type, wider_integer
from viewlet.core.scalar import Const, Scalar, call
from viewlet.core.types import BIGINT, DOUBLE, FLOAT, INT, NULL, SMALLINT, TINYINT, Type
from viewlet.sql import scalars
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.signature import Builder, Reader, called, function, long, real
from viewlet.sql.typing import TypeMismatchError, floor_type, round_type

MAX_EXTREME = 5


def _real(op: str) -> Builder:
    """A function of one DOUBLE."""
    return lambda node, read: call(op, scalars.real(read(node.this), op), type=DOUBLE)


def _abs(node: exp.Abs, read: Reader) -> Scalar:
    return call("abs", scalars.number(read(node.this), DOUBLE, "abs"))


def _round(node: exp.Round, read: Reader) -> Scalar:
    if node.args.get("truncate"):
        raise unsupported(node, "ROUND with truncation", "use floor or a cast")
    if node.args.get("halves_to_even") and read(node.this).type in (FLOAT, DOUBLE):
        return call("rint", real(read(node.this), "round"), type=DOUBLE)
    return _digits(node, "round", node.this, node.args.get("decimals"), read)


def _whole(op: str) -> Builder:
    def build(node: exp.Floor | exp.Ceil, read: Reader) -> Scalar:
        if node.args.get("decimals") or node.args.get("to"):
            raise unsupported(node, f"{op} to a number of digits", "use round")
        argument = scalars.number(read(node.this), DOUBLE, op)
        return call(op, argument, type=floor_type(argument.type))

    return build


def _power(node: exp.Pow, read: Reader) -> Scalar:
    base, exponent = (scalars.real(read(part), "power") for part in (node.this, node.expression))
    return call("power", base, exponent, type=DOUBLE)


def natural_logarithm(argument: Scalar) -> Scalar:
    """``ln(x)``, NULL unless x > 0; the CASE says so to whoever asks whether it may be NULL."""
    x = scalars.real(argument, "ln")
    positive = scalars.compare(">", x, Const(0.0, DOUBLE))
    return scalars.case([(positive, call("ln", x, type=DOUBLE))], Const(None, DOUBLE))


def _ln(node: exp.Ln, read: Reader) -> Scalar:
    return natural_logarithm(read(node.this))


def _log(node: exp.Log, read: Reader) -> Scalar:
    """``log(b, x) = ln(x) / ln(b)``; with one argument the base is up to the dialect (Spark: ``ln``)."""
    if not node.expression:
        raise unsupported(node, "log with one argument", "write ln(x) or log(base, x)")
    if node.this.is_int and node.this.name == "10":
        x = scalars.real(read(node.expression), "log10")
        positive = scalars.compare(">", x, Const(0.0, DOUBLE))
        return scalars.case([(positive, call("log10", x, type=DOUBLE))], Const(None, DOUBLE))
    base, argument = (natural_logarithm(read(part)) for part in (node.this, node.expression))
    return scalars.arithmetic("/", argument, base)


def _extreme(name: str, op: str) -> Builder:
    """GREATEST and LEAST skip NULLs: ``greatest(a, b) = CASE WHEN a >= b THEN a ELSE coalesce(b, a) END``.

    Each further argument triples the expression, so there may be few.
    """

    def build(node: exp.Greatest | exp.Least, read: Reader) -> Scalar:
        if not node.args.get("ignore_nulls"):
            raise unsupported(node, f"{name} that is NULL if any argument is", "use CASE")
        parts = (node.this, *node.expressions)
        if len(parts) > MAX_EXTREME:
            raise unsupported(
                node, f"{name} of more than {MAX_EXTREME} arguments", "nest it in a derived table"
            )
        best, *others = scalars.alike([read(part) for part in parts], name)
        for other in others:
            fallback = call("coalesce", other, best, type=best.type)
            best = scalars.case([(scalars.compare(op, best, other), best)], fallback)
        return best

    return build


def _digits(node: exp.Expr, name: str, argument: exp.Expr, digits: exp.Expr | None, read: Reader) -> Scalar:
    """A number rounded to a literal number of digits."""
    number = scalars.number(read(argument), DOUBLE, name)
    count = read(digits) if digits is not None else Const(0, INT)
    if not isinstance(count, Const) or not isinstance(count.value, int):
        raise unsupported(node, f"{name} to a varying number of digits", "write the number of digits")
    return call(name, number, count, type=round_type(number.type, count.value))


def _bround(node: exp.Anonymous, read: Reader) -> Scalar:
    if not 1 <= len(node.expressions) <= 2:
        raise invalid(node, "bround takes one or two arguments")
    return _digits(node, "bround", node.expressions[0], (*node.expressions[1:], None)[0], read)


def _log1p(node: exp.Anonymous, read: Reader) -> Scalar:
    """``log1p(x)``, NULL unless x > -1."""
    x = real(read(node.expressions[0]), "log1p")
    above = scalars.compare(">", x, Const(-1.0, DOUBLE))
    return scalars.case([(above, call("log1p", x, type=DOUBLE))], Const(None, DOUBLE))


def _bits(op: str) -> Builder:
    """``& | ^`` in the wider type of two integers."""

    def build(node: exp.Binary, read: Reader) -> Scalar:
        left, right = read(node.this), read(node.expression)
        for side, other in ((left, right), (right, left)):
            if not side.type.is_integer and not (side.type == NULL and other.type.is_integer):
                raise TypeMismatchError(f"{op} needs integers, got {side.type}")
        known = [side.type for side in (left, right) if side.type != NULL]
        kind = wider_integer(known[0], known[-1])
        return call(op, scalars.cast(left, kind), scalars.cast(right, kind), type=kind)

    return build


def _bit_not(node: exp.BitwiseNot, read: Reader) -> Scalar:
    argument = read(node.this)
    if not argument.type.is_integer:
        raise TypeMismatchError(f"~ needs an integer, got {argument.type}")
    return call("bit_not", argument, type=argument.type)


def shifted(op: str, number: Scalar, distance: Scalar) -> Scalar:
    """A shift of an INT or BIGINT."""
    kind: Type = INT if number.type in (TINYINT, SMALLINT) else number.type
    if kind not in (INT, BIGINT):
        raise TypeMismatchError(f"{op} needs an integer, got {kind}")
    return call(op, scalars.cast(number, kind), scalars.whole(distance, op), type=kind)


def _shift(op: str) -> Builder:
    return lambda node, read: shifted(op, read(node.this), read(node.expression))


def _unsigned_shift(node: exp.Anonymous, read: Reader) -> Scalar:
    if len(node.expressions) != 2:
        raise invalid(node, "shiftrightunsigned takes two arguments")
    return shifted("shift_right_unsigned", *(read(part) for part in node.expressions))


def _try(op: str, symbol: str) -> Builder:
    """Arithmetic that is NULL where it would be an error; exact numbers keep their type."""

    def build(node: exp.Binary, read: Reader) -> Scalar:
        left, right = read(node.this), read(node.expression)
        a, b = scalars.number(left, right.type, op), scalars.number(right, left.type, op)
        return call(op, a, b, type=arithmetic_type(symbol, a, b))

    return build


def _pmod(node: exp.Anonymous, read: Reader) -> Scalar:
    """``pmod(a, n)``: with r = a % n, it is (r + n) % n if r < 0, else r."""
    if len(node.expressions) != 2:
        raise invalid(node, "pmod takes two arguments")
    a, n = (read(part) for part in node.expressions)
    rest = scalars.arithmetic("%", a, n)
    kind = rest.type
    wrapped = scalars.arithmetic("%", scalars.arithmetic("+", rest, n), n)
    below = scalars.compare("<", rest, Const(0, INT))
    return scalars.case([(below, scalars.cast(wrapped, kind))], rest)


def _constant(value: float) -> Builder:
    return lambda node, read: Const(value, DOUBLE)


def _identity(node: exp.Anonymous, read: Reader) -> Scalar:
    return scalars.number(read(node.expressions[0]), DOUBLE, node.name.lower())


def _opposite(node: exp.Negative, read: Reader) -> Scalar:
    return call("neg", scalars.number(read(node.this), DOUBLE, "negative"))


NUMBER_FUNCTIONS: Mapping[type[exp.Expr], Builder] = {
    exp.Abs: _abs,
    exp.Sign: _real("sign"),
    exp.Ln: _ln,
    exp.Log: _log,
    exp.Pow: _power,
    exp.Round: _round,
    exp.Floor: _whole("floor"),
    exp.Ceil: _whole("ceil"),
    exp.Greatest: _extreme("GREATEST", ">="),
    exp.Least: _extreme("LEAST", "<="),
    exp.Sqrt: _real("sqrt"),
    exp.Exp: _real("exp"),
    exp.Cbrt: _real("cbrt"),
    exp.Rint: _real("rint"),
    exp.Degrees: _real("degrees"),
    exp.Radians: _real("radians"),
    exp.Sin: _real("sin"),
    exp.Cos: _real("cos"),
    exp.Tan: _real("tan"),
    exp.Cot: _real("cot"),
    exp.Sec: _real("sec"),
    exp.Csc: _real("csc"),
    exp.Asin: _real("asin"),
    exp.Acos: _real("acos"),
    exp.Atan: _real("atan"),
    exp.Atan2: function("atan2", DOUBLE, this=real, expression=real),
    exp.Sinh: _real("sinh"),
    exp.Cosh: _real("cosh"),
    exp.Tanh: _real("tanh"),
    exp.WidthBucket: function(
        "width_bucket", BIGINT, this=real, min_value=real, max_value=real, num_buckets=long
    ),
    exp.BitwiseAnd: _bits("bit_and"),
    exp.BitwiseOr: _bits("bit_or"),
    exp.BitwiseXor: _bits("bit_xor"),
    exp.BitwiseNot: _bit_not,
    exp.BitwiseLeftShift: _shift("shift_left"),
    exp.BitwiseRightShift: _shift("shift_right"),
    exp.SafeAdd: _try("try_add", "+"),
    exp.SafeSubtract: _try("try_subtract", "-"),
    exp.SafeMultiply: _try("try_multiply", "*"),
    exp.SafeDivide: _try("try_divide", "/"),
    exp.Negative: _opposite,
    exp.Pi: _constant(math.pi),
}
NAMED_NUMBER_FUNCTIONS: Mapping[str, Builder] = {
    "e": _constant(math.e),
    "hypot": called("hypot", DOUBLE, real, real),
    "expm1": called("expm1", DOUBLE, real),
    "log1p": _log1p,
    "bround": _bround,
    "pmod": _pmod,
    "shiftrightunsigned": _unsigned_shift,
    "positive": _identity,
}
