"""Regular expressions: the part of Java's language that Python reads alike, and what is made of it.

A pattern is read letter by letter and written anew, so that nothing in it can mean something else here than
in Spark: literals, ``.``, ``^`` and ``$``, classes, ``\\d \\w \\s`` (ASCII, as in Java), groups ``( )``
and ``(?: )``, lookahead, ``|``, the quantifiers ``* + ? {n,m}`` and their lazy forms, and ``(?i)`` in front.
What the two languages disagree on is refused: word boundaries, back references, lookbehind, named groups,
possessive quantifiers, classes within classes, and repeats of what may be empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from viewlet.core.casts import Builder
from viewlet.errors import ValueRangeError

LINE_ENDS = "\\n\\r\\u0085\\u2028\\u2029"
BEFORE_LAST_LINE_END = (
    "(?:(?=\\r\\n\\Z)|(?<!\\r)(?=\\n\\Z)|(?=[\\r\\u0085\\u2028\\u2029]\\Z)|\\Z)"  # what $ is in Java
)
CLASSES = frozenset("dDwWsS")
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
MARKS = frozenset("\\.^$|?*+()[]{}-/\"'#&,:;<=>@_`~!% ")
MAX_REPEAT = 1000

_BOUNDS = re.compile(r"\{([0-9]{1,4})(,([0-9]{1,4})?)?\}")


class _Reader:
    """Writes a pattern of Java's as one of Python's."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.ignoring_case = pattern.startswith("(?i)")
        if self.ignoring_case:
            self.place = 4

    def refused(self, what: str) -> ValueRangeError:
        return ValueRangeError(
            f"the regular expression {self.pattern!r}: {what} at character {self.place + 1}"
        )

    def next(self) -> str:
        return self.pattern[self.place : self.place + 1]

    def accept(self, text: str) -> bool:
        if not self.pattern.startswith(text, self.place):
            return False
        self.place += len(text)
        return True

    def whole(self) -> re.Pattern[str]:
        """The pattern; nothing may be left of it."""
        text, _ = self.alternatives()
        if self.place < len(self.pattern):
            raise self.refused("a ) closes nothing")
        flags = re.ASCII | (re.IGNORECASE if self.ignoring_case else 0)
        return re.compile(text, flags)

    def alternatives(self) -> tuple[str, bool]:
        """``a|b``, and whether it may match the empty text."""
        branches = [self.sequence()]
        while self.accept("|"):
            branches.append(self.sequence())
        return "|".join(text for text, _ in branches), any(empty for _, empty in branches)

    def sequence(self) -> tuple[str, bool]:
        parts, empty = "", True
        while self.next() not in ("", "|", ")"):
            text, may_be_empty, repeatable = self.item()
            quantifier, optional = self.quantifier()
            if quantifier and (may_be_empty or not repeatable):
                raise self.refused("a repeat of what may be empty is not supported")
            parts += text + quantifier
            empty = empty and (may_be_empty or optional)
        return parts, empty

    def item(self) -> tuple[str, bool, bool]:
        """One item: its text, whether it may match the empty text, whether it may be repeated."""
        letter = self.next()
        self.place += 1
        match letter:
            case ".":
                return f"[^{LINE_ENDS}]", False, True
            case "^":
                return "\\A", True, False
            case "$":
                return BEFORE_LAST_LINE_END, True, False
            case "[":
                return self.choice(), False, True
            case "\\":
                return self.escaped(), False, True
            case "(":
                return self.group()
            case "*" | "+" | "?" | "{":
                self.place -= 1
                raise self.refused(f"{letter!r} repeats nothing (write \\{letter} for the character)")
        return re.escape(letter), False, True

    def group(self) -> tuple[str, bool, bool]:
        opening = next((mark for mark in ("?:", "?=", "?!") if self.accept(mark)), "")
        if not opening and self.next() == "?":
            raise self.refused("named groups, lookbehind and flags inside are not supported")
        text, empty = self.alternatives()
        if not self.accept(")"):
            raise self.refused("a ( is not closed")
        ahead = opening in ("?=", "?!")
        return f"({opening}{text})", empty or ahead, not ahead

    def escaped(self) -> str:
        """What stands behind a backslash."""
        letter = self.next()
        self.place += 1
        if letter in CLASSES:
            return f"\\{letter}"
        if letter in CONTROLS:
            return re.escape(CONTROLS[letter])
        if letter and letter in MARKS:
            return re.escape(letter)
        self.place -= 1
        raise self.refused(f"\\{letter} is not supported")

    def choice(self) -> str:
        """``[a-z_]``, ``[^0-9]``."""
        text = "[^" if self.accept("^") else "["
        first = True
        while first or self.next() != "]":
            letter = self.next()
            if letter in ("", "[", "]", "^") or self.pattern.startswith("&&", self.place):
                raise self.refused(
                    f"{letter!r} in a class needs a backslash" if letter else "a [ is not closed"
                )
            self.place += 1
            first = False
            if letter == "-" and self.next() != "]":
                raise self.refused("a - in a class needs a backslash, unless it stands last")
            one = self.escaped() if letter == "\\" else re.escape(letter)
            if self.next() == "-" and self.pattern[self.place + 1 : self.place + 2] not in ("]", ""):
                self.place += 1
                last = self.next()
                self.place += 1
                end = self.escaped() if last == "\\" else re.escape(last)
                if last == "[" or one[1:] in CLASSES or end[1:] in CLASSES or _letter(one) > _letter(end):
                    raise self.refused("this is no range")
                one = f"{one}-{end}"
            text += one
        self.place += 1
        return text + "]"

    def quantifier(self) -> tuple[str, bool]:
        """``*``, ``+?``, ``{2,3}``, and whether it allows none."""
        letter = self.next()
        if letter and letter in "*+?":
            self.place += 1
            found, optional = letter, letter != "+"
        elif bounds := _BOUNDS.match(self.pattern, self.place):
            low, _, high = bounds.groups()
            if int(low) > MAX_REPEAT or int(high or 0) > MAX_REPEAT or (high and int(high) < int(low)):
                raise self.refused(f"a repeat is at most {MAX_REPEAT} times")
            self.place = bounds.end()
            found, optional = bounds[0], int(low) == 0
        else:
            return "", False
        if self.accept("?"):
            found += "?"
        if self.next() and self.next() in "*+?{":
            raise self.refused("a quantifier may not follow another")
        return found, optional


