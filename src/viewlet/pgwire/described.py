"""What the system catalog tells about, and the numbers by which it tells it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from viewlet.core.types import Kind, Type
from viewlet.pgwire import types
from viewlet.pgwire.types import WireType
from viewlet.sql.catalog import Catalog, Table

PUBLIC, PG_CATALOG, INFORMATION_SCHEMA = 2200, 11, 13000
OWNER, DATABASE, HEAP, BTREE = 10, 5, 2, 403
FIRST_FREE = 16384

Record: TypeAlias = dict[str, Any]

_WIRE = {
    Kind.BOOLEAN: types.BOOL,
    Kind.TINYINT: types.INT2,
    Kind.SMALLINT: types.INT2,
    Kind.INT: types.INT4,
    Kind.BIGINT: types.INT8,
    Kind.FLOAT: types.FLOAT4,
    Kind.DOUBLE: types.FLOAT8,
    Kind.DECIMAL: types.NUMERIC,
    Kind.DATE: types.DATE,
    Kind.TIMESTAMP: types.TIMESTAMP,
    Kind.VARCHAR: types.TEXT,
    Kind.NULL: types.TEXT,
}

SPELLED = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
    "varchar": "character varying",
    "bpchar": "character",
    "char": '"char"',
}


@dataclass(frozen=True, slots=True)
class Described:
    """What the system catalog tells about: relations, definitions of views, and who asks which database."""

    relations: Catalog
    definitions: Mapping[str, str]
    user: str
    database: str
    settings: Mapping[str, str]


def oid_of(name: str) -> int:
    """The OID of a relation or index: the same as long as it has its name, in every session.

    >>> oid_of("bids") == oid_of("bids"), FIRST_FREE <= oid_of("bids") < 2**31
    (True, True)
    """
    return FIRST_FREE + zlib.crc32(name.encode()) % (2**31 - FIRST_FREE)


def wire_type(kind: Type) -> WireType:
    """The type in which a column's values travel."""
    return _WIRE[kind.kind]


def keyed(described: Described) -> Iterator[tuple[Table, list[int]]]:
    """The tables with a primary key, and the numbers of its columns."""
    for table in described.relations.values():
        if table.key:
            yield table, [table.column_names.index(name) + 1 for name in table.key]
