"""SHOW and DESCRIBE: what there is, as Arrow tables whose columns are named as Spark names them."""

from __future__ import annotations

import re

import pyarrow as pa

from viewlet.sql.catalog import Catalog, Table, TableKind
from viewlet.sql.parse import Show


def shown(statement: Show, catalog: Catalog) -> pa.Table:
    """The names of tables and views, or of views alone; there is one namespace, and nothing is temporary."""
    pattern = "|".join(".*".join(map(re.escape, part.split("*"))) for part in statement.pattern.split("|"))
    names = sorted(
        table.name
        for table in catalog.values()
        if (table.kind is TableKind.VIEW or not statement.views)
        and re.fullmatch(pattern, table.name, re.IGNORECASE)
    )
    return pa.table(
        {
            "namespace": pa.array([""] * len(names), pa.string()),
            "viewName" if statement.views else "tableName": pa.array(names, pa.string()),
            "isTemporary": pa.array([False] * len(names), pa.bool_()),
        }
    )


def described(table: Table) -> pa.Table:
    """The columns of a table or view; the comment says what its declaration does.

    >>> from viewlet.core.types import BIGINT, Column
    >>> described(Table("r", (Column("a", BIGINT, nullable=False),), key=("a",))).to_pylist()
    [{'col_name': 'a', 'data_type': 'BIGINT', 'comment': 'NOT NULL, PRIMARY KEY'}]
    """
    comments = [
        ", ".join(["NOT NULL"] * (not column.nullable) + ["PRIMARY KEY"] * (column.name in table.key))
        for column in table.columns
    ]
    return pa.table(
        {
            "col_name": pa.array(table.column_names, pa.string()),
            "data_type": pa.array([str(column.type) for column in table.columns], pa.string()),
            "comment": pa.array([comment or None for comment in comments], pa.string()),
        }
    )