def _letter(escaped: str) -> str:
    return escaped[-1]


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of Java's as Python understands it.

    >>> compiled("a.$").pattern.startswith("a[^"), compiled("(?i)AB+").search("xabb").group()
    (True, 'abb')
    """
    return _Reader(pattern).whole()


def regexp_like(text: str, pattern: str) -> bool:
    """Does the pattern match somewhere?"""
    return compiled(pattern).search(text) is not None


def regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    """A group of the first match; empty if there is none, or the group took no part in it.

    >>> regexp_extract("ab12", "([a-z]+)([0-9]+)", 2), regexp_extract("-", "(a)", 1)
    ('12', '')
    """
    found = compiled(pattern)
    if not 0 <= group <= found.groups:
        raise ValueRangeError(f"regexp_extract: {pattern!r} has {found.groups} groups, not {group}")
    match = found.search(text)
    return (match[group] or "") if match else ""


def regexp_replace(text: str, pattern: str, replacement: str) -> str:
    """Every match replaced; ``$1`` stands for a group, a backslash makes the next character plain.

    >>> regexp_replace("john smith", "([a-z]+) ([a-z]+)", "$2, $1")
    'smith, john'
    """
    found = compiled(pattern)
    parts = _replacement(replacement, found.groups)
    return found.sub(
        lambda match: "".join(part if isinstance(part, str) else match[part] or "" for part in parts), text
    )


@lru_cache(maxsize=1024)
def _replacement(text: str, groups: int) -> tuple[str | int, ...]:
    """The texts and groups of a replacement; a digit belongs to a number while such a group exists."""
    parts: list[str | int] = []
    letters = iter(range(len(text)))
    for place in letters:
        letter = text[place]
        if letter == "\\" and place + 1 < len(text):
            parts.append(text[next(letters)])
        elif letter == "$" and text[place + 1 : place + 2].isdecimal() and text[place + 1].isascii():
            number = int(text[next(letters)])
            while (more := text[(place := place + 1) + 1 : place + 2]) and more in "0123456789":
                if number * 10 + int(more) > groups:
                    break
                number = number * 10 + int(text[next(letters)])
            if number > groups:
                raise ValueRangeError(f"regexp_replace: there are {groups} groups, ${number} is none of them")
            parts.append(number)
        elif letter in "\\$":
            raise ValueRangeError(f"regexp_replace: a lone {letter} in {text!r}; write \\{letter}")
        else:
            parts.append(letter)
    return tuple(parts)


PATTERN_FUNCTIONS: Mapping[str, Builder] = {
    "regexp_like": lambda call: regexp_like,
    "regexp_extract": lambda call: regexp_extract,
    "regexp_replace": lambda call: regexp_replace,
    "regexp_count": lambda call: lambda text, pattern: sum(1 for _ in compiled(pattern).finditer(text)),
}
