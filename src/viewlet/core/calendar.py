"""Dates and timestamps as integers: days and microseconds since 1970-01-01, proleptic Gregorian, no zone.

Years 1 to 9999 exist, as in Spark and in Python's ``datetime``; leaving them raises.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from viewlet.errors import ValueRangeError

EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
EPOCH = datetime(1970, 1, 1)
MICROS_PER_SECOND = 1_000_000
MICROS_PER_DAY = 86_400 * MICROS_PER_SECOND
FIRST_DAY = 1 - EPOCH_ORDINAL
LAST_DAY = date.max.toordinal() - EPOCH_ORDINAL

_DATE_TEXT = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP_TEXT = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?)?)?",
    re.ASCII,
)


def days_of(day: date) -> int:
    """Days since 1970-01-01.

    >>> days_of(date(1970, 1, 2)), days_of(date(1969, 12, 31))
    (1, -1)
    """
    return day.toordinal() - EPOCH_ORDINAL


def date_of(days: int) -> date:
    """The calendar date of a day number.

    >>> date_of(-719162)
    datetime.date(1, 1, 1)
    """
    if not FIRST_DAY <= days <= LAST_DAY:
        raise ValueRangeError(f"day {days} after 1970-01-01 is outside the years 1 to 9999")
    return date.fromordinal(days + EPOCH_ORDINAL)


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970-01-01 00:00:00 of a datetime without zone.

    >>> micros_of(datetime(1969, 12, 31, 23, 59, 59, 999_999))
    -1
    """
    return (moment - EPOCH) // timedelta(microseconds=1)


def datetime_of(micros: int) -> datetime:
    """The calendar time of a microsecond number."""
    days, rest = divmod(micros, MICROS_PER_DAY)
    day = date_of(days)
    return datetime(day.year, day.month, day.day) + timedelta(microseconds=rest)


def add_months(days: int, months: int) -> int:
    """The same day of a later month, or its last day where that month is shorter.

    >>> str(date_of(add_months(days_of(date(2024, 1, 31)), 1)))
    '2024-02-29'
    """
    day = date_of(days)
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise ValueRangeError(f"{day} plus {months} months is outside the years 1 to 9999")
    return days_of(date(year, month + 1, min(day.day, month_length(year, month + 1))))


def make_date(year: int, month: int, day: int) -> int:
    """The day number of a date given in parts."""
    try:
        return days_of(date(year, month, day))
    except (ValueError, OverflowError) as reason:
        raise ValueRangeError(f"make_date({year}, {month}, {day}): {reason}") from None


def months_between(later: int, earlier: int) -> float:
    """Months between two moments: whole between equal or last days of months, else in parts of 31 days.

    >>> day = MICROS_PER_DAY
    >>> months_between(days_of(date(2024, 2, 29)) * day, days_of(date(2024, 1, 31)) * day)
    1.0
    """
    a, b = date_of(later // MICROS_PER_DAY), date_of(earlier // MICROS_PER_DAY)
    months = float((a.year - b.year) * 12 + a.month - b.month)
    if a.day == b.day or all(day.day == month_length(day.year, day.month) for day in (a, b)):
        return months
    seconds = [moment % MICROS_PER_DAY // MICROS_PER_SECOND for moment in (later, earlier)]
    return months + ((a.day - b.day) * 86_400 + seconds[0] - seconds[1]) / (31 * 86_400)


def whole_months(later: int, earlier: int) -> int:
    """How many months fit between two moments, below 0 if the later one is earlier.

    A last day that is not whole does not count; then the days of months are compared, as Java does.

    >>> whole_months(micros_of(datetime(2024, 3, 30)), micros_of(datetime(2024, 1, 31)))
    1
    """
    (days, clock), (from_days, from_clock) = (divmod(moment, MICROS_PER_DAY) for moment in (later, earlier))
    days += (days < from_days and clock > from_clock) - (days > from_days and clock < from_clock)
    end, start = ((day.year * 12 + day.month) * 32 + day.day for day in (date_of(days), date_of(from_days)))
    return (end - start) // 32 if end >= start else -((start - end) // 32)


def month_length(year: int, month: int) -> int:
    """The number of days of a month."""
    if month == 12:
        return 31
    return (date(year, month + 1, 1) - date(year, month, 1)).days


def truncate_date(days: int, unit: str) -> int:
    """The first day of the year, quarter, month or (Monday) week that holds a day."""
    day = date_of(days)
    match unit:
        case "year":
            return days_of(date(day.year, 1, 1))
        case "quarter":
            return days_of(date(day.year, day.month - (day.month - 1) % 3, 1))
        case "month":
            return days - day.day + 1
        case "week":
            return days - day.weekday()
        case "day":
            return days
    raise ValueRangeError(f"date_trunc: no unit {unit!r} for a date; use year, quarter, month, week or day")


SUBDAY_UNITS = {
    "hour": 3600 * MICROS_PER_SECOND,
    "minute": 60 * MICROS_PER_SECOND,
    "second": MICROS_PER_SECOND,
    "millisecond": 1000,
    "microsecond": 1,
}


def truncate_timestamp(micros: int, unit: str) -> int:
    """The start of the unit that holds a moment.

    >>> str(datetime_of(truncate_timestamp(micros_of(datetime(2024, 5, 17, 8, 30)), "month")))
    '2024-05-01 00:00:00'
    """
    if unit in SUBDAY_UNITS:
        return micros - micros % SUBDAY_UNITS[unit]
    return truncate_date(micros // MICROS_PER_DAY, unit) * MICROS_PER_DAY


def parse_date(text: str) -> int:
    """``yyyy[-m[-d]]`` as a day number; a time of day behind it is ignored, as Spark does.

    >>> parse_date("1998-12-01") == days_of(date(1998, 12, 1))
    True
    """
    match = _DATE_TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueRangeError(f"{text!r} is not a DATE: expected yyyy-mm-dd")
    year, month, day = (int(part or 1) for part in match.groups())
    try:
        return days_of(date(year, month, day))
    except ValueError as reason:
        raise ValueRangeError(f"{text!r} is not a DATE: {reason}") from None


def parse_timestamp(text: str) -> int:
    """``yyyy-mm-dd[ hh:mm[:ss[.ffffff]]]`` as microseconds; digits beyond microseconds are cut.

    >>> parse_timestamp("1970-01-01 00:00:01.5")
    1500000
    """
    match = _TIMESTAMP_TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueRangeError(
            f"{text!r} is not a TIMESTAMP: expected yyyy-mm-dd hh:mm:ss, without a time zone"
        )
    year, month, day, hour, minute, second, fraction = match.groups()
    try:
        moment = datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0)
        )
    except ValueError as reason:
        raise ValueRangeError(f"{text!r} is not a TIMESTAMP: {reason}") from None
    return micros_of(moment) + int((fraction or "").ljust(6, "0")[:6])


def show_date(days: int) -> str:
    """``yyyy-mm-dd``."""
    return date_of(days).isoformat()


def show_timestamp(micros: int) -> str:
    """``yyyy-mm-dd hh:mm:ss``, with the fraction only as long as needed.

    >>> show_timestamp(1_500_000)
    '1970-01-01 00:00:01.5'
    """
    text = datetime_of(micros).isoformat(sep=" ")
    return text.rstrip("0") if "." in text else text
