"""SQL text to statements: sqlglot reads queries, the words that are Viewlet's own are read here.

Viewlet's DDL (STREAM, STATIC TABLE, REFRESH ..., MATERIALIZED VIEW) is recognised on sqlglot's tokens; what
is left of a statement is handed to sqlglot with blanks in place of our words, so that every line and column
in an error message is one of the original text. Names are case-insensitive and kept in lower case.
"""

from __future__ import annotations

from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import SqlError, UnsupportedError, choices
from viewlet.sql.catalog import TableKind
from viewlet.sql.ddl import table_of
from viewlet.sql.dialects import read_statement
from viewlet.sql.dml import delete_of, insert_of, merge_of, truncate_of, update_of
from viewlet.sql.statements import (
    CreateTable,
    CreateView,
    DataChange,
    Delete,
    Describe,
    Drop,
    Explain,
    Insert,
    InsertQuery,
    Listing,
    Merge,
    OnConflict,
    Refresh,
    RefreshView,
    Select,
    Show,
    Statement,
    Update,
)

__all__ = [
    "CreateTable",
    "CreateView",
    "DataChange",
    "Delete",
    "Describe",
    "Drop",
    "Explain",
    "Insert",
    "InsertQuery",
    "Listing",
    "Merge",
    "OnConflict",
    "Refresh",
    "RefreshView",
    "Select",
    "Show",
    "Statement",
    "Update",
    "parse",
    "parse_query",
]

MAX_NESTING = 100


def parse(text: str, dialect: str = "spark") -> tuple[Statement, ...]:
    """The statements of a text, in order.

    >>> [type(statement).__name__ for statement in parse("CREATE STREAM s (a BIGINT); SELECT a FROM s")]
    ['CreateTable', 'Select']
    """
    try:
        tokens = _tokenize(text, dialect)
        return tuple(_Reader(text, dialect, part).statement() for part in _split(tokens))
    except RecursionError:
        raise UnsupportedError("the statement is nested too deeply; split it into several views") from None


def parse_query(text: str, dialect: str = "spark") -> exp.Query:
    """The one query that a text consists of."""
    statements = parse(text, dialect)
    if len(statements) != 1 or not isinstance(statements[0], Select):
        kinds = ", ".join(type(statement).__name__ for statement in statements) or "nothing"
        raise SqlError(f"expected one query, found {kinds}")
    return statements[0].query


def _tokenize(text: Any, dialect: str) -> list[Token]:
    if not isinstance(text, str):
        raise SqlError(f"SQL is a text, not {type(text).__name__}")
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
    except TokenError as error:
        raise SqlError(f"the text cannot be read: {error}") from None
    except ValueError as error:
        raise SqlError(str(error)) from None
    depth = 0
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth > MAX_NESTING:
            raise UnsupportedError(
                f"nesting deeper than {MAX_NESTING} parentheses is not supported{_at(token)}; "
                "split the query into several views"
            )
    return tokens


