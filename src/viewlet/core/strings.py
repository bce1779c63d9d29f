"""Functions of text: LIKE, parts, places, codes and digests; a text is code points."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping
from functools import lru_cache

from viewlet.core.casts import Builder, Function
from viewlet.core.scalar import Call
from viewlet.errors import ValueRangeError

SOUNDEX_CODES = "01230127022455012623017202"
"""Of A to Z: 0 separates, 7 is passed over."""


def _replace(text: str, search: str, replacement: str) -> str:
    return text.replace(search, replacement) if search else text


def _pad(text: str, width: int, padding: str, on_left: bool) -> str:
    missing = width - len(text)
    if missing <= 0 or not padding:
        return text[: max(width, 0)]
    fill = (padding * (missing // len(padding) + 1))[:missing]
    return fill + text if on_left else text + fill


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """SQL LIKE: ``_`` is any one character, ``%`` any number of them, the escape makes them literal.

    >>> like("50% off", "50\\\\%%"), like("promo", "PR%"), like("abc", "a_c")
    (True, False, True)
    """
    return _like_pattern(pattern, escape).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None or literal not in ("_", "%", escape):
                raise ValueRangeError(
                    f"LIKE {pattern!r}: the escape {escape!r} must stand before _ or % or itself"
                )
            parts.append(re.escape(literal))
        else:
            parts.append({"_": ".", "%": ".*"}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def substring(text: str, start: int, length: int | None = None) -> str:
    """From ``start``, counted from 1; 0 counts as 1, a negative start from the end.

    >>> substring("viewlet", 2, 3), substring("viewlet", -3), substring("viewlet", -9, 4)
    ('iew', 'let', 'vi')
    """
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    last = len(text) if length is None else first + length
    return text[max(first, 0) : max(last, 0)]


def split_part(text: str, delimiter: str, number: int) -> str:
    """A part between delimiters, from the end if the number is negative; empty where there is none.

    >>> split_part("a.b.c", ".", 2), split_part("a.b.c", ".", -1), split_part("a", ".", 9)
    ('b', 'c', '')
    """
    if number == 0:
        raise ValueRangeError("split_part: parts are counted from 1, or from -1 at the end; there is no 0")
    parts = text.split(delimiter) if delimiter else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def substring_index(text: str, delimiter: str, count: int) -> str:
    """What stands before the ``count``-th delimiter, or behind it from the end; all of it if there are fewer.

    >>> substring_index("www.a.org", ".", 2), substring_index("www.a.org", ".", -1)
    ('www.a', 'org')
    """
    if not delimiter or count == 0:
        return ""
    if count > 0:
        place = -1
        for _ in range(count):
            place = text.find(delimiter, place + 1)
            if place < 0:
                return text
        return text[:place]
    place = len(text)
    for _ in range(-count):
        place = text.rfind(delimiter, 0, max(place + len(delimiter) - 1, 0))
        if place < 0:
            return text
    return text[place + len(delimiter) :]


def overlay(text: str, replacement: str, start: int, length: int | None = None) -> str:
    """The text with some letters, as many as are new if nothing else is said, replaced.

    >>> overlay("Spark SQL", "_", 6), overlay("Spark SQL", "ANSI ", 7, 0)
    ('Spark_SQL', 'Spark ANSI SQL')
    """
    taken = len(replacement) if length is None or length < 0 else length
    return substring(text, 1, start - 1) + replacement + substring(text, start + taken)


def translate(text: str, wanted: str, given: str) -> str:
    """Each letter of ``wanted`` becomes the one at its place in ``given``, or goes where there is none.

    >>> translate("2024-01", "-0", "/")
    '224/1'
    """
    changes: dict[int, str | None] = {}
    for place, letter in enumerate(wanted):
        changes.setdefault(ord(letter), given[place] if place < len(given) else None)
    return text.translate(changes)


def levenshtein(a: str, b: str) -> int:
    """The least number of letters to insert, delete or change.

    >>> levenshtein("kitten", "sitting")
    3
    """
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (letter != other))
    return row[-1]


def soundex(text: str) -> str:
    """The code of how an English word sounds; a text that does not start with an ASCII letter stays.

    >>> soundex("Robert"), soundex("Rupert"), soundex("Tymczak"), soundex("7")
    ('R163', 'R163', 'T522', '7')
    """
    if not text or not (text[0].isascii() and text[0].isalpha()):
        return text
    first = text[0].upper()
    code, last = first, SOUNDEX_CODES[ord(first) - ord("A")]
    for letter in text[1:]:
        if not (letter.isascii() and letter.isalpha()):
            last = "0"
            continue
        digit = SOUNDEX_CODES[ord(letter.upper()) - ord("A")]
        if digit == "7":
            continue
        if digit not in ("0", last):
            code += digit
            if len(code) == 4:
                return code
        last = digit
    return code.ljust(4, "0")


def initcap(text: str) -> str:
    """The first letter of every word, of those that blanks separate, in upper case; the others in lower case.

    >>> initcap("hELLO wORLD-wide")
    'Hello World-wide'
    """
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


def character(code: int) -> str:
    """The character of a code modulo 256; none below zero.

    >>> character(65), character(321), character(-1)
    ('A', 'A', '')
    """
    return "" if code < 0 else chr(code & 0xFF)


def locate(needle: str, text: str, start: int = 1) -> int:
    """Where one text is in another, from ``start``; 0 if nowhere."""
    return text.find(needle, start - 1) + 1 if start > 0 else 0


def encoded(text: str) -> bytes:
    """UTF-8, also of what is no proper text."""
    return text.encode("utf-8", "surrogatepass")


def _digest(name: str) -> Builder:
    return lambda call: lambda text: hashlib.new(name, encoded(text), usedforsecurity=False).hexdigest()


def _hexadecimal(call: Call) -> Function:
    if call.args[0].type.is_integer:
        return lambda number: format(number & (1 << 64) - 1, "X")
    return lambda text: encoded(text).hex().upper()


TEXT_FUNCTIONS: Mapping[str, Builder] = {
    "like": lambda call: like,
    "concat": lambda call: lambda *texts: "".join(texts),
    "left": lambda call: lambda text, n: text[: max(n, 0)],
    "right": lambda call: lambda text, n: text[-n:] if n > 0 else "",
    "upper": lambda call: str.upper,
    "lower": lambda call: str.lower,
    "trim": lambda call: lambda text, characters=" ": text.strip(characters),
    "ltrim": lambda call: lambda text, characters=" ": text.lstrip(characters),
    "rtrim": lambda call: lambda text, characters=" ": text.rstrip(characters),
    "replace": lambda call: _replace,
    "length": lambda call: len,
    "starts_with": lambda call: str.startswith,
    "ends_with": lambda call: str.endswith,
    "contains": lambda call: lambda text, part: part in text,
    "lpad": lambda call: lambda text, width, padding=" ": _pad(text, width, padding, on_left=True),
    "rpad": lambda call: lambda text, width, padding=" ": _pad(text, width, padding, on_left=False),
    "repeat": lambda call: lambda text, n: text * n,
    "reverse": lambda call: lambda text: text[::-1],
    "substring": lambda call: substring,
    "split_part": lambda call: split_part,
    "substring_index": lambda call: substring_index,
    "overlay": lambda call: overlay,
    "translate": lambda call: translate,
    "levenshtein": lambda call: levenshtein,
    "soundex": lambda call: soundex,
    "initcap": lambda call: initcap,
    "ascii": lambda call: lambda text: ord(text[0]) if text else 0,
    "chr": lambda call: character,
    "position": lambda call: locate,
    "bit_length": lambda call: lambda text: 8 * len(encoded(text)),
    "octet_length": lambda call: lambda text: len(encoded(text)),
    "md5": _digest("md5"),
    "sha1": _digest("sha1"),
    "sha224": _digest("sha224"),
    "sha256": _digest("sha256"),
    "sha384": _digest("sha384"),
    "sha512": _digest("sha512"),
    "crc32": lambda call: lambda text: zlib.crc32(encoded(text)),
    "hex": _hexadecimal,
    "bin": lambda call: lambda number: format(number & (1 << 64) - 1, "b"),
}
