"""SQL text to statements: sqlglot reads queries, the words that are Viewlet's own are read here.

Viewlet's DDL (STREAM, STATIC TABLE, REFRESH ..., MATERIALIZED VIEW) is recognised on sqlglot's tokens; what
is left of a statement is handed to sqlglot with blanks in place of our words, so that every line and column
in an error message is one of the original text. Names are case-insensitive and kept in lower case.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.core.types import Column
from viewlet.errors import SqlError, UnsupportedError
from viewlet.sql.catalog import ForeignKey, Table, TableKind
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.typing import TypeMismatchError, type_of

MAX_NESTING = 100
SPARK_FAMILY = ("spark", "spark2", "databricks", "hive")


class Refresh(Enum):
    """How a view is to be kept fresh."""

    AUTO = "AUTO"
    INCREMENTAL = "INCREMENTAL"
    INCREMENTAL_STRICT = "INCREMENTAL STRICT"
    FULL = "FULL"


class OnConflict(Enum):
    """What an insert does with a row whose key exists already."""

    ERROR = "ERROR"
    REPLACE = "REPLACE"
    IGNORE = "IGNORE"


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE [STATIC] TABLE | STREAM [IF NOT EXISTS] name (columns) [ON CONFLICT ERROR | REPLACE | IGNORE]"""

    table: Table
    if_not_exists: bool = False
    on_conflict: OnConflict = OnConflict.ERROR


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [REFRESH ...] AS query."""

    name: str
    query: exp.Query
    text: str
    refresh: Refresh = Refresh.AUTO
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP [STATIC] TABLE | STREAM | [MATERIALIZED] VIEW [IF EXISTS] name."""

    name: str
    kind: TableKind
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RefreshView:
    """REFRESH MATERIALIZED VIEW name."""

    name: str


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN query, or EXPLAIN name of a view."""

    target: exp.Query | str
    text: str


@dataclass(frozen=True, slots=True)
class Select:
    """A query."""

    query: exp.Query
    text: str


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO table [(columns)] VALUES (literals), ...: the rows as written."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[exp.Expr, ...], ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM table [WHERE condition]."""

    table: str
    where: exp.Expr | None


Statement: TypeAlias = CreateTable | CreateView | Drop | RefreshView | Explain | Select | Insert | Delete


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


def _tokenize(text: str, dialect: str) -> list[Token]:
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
        create = _sqlglot("".join(header) + self._rest_text(), self.dialect)
        if not isinstance(create, exp.Create) or not isinstance(create.this, exp.Schema):
            raise SqlError(f"CREATE TABLE needs a name and a list of columns{self._here()}")
        return CreateTable(_table(create.this, kind), exists, conflict)

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
                self._end()
                return Drop(name, kind, exists)
        raise UnsupportedError(
            f"DROP {self._peek()} is not supported{self._here()}; "
            "there are TABLE, STREAM and MATERIALIZED VIEW"
        )

    def _explain(self) -> Explain:
        """sqlglot takes the rest for one token (and misplaces it), so it is read anew."""
        if self.index == len(self.tokens):
            raise SqlError(f"a query or the name of a view must follow{self._here()}")
        text = self.tokens[self.index].text
        start = self.text.index(text, self.tokens[0].end)
        rest = _Reader(self.text, self.dialect, _tokenize(self._padding(start) + text, self.dialect))
        if len(rest.tokens) == 1:
            return Explain(rest._name(), text)
        return Explain(rest._rest_as_query(), text)

    def _sqlglot_statement(self) -> Statement:
        node = _sqlglot(self._rest_in_place(), self.dialect)
        match node:
            case exp.Query():
                return Select(node, self._rest_text())
            case exp.Insert():
                return _insert(node)
            case exp.Delete():
                return _delete(node)
            case _:
                what = self.tokens[0].text.upper()
                raise UnsupportedError(
                    f"the statement {what} is not supported{_at(self.tokens[0])}; {STATEMENTS}"
                )

    def _rest_as_query(self) -> exp.Query:
        if self.index == len(self.tokens):
            raise SqlError(f"a query must follow{self._here()}")
        node = _sqlglot(self._rest_in_place(), self.dialect)
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
STATEMENTS = "there are CREATE, DROP, REFRESH, EXPLAIN, SELECT, INSERT and DELETE"


def _sqlglot(text: str, dialect: str) -> exp.Expr:
    """sqlglot's tree of one statement."""
    try:
        node = sqlglot.parse_one(text, read=dialect)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        what = str(first.get("description") or error).rstrip(".")
        place = f" at line {first['line']}, column {first['col']}" if first.get("line") else ""
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        raise SqlError(f"syntax error{place}{near}: {what}") from None
    except ValueError as error:
        raise SqlError(f"syntax error: {error}") from None
    return _ansi(node) if dialect.lower() in SPARK_FAMILY else node


