"""Ad-hoc reads: a query over the present tables and views, answered by DuckDB on Arrow.

DuckDB sees only the relations that the query names: no files, no network, no Python objects.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewlet.errors import BackendError, SqlError
from viewlet.sql.dialects import SPARK_FAMILY
from viewlet.sql.duckdb_text import duckdb_text

SEALED = {"enable_external_access": "false", "autoload_known_extensions": "false"}
"""How DuckDB is started: without access to anything outside of it."""


STRICT = {"ieee_floating_point_ops": "false", "error_on_division_by_zero": "true"}
"""Division by zero is an error, as in a view, and no infinity."""

INTEGER_DIVISION = {"integer_division": "true"}
"""``7 / 2`` is 3, as PostgreSQL has it; numbers with decimals are divided as ever."""


def run(query: exp.Query, dialect: str, relation: Callable[[str], pa.Table]) -> pa.Table:
    """The result of a query; ``relation`` gives the rows of a table or view by name."""
    try:
        import duckdb
    except ImportError:
        raise BackendError("queries are answered by DuckDB: pip install 'viewlet[duckdb]'") from None
    try:
        text = duckdb_text(query, dialect.lower() in SPARK_FAMILY)
    except SqlglotError as reason:
        raise SqlError(f"the query cannot be written in DuckDB's SQL: {reason}") from None
    with duckdb.connect(config=SEALED | STRICT | _division(query)) as connection:
        for name in named_relations(query):
            connection.register(name, relation(name))
        try:
            return connection.sql(text).to_arrow_table()
        except duckdb.Error as reason:
            raise SqlError(f"DuckDB refuses the query: {reason}") from None


def _division(query: exp.Query) -> dict[str, str]:
    """What ``/`` means in the dialect that the query was written in: sqlglot notes it at each division."""
    typed = any(division.args.get("typed") for division in query.find_all(exp.Div))
    return INTEGER_DIVISION if typed else {}


def named_relations(query: exp.Query) -> list[str]:
    """The tables and views that a query names, in lower case, without its own CTEs.

    >>> import sqlglot
    >>> named_relations(sqlglot.parse_one("WITH c AS (SELECT * FROM R) SELECT * FROM c JOIN s USING (a)"))
    ['r', 's']
    """
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    names = {
        table.name.lower() for table in query.find_all(exp.Table) if isinstance(table.this, exp.Identifier)
    }
    return sorted(names - own)
