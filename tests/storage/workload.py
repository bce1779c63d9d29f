"""A deterministic stream of steps for crash tests, with what every table and view must hold after each.

The expected contents are counted here in plain Python, without Viewlet. A step is an optional definition,
which may be repeated, and then one batch that also moves the table ``progress`` to the number of the step: so
a reopened database says itself how far it came. Every other batch comes as Arrow, some are long.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any

import pyarrow as pa

import viewlet

SCHEMA = (
    "CREATE TABLE progress (n BIGINT)",
    "CREATE TABLE t (k BIGINT, g VARCHAR, v DECIMAL(12,2))",
    "CREATE TABLE keyed (k BIGINT PRIMARY KEY, v VARCHAR)",
    "CREATE STREAM s (g VARCHAR, x BIGINT)",
    "CREATE MATERIALIZED VIEW by_g AS SELECT g, sum(v) AS total, count(*) AS n FROM t GROUP BY g",
    "CREATE MATERIALIZED VIEW top AS SELECT max(total) AS m FROM by_g",
    "CREATE MATERIALIZED VIEW seen AS SELECT g, count(*) AS n, sum(x) AS total FROM s GROUP BY g",
)
BACKEND = "auto"
COUNT_STREAM = "SELECT g, count(*) AS n, sum(x) AS total FROM s GROUP BY g"
CREATE_LATE = f"CREATE MATERIALIZED VIEW IF NOT EXISTS late AS {COUNT_STREAM}"
DROP_LATE = "DROP MATERIALIZED VIEW IF EXISTS late"
GROUPS = ("a", "b", "straße", "", None)
ARROW = {
    "progress": pa.schema({"n": "int64", "_weight": "int64"}),
    "t": pa.schema({"k": "int64", "g": "string", "v": pa.decimal128(12, 2), "_weight": "int64"}),
    "keyed": pa.schema({"k": "int64", "v": "string", "_weight": "int64"}),
    "s": pa.schema({"g": "string", "x": "int64", "_weight": "int64"}),
}

Sums = dict[Any, tuple[int, int]]


@dataclass
class Expected:
    """The contents after some steps; ``late`` is ``None`` while that view does not exist."""

    step: int = 0
    t: Counter[tuple[int, str | None, Decimal | None]] = field(default_factory=Counter)
    keyed: dict[int, str] = field(default_factory=dict)
    seen: Sums = field(default_factory=dict)
    late: Sums | None = None

    def contents(self, late: bool) -> dict[str, Any]:
        """What the database must show; with ``late`` also of that view, empty if it has just come."""
        groups: dict[Any, list[Decimal | None]] = {}
        for (_, g, v), n in self.t.items():
            groups.setdefault(g, []).extend([v] * n)
        by_g = [(g, _sum(values), len(values)) for g, values in groups.items()]
        shown = {
            "progress": [(self.step,)] if self.step else [],
            "t": _sorted(self.t.elements()),
            "keyed": _sorted(self.keyed.items()),
            "by_g": _sorted(by_g),
            "top": [(max((total for _, total, _ in by_g if total is not None), default=None),)],
            "seen": _sorted((g, n, x) for g, (n, x) in self.seen.items()),
        }
        if late:
            shown["late"] = _sorted((g, n, x) for g, (n, x) in (self.late or {}).items())
        return shown


def _sum(values: list[Decimal | None]) -> Decimal | None:
    known = [value for value in values if value is not None]
    return sum(known, Decimal(0)) if known else None


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])


@dataclass(frozen=True)
class Step:
    """A definition or nothing, then a batch."""

    number: int
    definition: str | None
    batch: dict[str, list[dict[str, Any]]]
    token: str


def steps(seed: int, after: Expected) -> Iterator[Step]:
    """Steps without end; when a step has been yielded, ``after`` is what it leads to."""
    rng = random.Random(seed)
    for number in range(1, 1 << 30):
        definition = None
        if rng.random() < 0.15:
            definition = CREATE_LATE if after.late is None else DROP_LATE
            after.late = {} if after.late is None else None
        batch: dict[str, list[dict[str, Any]]] = {
            "progress": [
                {"n": number, "_weight": 1},
                *([{"n": number - 1, "_weight": -1}] if number > 1 else []),
            ]
        }
        if rng.random() < 0.9:
            batch["t"] = _bag_changes(rng, after)
        if rng.random() < 0.5:
            batch["keyed"] = _keyed_changes(rng, after)
        if rng.random() < 0.7:
            batch["s"] = _stream_changes(rng, after)
        after.step = number
        yield Step(number, definition, batch, f"step {number}")


def expected_after(seed: int, done: int) -> Expected:
    """The contents after some steps."""
    after = Expected()
    taken = steps(seed, after)
    for _ in range(done):
        next(taken)
    return after


def step_after(seed: int, done: int) -> Step:
    """The step that follows on some others."""
    return next(islice(steps(seed, Expected()), done, None))


def _bag_changes(rng: random.Random, after: Expected) -> list[dict[str, Any]]:
    changes = []
    for _ in range(1_500 if rng.random() < 0.05 else rng.choice([0, 1, 3, 60])):
        v = rng.choice([None, Decimal(rng.randrange(-999, 999)) / 100])
        row = (rng.randrange(5), rng.choice(GROUPS), v)
        changes.append((row, 1))
    present = list(after.t.elements())
    gone = len(present) if rng.random() < 0.05 else min(len(present), rng.choice([0, 1, 50]))
    changes += [(row, -1) for row in rng.sample(present, gone)]
    for row, weight in changes:
        after.t[row] += weight
    after.t = +after.t
    return [{"k": k, "g": g, "v": v, "_weight": weight} for (k, g, v), weight in changes]


def _keyed_changes(rng: random.Random, after: Expected) -> list[dict[str, Any]]:
    key, value = rng.randrange(20), f"value {rng.random()}"
    changes = []
    if key in after.keyed:
        changes.append({"k": key, "v": after.keyed.pop(key), "_weight": -1})
    if rng.random() < 0.7:
        changes.append({"k": key, "v": value, "_weight": 1})
        after.keyed[key] = value
    return changes


def _stream_changes(rng: random.Random, after: Expected) -> list[dict[str, Any]]:
    rows = [(rng.choice(GROUPS), rng.randrange(-9, 9)) for _ in range(rng.randrange(4))]
    for view in (after.seen, after.late):
        if view is not None:
            for g, x in rows:
                n, total = view.get(g, (0, 0))
                view[g] = n + 1, total + x
    return [{"g": g, "x": x, "_weight": 1} for g, x in rows]


def contents(db: viewlet.Database) -> dict[str, Any]:
    """What a database shows, in the form of :meth:`Expected.contents`."""
    shown = {name: _sorted(db.table(name).rows()) for name in ("progress", "t", "keyed")}
    views = ["by_g", "top", "seen", *(["late"] if "late" in db.catalog else [])]
    return shown | {name: _sorted(db.view(name).rows()) for name in views}


def position(db: viewlet.Database) -> int:
    """The number of the last step that a database has taken."""
    rows = db.table("progress").rows() if "progress" in db.catalog else []
    return rows[0][0] if rows else 0


def create_schema(db: viewlet.Database) -> None:
    """Run those definitions of the schema that the database does not have yet."""
    for text in SCHEMA:
        name = text.replace("MATERIALIZED ", "").split()[2]
        if name not in db.catalog:
            db.execute(text)


def take(db: viewlet.Database, step: Step) -> int:
    """Take a step; returns the version of its batch."""
    if step.definition is not None:
        db.execute(step.definition)
    if step.number % 2:
        return db.apply(step.batch, token=step.token)
    arrow = {name: pa.Table.from_pylist(rows, ARROW[name]) for name, rows in step.batch.items()}
    return db.apply(arrow, token=step.token)
