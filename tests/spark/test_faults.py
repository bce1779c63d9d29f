"""Executors and workers that die, and directories that are lost, on a cluster of real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("way", ["lines", "jobs"])
@pytest.mark.parametrize(("seed", "batches"), [(1, 4), (2, 12), (3, 500)])
def test_accidents_on_a_cluster(seed: int, batches: int, way: str) -> None:
    script = Path(__file__).with_name("faulty.py")
    done = subprocess.run(
        [sys.executable, str(script), str(seed), str(batches), way],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "results as without them" in done.stdout


def test_a_driver_that_is_killed(tmp_path: Path) -> None:
    """At any moment, several times, and with another number of partitions each time."""
    script = str(Path(__file__).with_name("driver.py"))
    begun = []
    for partitions, seconds in (("2", "2.5"), ("1", "1.3"), ("3", "0.7"), ("2", "0")):
        command = [sys.executable, script, str(tmp_path), partitions, seconds]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "from batch" in done.stdout, done.stderr[-3000:]
        begun.append(int(done.stdout.split("from batch ")[1].split()[0]))
    assert begun[-1] > begun[0], "some batches were committed before a driver was killed"
    assert "the same" in done.stdout, done.stderr[-3000:]
