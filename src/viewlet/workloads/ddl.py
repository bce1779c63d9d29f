"""From CREATE TABLE text to Arrow schemas, so that generated data has exactly the types of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from viewlet.workloads import WorkloadError
from viewlet.workloads.draws import integers

_ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us"),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "TEXT": pa.string(),
}


def arrow_schemas(ddl: str) -> dict[str, pa.Schema]:
    """The Arrow schema of every table that the statements create.

    >>> arrow_schemas("CREATE TABLE r (a BIGINT NOT NULL, b DECIMAL(15,2))")["r"]
    a: int64 not null
    b: decimal128(15, 2)
    """
    return {
        statement.this.this.name.lower(): pa.schema(
            [_field(column) for column in statement.find_all(exp.ColumnDef)]
        )
        for statement in creates(ddl)
    }


def creates(ddl: str) -> list[exp.Create]:
    """The CREATE statements of a text, parsed."""
    parsed = sqlglot.parse(ddl, read="spark")
    return [statement for statement in parsed if isinstance(statement, exp.Create)]


def _field(column: exp.ColumnDef) -> pa.Field:
    kind = column.args["kind"]
    required = any(
        isinstance(constraint.kind, exp.NotNullColumnConstraint | exp.PrimaryKeyColumnConstraint)
        for constraint in column.args.get("constraints") or ()
    )
    return pa.field(column.name.lower(), _arrow_type(kind), nullable=not required)


def _arrow_type(kind: exp.DataType) -> pa.DataType:
    name = kind.this.value
    if name == "DECIMAL":
        precision, scale = (int(parameter.this.name) for parameter in kind.expressions)
        return pa.decimal128(precision, scale)
    if name not in _ARROW:
        raise WorkloadError(f"no Arrow type for {kind.sql()}; known: DECIMAL, {', '.join(_ARROW)}")
    return _ARROW[name]


def conform(columns: Mapping[str, Any], schema: pa.Schema, filler: int = 0) -> pa.Table:
    """The columns as a table of the given schema; other columns get small values of their type.

    Numbers become decimals by rounding, integers become dates as days since 1970-01-01.

    >>> schema = arrow_schemas("CREATE TABLE r (a INT, b DECIMAL(5,2))")["r"]
    >>> conform({"a": np.array([1, 2])}, schema).column_names
    ['a', 'b']
    """
    unknown = sorted(set(columns) - set(schema.names))
    if unknown:
        raise WorkloadError(f"no column {', '.join(unknown)}; existing: {', '.join(schema.names)}")
    count = len(next(iter(columns.values())))
    arrays = [
        _as_type(columns[field.name] if field.name in columns else _filler(field, count, filler), field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def _as_type(values: Any, kind: pa.DataType) -> pa.Array:
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    if pa.types.is_date(kind) and pa.types.is_integer(array.type):
        array = array.cast(pa.int32())
    if pa.types.is_decimal(kind) and pa.types.is_integer(array.type):
        array = array.cast(pa.float64())
    return array.cast(kind)


def _filler(field: pa.Field, count: int, seed: int) -> Any:
    values = integers(seed, field.name, np.arange(count), 0, 26)
    return [chr(ord("a") + value) for value in values] if pa.types.is_string(field.type) else values
