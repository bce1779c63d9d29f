"""Random tables and updates in DuckDB, mirrored in lists."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import duckdb

from sketches.model import COLUMNS, Data, Row

DDL = "CREATE TABLE r (a INT, b INT, c INT, d BIGINT); CREATE TABLE s (x INT, y INT)"


def random_row(random: Random, table: str, low: int) -> Row:
    widths = {"r": (4, 3, 6, 9), "s": (3, 4)}[table]
    return tuple(
        None if random.random() < 0.08 else random.randint(0 if place < 2 else low, width)
        for place, width in enumerate(widths)
    )


def random_data(random: Random, rows: int, low: int = 0) -> Data:
    sizes = {"r": rows, "s": max(rows // 3, 1)}
    return {name: [random_row(random, name, low) for _ in range(n)] for name, n in sizes.items()}


def load(data: Data, connection: Any = None) -> Any:
    """The tables in DuckDB: in a new database, or replacing those of the given one."""
    connection = connection or duckdb.connect()
    connection.execute(DDL.replace("CREATE", "CREATE OR REPLACE"))
    for name, rows in data.items():
        if rows:
            connection.execute(f"INSERT INTO {name} VALUES {', '.join(map(literal, rows))}")
    return connection


def literal(row: Row) -> str:
    return "(" + ", ".join("NULL" if value is None else str(value) for value in row) + ")"


def random_changes(random: Random, data: Data, low: int = 0) -> dict[str, list[dict[str, Any]]]:
    """A batch of insertions and deletions of rows that are there, applied to ``data`` as well."""
    batch: dict[str, list[dict[str, Any]]] = {}
    for name in ("r", "s"):
        if name == "s" and random.random() < 0.6:
            continue
        changes = []
        deleted = random.sample(data[name], min(len(data[name]), random.randint(0, 3)))
        for row in deleted:
            data[name].remove(row)
            changes.append((row, -1))
        for _ in range(random.randint(0, 3)):
            row = random.choice(data[name]) if data[name] and random.random() < 0.3 else None
            row = row or random_row(random, name, low)
            data[name].append(row)
            changes.append((row, 1))
        random.shuffle(changes)
        batch[name] = [
            {**dict(zip(COLUMNS[name], row, strict=True)), "_weight": weight} for row, weight in changes
        ]
    return batch


def result(connection: Any, text: str) -> Counter[Row]:
    return Counter(connection.execute(text).fetchall())


def arrow_result(table: Any) -> Counter[Row]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
