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
