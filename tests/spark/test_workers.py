"""State on workers: each operation once, whatever happens to the processes around it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from viewlet.errors import BackendError, DataError
from viewlet.workers import Workers, cluster, log
from viewlet.workers.jobs import Jobs
from viewlet.workers.lines import Call, Lines
from viewlet.workers.log import perform
from viewlet.workers.memory import Partition
from viewlet.workers.operations import NOTHING, Answer, Behind, Done, Load, Operation, Read, Restore, Run


class Counts:
    """Numbers by key; an operation adds to some and gives what they are now."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}

    def load(self, contents: dict[int, int]) -> None:
        self.numbers = dict(contents)

    def contents(self) -> dict[int, int]:
        return self.numbers

    def run(self, operation: dict[int, int]) -> dict[int, int]:
        if -1 in operation:
            raise DataError("-1 is no key")
        for key, number in operation.items():
            self.numbers[key] = self.numbers.get(key, 0) + number
        return {key: self.numbers[key] for key in operation}

    def read(self, what: int) -> int | None:
        if what == -1:
            os._exit(1)  # an accident
        return self.numbers.get(what)


@dataclass(frozen=True)
class CountsCode:
    def prepare(self) -> None:
        pass

    def open(self) -> Counts:
        return Counts()


CODE = CountsCode()
FIRST = {9: 5}


def step(numbers: dict[int, int], begins: bool = True) -> Run:
    return Run(numbers, begins)


def contents(path: Path, sequence: int) -> Any:
    answer = perform(path, CODE, sequence, Read(None, whole=True))
    return pickle.loads(answer.result).contents if isinstance(answer, Done) else answer