def _split(tokens: list[Token]) -> list[list[Token]]:
    """The tokens of each statement, semicolons and empty statements removed."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _at(token: Token) -> str:
    return f" at line {token.line}, column {max(1, token.col - (token.end - token.start))}"


class _Reader:
    """Reads one statement from its tokens."""

    def __init__(self, text: str, dialect: str, tokens: list[Token]) -> None:
        self.text = text
        self.dialect = dialect
        self.tokens = tokens
        self.index = 0

    def statement(self) -> Statement:
        """The statement; its first words say which kind it is."""
        if self._accept("CREATE"):
            return self._create()
        if self._accept("DROP"):
            return self._drop()
        if self._accept("REFRESH"):
            self._expect("MATERIALIZED", "VIEW")
            statement = RefreshView(self._name())
            self._end()
            return statement
        if self._accept("EXPLAIN"):
            return self._explain()
        if self._accept("SHOW"):
            return self._command()._show()
        if self._accept("DESCRIBE") or self._accept("DESC"):
            return self._describe()
        return self._sqlglot_statement()

    def _create(self) -> Statement:
        replace = self._accept("OR", "REPLACE")
        if self._accept("MATERIALIZED", "VIEW"):
            return self._create_view(replace)
        if self._accept("VIEW"):
            raise UnsupportedError(
                f"CREATE VIEW is not supported{self._here()}; write CREATE MATERIALIZED VIEW"
            )
        if replace:
            raise UnsupportedError(f"OR REPLACE of a table is not supported{self._here()}; drop it first")
        for words, kind in TABLE_WORDS.items():
            if self._accept(*words):
                return self._create_table(kind)
        raise UnsupportedError(
            f"CREATE {self._peek()} is not supported{self._here()}; "
            "there are TABLE, STATIC TABLE, STREAM and MATERIALIZED VIEW"
        )

    def _create_view(self, replace: bool) -> CreateView:
        exists = self._accept("IF", "NOT", "EXISTS")
        name = self._name()
        refresh = Refresh.AUTO
        if self._accept("REFRESH"):
            refresh = self._refresh()
        self._expect("AS")
        query = self._rest_as_query()
        return CreateView(name, query, self._rest_text(), refresh, replace, exists)

    def _refresh(self) -> Refresh:
        for choice in (Refresh.INCREMENTAL_STRICT, Refresh.INCREMENTAL, Refresh.AUTO, Refresh.FULL):
            if self._accept(*choice.value.split()):
                return choice
        choices = " | ".join(choice.value for choice in Refresh)
        raise SqlError(f"REFRESH needs one of {choices}, found {self._peek()!r}{self._here()}")

    def _create_table(self, kind: TableKind) -> CreateTable:
        kind_word = self.tokens[self.index - 1]
        exists = self._accept("IF", "NOT", "EXISTS")
        conflict = self._take_conflict()
        if self.index == len(self.tokens):
            raise SqlError(f"a name must follow{self._here()}")
        header = list(self._padding(self.tokens[self.index].start))
        for place, word in ((self.tokens[0].start, "CREATE"), (kind_word.start, "TABLE")):
            header[place : place + len(word)] = word
        create = read_statement("".join(header) + self._rest_text(), self.dialect)
        if not isinstance(create, exp.Create) or not isinstance(create.this, exp.Schema):
            raise SqlError(f"CREATE TABLE needs a name and a list of columns{self._here()}")
        return CreateTable(table_of(create.this, kind), exists, conflict)

    def _take_conflict(self) -> OnConflict:
        """Remove a final ``ON CONFLICT ...`` from the tokens."""
        words = [token.text.upper() for token in self.tokens[-3:]]
        if words[:2] != ["ON", "CONFLICT"]:
            return OnConflict.ERROR
        if words[2] not in OnConflict.__members__:
            raise SqlError(
                f"ON CONFLICT needs one of {', '.join(OnConflict.__members__)}, found {words[2]!r}"
                f"{_at(self.tokens[-1])}"
            )
        del self.tokens[-3:]
        return OnConflict[words[2]]

    def _drop(self) -> Drop:
        for words, kind in DROP_WORDS.items():
            if self._accept(*words):
                exists = self._accept("IF", "EXISTS")
                name = self._name()
                cascade = self._accept("CASCADE")
                if not cascade:
                    self._accept("RESTRICT")  # the rule without a word, too
                self._end()
                return Drop(name, kind, exists, cascade)
        raise UnsupportedError(
            f"DROP {self._peek()} is not supported{self._here()}; "
            "there are TABLE, STREAM and MATERIALIZED VIEW"
        )

    def _explain(self) -> Explain:
        if self.index == len(self.tokens):
            raise SqlError(f"a query or the name of a view must follow{self._here()}")
        rest, text = self._command(), self.tokens[self.index].text
        if len(rest.tokens) == 1:
            return Explain(rest._name(), text)
        return Explain(rest._rest_as_query(), text)

    def _command(self) -> _Reader:
        """What follows a word after which sqlglot takes all for one token (and misplaces it): read anew."""
        if len(self.tokens) != self.index + 1:
            return self
        text = self.tokens[self.index].text
        start = self.text.index(text, self.tokens[0].end)
        return _Reader(self.text, self.dialect, _tokenize(self._padding(start) + text, self.dialect))

    def _show(self) -> Show:
        views = self._accept("VIEWS") or self._accept("MATERIALIZED", "VIEWS")
        if not views and not self._accept("TABLES"):
            what = f"SHOW {self._peek()}" if self.index < len(self.tokens) else "SHOW alone"
            raise UnsupportedError(
                f"{what} is not supported{self._here()}; there are SHOW TABLES and SHOW VIEWS"
            )
        liked = self._accept("LIKE")
        return Show(views, self._pattern() if liked or self.index < len(self.tokens) else "*")

    def _pattern(self) -> str:
        if self.index == len(self.tokens) or self.tokens[self.index].token_type is not TokenType.STRING:
            raise SqlError(f"a pattern in quotes must follow, found {self._peek()!r}{self._here()}")
        self.index += 1
        self._end()
        return self.tokens[self.index - 1].text

    def _describe(self) -> Describe:
        self._accept("TABLE")
        statement = Describe(self._name())
        self._end()
        return statement

    def _sqlglot_statement(self) -> Statement:
        if self.tokens[0].token_type is TokenType.VAR:
            word, place = self.tokens[0].text.upper(), _at(self.tokens[0])
            raise SqlError(f"{word} begins no statement{place}; {choices(word, STATEMENTS)}")
        node = read_statement(self._rest_in_place(), self.dialect)
        match node:
            case exp.Query():
                return Select(node, self._rest_text())
            case exp.Insert():
                return insert_of(node)
            case exp.Update():
                return update_of(node)
            case exp.Delete():
                return delete_of(node)
            case exp.TruncateTable():
                return truncate_of(node)
            case exp.Merge():
                return merge_of(node)
            case _:
                what = self.tokens[0].text.upper()
                raise UnsupportedError(
                    f"the statement {what} is not supported{_at(self.tokens[0])}; "
                    f"there are {', '.join(STATEMENTS)}"
                )

    def _rest_as_query(self) -> exp.Query:
        if self.index == len(self.tokens):
            raise SqlError(f"a query must follow{self._here()}")
        node = read_statement(self._rest_in_place(), self.dialect)
        if not isinstance(node, exp.Query):
            raise SqlError(f"a query must follow, found {self._peek()!r}{self._here()}")
        return node

    def _rest_in_place(self) -> str:
        """The rest of the statement, preceded by as many lines and blanks as stand before it."""
        return self._padding(self.tokens[self.index].start) + self._rest_text()

    def _padding(self, length: int) -> str:
        return "".join(character if character == "\n" else " " for character in self.text[: max(0, length)])

    def _rest_text(self) -> str:
        return self._text_between(self.index, len(self.tokens))

    def _text_between(self, start: int, end: int) -> str:
        if start >= end:
            return ""
        return self.text[self.tokens[start].start : self.tokens[end - 1].end + 1]

    def _peek(self, ahead: int = 0) -> str:
        place = self.index + ahead
        return self.tokens[place].text.upper() if place < len(self.tokens) else "the end"

    def _here(self) -> str:
        return _at(self.tokens[min(self.index, len(self.tokens) - 1)])

    def _accept(self, *words: str) -> bool:
        """Take these words if they come next; a token of sqlglot may consist of several words."""
        place = 0
        spelled: list[str] = []
        while len(spelled) < len(words) and self.index + place < len(self.tokens):
            spelled += self._peek(place).split()
            place += 1
        if tuple(spelled) != words:
            return False
        self.index += place
        return True

    def _expect(self, *words: str) -> None:
        if not self._accept(*words):
            raise SqlError(f"expected {' '.join(words)}, found {self._peek()!r}{self._here()}")

    def _name(self) -> str:
        if self.index == len(self.tokens):
            raise SqlError(f"a name must follow{self._here()}")
        token = self.tokens[self.index]
        if not (
            token.text[:1].isalpha() or token.text[:1] == "_" or token.token_type is TokenType.IDENTIFIER
        ):
            raise SqlError(f"a name must follow, found {token.text!r}{self._here()}")
        self.index += 1
        return token.text.lower()

    def _end(self) -> None:
        if self.index < len(self.tokens):
            raise SqlError(f"nothing may follow, found {self._peek()!r}{self._here()}")


TABLE_WORDS = {
    ("TABLE",): TableKind.TABLE,
    ("STREAM",): TableKind.STREAM,
    ("STATIC", "TABLE"): TableKind.STATIC,
}
DROP_WORDS = {
    **TABLE_WORDS,
    ("MATERIALIZED", "VIEW"): TableKind.VIEW,
    ("VIEW",): TableKind.VIEW,
}
STATEMENTS = (
    *("CREATE", "DROP", "REFRESH", "EXPLAIN", "SHOW", "DESCRIBE", "SELECT"),
    *("INSERT", "UPDATE", "DELETE", "TRUNCATE", "MERGE"),
)
