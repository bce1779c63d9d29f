"""Functions of dates and timestamps: each node of the parser to the scalar it means."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.time import format_time

from viewlet.core.formats import pieces
from viewlet.core.scalar import Const, Scalar, call
from viewlet.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, TIMESTAMP, VARCHAR, Type, decimal
from viewlet.errors import ValueRangeError
from viewlet.sql import scalars
from viewlet.sql.intervals import MICROS, MONTHS, Interval, add_interval
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.signature import Builder, Reader, called, literal_text, long, timestamp, whole

SECOND_WITH_FRACTION = decimal(8, 6)
EPOCH_SECONDS = decimal(20, 6)
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
CLOCK_PARTS = ("hour", "minute", "second")
EPOCH_DAY, EPOCH_MOMENT = Const(0, DATE), Const(0, TIMESTAMP)
WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"


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


def _extract(node: exp.Extract, read: Reader) -> Scalar:
    return _named_part(node, node.name.upper(), read(node.expression))


def _named_part(node: exp.Expr, name: str, moment: Scalar) -> Scalar:
    """EXTRACT; of a second it has microseconds, which ``second()`` has not."""
    if name in ("DOW_ISO", "DAYOFWEEK_ISO"):
        return scalars.arithmetic("+", part_of("weekday", moment), Const(1, INT))
    if name == "EPOCH":
        micros = call("unix_micros", timestamp(moment, "EXTRACT"), type=BIGINT)
        return scalars.cast(scalars.arithmetic("*", micros, Const(1, decimal(6, 6))), EPOCH_SECONDS)
    if name not in EXTRACTED:
        raise unsupported(node, f"EXTRACT({name})", f"there are {', '.join(sorted(set(EXTRACTED.values())))}")
    op = EXTRACTED[name]
    if op == "second":
        return call("second", scalars.cast(moment, TIMESTAMP), type=SECOND_WITH_FRACTION)
    return part_of(op, moment)


def _weekday_iso(node: exp.DayOfWeekIso, read: Reader) -> Scalar:
    return scalars.arithmetic("+", part_of("weekday", read(_undated(node.this))), Const(1, INT))


def _add(sign: int) -> Builder:
    """date_add and date_sub of days; with a unit, any number of it on a date or timestamp."""

    def build(node: exp.TsOrDsAdd | exp.DateAdd | exp.DateSub, read: Reader) -> Scalar:
        unit = (node.args["unit"].name if node.args.get("unit") else "DAY").upper().removesuffix("S")
        moment, count = scalars.moment(read(_undated(node.this)), "date_add"), read(node.expression)
        if isinstance(node, exp.TsOrDsAdd) or (unit == "DAY" and moment.type == DATE):
            days = scalars.whole(count, "date_add")
            return call("add_days", scalars.cast(moment, DATE), days if sign > 0 else call("neg", days))
        return _moved(node, moment, unit, count if sign > 0 else call("neg", long(count, "date_sub")))

    return build


def _timestamp_add(node: exp.TimestampAdd, read: Reader) -> Scalar:
    """``dateadd(MONTH, 2, d)``: a TIMESTAMP, whatever is moved."""
    unit = node.args["unit"].name.upper().removesuffix("S")
    return _moved(node, timestamp(read(node.this), "timestampadd"), unit, read(node.expression))


def _moved(node: exp.Expr, moment: Scalar, unit: str, count: Scalar) -> Scalar:
    """A date or timestamp and so many units; less than a day makes a timestamp."""
    if unit not in MONTHS and unit not in MICROS:
        raise unsupported(node, f"the unit {unit}", f"there are {', '.join((*MONTHS, *MICROS))}")
    if isinstance(count, Const) and isinstance(count.value, int):
        size = count.value
        whole_days = unit in MONTHS or unit in ("WEEK", "DAY")
        return add_interval(
            moment, Interval(size * MONTHS.get(unit, 0), size * MICROS.get(unit, 0), whole_days)
        )
    if unit in MONTHS:
        months = scalars.arithmetic("*", whole(count, "a number of months"), Const(MONTHS[unit], INT))
        return call("add_months", moment, months)
    micros = scalars.arithmetic("*", long(count, "a number of units"), Const(MICROS[unit], BIGINT))
    return call("add_micros", scalars.cast(moment, TIMESTAMP), micros, type=TIMESTAMP)


def _add_months(node: exp.AddMonths, read: Reader) -> Scalar:
    return call(
        "add_months",
        scalars.day(read(_undated(node.this)), "add_months"),
        scalars.whole(read(node.expression), "add_months"),
    )


def _date_diff(node: exp.DateDiff, read: Reader) -> Scalar:
    """Days between two dates; with a unit as ``timestampdiff`` counts, not the boundaries between."""
    unit = node.args.get("unit")
    if unit is None or (unit.name.upper() == "DAY" and node.args.get("date_part_boundary")):
        days = (scalars.day(read(_undated(part)), "datediff") for part in (node.this, node.expression))
        return call("days_between", *days, type=INT)
    if node.args.get("date_part_boundary"):
        raise unsupported(node, f"datediff that counts boundaries of {unit.name}", "count days")
    return _difference(node, read)


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


LETTERS = {**Spark.INVERSE_TIME_MAPPING, "%g": "SSS"}
"""Spark's letters for those of C, and for DuckDB's milliseconds."""


def _pattern(node: exp.Expr, known: str) -> str:
    """The pattern of a date, checked; the parser has it in the letters of C."""
    written = node.args.get("format")
    if written is None:
        return DEFAULT_PATTERN
    pattern = format_time(literal_text(written, "a pattern of dates"), LETTERS)
    try:
        pieces(pattern or "", known)
    except ValueRangeError as reason:
        raise invalid(node, str(reason)) from None
    return pattern or ""


def parsed(node: exp.Expr, argument: Scalar) -> Scalar:
    """A TIMESTAMP: of text, by the node's pattern; of a date or timestamp, itself."""
    if argument.type != VARCHAR:
        return timestamp(argument, "a date")
    return call("parse_moment", argument, Const(_pattern(node, "read"), VARCHAR), type=TIMESTAMP)


