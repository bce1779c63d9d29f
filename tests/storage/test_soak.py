"""Rows come and go for a long time, and memory stays what it was."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import viewlet

pytestmark = pytest.mark.native

ROWS = 2_000
GROWTH = 64 << 20
"""Allocators keep some of what they got; a leak of one byte per row would pass this in the long run."""


def resident() -> int:
    """The bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def soak(seconds: float, folder: Path) -> None:
    """A durable table, a table in memory and a stream, all with text that never comes again."""
    databases = [viewlet.connect(folder / "soak.viewlet", checkpoint_bytes=1 << 20), viewlet.connect()]
    for db in databases:
        db.execute("CREATE TABLE r (k BIGINT, s VARCHAR); CREATE STREAM e (k BIGINT, s VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW by_s AS SELECT s, sum(k) AS k FROM r GROUP BY s")
        db.execute("CREATE MATERIALIZED VIEW by_e AS SELECT s, sum(k) AS k FROM e GROUP BY s")
    began, before, step, waiting = time.monotonic(), 0, 0, None
    while time.monotonic() - began < seconds or step < 40:
        keys = np.arange(step * ROWS, (step + 1) * ROWS)
        batch = pa.table({"k": keys, "s": pa.array([f"text {key}" for key in keys.tolist()])})
        for db in databases:
            db.apply({"r": batch, "e": batch})
            if waiting is not None:
                gone = waiting.append_column("_weight", pa.array([-1] * ROWS))
                db.apply({"r": gone, "e": gone})
        waiting, step = batch, step + 1
        if step == 20:
            gc.collect()
            before = resident()
    gc.collect()
    assert resident() - before < GROWTH
    for db in databases:
        assert len(db.table("r")) == len(db.view("by_s")) == len(db.view("by_e")) == ROWS
        assert all(size.records <= 2 * ROWS for size in db.stats().maps)
        db.close()


def test_a_moment(tmp_path: Path) -> None:
    soak(1.0, tmp_path)


@pytest.mark.slow
def test_half_an_hour(tmp_path: Path) -> None:
    soak(1_800.0, tmp_path)
