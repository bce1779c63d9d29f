"""Functions of dates and times: their parts, what is added to them, and what lies between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from viewlet.core import calendar
from viewlet.core.casts import Builder, Function, rescale
from viewlet.core.scalar import Call
from viewlet.core.types import Kind


def _date_part(part: Callable[[int], int]) -> Builder:
    """A part of the day: of a DATE, or of the day that holds a TIMESTAMP."""

    def build(call: Call) -> Function:
        if call.args[0].type.kind is Kind.TIMESTAMP:
            return lambda micros: part(micros // calendar.MICROS_PER_DAY)
        return part

    return build


def _clock_part(unit: int, count: int) -> Builder:
    return lambda call: lambda micros: micros // unit % count


def _second(call: Call) -> Function:
    """Whole seconds of the minute, or with the fraction that a DECIMAL result asks for."""
    unit = 60 * calendar.MICROS_PER_SECOND
    if call.type.kind is Kind.DECIMAL:
        return lambda micros: rescale(micros % unit, 6, call.type.scale)
    return lambda micros: micros % unit // calendar.MICROS_PER_SECOND


def _date_trunc(call: Call) -> Function:
    truncate = (
        calendar.truncate_timestamp if call.args[1].type.kind is Kind.TIMESTAMP else calendar.truncate_date
    )
    return lambda unit, value: truncate(value, unit.lower())


def _add_months(call: Call) -> Function:
    if call.args[0].type.kind is Kind.TIMESTAMP:
        day = calendar.MICROS_PER_DAY
        return lambda micros, months: calendar.add_months(micros // day, months) * day + micros % day
    return calendar.add_months


def _add_days(days: int, count: int) -> int:
    calendar.date_of(days + count)
    return days + count


def _add_micros(micros: int, count: int) -> int:
    calendar.date_of((micros + count) // calendar.MICROS_PER_DAY)
    return micros + count


def _months_between(call: Call) -> Function:
    """Months and parts of 31 days between two moments, rounded to 8 digits if the third argument says so."""

    def run(later: int, earlier: int, rounded: bool) -> float:
        months = calendar.months_between(later, earlier)
        return math.floor(months * 1e8 + 0.5) / 1e8 if rounded else months

    return run


def _last_day(days: int) -> int:
    day = calendar.date_of(days)
    return days - day.day + calendar.month_length(day.year, day.month)


DATE_FUNCTIONS: Mapping[str, Builder] = {
    "year": _date_part(lambda days: calendar.date_of(days).year),
    "quarter": _date_part(lambda days: (calendar.date_of(days).month + 2) // 3),
    "month": _date_part(lambda days: calendar.date_of(days).month),
    "week": _date_part(lambda days: calendar.date_of(days).isocalendar().week),
    "day": _date_part(lambda days: calendar.date_of(days).day),
    "dayofweek": _date_part(lambda days: (days + 4) % 7 + 1),
    "weekday": _date_part(lambda days: (days + 3) % 7),
    "dayofyear": _date_part(lambda days: calendar.date_of(days).timetuple().tm_yday),
    "hour": _clock_part(calendar.SUBDAY_UNITS["hour"], 24),
    "minute": _clock_part(calendar.SUBDAY_UNITS["minute"], 60),
    "second": _second,
    "unix_seconds": lambda call: lambda micros: micros // 1_000_000,
    "unix_millis": lambda call: lambda micros: micros // 1_000,
    "unix_micros": lambda call: lambda micros: micros,
    "date_trunc": _date_trunc,
    "add_days": lambda call: _add_days,
    "add_months": _add_months,
    "add_micros": lambda call: _add_micros,
    "days_between": lambda call: lambda later, earlier: later - earlier,
    "last_day": lambda call: _last_day,
    "make_date": lambda call: calendar.make_date,
    "months_between": _months_between,
    "whole_months": lambda call: calendar.whole_months,
    "micros_between": lambda call: lambda later, earlier: later - earlier,
}