def _to_date(node: exp.TsOrDsToDate, read: Reader) -> Scalar:
    argument = read(node.this)
    if node.args.get("format"):
        return scalars.cast(parsed(node, argument), DATE)
    return scalars.day(argument, "to_date")


def _to_timestamp(node: exp.StrToTime | exp.StrToDate, read: Reader) -> Scalar:
    moment = parsed(node, read(node.this))
    return scalars.cast(moment, DATE) if isinstance(node, exp.StrToDate) else moment


def _date_format(node: exp.TimeToStr, read: Reader) -> Scalar:
    inner = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
    moment = timestamp(read(inner), "date_format")
    return call("date_format", moment, Const(_pattern(node, "written"), VARCHAR), type=VARCHAR)


def _shown_by(pattern: str) -> Builder:
    return lambda node, read: call(
        "date_format", timestamp(read(_undated(node.this)), pattern), Const(pattern, VARCHAR), type=VARCHAR
    )


def _since_1970(op: str) -> Builder:
    return lambda node, read: call(op, timestamp(read(node.this), op), type=BIGINT)


def _unix_timestamp(node: exp.StrToUnix, read: Reader) -> Scalar:
    if node.this is None or isinstance(node.this, exp.CurrentTimestamp):
        raise unsupported(node, "the time of now", "a view's result must follow from its tables alone")
    micros = call("unix_micros", parsed(node, read(node.this)), type=BIGINT)
    return scalars.arithmetic("div", micros, Const(1_000_000, BIGINT))  # towards 1970, unlike unix_seconds


def _after_epoch(count: Scalar, unit: int) -> Scalar:
    micros = scalars.arithmetic("*", long(count, "a timestamp"), Const(unit, BIGINT))
    return call("add_micros", EPOCH_MOMENT, micros, type=TIMESTAMP)


def _from_unixtime(node: exp.UnixToStr, read: Reader) -> Scalar:
    moment = _after_epoch(read(node.this), 1_000_000)
    return call("date_format", moment, Const(_pattern(node, "written"), VARCHAR), type=VARCHAR)


def _timestamp_of(unit: int) -> Builder:
    def build(node: exp.Anonymous, read: Reader) -> Scalar:
        if len(node.expressions) != 1:
            raise invalid(node, f"{node.name.lower()} takes one argument")
        return _after_epoch(read(node.expressions[0]), unit)

    return build


