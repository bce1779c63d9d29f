"""One statement in some dialect to a tree that means what it says in Spark's ANSI mode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialects
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import SqlError
from viewlet.sql.foreign import translated
from viewlet.sql.position import unsupported

SPARK_FAMILY = ("spark", "spark2", "databricks", "hive")
WHOLE_INTERVAL = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]+)?\s*[a-zA-Z]*\s*")
OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


def known_dialect(name: str) -> str:
    """The name of a dialect that can be read; any other is refused with the choices.

    >>> known_dialect("klingon")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    viewlet.errors.SqlError: there is no dialect 'klingon'; existing: athena, bigquery, ...
    """
    choices = sorted(dialect.value for dialect in Dialects if dialect.value)
    if name.lower() not in choices:
        raise SqlError(f"there is no dialect {name!r}; existing: {', '.join(choices)}")
    return name


def read_statement(text: str, dialect: str) -> exp.Expr:
    """sqlglot's tree of one statement, in which only what means the same in Spark is left."""
    try:
        node = sqlglot.parse_one(text, read=dialect)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        raise SqlError(f"syntax error{_told(first) if first else f': {error}'}") from None
    except ValueError as error:
        raise SqlError(f"syntax error: {error}") from None
    _refuse_cut_intervals(node, text, dialect)
    if dialect.lower() in SPARK_FAMILY:
        _refuse_frequencies(node, text, dialect)
        return _ansi(node)
    return translated(node, dialect)


def _told(error: dict[str, Any]) -> str:
    """Where sqlglot stumbled, and at what; its column is that of the last character.

    >>> read_statement("SELECT a FROM r GRUOP BY a", "spark")
    Traceback (most recent call last):
    ...
    viewlet.errors.SqlError: syntax error at line 1, column 23 near 'BY': it cannot stand here
    """
    near, what = str(error.get("highlight") or ""), str(error.get("description")).rstrip(".")
    if what.startswith("Invalid expression"):
        what = "it cannot stand here"
    place = f" at line {error['line']}, column {max(1, error['col'] - max(len(near) - 1, 0))}"
    return f"{place if error.get('line') else ''}{f' near {near!r}' if near else ''}: {what}"


def _ansi(node: exp.Expr) -> exp.Expr:
    """Spark's ANSI mode: CAST raises instead of giving NULL, and so does division by zero.

    sqlglot reads Spark SQL as in the older mode, where CAST is TRY_CAST and x / 0 is NULL.
    """
    for division in node.find_all(exp.Div):
        division.set("safe", False)
    for cast in list(node.find_all(exp.TryCast)):  # outer ones first; an inner one moves along with them
        if not cast.args.get("safe"):
            strict = cast.replace(exp.Cast(this=cast.this, to=cast.args["to"]))
            node = strict if cast is node else node
    return node


def _refuse_cut_intervals(node: exp.Expr, text: str, dialect: str) -> None:
    """Refuse INTERVAL '1 day ago', of which sqlglot's tree keeps ``1 day``.

    >>> read_statement("SELECT d + INTERVAL '1 day 02:00' FROM r", "postgres")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    viewlet.errors.UnsupportedError: the INTERVAL '1 day 02:00' is not supported at line 1, column 12; ...
    """
    if node.find(exp.Interval) is None:
        return
    for word, amount in pairwise(sqlglot.tokenize(text, read=dialect)):
        is_text = word.token_type is TokenType.INTERVAL and amount.token_type is TokenType.STRING
        if is_text and not WHOLE_INTERVAL.fullmatch(amount.text):
            what = exp.Interval()
            what.update_positions(word)
            raise unsupported(what, f"the INTERVAL {amount.text!r}", "write one number and its unit")


def _refuse_frequencies(node: exp.Expr, text: str, dialect: str) -> None:
    """Refuse PERCENTILE(x, p, frequency), of whose last argument sqlglot's tree knows nothing."""
    if node.find(exp.Quantile) is None:
        return
    tokens = sqlglot.tokenize(text, read=dialect)
    for place, (name, bracket) in enumerate(pairwise(tokens)):
        is_call = name.text.upper() == "PERCENTILE" and bracket.token_type is TokenType.L_PAREN
        if is_call and _arguments(tokens[place + 2 :]) > 2:
            what = exp.Quantile()
            what.update_positions(name)
            raise unsupported(what, "percentile with a frequency", "repeat the rows in FROM")


def _arguments(tokens: Iterable[Token]) -> int:
    """How many arguments there are up to the bracket that closes a call."""
    depth, commas = 0, 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth < 0:
            break
        commas += depth == 0 and token.token_type is TokenType.COMMA
    return commas + 1
