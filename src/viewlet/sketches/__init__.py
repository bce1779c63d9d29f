"""Provenance sketches: skip data that a query's result does not depend on, and keep up with the data.

A sketch of a query on an attribute is the set of ranges of that attribute which hold the rows behind the
result. HAVING and top-k queries, for which no index helps, then read these ranges alone. ``partition.py`` has
the ranges, ``safety.py`` says when that gives the same result, ``capture.py`` finds a sketch, ``operators/``
keep it fresh while the data changes, ``reuse.py`` says which other queries it serves, ``use.py`` applies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from viewlet.sketches.backends.base import Backend
from viewlet.sketches.errors import ExhaustedError, SketchError, StaleError, UnsafeError
from viewlet.sketches.sketch import Sketch
from viewlet.sketches.store import Store

__all__ = ["ExhaustedError", "Sketch", "SketchError", "StaleError", "Store", "UnsafeError", "open"]


def open(connection: Any, tables: Mapping[str, str | Path] | None = None, *, triggers: bool = True) -> Store:
    """The sketches of a database: a DuckDB or psycopg connection, a SparkSession, or a viewlet Database.

    With ``tables``, names of folders of Parquet files, a DuckDB connection or a SparkSession queries these.
    ``triggers=False`` keeps triggers out of a DuckDB database, which refuses MERGE INTO a table that has any:
    then an UPDATE behind the store's back is not noticed.

    >>> import duckdb
    >>> db = duckdb.connect()
    >>> _ = db.execute("CREATE TABLE sales (brand VARCHAR, price INT, sold INT)")
    >>> _ = db.execute("INSERT INTO sales VALUES ('Apple', 999, 5), ('HP', 650, 1), ('Dell', 1345, 1)")
    >>> store = open(db)
    >>> top = "SELECT brand FROM sales GROUP BY brand HAVING sum(price * sold) > 2000"
    >>> sketch = store.capture(top, on="sales.price", ranges=[601, 1001, 1501])
    >>> sketch.fragments
    frozenset({1})
    >>> store.apply({"sales": [{"brand": "Dell", "price": 1299, "sold": 1}]})
    >>> sorted(sketch.fragments)
    [1, 2]
    """
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if not triggers and (tables is not None or "duckdb" not in kind.lower()):
        raise SketchError(
            "triggers=False is for tables of DuckDB: elsewhere there are none, or no way without"
        )
    return Store(_backend(connection, kind, tables, triggers))


def _backend(connection: Any, kind: str, tables: Mapping[str, str | Path] | None, triggers: bool) -> Backend:
    """Each database's file is imported when it is asked for: none of them is a dependency of the others."""
    if "duckdb" in kind.lower() or kind.startswith("pyspark."):
        return _columnar(connection, kind.startswith("pyspark."), tables, triggers)
    if tables is not None:
        raise SketchError(f"{kind} does not query Parquet files; give a DuckDB connection or a SparkSession")
    if kind.startswith("psycopg."):
        from viewlet.sketches.backends.postgres import Postgres

        return Postgres(connection)
    if kind == "viewlet.database.Database":
        from viewlet.sketches.backends.database import ViewletDatabase

        return ViewletDatabase(connection)
    raise SketchError(
        f"cannot keep sketches in {kind}; give a DuckDB or psycopg connection, a SparkSession, or a Database"
    )


def _columnar(
    connection: Any, spark: bool, tables: Mapping[str, str | Path] | None, triggers: bool
) -> Backend:
    from viewlet.sketches.backends.parquet import DuckDBEngine, Parquet, SparkEngine

    if tables is not None:
        return Parquet(SparkEngine(connection) if spark else DuckDBEngine(connection), tables)
    if spark:
        raise SketchError("on Spark sketches are of Parquet files: open(session, tables={name: folder})")
    from viewlet.sketches.backends.duckdb import DuckDB

    return DuckDB(connection, triggers=triggers)
