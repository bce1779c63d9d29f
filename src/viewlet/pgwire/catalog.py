"""The system catalog that PostgreSQL's clients ask: what there is, in the words of ``pg_catalog``.

Each relation is built when a query names it. Those that say nothing about Viewlet (triggers, policies,
publications, ...) exist with their columns and no rows, so that clients' joins with them work. Views appear
as plain views: many tools overlook materialized ones.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pyarrow as pa

from viewlet.pgwire.described import Described, Record
from viewlet.pgwire.errors import WireError
from viewlet.pgwire.information_schema import INFORMATION_SCHEMA_ROWS
from viewlet.pgwire.pg_catalog import PG_CATALOG_ROWS

_ROWS = {**PG_CATALOG_ROWS, **INFORMATION_SCHEMA_ROWS}

_ARROW = {
    "text": pa.string(),
    "oid": pa.uint32(),
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "timestamptz": pa.timestamp("us", "UTC"),
}


@cache
def catalog_columns() -> dict[str, pa.Schema]:
    """The columns of every catalog relation, those of information_schema with its name in front."""
    lines = files("viewlet.pgwire").joinpath("columns.txt").read_text(encoding="utf-8").splitlines()
    relations = {}
    for line in lines:
        name, _, listed = line.partition(": ")
        columns = [column.split(" ") for column in listed.split(", ")]
        relations[name] = pa.schema([(column, _arrow(kind)) for column, kind in columns])
    return relations


def _arrow(word: str) -> pa.DataType:
    return pa.list_(_ARROW[word[:-2]]) if word.endswith("[]") else _ARROW[word]


def is_catalog(name: str) -> bool:
    """Is it the name of a catalog relation?"""
    return name in catalog_columns()


def catalog_relation(name: str, described: Described) -> pa.Table:
    """The rows of a catalog relation."""
    schema = catalog_columns()[name]
    rows = list(_ROWS[name](described)) if name in _ROWS else []
    for row in rows:
        if unknown := row.keys() - set(schema.names):
            raise WireError("XX000", f"{name} has no columns {sorted(unknown)}")
    return pa.Table.from_pylist([_filled(schema, row) for row in rows], schema=schema)


def _filled(schema: pa.Schema, row: Record) -> Record:
    """Flags that are not given are false and numbers are zero, as PostgreSQL has few NULLs there."""
    blank = {f.name: False if f.type == pa.bool_() else 0 for f in schema if _never_null(f.type)}
    return {**blank, **row}


def _never_null(kind: pa.DataType) -> bool:
    return kind in (pa.bool_(), pa.uint32(), pa.int16(), pa.float32())
