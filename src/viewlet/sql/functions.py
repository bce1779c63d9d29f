"""The SQL functions there are: each parser node of a function to the scalar it means.

A builder gets the node and a reader for its arguments. Conversions that Spark makes silently are explicit
casts here, so that the functions themselves (``core/functions.py``) see only the types they are defined on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sqlglot import exp

from viewlet.core.scalar import Const, Scalar, call
from viewlet.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, TIMESTAMP, VARCHAR, Type, decimal
from viewlet.errors import SqlError
from viewlet.sql import scalars
from viewlet.sql.intervals import MICROS, MONTHS, Interval, add_interval
from viewlet.sql.position import unsupported
from viewlet.sql.typing import floor_type, round_type

Reader: TypeAlias = Callable[[exp.Expr], Scalar]
Builder: TypeAlias = Callable[[Any, Reader], Scalar]

NONDETERMINISTIC = (
    exp.Rand,
    exp.Randn,
    exp.Randstr,
    exp.Uuid,
    exp.CurrentTimestamp,
    exp.CurrentTimestampLTZ,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.CurrentUser,
)


class UnknownFunctionError(SqlError):
    """The parser has no node for a function, and neither is it one of ours."""


SECOND_WITH_FRACTION = decimal(8, 6)
TRUNCATION_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    "QUARTER": "quarter",
    **dict.fromkeys(("MONTH", "MM", "MON"), "month"),
    "WEEK": "week",
    **dict.fromkeys(("DAY", "DD"), "day"),
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
}
EXTRACTED = {
    **dict.fromkeys(("YEAR", "YEARS", "Y"), "year"),
    **dict.fromkeys(("QUARTER", "QTR"), "quarter"),
    **dict.fromkeys(("MONTH", "MONTHS", "MON"), "month"),
    **dict.fromkeys(("WEEK", "WEEKS", "W"), "week"),
    **dict.fromkeys(("DAY", "DAYS", "D"), "day"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "dayofweek"),
    "DOY": "dayofyear",
    **dict.fromkeys(("HOUR", "HOURS", "H"), "hour"),
    **dict.fromkeys(("MINUTE", "MINUTES", "M"), "minute"),
    **dict.fromkeys(("SECOND", "SECONDS", "S"), "second"),
}
MAX_EXTREME = 5
CLOCK_PARTS = ("hour", "minute", "second")


def _real(op: str) -> Builder:
    """A function of one DOUBLE."""
    return lambda node, read: call(op, scalars.real(read(node.this), op), type=DOUBLE)


def _text(op: str, kind: Type = VARCHAR) -> Builder:
    """A function of one VARCHAR."""
    return lambda node, read: call(op, scalars.text(read(node.this)), type=kind)


def _two_texts(op: str) -> Builder:
    """A condition on two VARCHARs."""
    return lambda node, read: call(
        op, scalars.text(read(node.this)), scalars.text(read(node.expression)), type=BOOLEAN
    )


def _part(op: str) -> Builder:
    """A part of a date."""
    return lambda node, read: part_of(op, read(_undated(node.this)))


def part_of(op: str, moment: Scalar) -> Scalar:
    """A part of a date or timestamp; parts of the clock need a timestamp."""
    if op in CLOCK_PARTS:
        return call(op, scalars.cast(moment, TIMESTAMP), type=INT)
    return call(op, scalars.moment(moment, op), type=INT)


def _undated(node: exp.Expr) -> exp.Expr:
    """The argument itself: the parser wraps those of date functions into a conversion to DATE."""
    return node.this if isinstance(node, exp.TsOrDsToDate) and not node.args.get("safe") else node


def _abs(node: exp.Abs, read: Reader) -> Scalar:
    return call("abs", scalars.number(read(node.this), DOUBLE, "abs"))


def _round(node: exp.Round, read: Reader) -> Scalar:
    if node.args.get("truncate"):
        raise unsupported(node, "ROUND with truncation", "use floor or a cast")
    argument = scalars.number(read(node.this), DOUBLE, "round")
    digits = read(node.args["decimals"]) if node.args.get("decimals") else Const(0, INT)
    if not isinstance(digits, Const) or not isinstance(digits.value, int):
        raise unsupported(node, "ROUND to a varying number of digits", "write the number of digits")
    return call("round", argument, digits, type=round_type(argument.type, digits.value))


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


def _concat(node: exp.Concat | exp.DPipe, read: Reader) -> Scalar:
    """``a || b || c`` is one call; in some dialects ``concat(a, b)`` takes NULL for the empty text."""
    parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    arguments: list[Scalar] = []
    for part in parts:
        inner = scalars.text(read(part))
        if node.args.get("coalesce"):
            inner = call("coalesce", inner, Const("", VARCHAR))
        flat = isinstance(part, exp.DPipe) and getattr(inner, "op", "") == "concat"
        arguments.extend(getattr(inner, "args", ()) if flat else (inner,))
    return call("concat", *arguments, type=VARCHAR)


def _substring(node: exp.Substring, read: Reader) -> Scalar:
    start = scalars.whole(read(node.args["start"]), "substring") if node.args.get("start") else Const(1, INT)
    length = node.args.get("length")
    rest = (scalars.whole(read(length), "substring"),) if length else ()
    return call("substring", scalars.text(read(node.this)), start, *rest, type=VARCHAR)


def _edge(op: str) -> Builder:
    return lambda node, read: call(
        op, scalars.text(read(node.this)), scalars.whole(read(node.expression), op), type=VARCHAR
    )


def _trim(node: exp.Trim, read: Reader) -> Scalar:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get((node.args.get("position") or "").upper(), "trim")
    characters = (scalars.text(read(node.expression)),) if node.expression else ()
    return call(side, scalars.text(read(node.this)), *characters, type=VARCHAR)


def _position(node: exp.StrPosition, read: Reader) -> Scalar:
    if node.args.get("position") or node.args.get("occurrence"):
        raise unsupported(node, "a search from a given place", "search in a substring")
    needle, item = (scalars.text(read(part)) for part in (node.args["substr"], node.this))
    return call("position", needle, item, type=INT)


def _replace(node: exp.Replace, read: Reader) -> Scalar:
    replacement = node.args.get("replacement")
    new = scalars.text(read(replacement)) if replacement else Const("", VARCHAR)
    return call(
        "replace", scalars.text(read(node.this)), scalars.text(read(node.expression)), new, type=VARCHAR
    )


def _split_part(node: exp.SplitPart, read: Reader) -> Scalar:
    whole, delimiter = (scalars.text(read(part)) for part in (node.this, node.args["delimiter"]))
    number = scalars.whole(read(node.args["part_index"]), "split_part")
    return call("split_part", whole, delimiter, number, type=VARCHAR)


def _since_1970(op: str) -> Builder:
    return lambda node, read: call(op, scalars.cast(read(node.this), TIMESTAMP), type=BIGINT)


def _pad(node: exp.Pad, read: Reader) -> Scalar:
    pattern = node.args.get("fill_pattern")
    filling = scalars.text(read(pattern)) if pattern else Const(" ", VARCHAR)
    width = scalars.whole(read(node.expression), "lpad")
    return call("lpad" if node.args["is_left"] else "rpad", scalars.text(read(node.this)), width, filling)


def _repeat(node: exp.Repeat, read: Reader) -> Scalar:
    return call("repeat", scalars.text(read(node.this)), scalars.whole(read(node.args["times"]), "repeat"))


def _extract(node: exp.Extract, read: Reader) -> Scalar:
    return _named_part(node, node.name.upper(), read(node.expression))


def _named_part(node: exp.Expr, name: str, moment: Scalar) -> Scalar:
    """EXTRACT; of a second it has microseconds, which ``second()`` has not."""
    if name in ("DOW_ISO", "DAYOFWEEK_ISO"):
        return scalars.arithmetic("+", part_of("weekday", moment), Const(1, INT))
    if name not in EXTRACTED:
        raise unsupported(node, f"EXTRACT({name})", f"there are {', '.join(sorted(set(EXTRACTED.values())))}")
    op = EXTRACTED[name]
    if op == "second":
        return call("second", scalars.cast(moment, TIMESTAMP), type=SECOND_WITH_FRACTION)
    return part_of(op, moment)


def _weekday_iso(node: exp.DayOfWeekIso, read: Reader) -> Scalar:
    return scalars.arithmetic("+", part_of("weekday", read(_undated(node.this))), Const(1, INT))


def _to_date(node: exp.TsOrDsToDate, read: Reader) -> Scalar:
    if node.args.get("format"):
        raise unsupported(node, "to_date with a format", "write dates in ISO form")
    return scalars.day(read(node.this), "to_date")


def _add(sign: int) -> Builder:
    """date_add, date_sub, dateadd: a varying number of days, or a literal number of another unit."""

    def build(node: exp.TsOrDsAdd | exp.DateAdd | exp.TimestampAdd, read: Reader) -> Scalar:
        unit = (node.args["unit"].name if node.args.get("unit") else "DAY").upper()
        moment, count = scalars.moment(read(_undated(node.this)), "date_add"), read(node.expression)
        if isinstance(node, exp.TsOrDsAdd) or (unit == "DAY" and moment.type == DATE):
            days = scalars.whole(count, "date_add")
            return call("add_days", scalars.cast(moment, DATE), days if sign > 0 else call("neg", days))
        if not isinstance(count, Const) or not isinstance(count.value, int):
            raise unsupported(
                node, f"the addition of a varying number of {unit}S", "use date_add or add_months"
            )
        if unit not in MONTHS and unit not in MICROS:
            raise unsupported(node, f"the unit {unit}", f"there are {', '.join((*MONTHS, *MICROS))}")
        size = sign * count.value
        whole_days = unit in MONTHS or unit in ("WEEK", "DAY")
        return add_interval(
            moment, Interval(size * MONTHS.get(unit, 0), size * MICROS.get(unit, 0), whole_days)
        )

    return build


def _add_months(node: exp.AddMonths, read: Reader) -> Scalar:
    return call(
        "add_months",
        scalars.day(read(_undated(node.this)), "add_months"),
        scalars.whole(read(node.expression), "add_months"),
    )


def _date_diff(node: exp.DateDiff, read: Reader) -> Scalar:
    unit = node.args.get("unit")
    if unit and unit.name.upper() != "DAY":
        raise unsupported(node, f"datediff in {unit.name}", "count days")
    later, earlier = (scalars.day(read(_undated(part)), "datediff") for part in (node.this, node.expression))
    return call("days_between", later, earlier, type=INT)


def _truncate(kind: Type) -> Builder:
    """``trunc`` gives a DATE, ``date_trunc`` a TIMESTAMP."""

    def build(node: exp.DateTrunc | exp.TimestampTrunc, read: Reader) -> Scalar:
        name = node.args["unit"].name.upper()
        if name not in TRUNCATION_UNITS:
            raise unsupported(
                node, f"truncation to {name}", f"there are {', '.join(sorted(TRUNCATION_UNITS))}"
            )
        moment = scalars.cast(scalars.moment(read(node.this), "date_trunc"), kind)
        return call("date_trunc", Const(TRUNCATION_UNITS[name], VARCHAR), moment, type=kind)

    return build


def _last_day(node: exp.LastDay, read: Reader) -> Scalar:
    return call("last_day", scalars.day(read(_undated(node.this)), "last_day"))


def _named(node: exp.Anonymous, read: Reader) -> Scalar:
    """Functions that the parser has no node for."""
    name, arguments = node.name.lower(), node.expressions
    match name, arguments:
        case "weekday", [moment]:
            return part_of("weekday", read(moment))
        case "date_part" | "datepart", [exp.Literal() as part, moment]:
            return _named_part(node, part.name.upper(), read(moment))
        case "negative", [argument]:
            return call("neg", scalars.number(read(argument), DOUBLE, name))
        case _:
            raise UnknownFunctionError(name)


FUNCTIONS: Mapping[type[exp.Expr], Builder] = {
    exp.Abs: _abs,
    exp.Sign: _real("sign"),
    exp.Sqrt: _real("sqrt"),
    exp.Exp: _real("exp"),
    exp.Ln: _ln,
    exp.Log: _log,
    exp.Pow: _power,
    exp.Round: _round,
    exp.Floor: _whole("floor"),
    exp.Ceil: _whole("ceil"),
    exp.Greatest: _extreme("GREATEST", ">="),
    exp.Least: _extreme("LEAST", "<="),
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.Substring: _substring,
    exp.Left: _edge("left"),
    exp.Right: _edge("right"),
    exp.Upper: _text("upper"),
    exp.Lower: _text("lower"),
    exp.Reverse: _text("reverse"),
    exp.Length: _text("length", INT),
    exp.Trim: _trim,
    exp.Replace: _replace,
    exp.StrPosition: _position,
    exp.StartsWith: _two_texts("starts_with"),
    exp.EndsWith: _two_texts("ends_with"),
    exp.Contains: _two_texts("contains"),
    exp.Pad: _pad,
    exp.Repeat: _repeat,
    exp.SplitPart: _split_part,
    exp.Extract: _extract,
    exp.Year: _part("year"),
    exp.Quarter: _part("quarter"),
    exp.Month: _part("month"),
    exp.Week: _part("week"),
    exp.WeekOfYear: _part("week"),
    exp.Day: _part("day"),
    exp.DayOfMonth: _part("day"),
    exp.DayOfWeek: _part("dayofweek"),
    exp.DayOfWeekIso: _weekday_iso,
    exp.DayOfYear: _part("dayofyear"),
    exp.Hour: _part("hour"),
    exp.Minute: _part("minute"),
    exp.Second: _part("second"),
    exp.UnixMillis: _since_1970("unix_millis"),
    exp.UnixMicros: _since_1970("unix_micros"),
    exp.TsOrDsToDate: _to_date,
    exp.TsOrDsAdd: _add(1),
    exp.DateAdd: _add(1),
    exp.DateSub: _add(-1),
    exp.TimestampAdd: _add(1),
    exp.AddMonths: _add_months,
    exp.DateDiff: _date_diff,
    exp.DateTrunc: _truncate(DATE),
    exp.TimestampTrunc: _truncate(TIMESTAMP),
    exp.LastDay: _last_day,
    exp.Anonymous: _named,
}
