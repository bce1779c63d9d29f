"""The log beside a container: whatever happens to its files, what is read is a prefix of what was written."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from viewlet.errors import StorageError
from viewlet.storage.logfile import LONG_BYTES, RESERVED_BYTES, LogFile, Record, Step

FIRST = (7, "ab12")


def write(log: LogFile, after: int, count: int, rng: random.Random) -> list[Step]:
    """Steps of random length that follow on one."""
    steps = []
    for sequence in range(after + 1, after + count + 1):
        token = rng.choice([None, f"token {sequence}"])
        body = rng.randbytes(rng.choice([0, 1, 50, 3_000]))
        record = Record(sequence, 2 * sequence, "commit", token, pieces(body, rng))
        digest = log.append(sequence - 1, record)
        steps.append(Step(sequence, 2 * sequence, "commit", token, body, digest))
    return steps


def pieces(body: bytes, rng: random.Random) -> list[bytes]:
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randrange(4)))
    return [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def found(container: Path) -> list[Step]:
    return list(LogFile(container, "off").steps(*FIRST))


@pytest.fixture
def container(tmp_path: Path) -> Path:
    return tmp_path / "a[1]*.viewlet"


@pytest.fixture
def written(container: Path) -> list[Step]:
    """Steps in two files."""
    rng, log = random.Random(1), LogFile(container, "batch")
    log.start(*FIRST)
    first = write(log, FIRST[0], 4, rng)
    log.start(first[-1].sequence, first[-1].digest)
    second = write(log, first[-1].sequence, 3, rng)
    log.close()
    return first + second


def files(container: Path) -> list[Path]:
    return sorted(container.parent.iterdir(), key=lambda path: int(path.name.rpartition("-log")[2]))


def test_all_is_read(container: Path, written: list[Step]) -> None:
    assert found(container) == written
    assert len(files(container)) == 2


@pytest.mark.parametrize("number", [0, 1])
def test_a_cut_or_changed_file_leaves_a_prefix(container: Path, written: list[Step], number: int) -> None:
    path, rng, lengths = files(container)[number], random.Random(2), set()
    whole = path.read_bytes()
    for place in sorted(rng.sample(range(len(whole)), 150)):
        flipped = bytes([whole[place] ^ 1 << rng.randrange(8)])
        for data in (whole[:place], whole[:place] + flipped + whole[place + 1 :]):
            path.write_bytes(data)
            steps = found(container)
            assert steps == written[: len(steps)]
            assert len(steps) < len(written), "the damage is noticed"
            lengths.add(len(steps))
    assert len(lengths) > 2


def test_files_of_another_time_are_left_out(container: Path, written: list[Step]) -> None:
    assert not list(LogFile(container, "off").steps(FIRST[0], "cd34"))
    assert not list(LogFile(container, "off").steps(FIRST[0] + 1, FIRST[1]))
    LogFile(container, "off").remove(before=FIRST[0] + 1)
    assert not found(container)
    assert list(LogFile(container, "off").steps(written[3].sequence, written[3].digest)) == written[4:]


def test_what_cannot_be_written_is_not_in_the_log(container: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Part of a record is written before the disk is full; then there is room again."""
    log, rng = LogFile(container, "full"), random.Random(3)
    log.start(*FIRST)
    steps = write(log, FIRST[0], 2, rng)
    vectors = os.pwritev
    long = Record(FIRST[0] + 3, 1, "commit", None, [bytes(20_000)])

    def full(descriptor: int, pieces: list[memoryview], place: int) -> int:
        if place > 10_000:
            raise OSError(28, "No space left on device")
        return vectors(descriptor, [piece[:700] for piece in pieces[:1]], place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(StorageError, match="cannot be written: No space left on device"):
            log.append(FIRST[0] + 2, long)
        assert found(container) == steps
        steps += write(log, FIRST[0] + 2, 2, rng)
    steps += write(log, FIRST[0] + 4, 2, rng)
    log.close()
    assert found(container) == steps


@pytest.mark.parametrize("room", [True, False])
def test_room_behind_long_records_is_no_record(
    container: Path, room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    if not room:
        monkeypatch.setattr(os, "posix_fallocate", full)
    log, rng = LogFile(container, "batch"), random.Random(6)
    log.start(*FIRST)
    steps = write(log, FIRST[0], 1, rng)
    for sequence in range(FIRST[0] + 2, FIRST[0] + 5):
        body = rng.randbytes(LONG_BYTES)
        digest = log.append(sequence - 1, Record(sequence, sequence, "commit", None, [body]))
        steps.append(Step(sequence, sequence, "commit", None, body, digest))
    steps += write(log, FIRST[0] + 4, 2, rng)
    assert (files(container)[0].stat().st_size > RESERVED_BYTES) == room
    assert found(container) == steps
    log.close()


def test_a_step_is_written_once(container: Path) -> None:
    log = LogFile(container, "off")
    log.start(*FIRST)
    write(log, FIRST[0], 2, random.Random(4))
    with pytest.raises(StorageError, match="interrupted in: close it and open it again"):
        write(log, FIRST[0] + 1, 1, random.Random(4))
    log.close()
