"""SQL text cut into statements, each with its line, as it was written."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

import sqlglot
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from viewlet.errors import SqlError


@dataclass(frozen=True, slots=True)
class StatementText:
    """The text of one statement without its semicolon, and where it starts in its script."""

    text: str
    line: int
    column: int

    @property
    def placed(self) -> str:
        """The text with blanks in place of all that stands before it, so that errors name its position."""
        return "\n" * (self.line - 1) + " " * (self.column - 1) + self.text


def split(script: str, dialect: str = "spark") -> list[StatementText]:
    """The statements of a script; a semicolon in a string or a comment ends nothing.

    >>> [(part.text, part.line) for part in split("SELECT ';' AS a; -- one; two\\nSELECT 2")]
    [("SELECT ';' AS a", 1), ('SELECT 2', 2)]
    >>> split("-- nothing")
    []
    """
    try:
        tokens = sqlglot.tokenize(script, read=dialect)
    except TokenError as reason:
        raise SqlError(f"the text cannot be read: {reason}") from None
    parts: list[StatementText] = []
    first = None
    for token, following in zip_longest(tokens, tokens[1:]):
        if token.token_type is TokenType.SEMICOLON:
            first = None
            continue
        first = first or token
        if following is None or following.token_type is TokenType.SEMICOLON:
            column = first.start - script.rfind("\n", 0, first.start)
            parts.append(StatementText(script[first.start : token.end + 1], first.line, column))
    return parts


def is_complete(script: str, dialect: str = "spark") -> bool:
    """Does the text end with a semicolon that ends a statement?

    >>> is_complete("SELECT 1;"), is_complete("SELECT ';"), is_complete("SELECT 1; -- done")
    (True, False, True)
    """
    try:
        tokens = sqlglot.tokenize(script, read=dialect)
    except TokenError:
        return False
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON
