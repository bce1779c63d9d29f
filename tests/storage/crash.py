"""Kills a writing process again and again, and compares what it leaves behind with what it acknowledged.

    python crash.py PATH --kills 30 --seed 1 --durability full --checkpoint-bytes 20000

Every round forks a writer, which compares the file with the count of ``workload.py``, acknowledges each
further step through a pipe, and is killed with SIGKILL at a random moment: also while it opens the file or
writes a checkpoint. Prints one line of JSON. The kernel stays alive: this shows what a dying process loses.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import workload

import viewlet


def forked(action: Callable[[int], None]) -> tuple[int, int]:
    """Run an action in a child with the writing end of a pipe; returns its pid and the reading end."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 1
    try:
        os.close(reading)
        action(writing)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def write(options: argparse.Namespace, acknowledged: int, pipe: int) -> None:
    """Open the file, compare it, and take steps for ever; say where it was, then acknowledge each step."""
    db = viewlet.connect(
        options.path,
        backend=workload.BACKEND,
        durability=options.durability,
        checkpoint_bytes=options.checkpoint_bytes,
    )
    done = verified(db, options.seed, acknowledged)
    workload.create_schema(db)
    os.write(pipe, f"{done}\n".encode())
    for step in workload.steps(options.seed, workload.Expected()):
        if step.number < done:
            continue
        before = db.version
        version = workload.take(db, step)
        assert version == (before if step.number == done else before + 1), "a token counts once"
        os.write(pipe, f"{step.number}\n".encode())


def verified(db: viewlet.Database, seed: int, acknowledged: int) -> int:
    """How far a reopened database came; raises if that is too little, too much, or wrong."""
    done = workload.position(db)
    if not acknowledged <= done <= acknowledged + 1:
        raise AssertionError(f"{acknowledged} steps were acknowledged, the file holds {done}")
    if "seen" not in db.catalog:
        return done  # the writer died while it defined the tables
    expected = workload.expected_after(seed, done)
    found, late = workload.contents(db), "late" in db.catalog
    # A definition comes before the batch of its step: that of the next step may be there already.
    if late != (expected.late is not None) and workload.step_after(seed, done).definition is None:
        raise AssertionError(f"after step {done} the view 'late' is {'there' if late else 'missing'}")
    for name, rows in expected.contents(late).items():
        if found[name] != rows:
            raise AssertionError(f"after step {done}, {name}: {found[name]} instead of {rows}")
    return done


def acknowledgements(pipe: int, text: bytearray, until: int, seconds: float) -> None:
    """Read what the writer has acknowledged, until some lines have come or time is over."""
    deadline = time.monotonic() + seconds
    while text.count(b"\n") < until and (left := deadline - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            data = os.read(pipe, 1 << 16)
            if not data:
                return
            text.extend(data)


def kill_one(options: argparse.Namespace, rng: random.Random, acknowledged: int) -> list[int]:
    """One writer, one kill; returns what it wrote: where the file was, then what it acknowledged."""
    pid, pipe = forked(lambda writing: write(options, acknowledged, writing))
    text = bytearray()
    if rng.random() < 0.8:
        acknowledgements(pipe, text, rng.randrange(1, 15), 30)
        time.sleep(rng.uniform(0, 0.004))
    else:
        time.sleep(rng.uniform(0, 0.1))  # while it opens the file
    os.kill(pid, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1]), "the reopened database is not what was acknowledged"
    while data := os.read(pipe, 1 << 16):
        text.extend(data)
    os.close(pipe)
    return [int(line) for line in text.split()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--durability", default="full")
    parser.add_argument("--checkpoint-bytes", type=int, default=20_000)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    acknowledged = verified_opens = in_flight = 0
    for _ in range(options.kills):
        numbers = kill_one(options, rng, acknowledged)
        verified_opens += bool(numbers)
        in_flight += bool(numbers) and numbers[0] > acknowledged
        acknowledged = max([acknowledged, *numbers])
    with viewlet.connect(options.path, backend=workload.BACKEND) as db:
        verified(db, options.seed, acknowledged)
    with closing(sqlite3.connect(options.path)) as connection:
        checkpoints = json.loads(connection.execute("SELECT fields FROM head").fetchone()[0])["generation"]
    result = {"kills": options.kills, "verified": verified_opens + 1, "steps": acknowledged}
    print(json.dumps(result | {"in_flight_kept": in_flight, "checkpoints": checkpoints}))


if __name__ == "__main__":
    main()
