"""What a store knows of a DuckDB database: one row of the database, and the changes in this process.

The row has a version, and for each table its mark (``duckdb_watch.py``) and how far back its log goes.
Whatever happens to the data is a step from one such row to the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import pyarrow as pa


class Tracked(NamedTuple):
    """Of a table: its mark, and since which version its log has all changes."""

    mark: int
    since: int


@dataclass(frozen=True, slots=True)
class State:
    """The row that describes the data: a version, and the tables with their changes.

    >>> State(4, {"r": Tracked(100, 4)}).moved({"r": 10}, logged=True)
    State(number=5, tables={'r': Tracked(mark=110, since=4)})
    """

    number: int
    tables: Mapping[str, Tracked]

    @classmethod
    def read(cls, number: int, tables: str) -> State:
        """From the columns of the row."""
        return cls(number, {name: Tracked(*rest) for name, rest in json.loads(tables).items()})

    def written(self) -> tuple[int, str]:
        """As the columns of the row: equal states give equal texts."""
        return self.number, json.dumps(self.tables, sort_keys=True)

    def begun(self, marks: Mapping[str, int], step: int = 1) -> State:
        """Of tables with these marks, what their logs know begins with this version, or with a next one."""
        now = self.number + step
        return State(now, {**self.tables, **{name: Tracked(mark, now) for name, mark in marks.items()}})

    def moved(self, moves: Mapping[str, int], *, logged: bool) -> State:
        """The version after a batch; logs that do not get it know nothing of what was before it either."""
        now = self.number + 1
        moved = {
            name: Tracked(known.mark + moves[name], known.since if logged else now)
            for name, known in self.tables.items()
            if name in moves
        }
        return State(now, {**self.tables, **moved})

    def shortened(self, names: Iterable[str], oldest: int) -> State:
        """The logs of some tables have lost what was not after a version."""
        lost = {name: self.tables[name] for name in names if name in self.tables}
        begins = {name: Tracked(known.mark, max(known.since, oldest)) for name, known in lost.items()}
        return replace(self, tables={**self.tables, **begins})

    def completed(self, oldest: int) -> State:
        """The logs of all tables have what was after a version."""
        reaches = {n: Tracked(known.mark, min(known.since, oldest)) for n, known in self.tables.items()}
        return replace(self, tables=reaches)


Describe: TypeAlias = Callable[[State], State]


class Applied(NamedTuple):
    """The changes of one table by one batch that went through this object."""

    version: int
    name: str
    rows: pa.Table
    logged: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """What a store knows without asking; a transaction that fails takes it back."""

    state: State
    applied: tuple[Applied, ...] = ()
    logs: frozenset[str] = field(default_factory=frozenset)
    """The tables whose logs may have rows."""
