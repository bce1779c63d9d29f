"""One measurement at a time, each in a fork of its own: what does not come to an end is given up."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DNF = "did not finish"
BUSY = 8
"""So many times its CPU time a process may take on a machine that others use."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one system did with one query.

    ``rate`` is in events per second. ``partial`` says that time was up before the stream: what came later,
    over more rows, would have been no faster. ``failed`` says why there is no rate. ``bytes`` is memory,
    where that is asked for.
    """

    rate: float | None = None
    events: int = 0
    partial: bool = False
    failed: str | None = None
    answer: list[tuple[Any, ...]] | None = None
    bytes: int | None = None


def measured(task: Callable[[], Cell], patience: float, *, waits: bool = False) -> Cell:
    """What a task returns; a failed cell if it raises or takes more than ``patience`` CPU seconds.

    One that ``waits`` for another process is given that much time on the clock instead; others are given up
    on a busy machine too, but later.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: Arrow's start anew in the child
        child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            found = task()
        except BaseException as failure:  # whatever it was, the parent reports it
            found = Cell(failed=f"{type(failure).__name__}: {str(failure).splitlines()[0][:120]}")
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(found, pipe)
        os._exit(0)
    os.close(writing)
    data, end = b"", time.monotonic() + (patience if waits else BUSY * patience)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while time.monotonic() < end and (waits or _cpu_seconds(child) < patience):
            if select.select([pipe], [], [], 0.1)[0]:
                part = pipe.read(1 << 20)
                if not part:
                    os.waitpid(child, 0)
                    return pickle.loads(data) if data else Cell(failed="the process ended without an answer")
                data += part
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Cell(failed=f"{DNF} in {patience:.0f} s")


def _cpu_seconds(process: int) -> float:
    """What a process has used; a limit of the kernel's would make its own clock count in ticks."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:  # not on this system: then only the clock on the wall counts
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def paced(
    lengths: Sequence[int], step: Callable[[int, int, int], float], seconds: float
) -> tuple[int, float]:
    """Run ``step(batch, from, to)``, which returns its CPU seconds, over all batches until time is up.

    Gives the events done and the seconds taken. Batches come in parts that grow, so that a slow system is
    asked to stop in time and a fast one is not measured by its clock.
    """
    done, spent, size = 0, 0.0, 64
    for batch, length in enumerate(lengths):
        at = 0
        while at < length:
            to = min(at + size, length)
            taken = step(batch, at, to)
            done, spent, at = done + to - at, spent + taken, to
            size = size * 4 if taken < seconds / 16 else max(size // 4, 1)
            if spent >= seconds:
                return done, spent
    return done, spent


@contextmanager
def postgres() -> Iterator[str | None]:
    """The address of a PostgreSQL server, started for the occasion; ``None`` where that cannot be."""
    import importlib.util

    path = Path(__file__).parents[1] / "tests" / "postgres_server.py"
    spec = importlib.util.spec_from_file_location("postgres_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder, user = module.binaries(), module.account()
    if folder is None or user is None:
        print("PostgreSQL is left out: there are no binaries, or no user to run it as")
        yield None
        return
    with module.server(folder, user) as address:
        yield address