def _ansi(node: exp.Expr) -> exp.Expr:
    """Spark's ANSI mode: CAST raises instead of giving NULL, and so does division by zero.

    sqlglot reads Spark SQL as in the older mode, where CAST is TRY_CAST and x / 0 is NULL.
    """

    def strict(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.TryCast) and not part.args.get("safe"):
            return exp.Cast(this=part.this, to=part.args["to"])
        if isinstance(part, exp.Div):
            part.set("safe", False)
        return part

    return node.transform(strict, copy=False)


def _table(schema: exp.Schema, kind: TableKind) -> Table:
    """The table that a CREATE statement describes."""
    name = _table_name(schema.this)
    columns: list[Column] = []
    key: list[tuple[str, ...]] = []
    references: list[ForeignKey] = []
    for item in schema.expressions:
        match item:
            case exp.ColumnDef():
                columns.append(_column(item, key, references))
            case exp.PrimaryKey():
                key.append(tuple(part.name.lower() for part in item.expressions))
            case exp.ForeignKey():
                own = tuple(part.name.lower() for part in item.expressions)
                references.append(_foreign_key(own, item.args["reference"]))
            case exp.Identifier():
                raise invalid(item, f"column {item.name!r} has no type")
            case _:
                what = type(item).__name__
                raise unsupported(item, f"{what} in CREATE TABLE", "there are PRIMARY KEY and FOREIGN KEY")
    return _checked(schema, name, columns, kind, key, references)


def _checked(
    schema: exp.Schema,
    name: str,
    columns: list[Column],
    kind: TableKind,
    keys: list[tuple[str, ...]],
    references: list[ForeignKey],
) -> Table:
    """The table, after checking that its columns are distinct and its keys name them."""
    names = [column.name for column in columns]
    if repeated := sorted({column for column in names if names.count(column) > 1}):
        raise invalid(schema, f"table {name!r} has column {repeated[0]!r} twice")
    if len(keys) > 1:
        raise invalid(schema, f"table {name!r} has two primary keys")
    key = keys[0] if keys else ()
    for column in (*key, *(column for reference in references for column in reference.columns)):
        if column not in names:
            raise invalid(
                schema, f"table {name!r} has no column {column!r} for a key; it has {', '.join(names)}"
            )
    not_null = tuple(Column(c.name, c.type, c.nullable and c.name not in key) for c in columns)
    return Table(name, not_null, kind, key, tuple(references))


def _column(item: exp.ColumnDef, key: list[tuple[str, ...]], references: list[ForeignKey]) -> Column:
    """A column; keys written beside it are added to the lists."""
    name, nullable = item.name.lower(), True
    if item.kind is None:
        raise invalid(item, f"column {name!r} has no type")
    for constraint in item.args.get("constraints") or ():
        match constraint.kind:
            case exp.NotNullColumnConstraint():
                nullable = bool(constraint.kind.args.get("allow_null"))
            case exp.PrimaryKeyColumnConstraint():
                key.append((name,))
            case exp.Reference():
                references.append(_foreign_key((name,), constraint.kind))
            case exp.CommentColumnConstraint():
                continue
            case other:
                raise unsupported(
                    item, f"the constraint {other.sql()}", "there are NOT NULL, PRIMARY KEY, REFERENCES"
                )
    try:
        return Column(name, type_of(item.kind), nullable)
    except TypeMismatchError as error:
        raise invalid(item, f"column {name!r}: {error}") from None


def _foreign_key(columns: tuple[str, ...], reference: exp.Reference) -> ForeignKey:
    """REFERENCES target [(columns)]; without columns the target's are named alike."""
    target = reference.this
    if isinstance(target, exp.Schema):
        return ForeignKey(
            columns, _table_name(target.this), tuple(part.name.lower() for part in target.expressions)
        )
    return ForeignKey(columns, _table_name(target), columns)


def _table_name(node: exp.Expr) -> str:
    if node.args.get("db"):
        raise unsupported(node, f"the qualified table name {node.sql()!r}", "tables have simple names")
    return node.name.lower()


def _insert(node: exp.Insert) -> Insert:
    target, values = node.this, node.expression
    if not isinstance(values, exp.Values) or node.args.get("overwrite") or node.args.get("conflict"):
        raise unsupported(node, "INSERT of anything but VALUES", "insert rows through the Python interface")
    schema = target if isinstance(target, exp.Schema) else None
    columns = tuple(part.name.lower() for part in schema.expressions) if schema else ()
    rows = tuple(
        tuple(row.expressions if isinstance(row, exp.Tuple) else [row]) for row in values.expressions
    )
    return Insert(_table_name(schema.this if schema else target), columns, rows)


def _delete(node: exp.Delete) -> Delete:
    where = node.args.get("where")
    return Delete(_table_name(node.this), where.this if where else None)