def restoration(*done: Run, sequence: int = 0) -> Restore:
    return Restore(sequence, pickle.dumps(Load(FIRST)), tuple(map(pickle.dumps, done)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "state" / "0.log"
    perform(found, CODE, 0, restoration())
    return found


def another_process(path: Path) -> None:
    """What a process that has never seen the partition would have in memory."""
    log._ATTACHED.pop(path, None)


def test_an_operation_takes_effect_once(path: Path) -> None:
    for _ in range(3):
        assert perform(path, CODE, 1, step({1: 1})) == Done({1: 1})
    another_process(path)
    assert perform(path, CODE, 1, step({1: 1})) == Done({1: 1})
    assert contents(path, 1) == {1: 1, 9: 5}


def test_a_partition_in_memory_answers_as_one_with_a_log(path: Path) -> None:
    """The same operations in the same order, repeated, late and too early ones among them."""
    memory = Partition(CODE)
    said: list[tuple[int, Operation]] = [
        (1, step({1: 1})), (0, restoration()), (1, step({1: 1})), (1, step({1: 1})), (3, step({1: 1})),
        (2, step({2: 1, -1: 1})), (2, Read(1)), (3, restoration(step({1: 1}), sequence=2)), (2, step({1: 7})),
        (3, Read(1)), (4, step({1: 1}, begins=False)), (4, Read(None, whole=True)),
    ]  # fmt: skip
    answers: list[list[Answer]] = [
        [perform(path, CODE, *each) for each in said[1:]],
        [memory.perform(*each) for each in said][1:],
    ]
    assert [str(answer) for answer in answers[0]] == [str(answer) for answer in answers[1]]
    assert answers[0][-1] == Done(pickle.dumps(Load({9: 5, 1: 2}), pickle.HIGHEST_PROTOCOL))


def test_processes_catch_up_with_each_other(path: Path) -> None:
    perform(path, CODE, 1, step({1: 1}))
    mine = log._ATTACHED.pop(path)
    perform(path, CODE, 2, step({2: 1}))
    log._ATTACHED[path] = mine
    perform(path, CODE, 3, step({1: 1}))
    assert contents(path, 3) == {1: 2, 2: 1, 9: 5}


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_torn_tail_is_cut_off(path: Path, cut: int) -> None:
    perform(path, CODE, 1, step({1: 1}))
    perform(path, CODE, 2, step({2: 1}))
    os.truncate(path, path.stat().st_size - cut)
    another_process(path)
    assert contents(path, 2) == Behind(1)
    perform(path, CODE, 2, step({2: 1}))
    assert contents(path, 2) == {1: 1, 2: 1, 9: 5}


def test_a_lost_log_is_noticed_and_restored(path: Path) -> None:
    done = [step({1: 1}), step({2: 1})]
    for sequence, operation in enumerate(done, 1):
        perform(path, CODE, sequence, operation)
    path.unlink()
    assert contents(path, 2) == Behind(NOTHING)
    perform(path, CODE, 2, restoration(*done))
    assert contents(path, 2) == {1: 1, 2: 1, 9: 5}


def test_a_stale_log_that_comes_back_is_noticed(path: Path) -> None:
    old = path.read_bytes()
    perform(path, CODE, 1, step({1: 1}))
    perform(path, CODE, 2, step({2: 1}))
    path.write_bytes(old)
    assert contents(path, 2) == Behind(0)


@pytest.mark.parametrize("garbage", [b"", b"x", b"\xff" * 100, bytes(100)])
def test_garbage_is_noticed(path: Path, garbage: bytes) -> None:
    path.write_bytes(garbage)
    assert perform(path, CODE, 1, step({1: 1})) == Behind(NOTHING)


def test_a_batch_is_taken_back_by_a_log_without_it(path: Path) -> None:
    first, second = step({1: 1}), step({1: 1, 2: 1})
    perform(path, CODE, 1, first)
    perform(path, CODE, 2, second)
    perform(path, CODE, 3, restoration(first, sequence=2))
    assert contents(path, 3) == {1: 1, 9: 5}
    assert perform(path, CODE, 2, second) == Behind(3), "a task of the batch that comes late does nothing"
    assert contents(path, 3) == {1: 1, 9: 5}


def test_long_logs_shrink_to_their_contents(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "COMPACT_BYTES", 1_000)
    another_process(path)
    for sequence in range(1, 60):
        perform(path, CODE, sequence, step({sequence % 3: 1}))
        if sequence % 7 == 0:
            another_process(path)
    assert path.stat().st_size < 4_000
    another_process(path)
    assert contents(path, 59) == {0: 19, 1: 20, 2: 20, 9: 5}


# On Spark.


@pytest.fixture
def workers(spark: Any, request: pytest.FixtureRequest) -> Iterator[Workers]:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    found = Workers(spark, CODE, 2, request.param)
    found.load([{1: 10}, {1: 20}])
    yield found
    found.close()


both_ways = pytest.mark.parametrize("workers", [Lines, Jobs], indirect=True, ids=lambda way: way.__name__)


@both_ways
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.filterwarnings("ignore")  # PySpark warns about its own dependencies
def test_rounds_on_spark(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of several rounds, one that is refused in one partition, and checkpoints."""
    assert workers.run([{1: 1}, {2: 1}]) == [{1: 11}, {2: 1}]
    assert workers.run([{1: 1}, {2: 1}], begins=False) == [{1: 12}, {2: 2}]
    assert workers.run([{1: 1}, {3: 1}]) == [{1: 13}, {3: 1}]
    with pytest.raises(DataError, match="-1 is no key"):
        workers.run([{1: 100}, {-1: 1}], begins=False)
    workers.abort()
    assert workers.read([1, 3]) == [12, None], "all rounds of the batch are taken back, everywhere"
    monkeypatch.setattr(cluster, "CHECKPOINT_BYTES", 0)
    workers.checkpoint()
    for number in range(3):
        assert workers.run([{1: 1}, {2: 1}]) == [{1: 13 + number}, {2: 3 + number}]
    assert workers.traffic.checkpoints >= 2
    assert all(workers.traffic.said)
    assert all(workers.traffic.heard)


@pytest.mark.parametrize("workers", [Lines], indirect=True)
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.filterwarnings("ignore")
def test_processes_that_die(workers: Workers) -> None:
    """Between rounds, in the middle of one, and all of them."""
    way = workers.way
    assert isinstance(way, Lines)
    assert workers.run([{1: 1}, {1: 1}]) == [{1: 11}, {1: 21}]
    os.kill(way.processes()[1], signal.SIGKILL)
    assert workers.run([{1: 1}, {1: 1}]) == [{1: 12}, {1: 22}]
    with pytest.raises(BackendError, match="failed 4 times"):
        workers.read([-1, 1])
    for process in way.processes().values():
        os.kill(process, signal.SIGKILL)
    assert workers.run([{1: 1}, {1: 1}]) == [{1: 13}, {1: 23}]
    process = way.processes()[0]
    workers.close()
    for _ in range(100):
        if (
            not Path(f"/proc/{process}").exists()
            or "Z" in Path(f"/proc/{process}/stat").read_text().split()[2]
        ):
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the process outlives its line")


@pytest.mark.parametrize("workers", [Lines], indirect=True)
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.filterwarnings("ignore")
def test_strangers_get_no_line(workers: Workers) -> None:
    """Who does not know the key is turned away, and holds nobody up."""
    way = workers.way
    assert isinstance(way, Lines)
    with (
        socket.create_connection(way.call.address) as silent,
        socket.create_connection(way.call.address) as other,
    ):
        other.sendall(b"\0\0\0\4junk")
        silent.shutdown(socket.SHUT_WR)
        assert workers.run([{1: 1}, {1: 1}]) == [{1: 11}, {1: 21}]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.filterwarnings("ignore")
def test_a_driver_out_of_reach_is_named(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    found = Workers(spark, CODE, 1, Lines)
    assert isinstance(found.way, Lines)
    monkeypatch.setattr(found.way, "call", Call(("127.0.0.1", 1), b"key"))
    found.load([{}])
    with pytest.raises(BackendError, match=r"cannot reach the driver at 127.0.0.1:1 .*spark.viewlet.lines"):
        found.read([1])
    found.close()
