"""Statements that wait for values, and what they ask once they have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewlet.adhoc import named_relations
from viewlet.errors import SqlError
from viewlet.pgwire.catalog import catalog_columns, is_catalog
from viewlet.pgwire.described import wire_type
from viewlet.pgwire.errors import WireError
from viewlet.pgwire.messages import format_of
from viewlet.pgwire.parameters import bind, literal_of, null_of, parameter_types
from viewlet.pgwire.reader import DIALECT, statement_of
from viewlet.pgwire.statements import Copy, Declare, Explain, Read, Statement
from viewlet.pgwire.types import ArrayType, WireType, of_arrow
from viewlet.sql.catalog import Catalog
from viewlet.sql.script import split


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement, ``None`` if its text is empty, and the types of its parameters."""

    statement: Statement | None
    types: tuple[WireType | ArrayType, ...]
    size: int

    def bound(self, values: Sequence[bytes | None], formats: Sequence[int]) -> Statement | None:
        """The statement with values."""
        if len(values) != len(self.types):
            raise WireError("08P01", f"{len(self.types)} values are needed, {len(values)} are given")
        literals = {
            number: literal_of(kind, value, format_of(formats, number - 1) == 1)
            for number, (kind, value) in enumerate(zip(self.types, values, strict=True), 1)
        }
        return _with(self.statement, literals)

    def without_values(self) -> Statement | None:
        """The statement with NULLs, whose columns are the same."""
        return _with(self.statement, {i: null_of(kind) for i, kind in enumerate(self.types, 1)})


def prepare(text: str, given: Sequence[int], relations: Catalog) -> Prepared:
    """Read a single statement and find the types of its parameters."""
    if len(split(text, DIALECT)) > 1:
        raise SqlError("a prepared statement is one statement")
    statement = statement_of(text)
    query = _query(statement)
    if query is None:
        return Prepared(statement, (), len(text))
    return Prepared(statement, parameter_types(query, given, _column_types(query, relations)), len(text))


def _query(statement: Statement | None) -> exp.Query | None:
    match statement:
        case Read(query) | Copy(Read(query)) | Declare(_, query) | Explain(exp.Query() as query):
            return query
        case _:
            return None


def _with(statement: Statement | None, values: Mapping[int, exp.Expr]) -> Statement | None:
    if not values:
        return statement
    match statement:
        case Read(query):
            return Read(bind(query, values))
        case Copy(Read(query)):
            return replace(statement, source=Read(bind(query, values)))
        case Declare(name, query):
            return Declare(name, bind(query, values))
        case Explain(exp.Query() as query):
            return Explain(bind(query, values))
        case _:
            return statement


def _column_types(query: exp.Query, relations: Catalog) -> dict[str, WireType]:
    """The types of all columns that the query may mean, by name."""
    found: dict[str, WireType] = {}
    for name in named_relations(query):
        if name in relations:
            found |= {column.name: wire_type(column.type) for column in relations[name].columns}
        elif is_catalog(name):
            kinds = {column.name: of_arrow(column.type) for column in catalog_columns()[name]}
            found |= {column: kind for column, kind in kinds.items() if isinstance(kind, WireType)}
    return found
