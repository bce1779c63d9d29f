"""Queries of PostgreSQL's clients to queries that DuckDB answers, with the same columns.

A rewrite of the tree, from its leaves up: schemas and collations disappear, casts to ``regclass`` and the
like become lookups, functions of the catalog become macros, and columns get PostgreSQL's names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from viewlet.adhoc import named_relations
from viewlet.errors import SqlError
from viewlet.pgwire.arrays import text_items
from viewlet.pgwire.catalog import is_catalog
from viewlet.pgwire.described import Described
from viewlet.pgwire.errors import WireError
from viewlet.pgwire.functions import FUNCTION_NAMES, PREFIX
from viewlet.pgwire.parameters import is_quantifier, of_cast, type_name
from viewlet.pgwire.reader import DIALECT
from viewlet.pgwire.types import NUMERIC

VERSION = "15.0"

_LIST = re.compile(r"\{[\d,]*\}")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_TEXT_TYPES = ("name", "char", "regprocedure", "regoper", "regrole", "regconfig", "aclitem", "inet")
_OPERATORS: dict[str, type[exp.Binary]] = {"~": exp.RegexpLike, "=": exp.EQ, "<>": exp.NEQ, "~~": exp.Like}


_KEYWORDS = exp.select("keyword_name AS word", "keyword_category AS catdesc").from_("duckdb_keywords()")
_RENAMED = {"json_build_object": "json_object", "jsonb_build_object": "json_object"}
_SESSION: dict[type[exp.Expr], str] = {
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
    exp.CurrentDatabase: "current_database",
    exp.CurrentCatalog: "current_catalog",
    exp.CurrentSchema: "current_schema",
    exp.CurrentSchemas: "current_schemas",
    exp.CurrentVersion: "version",
}


@dataclass(frozen=True, slots=True)
class Translated:
    """A query for DuckDB, what it reads, and the functions that it calls."""

    text: str
    relations: tuple[str, ...]
    catalog_relations: tuple[str, ...]
    functions: tuple[str, ...]


def to_duckdb(query: exp.Query, described: Described) -> Translated:
    """Translate a query without parameters.

    >>> import sqlglot
    >>> from viewlet.sql.catalog import Catalog
    >>> described = Described(Catalog(), {}, "ann", "viewlet", {})
    >>> to_duckdb(sqlglot.parse_one("SELECT count(*) FROM public.Bids", read="postgres"), described).text
    'SELECT COUNT(*) AS "count" FROM bids'
    """
    tree = normalize_identifiers(query.copy(), dialect=DIALECT)
    assert isinstance(tree, exp.Query)
    _name_columns(tree)
    rewrite = _Rewrite(described)
    for node in reversed(list(tree.walk())):
        changed = rewrite.changed(node)
        if changed is not node:
            node.replace(changed)
    names = named_relations(tree)
    try:
        text = tree.sql("duckdb")
    except SqlglotError as reason:
        raise SqlError(f"the query cannot be written in DuckDB's SQL: {reason}") from None
    return Translated(
        text,
        tuple(name for name in names if not _in_catalog(name, described)),
        tuple(name for name in names if _in_catalog(name, described)),
        tuple(sorted(rewrite.functions)),
    )


def _in_catalog(name: str, described: Described) -> bool:
    return name not in described.relations and is_catalog(name)


def _name_columns(query: exp.Query) -> None:
    """Name result columns as PostgreSQL does: by the column, the function, or not at all."""
    select: exp.Expr = query
    while isinstance(select, (exp.SetOperation, exp.Subquery)):
        select = select.this
    if isinstance(select, exp.Select):
        for projection in select.expressions:
            if name := _name_of(projection):
                projection.replace(exp.alias_(projection.copy(), name, quoted=True))


def _name_of(projection: exp.Expr) -> str | None:
    """The name that a result column needs, ``None`` where it has one."""
    match projection:
        case exp.Alias() | exp.Star() | exp.Column():
            return None
        case exp.Cast(this=inner):
            name = inner.name if isinstance(inner, exp.Column) else _name_of(inner)
            return of_cast(projection.to).name if name in (None, "?column?") else name
        case exp.Dot(expression=inner):
            return _name_of(inner) if isinstance(inner, exp.Func) else inner.name
        case exp.Filter(this=called) | exp.Window(this=called) | exp.WithinGroup(this=called):
            return _name_of(called)
        case exp.Case():
            return "case"
        case exp.AtTimeZone():
            return "timezone"
        case exp.CurrentTimestamp():  # sqlglot has one node for both, and a place for calls alone
            return "now" if projection.meta else "current_timestamp"
        case exp.Subquery(this=exp.Select(expressions=[only])):
            return only.alias_or_name or _name_of(only)
        case exp.Anonymous():
            return str(projection.this).lower()
        case _ if type(projection) in _SESSION:
            return _SESSION[type(projection)]
        case exp.Func() if not isinstance(projection, (exp.Binary, exp.Array)):
            called = re.match(r"\w+", projection.sql(DIALECT))
            return (called[0] if called else projection.sql_name()).lower()
        case _:
            return "?column?"


class _Rewrite:
    """Changes single nodes whose children are changed already, and notes the functions that they call."""

    def __init__(self, described: Described) -> None:
        self._described = described
        self.functions: set[str] = set()

    def changed(self, node: exp.Expr) -> exp.Expr:
        """What stands in place of a node, or the node itself."""
        match node:
            case exp.Table(this=exp.Anonymous() as call) if str(call.this).lower() == "pg_get_keywords":
                return _KEYWORDS.subquery(node.alias or "pg_get_keywords")
            case exp.Table():
                return _relation(node)
            case exp.Column() if node.args.get("db"):
                return exp.Column(this=node.this, table=node.args["table"])
            case exp.Dot(this=exp.Identifier(this="pg_catalog" | "information_schema")):
                return _child(node.expression)
            case exp.Collate():
                return _child(node.this)
            case exp.Operator():
                return _operation(node)
            case exp.Cast():
                return self._cast(node)
            case exp.CurrentTimestamp():
                return exp.Anonymous(this="now")
            case exp.Literal() if node.is_string and _is_list(node):
                return _array(node.name, as_numbers=True)
            case exp.Anonymous() if str(node.this).lower() in _RENAMED:
                return exp.Anonymous(this=_RENAMED[str(node.this).lower()], expressions=node.expressions)
            case exp.Anonymous() if str(node.this).lower() in FUNCTION_NAMES:
                return self._call(str(node.this).lower(), node.expressions)
            case exp.EQ(expression=exp.Literal() as text) | exp.NEQ(expression=exp.Literal() as text):
                if text.is_string and _LIST.fullmatch(text.name):
                    numbers = [exp.Literal.number(n) for n in text.name[1:-1].split(",") if n]
                    text.replace(exp.Array(expressions=numbers))
                return node
            case _:
                return self._session_value(node) or node

    def _session_value(self, node: exp.Expr) -> exp.Expr | None:
        """What a function says about the session; sqlglot knows most of them, but not behind a schema."""
        name = str(node.this).lower() if isinstance(node, exp.Anonymous) else _SESSION.get(type(node))
        match name:
            case "current_user" | "session_user" | "user" | "current_role":
                return exp.Literal.string(self._described.user)
            case "current_database" | "current_catalog":
                return exp.Literal.string(self._described.database)
            case "current_schema":
                return exp.Literal.string("public")
            case "current_schemas":
                return exp.Array(expressions=[exp.Literal.string(n) for n in ("pg_catalog", "public")])
            case "version":
                return exp.Literal.string(f"PostgreSQL {VERSION} (Viewlet)")
            case _:
                return None

    def _call(self, name: str, arguments: list[exp.Expr]) -> exp.Expr:
        self.functions.add(name)
        return exp.Anonymous(this=PREFIX + name, expressions=[a.copy() for a in arguments])

    def _cast(self, node: exp.Cast) -> exp.Expr:
        """``'name'::regclass`` is an OID, and an OID ``::regclass`` is shown as a name."""
        to = node.to
        if to.this is exp.DType.ARRAY and isinstance(node.this, exp.Literal) and node.this.is_string:
            return exp.cast(_array(node.this.name), _with_digits(to))
        if to.this is exp.DType.ARRAY:
            return exp.cast(node.this.copy(), _with_digits(to))
        name = type_name(to)
        if name in ("regclass", "regtype", "regproc"):
            by_name = isinstance(node.this, exp.Literal) and not node.this.name.isdigit()
            by_name |= isinstance(node.this, exp.Cast) and isinstance(node.this.this, exp.Null)
            return self._call(f"{name}_{'in' if by_name else 'out'}", [node.this])
        if name == "regnamespace":
            return self._call("regnamespace_out", [node.this])
        if name == "oid":
            return exp.cast(node.this.copy(), exp.DataType.build("UINTEGER", dialect="duckdb"))
        if name in _TEXT_TYPES:
            return exp.cast(node.this.copy(), exp.DataType.build("VARCHAR", dialect="duckdb"))
        if to.this is exp.DType.DECIMAL and not to.expressions:
            return _numeric(node.this)
        if name == "int2vector":
            return _child(node.this)
        if isinstance(to.args.get("kind"), exp.Dot):  # pg_catalog.text
            return exp.cast(node.this.copy(), exp.DataType.build(name, dialect=DIALECT))
        return node


def _is_list(literal: exp.Literal) -> bool:
    """Does a literal stand where a list must: in ``= ANY('{a,b}')``?"""
    around = literal.parent.parent if isinstance(literal.parent, exp.Paren) else literal.parent
    return around is not None and is_quantifier(around) and isinstance(around.parent, exp.Binary)


def _array(text: str, *, as_numbers: bool = False) -> exp.Array:
    """The array that a literal in braces is; without a type of its own, numbers if all items are some."""
    try:
        items = text_items(text)
    except ValueError as reason:
        raise WireError("22P02", f"malformed array literal: {reason}") from None
    plain = as_numbers and all(item is None or _NUMBER.fullmatch(item) for item in items)
    literal = exp.Literal.number if plain else exp.Literal.string
    return exp.Array(expressions=[exp.null() if item is None else literal(item) for item in items])


def _with_digits(kind: exp.DataType) -> exp.DataType:
    """The type of an array; one of NUMERIC without bounds has the decimals that :func:`_numeric` gives."""
    (element,) = kind.expressions or [None]
    if isinstance(element, exp.DataType) and element.this is exp.DType.DECIMAL and not element.expressions:
        return exp.DataType.build(f"{NUMERIC.sql}[]", dialect="duckdb")
    return kind.copy()


def _numeric(value: exp.Expr) -> exp.Expr:
    """A NUMERIC without bounds: literals have the digits that they have, all else gets fifteen decimals."""
    number = value
    while isinstance(number, (exp.Paren, exp.Neg)):
        number = number.this
    if isinstance(number, exp.Literal) and not number.is_string:
        return value.copy()
    return exp.cast(value.copy(), exp.DataType.build(NUMERIC.sql, dialect="duckdb"))


def _child(node: exp.Expr) -> exp.Expr:
    """A child that takes the place of its parent."""
    return node.copy()


def _relation(table: exp.Table) -> exp.Expr:
    """A table without its schema; those of information_schema carry it in their names."""
    schema = table.db
    if schema not in ("", "public", "pg_catalog", "information_schema"):
        raise WireError("3F000", f"there is no schema {schema!r}; relations are in public")
    if not schema:
        return table
    bare = table.copy()
    bare.set("db", None)
    bare.set("catalog", None)
    if schema == "information_schema":
        if not table.alias:
            bare.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
        bare.set("this", exp.to_identifier(f"information_schema_{table.name}"))
    return bare


def _operation(node: exp.Operator) -> exp.Expr:
    """``a OPERATOR(pg_catalog.~) b`` is ``a ~ b``."""
    name = str(node.args["operator"]).rpartition(".")[2]
    if name not in _OPERATORS:
        raise WireError("42883", f"there is no operator {name}")
    return _OPERATORS[name](this=node.this.copy(), expression=node.expression.copy())
