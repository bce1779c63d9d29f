"""``viewlet.compile``: the maintenance program of a query, without a database."""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.backends.native.emit import emit
from viewlet.errors import CompileError, SqlError
from viewlet.loops.from_triggers import triggers_to_loops
from viewlet.loops.text import show_loops
from viewlet.references import check_declared
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog, Table
from viewlet.sql.parse import parse
from viewlet.sql.statements import CreateTable
from viewlet.triggers.compile import compile_views
from viewlet.triggers.explain import explain
from viewlet.triggers.program import MapDefinition, Program, Trigger
from viewlet.triggers.text import show_program
from viewlet.triggers.work import AllBut

SchemaLike = str | Mapping[str, Mapping[str, str]]

VIEW = "result"


class CompiledProgram:
    """The program that keeps one query fresh: its maps, its triggers, and how they read.

    >>> program = compile("SELECT a, sum(b) AS s FROM r GROUP BY a", {"r": {"a": "INT", "b": "INT NOT NULL"}})
    >>> sorted(program.triggers), len(program.maps)
    (['r'], 2)
    >>> print(program.source("triggers").splitlines()[4])
      result[@a] += <@W>
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    @property
    def maps(self) -> Mapping[str, MapDefinition]:
        """The materialized maps by name, with their definitions."""
        return self.program.maps

    @property
    def triggers(self) -> Mapping[str, Trigger]:
        """What one changed row does, by table."""
        return self.program.triggers

    @property
    def batch_triggers(self) -> Mapping[str, Trigger]:
        """What a batch of changed rows does, by table."""
        return self.program.batch_triggers

    def explain(self) -> str:
        """What keeping the result takes in native code, in words."""
        return explain(self.program, VIEW, AllBut(frozenset(triggers_to_loops(self.program).scanned)))

    def source(self, language: str) -> str:
        """The program as text: ``triggers``, ``batch triggers``, ``loops`` or ``c``."""
        match language.lower():
            case "triggers":
                return show_program(self.program)
            case "batch triggers":
                return show_program(self.program, "batch")
            case "loops":
                return show_loops(triggers_to_loops(self.program))
            case "c":
                return emit(triggers_to_loops(self.program)).text
        raise CompileError(
            f"no source in {language!r}; there is 'triggers', 'batch triggers', 'loops' and 'c'"
        )

    def __repr__(self) -> str:
        tables = ", ".join(self.program.triggers)
        return f"<CompiledProgram: {len(self.maps)} maps, triggers on {tables or 'nothing'}>"


def compile(
    sql: str, schema: SchemaLike, *, strategy: str = "higher_order", dialect: str = "spark"
) -> CompiledProgram:
    """Compile a query; ``schema`` is CREATE TABLE text, or column types by table and column."""
    catalog = _catalog(schema, dialect)
    views = {VIEW: compile_query(sql, catalog, dialect)}
    return CompiledProgram(compile_views(views, catalog, strategy, searches=True))


def _catalog(schema: SchemaLike, dialect: str) -> Catalog:
    if not isinstance(schema, str):
        tables = (
            f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())});"
            for name, columns in schema.items()
        )
        schema = "\n".join(tables)
    created: list[Table] = []
    for statement in parse(schema, dialect):
        if not isinstance(statement, CreateTable):
            raise SqlError(f"a schema is CREATE TABLE statements, found {type(statement).__name__}")
        check_declared(statement.table, Catalog(created))
        created.append(statement.table)
    return Catalog(created)
