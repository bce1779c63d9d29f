"""CREATE and DROP as JSON: what tables and views there are, without any SQL of ours to parse again.

A view keeps the text of its query, in the dialect of its database; everything else is spelled out.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias, assert_never

from viewlet.core.types import Column, Kind, Type
from viewlet.errors import StorageError
from viewlet.sql.catalog import ForeignKey, Table, TableKind
from viewlet.sql.parse import CreateTable, CreateView, Drop, OnConflict, Refresh, parse_query

Definition: TypeAlias = CreateTable | CreateView | Drop


def encode_definition(definition: Definition) -> bytes:
    """A definition as JSON.

    >>> encode_definition(Drop("total", TableKind.VIEW))
    b'{"drop": "total", "kind": "MATERIALIZED VIEW"}'
    """
    match definition:
        case CreateTable(table, _, on_conflict):
            written: dict[str, Any] = {"table": _table_to_json(table), "on_conflict": on_conflict.value}
        case CreateView(name, _, text, refresh, or_replace):
            written = {"view": name, "query": text, "refresh": refresh.value, "replace": or_replace}
        case Drop(name, kind):
            written = {"drop": name, "kind": kind.value}
        case _:
            assert_never(definition)
    return json.dumps(written).encode()


def decode_definition(body: bytes, dialect: str) -> Definition:
    """The definition that :func:`encode_definition` wrote; queries are read in the database's dialect."""
    written = json.loads(body)
    match written:
        case {"table": table, "on_conflict": on_conflict}:
            return CreateTable(_table_from_json(table), on_conflict=OnConflict(on_conflict))
        case {"view": name, "query": text, "refresh": refresh, "replace": replace}:
            query = parse_query(text, dialect)
            return CreateView(name, query, text, Refresh(refresh), or_replace=replace)
        case {"drop": name, "kind": kind}:
            return Drop(name, TableKind(kind))
        case _:
            raise StorageError(f"the log holds a definition of an unknown form: {sorted(written)}")


def _table_to_json(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "kind": table.kind.value,
        "columns": [
            [c.name, c.type.kind.value, c.type.precision, c.type.scale, c.nullable] for c in table.columns
        ],
        "key": table.key,
        "references": [[r.columns, r.target, r.target_columns, r.enforced] for r in table.references],
    }


def _table_from_json(written: dict[str, Any]) -> Table:
    return Table(
        written["name"],
        tuple(
            Column(name, Type(Kind(kind), precision, scale), nullable)
            for name, kind, precision, scale, nullable in written["columns"]
        ),
        TableKind(written["kind"]),
        tuple(written["key"]),
        tuple(
            ForeignKey(tuple(own), target, tuple(theirs), *enforced)  # older files do not say: a hint
            for own, target, theirs, *enforced in written["references"]
        ),
    )
