"""Rows come and go for a long time, and memory stays what it was.

    python soak.py --seconds 1800 [--out soak.md]

A durable table with checkpoints, a table in memory, a keyed table whose rows are replaced and a stream, all
with text that never comes again; views group, join, find extremes and read views. Every table holds as many
rows at the end of a step as at its beginning. Memory is sampled in equal intervals after a start-up; at the
end every view is compared with a count in Python.
"""

from __future__ import annotations

import argparse
import gc
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import viewlet

ROWS = 2_000
KEYS = 50
WARM_STEPS = 20
SAMPLES = 30
SCHEMA = """
    CREATE TABLE r (k BIGINT, s VARCHAR);
    CREATE TABLE keyed (k BIGINT PRIMARY KEY, s VARCHAR);
    CREATE STREAM e (k BIGINT, s VARCHAR);
    CREATE MATERIALIZED VIEW by_s AS SELECT s, sum(k) AS k FROM r GROUP BY s;
    CREATE MATERIALIZED VIEW ends AS SELECT k % 10 AS g, min(s) AS low, max(s) AS high FROM r GROUP BY k % 10;
    CREATE MATERIALIZED VIEW joined AS SELECT keyed.s, count(*) AS n FROM r JOIN keyed ON r.k % 50 = keyed.k
        GROUP BY keyed.s;
    CREATE MATERIALIZED VIEW most AS SELECT max(n) AS n FROM joined;
    CREATE MATERIALIZED VIEW by_e AS SELECT s, sum(k) AS k FROM e GROUP BY s;
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory after some time and some changed rows."""

    seconds: float
    changes: int
    resident: int
    file: int


def resident() -> int:
    """The bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def batch_of(step: int) -> pa.Table:
    """The rows that come with a step and go with the next."""
    keys = np.arange(step * ROWS, (step + 1) * ROWS)
    return pa.table({"k": keys, "s": pa.array([f"text {key}" for key in keys.tolist()])})


def gone(batch: pa.Table) -> pa.Table:
    """The deletion of a batch."""
    return batch.append_column("_weight", pa.array([-1] * len(batch)))


def soak(seconds: float, folder: Path) -> Iterator[Sample]:
    """Run, giving a sample now and then; raises if something is wrong in the end."""
    path = folder / "soak.viewlet"
    databases = [viewlet.connect(path, durability="batch", checkpoint_bytes=1 << 20), viewlet.connect()]
    for db in databases:
        db.execute(SCHEMA)
        db.apply({"r": batch_of(0), "e": batch_of(0)})
        db.insert("keyed", [(key, "at first") for key in range(KEYS)])
    began, step, taken = time.monotonic(), 0, 0
    while time.monotonic() - began < seconds or step < 2 * WARM_STEPS:
        step += 1
        old, new = batch_of(step - 1), batch_of(step)
        replaced = [(key, f"text {step} of {key}") for key in range(KEYS)]
        for db in databases:
            db.apply({"r": gone(old), "e": gone(old)})
            db.apply({"r": new, "e": new})
            db.insert("keyed", replaced, on_conflict="update")
        if step >= WARM_STEPS and time.monotonic() - began >= seconds * taken / SAMPLES:
            gc.collect()
            changes = step * len(databases) * (4 * ROWS + 2 * KEYS)
            yield Sample(time.monotonic() - began, changes, resident(), path.stat().st_size)
            taken += 1
    for db in databases:
        check(db, step)
        db.close()


def check(db: viewlet.Database, step: int) -> None:
    """Compare every view with what the last step makes it."""
    last = batch_of(step).to_pylist()
    rows = sorted((row["s"], row["k"]) for row in last)
    assert db.view("by_s").rows() == rows == db.view("by_e").rows()
    groups: dict[int, list[str]] = {}
    for row in last:
        groups.setdefault(row["k"] % 10, []).append(row["s"])
    assert db.view("ends").rows() == sorted((g, min(s), max(s)) for g, s in groups.items())
    each = ROWS // KEYS
    assert db.view("joined").rows() == sorted((f"text {step} of {key}", each) for key in range(KEYS))
    assert db.view("most").value == each
    assert all(size.records <= 2 * ROWS for size in db.stats().maps), "records of rows that went are there"


def growth(samples: list[Sample]) -> int:
    """How much more memory the last third takes than the first, each at its largest."""
    third = max(1, len(samples) // 3)
    largest = [max(sample.resident for sample in some) for some in (samples[:third], samples[-third:])]
    return largest[1] - largest[0]


def markdown(samples: list[Sample]) -> str:
    """The samples as a page."""
    last = samples[-1]
    heading = (
        f"# Soak\n\n`python tests/storage/soak.py --seconds {last.seconds:.0f}` on {platform.machine()}, "
        f"Python {platform.python_version()}: {last.changes:,} changed rows, growth of memory "
        f"from the first third to the last {growth(samples) / 1e6:+.1f} MB; all views right at the end.\n\n"
        "| minutes | changed rows | memory MB | file MB |\n|---|---|---|---|\n"
    )
    return heading + "".join(
        f"| {s.seconds / 60:.1f} | {s.changes:,} | {s.resident / 1e6:.1f} | {s.file / 1e6:.1f} |\n"
        for s in samples
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1_800.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    samples = []
    with tempfile.TemporaryDirectory() as name:
        for sample in soak(options.seconds, Path(name)):
            samples.append(sample)
            print(
                f"{sample.seconds:7.0f} s {sample.changes:12,} rows {sample.resident / 1e6:8.1f} MB",
                flush=True,
            )
    if options.out is not None:
        options.out.write_text(markdown(samples))
    return 0


if __name__ == "__main__":
    sys.exit(main())
