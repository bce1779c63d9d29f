"""A full disk refuses batches and loses none; work goes on when there is room again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import viewlet
from storage import full_disk

SCRIPT = Path(__file__).with_name("full_disk.py")


@pytest.mark.parametrize("durability", ["full", "off"])
def test_a_full_disk(tmp_path: Path, durability: str) -> None:
    path = tmp_path / "a.viewlet"
    command = [sys.executable, str(SCRIPT), str(path), durability]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["refused"], "the limit was never reached"
    assert all("cannot be written" in reason for reason in result["refused"])
    for _ in range(2):
        with viewlet.connect(path) as db:
            assert [a for a, _ in db.table("r").rows()] == result["rows"]
            assert db.view("n").rows() == [(len(result["rows"]), 1000)]
            assert len(db.view("seen")) == full_disk.SEEN
            db.checkpoint()
