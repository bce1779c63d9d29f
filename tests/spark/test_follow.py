"""What changes in views on partitions is told by those who hold them, also if they were lost in between."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from viewlet.backends.spark.cluster import SimulatedCluster, SparkCluster
from viewlet.backends.spark.coordinate import Coordinator
from viewlet.backends.spark.engine import SparkEngine
from viewlet.backends.spark.native import SiteCode
from viewlet.backends.spark.partition import PartitionCode
from viewlet.connecting import connect
from viewlet.database import Database
from viewlet.errors import ValueRangeError
from viewlet.workers import Workers, log
from viewlet.workers.jobs import Executors
from viewlet.workers.log import forget
from viewlet.workers.memory import Partition
from viewlet.workers.operations import Answer, Operation

pytestmark = pytest.mark.native

DDL = """CREATE TABLE r (k BIGINT NOT NULL, g VARCHAR, v BIGINT, PRIMARY KEY (k));
         CREATE TABLE s (k BIGINT REFERENCES r (k), w DECIMAL(6, 2), d DATE)"""
VIEWS = {
    "joined": "SELECT r.k, g, sum(w) AS w, max(d) AS d, count(*) AS n "
    "FROM r JOIN s ON r.k = s.k GROUP BY r.k, g",
    "by_g": "SELECT g, sum(v) AS v FROM r GROUP BY g",
    "parts": "SELECT k, 60 / sum(w) AS part FROM s GROUP BY k",
    "late": "SELECT g, max(w) AS w, count(*) AS n FROM joined GROUP BY g",
    "both": "SELECT joined.k, r.v, n FROM joined JOIN r ON joined.k = r.k",
    "first": "SELECT k, w FROM joined ORDER BY w DESC, k LIMIT 2",
    "pairs": "SELECT a.v AS a, b.n AS b FROM by_g a JOIN late b ON a.g = b.g",
}


class Unlucky:
    """Partitions in this process, which lose what they hold every now and then; see ``Way``."""

    def __init__(self, executors: Executors, rng: random.Random, folder: Path) -> None:
        self._code = pickle.loads(executors.code.value)
        self._held = [Partition(self._code) for _ in range(executors.partitions)]
        self._rng, self.folder = rng, folder / str(len(list(folder.iterdir())))
        self.folder.mkdir()

    def ask(self, sequence: int, blobs: Sequence[bytes | None]) -> dict[int, bytes]:
        answers = {}
        for number, blob in enumerate(blobs):
            if blob is not None:
                if self._rng.random() < 0.2:
                    self.lose(number)
                answer = self.perform(number, sequence, pickle.loads(blob))
                answers[number] = pickle.dumps((answer, 0.0))
        return answers

    def lose(self, number: int) -> None:
        self._held[number] = Partition(self._code)

    def perform(self, number: int, sequence: int, operation: Operation) -> Answer:
        return self._held[number].perform(sequence, operation)

    def close(self) -> None:
        pass


class UnluckyLogs(Unlucky):
    """Partitions in logs: what is lost is the log, or the memory of the process that has it."""

    def lose(self, number: int) -> None:
        if self._rng.random() < 0.5:
            forget(self.folder / f"{number}.log")
        else:
            log._ATTACHED.clear()

    def perform(self, number: int, sequence: int, operation: Operation) -> Answer:
        return log.perform(self.folder / f"{number}.log", self._code, sequence, operation)


class Context:
    """As much of a SparkContext as workers ask for that are not on Spark."""

    _jsc = None

    @property
    def sparkContext(self) -> Context:  # noqa: N802
        return self

    def getConf(self) -> dict[str, str]:  # noqa: N802
        return {}

    def broadcast(self, value: Any) -> Any:
        return type("Broadcast", (), {"value": value})

    def parallelize(self, *_: object) -> Any:
        return self

    def persist(self) -> Any:
        return self


def simulated(code: SiteCode) -> SimulatedCluster:
    return SimulatedCluster(code, 3)


def unlucky(kind: type[Unlucky], seed: int, folder: Path) -> Callable[[SiteCode], SparkCluster]:
    rng = random.Random(seed)
    return lambda code: SparkCluster(
        Workers(Context(), PartitionCode(code), 2, lambda executors: kind(executors, rng, folder))
    )


def defined(db: Database) -> Counter[tuple[str, tuple[Any, ...]]]:
    """The tables and views; what subscribers are told is added up in the result."""
    db.execute(DDL)
    told: Counter[tuple[str, tuple[Any, ...]]] = Counter()

    def add(name: str, changes: pa.Table) -> None:
        for row in changes.to_pylist():
            weight = 1 if row.pop("_change_type") == "insert" else -1
            row.pop("_commit_version")
            told[name, tuple(row.values())] += weight

    for name, sql in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        db.view(name).subscribe(lambda changes, name=name: add(name, changes))
    return told


def changes(rng: random.Random, db: Database) -> dict[str, list[dict[str, Any]]]:
    """Rows that come and go in one commit."""
    batch: dict[str, list[dict[str, Any]]] = {"r": [], "s": []}
    rows, lines = db.table("r").rows(), db.table("s").rows()
    for k, g, v in rng.sample(rows, min(len(rows), rng.randrange(3))):
        batch["r"].append({"k": k, "g": g, "v": v, "_weight": -1})
    for k in rng.sample(range(12), 3):
        gone = any(row["k"] == k for row in batch["r"])
        if gone or not any(k == row[0] for row in rows):
            batch["r"].append(
                {"k": k, "g": rng.choice(["a", "b", None]), "v": rng.randrange(9), "_weight": 1}
            )
    for k, w, d in rng.sample(lines, min(len(lines), rng.randrange(4))):
        batch["s"].append({"k": k, "w": w, "d": d, "_weight": -1})
    for _ in range(rng.randrange(5)):
        day = date(2024, 2, rng.randrange(1, 29))
        w = rng.choice([Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("2.25"), None])
        batch["s"].append({"k": rng.randrange(12), "w": w, "d": day, "_weight": rng.choice([1, 1, 2])})
    return batch


@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [None, Unlucky, UnluckyLogs])
def test_subscribers_are_told_what_changes(
    kind: type[Unlucky] | None, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With checkpoints at every batch, lost partitions, refused batches, and views that read views."""
    monkeypatch.setattr("viewlet.workers.cluster.CHECKPOINT_BYTES", 1)
    rng = random.Random(seed)
    monkeypatch.setattr("viewlet.workers.log.COMPACT_BYTES", 1)
    make = simulated if kind is None else unlucky(kind, seed, tmp_path)
    here = connect(backend="reference")
    there = Database(backend=lambda _: SparkEngine(make, {"s": "k"}), strategy="auto", dialect="spark")
    told_here, told_there = defined(here), defined(there)
    refused = 0
    for _ in range(40):
        batch = {table: rows for table, rows in changes(rng, here).items() if rows}
        if not batch:
            continue
        try:
            here.apply(batch)
        except ValueRangeError:
            refused += 1
            with pytest.raises(ValueRangeError):
                there.apply(batch)
        else:
            there.apply(batch)
        assert +told_there == +told_here
        for name in VIEWS:
            assert there.view(name).rows() == here.view(name).rows(), name
            assert there.view(name).to_arrow().equals(here.view(name).to_arrow()), name
    assert 0 < refused < 30
    assert {name for name, _ in told_there} == set(VIEWS), "something has changed in every view"
    there.close()


def test_no_row_travels_that_has_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    db = Database(backend=lambda _: SparkEngine(simulated, {"s": "k"}), strategy="auto", dialect="spark")
    db.execute(DDL)
    for name in ("joined", "by_g", "late"):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    db.insert("r", [(k, "a", k) for k in range(2_000)])
    told: list[pa.Table] = []
    db.view("joined").subscribe(told.append)

    def refuse(*_: object) -> None:
        raise AssertionError("a whole view was read")

    for reading in ("rows", "columns"):
        monkeypatch.setattr(Coordinator, reading, refuse)
    db.insert("s", [(7, Decimal(1), None), (8, Decimal(2), None)])
    db.insert("s", [(7, Decimal(1), None)])
    assert [len(changes) for changes in told] == [2, 2]
    monkeypatch.undo()
    assert db.view("late").to_arrow().num_rows == 1
    db.close()