def _difference(node: exp.TimestampDiff | exp.DateDiff, read: Reader) -> Scalar:
    """Whole units between two moments, BIGINT."""
    unit = node.args["unit"].name.upper().removesuffix("S")
    later, earlier = (
        timestamp(read(_undated(part)), "timestampdiff") for part in (node.this, node.expression)
    )
    if unit in MONTHS:
        months = call("whole_months", later, earlier, type=BIGINT)
        return scalars.arithmetic("div", months, Const(MONTHS[unit], BIGINT))
    if unit not in MICROS:
        raise unsupported(node, f"the unit {unit}", f"there are {', '.join((*MONTHS, *MICROS))}")
    return scalars.arithmetic(
        "div", call("micros_between", later, earlier, type=BIGINT), Const(MICROS[unit], BIGINT)
    )


def _months_between(node: exp.MonthsBetween, read: Reader) -> Scalar:
    moments = (timestamp(read(part), "months_between") for part in (node.this, node.expression))
    rounded = read(node.args["roundoff"]) if node.args.get("roundoff") else Const(True, BOOLEAN)
    return call("months_between", *moments, scalars.condition(rounded, "months_between"), type=DOUBLE)


def _next_day(node: exp.NextDay, read: Reader) -> Scalar:
    """``next_day(d, w) = d + 7 - (weekday(d) - w) mod 7``."""
    name = literal_text(node.expression, "the day of the week").upper()
    found = [place for place, day in enumerate(WEEKDAYS) if name in (day, day[:3], day[:2])]
    if not found:
        raise invalid(node, f"{name!r} is no day of the week")
    day = scalars.day(read(_undated(node.this)), "next_day")
    since = scalars.arithmetic("+", call("weekday", day, type=INT), Const(7 - found[0], INT))
    ahead = scalars.arithmetic("-", Const(7, INT), scalars.arithmetic("%", since, Const(7, INT)))
    return call("add_days", day, ahead, type=DATE)


def _date_part(node: exp.Anonymous, read: Reader) -> Scalar:
    part, moment = node.expressions
    return _named_part(node, literal_text(part, "the part of a date").upper(), read(moment))


def _unix_date(node: exp.UnixDate, read: Reader) -> Scalar:
    return call("days_between", scalars.day(read(_undated(node.this)), "unix_date"), EPOCH_DAY, type=INT)


def _date_from_unix_date(node: exp.DateFromUnixDate, read: Reader) -> Scalar:
    return call("add_days", EPOCH_DAY, whole(read(node.this), "date_from_unix_date"), type=DATE)


DATE_FUNCTIONS: Mapping[type[exp.Expr], Builder] = {
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
    exp.TsOrDsToDate: _to_date,
    exp.StrToDate: _to_timestamp,
    exp.StrToTime: _to_timestamp,
    exp.TimeToStr: _date_format,
    exp.Dayname: _shown_by("EEE"),
    exp.Monthname: _shown_by("MMM"),
    exp.StrToUnix: _unix_timestamp,
    exp.UnixToStr: _from_unixtime,
    exp.UnixSeconds: _since_1970("unix_seconds"),
    exp.UnixMillis: _since_1970("unix_millis"),
    exp.UnixMicros: _since_1970("unix_micros"),
    exp.UnixDate: _unix_date,
    exp.DateFromUnixDate: _date_from_unix_date,
    exp.TsOrDsAdd: _add(1),
    exp.DateAdd: _add(1),
    exp.DateSub: _add(-1),
    exp.TimestampAdd: _timestamp_add,
    exp.AddMonths: _add_months,
    exp.DateDiff: _date_diff,
    exp.TimestampDiff: _difference,
    exp.MonthsBetween: _months_between,
    exp.NextDay: _next_day,
    exp.DateTrunc: _truncate(DATE),
    exp.TimestampTrunc: _truncate(TIMESTAMP),
    exp.LastDay: _last_day,
}
NAMED_DATE_FUNCTIONS: Mapping[str, Builder] = {
    "weekday": lambda node, read: part_of("weekday", read(node.expressions[0])),
    "make_date": called("make_date", DATE, whole, whole, whole),
    "timestamp_seconds": _timestamp_of(1_000_000),
    "timestamp_millis": _timestamp_of(1_000),
    "timestamp_micros": _timestamp_of(1),
    **dict.fromkeys(("date_part", "datepart"), _date_part),
}
