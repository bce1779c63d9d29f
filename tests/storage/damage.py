"""A database with a past, and what is found after its files were damaged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import warnings
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

sys.path.insert(0, str(Path(__file__).parent))

import workload

import viewlet
from viewlet.errors import StorageError
from viewlet.storage.lockfile import Mark, read_mark
from viewlet.storage.recover import StorageWarning

SEED = 11
STEPS = 40
Verdict: TypeAlias = Literal["refused", "harmless", "LOST", "WRONG"]


def make(path: Path, durability: str = "full", *, crashed: bool) -> None:
    """A file with a checkpoint and a log behind it: closed, or with its log still in the file beside it."""
    command = [sys.executable, __file__, str(path), durability, "crashed" if crashed else "closed"]
    done = subprocess.run(command, check=False, timeout=120)
    assert done.returncode == (-signal.SIGKILL if crashed else 0)


def write(path: str, durability: str, end: str) -> None:
    """Take the steps, then close the file or die."""
    db = viewlet.connect(path, backend=workload.BACKEND, durability=durability)  # type: ignore[arg-type]
    workload.create_schema(db)
    for step in islice(workload.steps(SEED, workload.Expected()), STEPS):
        workload.take(db, step)
        if step.number == STEPS // 2:
            db.checkpoint()
    if end == "crashed":
        os.kill(os.getpid(), signal.SIGKILL)
    db.close()


def copy(path: Path, to: Path) -> Path:
    """A copy of the file with its companions."""
    for file in path.parent.glob(path.name + "*"):
        shutil.copy(file, to.with_name(to.name + file.name.removeprefix(path.name)))
    return to


def verdict(path: Path) -> Verdict:
    """Open a damaged file: it must be refused, or hold everything."""
    try:
        with viewlet.connect(path, backend=workload.BACKEND) as db:
            done = workload.position(db)
            if done != STEPS:
                return "LOST"
            expected = workload.expected_after(SEED, STEPS)
            right = workload.contents(db) == expected.contents(expected.late is not None)
            return "harmless" if right else "WRONG"
    except StorageError:
        return "refused"


def log_of(path: Path) -> Path:
    """The log beside a file whose writer was killed."""
    (found,) = path.parent.glob(path.name + "-log*")
    return found


def cut_as_if_power_failed(path: Path, durability: str, keep: float) -> None:
    """End the log early, as if the rest had not reached the disk when the machine went down."""
    lock, log = path.with_name(path.name + "-lock"), log_of(path)
    mark = read_mark(lock.read_bytes(), lock)
    assert mark is not None
    lock.write_bytes(Mark(mark.pid, "an-earlier-boot", durability, mark.acknowledged).line())
    os.truncate(log, int(log.stat().st_size * keep))


def prefix_verdict(path: Path, durability: str) -> str:
    """Open what a power failure left: refused, or a prefix of the steps and nothing else."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            db = viewlet.connect(path, backend=workload.BACKEND, durability=durability)  # type: ignore[arg-type]
    except StorageError:
        return "refused"
    with db:
        done = workload.position(db)
        expected = workload.expected_after(SEED, done)
        late = "late" in db.catalog
        if "seen" in db.catalog and workload.contents(db) != expected.contents(late):
            return "WRONG"
    told = any(issubclass(each.category, StorageWarning) for each in caught)
    return "a prefix, told" if told else "LOST"


def flip(path: Path, bit: int) -> None:
    """Turn one bit of a file over."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))


def overwrite(path: Path, start: int, data: bytes) -> None:
    """Write over a part of a file."""
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


if __name__ == "__main__":
    write(*sys.argv[1:])
