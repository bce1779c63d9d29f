"""The log of a partition, without Spark: each operation once, whatever happens to the processes around it."""

from __future__ import annotations

import os
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from viewlet.backends.spark import partition
from viewlet.backends.spark.distribute import distribute
from viewlet.backends.spark.native import SiteCode, site_code
from viewlet.backends.spark.nodes import Local
from viewlet.backends.spark.partition import Behind, Load, Read, Restore, Run, perform
from viewlet.backends.spark.place import place
from viewlet.backends.spark.site import NO_CHANGES, Given, Step
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse
from viewlet.triggers.compile import compile_views


@cache
def program() -> SiteCode:
    """Counts by the key of one table; the driver scatters the relation ``t_2``."""
    ddl = "CREATE TABLE r (a BIGINT NOT NULL, PRIMARY KEY (a))"
    catalog = Catalog(statement.table for statement in parse(ddl))  # type: ignore[union-attr]
    compiled = compile_views(
        {"v": compile_query("SELECT a, count(*) AS n FROM r GROUP BY a", catalog)}, catalog
    )
    return site_code(distribute(compiled, place(compiled), Local()), "distributed", native=False)


def step(batch: int, counts: dict[tuple[int], int]) -> Run:
    blocks = program().program.batch["r"].blocks
    index = next(i for i, block in enumerate(blocks) if block.mode == "distributed")
    (name,) = [s.target for s in blocks[index - 1].statements if type(s).__name__ == "Transfer"]
    return Run([Step(batch, "r", index, {name: [counts]}, NO_CHANGES)], 1, ())


def counts(path: Path, sequence: int) -> Any:
    answer = perform(path, program(), sequence, Read(None))
    return answer.held["v"] if isinstance(answer, Given) else answer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    log = tmp_path / "state" / "0.log"
    perform(log, program(), 0, Restore(0, pickle.dumps(Load({"v": [{(9,): 5}]})), ()))
    return log


def another_process(path: Path) -> None:
    """What a process that has never seen the partition would have in memory."""
    partition._ATTACHED.pop(path, None)


def test_an_operation_takes_effect_once(path: Path) -> None:
    for _ in range(3):
        perform(path, program(), 1, step(1, {(1,): 1}))
    another_process(path)
    perform(path, program(), 1, step(1, {(1,): 1}))
    assert counts(path, 1) == {(1,): 1, (9,): 5}


def test_processes_catch_up_with_each_other(path: Path) -> None:
    perform(path, program(), 1, step(1, {(1,): 1}))
    mine = partition._ATTACHED.pop(path)
    perform(path, program(), 2, step(2, {(2,): 1}))
    partition._ATTACHED[path] = mine
    perform(path, program(), 3, step(3, {(1,): 1}))
    assert counts(path, 3) == {(1,): 2, (2,): 1, (9,): 5}


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_torn_tail_is_cut_off(path: Path, cut: int) -> None:
    perform(path, program(), 1, step(1, {(1,): 1}))
    perform(path, program(), 2, step(2, {(2,): 1}))
    os.truncate(path, path.stat().st_size - cut)
    another_process(path)
    assert counts(path, 2) == Behind(1)
    perform(path, program(), 2, step(2, {(2,): 1}))
    assert counts(path, 2) == {(1,): 1, (2,): 1, (9,): 5}


def test_a_lost_log_is_noticed_and_restored(path: Path) -> None:
    done = [step(1, {(1,): 1}), step(2, {(2,): 1})]
    for sequence, operation in enumerate(done, 1):
        perform(path, program(), sequence, operation)
    path.unlink()
    assert counts(path, 2) == Behind(partition.NOTHING)
    since = tuple(map(pickle.dumps, done))
    perform(path, program(), 2, Restore(0, pickle.dumps(Load({"v": [{(9,): 5}]})), since))
    assert counts(path, 2) == {(1,): 1, (2,): 1, (9,): 5}


def test_a_stale_log_that_comes_back_is_noticed(path: Path) -> None:
    old = path.read_bytes()
    perform(path, program(), 1, step(1, {(1,): 1}))
    perform(path, program(), 2, step(2, {(2,): 1}))
    path.write_bytes(old)
    assert counts(path, 2) == Behind(0)


@pytest.mark.parametrize("garbage", [b"", b"x", b"\xff" * 100, bytes(100)])
def test_garbage_is_noticed(path: Path, garbage: bytes) -> None:
    path.write_bytes(garbage)
    assert perform(path, program(), 1, step(1, {(1,): 1})) == Behind(partition.NOTHING)


def test_a_batch_is_taken_back_by_a_log_without_it(path: Path) -> None:
    first, second = step(1, {(1,): 1}), step(2, {(1,): 1, (2,): 1})
    perform(path, program(), 1, first)
    perform(path, program(), 2, second)
    perform(path, program(), 3, Restore(2, pickle.dumps(Load({"v": [{(9,): 5}]})), (pickle.dumps(first),)))
    assert counts(path, 3) == {(1,): 1, (9,): 5}
    assert perform(path, program(), 2, second) == Behind(3), (
        "a task of the batch that comes late does nothing"
    )
    assert counts(path, 3) == {(1,): 1, (9,): 5}


def test_long_logs_shrink_to_their_contents(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "COMPACT_BYTES", 2_000)
    another_process(path)
    for sequence in range(1, 60):
        perform(path, program(), sequence, step(sequence, {(sequence % 3,): 1}))
        if sequence % 7 == 0:
            another_process(path)
    assert path.stat().st_size < 8_000
    another_process(path)
    assert counts(path, 59) == {(0,): 19, (1,): 20, (2,): 20, (9,): 5}
