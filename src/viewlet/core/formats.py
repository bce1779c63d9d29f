"""Dates and times as text by a pattern, and back: ``yyyy-MM-dd HH:mm:ss``.

Letters of a pattern are those of Spark, in English; the same ones write and read. What stands between quotes,
and what is no letter, stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache

from viewlet.core import calendar
from viewlet.core.casts import Builder
from viewlet.errors import ValueRangeError

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

WRITTEN: Mapping[str, Callable[[datetime], str]] = {
    "yyyy": lambda moment: f"{moment.year:04}",
    "y": lambda moment: str(moment.year),
    "yy": lambda moment: f"{moment.year % 100:02}",
    "MMMM": lambda moment: MONTHS[moment.month - 1],
    "MMM": lambda moment: MONTHS[moment.month - 1][:3],
    "MM": lambda moment: f"{moment.month:02}",
    "M": lambda moment: str(moment.month),
    "dd": lambda moment: f"{moment.day:02}",
    "d": lambda moment: str(moment.day),
    "EEEE": lambda moment: WEEKDAYS[moment.weekday()],
    **dict.fromkeys(("E", "EE", "EEE"), lambda moment: WEEKDAYS[moment.weekday()][:3]),
    "DDD": lambda moment: f"{moment.timetuple().tm_yday:03}",
    "D": lambda moment: str(moment.timetuple().tm_yday),
    "HH": lambda moment: f"{moment.hour:02}",
    "H": lambda moment: str(moment.hour),
    "hh": lambda moment: f"{(moment.hour - 1) % 12 + 1:02}",
    "h": lambda moment: str((moment.hour - 1) % 12 + 1),
    "mm": lambda moment: f"{moment.minute:02}",
    "m": lambda moment: str(moment.minute),
    "ss": lambda moment: f"{moment.second:02}",
    "s": lambda moment: str(moment.second),
    "SSS": lambda moment: f"{moment.microsecond // 1000:03}",
    "SSSSSS": lambda moment: f"{moment.microsecond:06}",
    "a": lambda moment: "AM" if moment.hour < 12 else "PM",
}
READ: Mapping[str, tuple[str, str]] = {
    "yyyy": ("year", "[0-9]{4}"),
    "MM": ("month", "[0-9]{2}"),
    "M": ("month", "[0-9]{1,2}"),
    "dd": ("day", "[0-9]{2}"),
    "d": ("day", "[0-9]{1,2}"),
    "HH": ("hour", "[0-9]{2}"),
    "H": ("hour", "[0-9]{1,2}"),
    "mm": ("minute", "[0-9]{2}"),
    "m": ("minute", "[0-9]{1,2}"),
    "ss": ("second", "[0-9]{2}"),
    "s": ("second", "[0-9]{1,2}"),
    "SSS": ("fraction", "[0-9]{3}"),
    "SSSSSS": ("fraction", "[0-9]{6}"),
    "MMM": ("name", "|".join(name[:3] for name in MONTHS)),
}

_PIECE = re.compile(r"([A-Za-z])\1*|''|'(?:[^']|'')+'|[^A-Za-z'\[\]{}#]")


@lru_cache(maxsize=256)
def pieces(pattern: str, known: str) -> tuple[tuple[str, bool], ...]:
    """The pieces of a pattern, each with whether it stands for itself; ``known`` is "written" or "read".

    >>> pieces("yyyy'T'H", "written")
    (('yyyy', False), ('T', True), ('H', False))
    """
    there = WRITTEN if known == "written" else READ
    found: list[tuple[str, bool]] = []
    place = 0
    while place < len(pattern):
        piece = _PIECE.match(pattern, place)
        if piece is None or (piece[1] and piece[0] not in there):
            what = piece[0] if piece else pattern[place]
            raise ValueRangeError(
                f"the pattern {pattern!r}: {what!r} at character {place + 1} is not supported; "
                f"there are {' '.join(there)}"
            )
        text = piece[0]
        plain = "'" if text == "''" else text[1:-1].replace("''", "'") if text[0] == "'" else text
        found.append((plain, not piece[1]))
        place = piece.end()
    return tuple(found)


def show_moment(micros: int, pattern: str) -> str:
    """A timestamp as text.

    >>> show_moment(0, "d MMM yyyy, HH:mm")
    '1 Jan 1970, 00:00'
    """
    moment = calendar.datetime_of(micros)
    return "".join(text if plain else WRITTEN[text](moment) for text, plain in pieces(pattern, "written"))


def parse_moment(text: str, pattern: str) -> int:
    """The timestamp that a text means; year, month and day are 1970, 1 and 1 where the pattern has none.

    >>> parse_moment("02/01/1970", "dd/MM/yyyy") == calendar.MICROS_PER_DAY
    True
    """
    found = _reading(pattern).fullmatch(text)
    if found is None:
        raise ValueRangeError(f"{text!r} is not written as {pattern!r}")
    parts = found.groupdict()
    if "name" in parts:
        parts["month"] = str([name[:3] for name in MONTHS].index(parts["name"]) + 1)
    numbers = [
        int(parts.get(part) or default)
        for part, default in {"year": 1970, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}.items()
    ]
    try:
        moment = datetime(*numbers)  # type: ignore[arg-type]
    except ValueError as reason:
        raise ValueRangeError(f"{text!r} is not written as {pattern!r}: {reason}") from None
    return calendar.micros_of(moment) + int((parts.get("fraction") or "").ljust(6, "0"))


@lru_cache(maxsize=256)
def _reading(pattern: str) -> re.Pattern[str]:
    """The regular expression of the texts that a pattern reads."""
    text, seen = "", set()
    for piece, plain in pieces(pattern, "read"):
        if plain:
            text += re.escape(piece)
            continue
        part, digits = READ[piece]
        if part in seen:
            raise ValueRangeError(f"the pattern {pattern!r} has the {part} twice")
        seen.add(part)
        text += f"(?P<{part}>{digits})"
    return re.compile(text, re.ASCII)


FORMAT_FUNCTIONS: Mapping[str, Builder] = {
    "date_format": lambda call: show_moment,
    "parse_moment": lambda call: parse_moment,
}
