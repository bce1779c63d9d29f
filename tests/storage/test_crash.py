"""A killed writer loses nothing that it acknowledged, and leaves no half of anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("crash.py")


def crashes(path: Path, kills: int, seed: int, durability: str) -> dict[str, Any]:
    options = ["--kills", str(kills), "--seed", str(seed), "--durability", durability]
    command = [sys.executable, "-W", "error", str(SCRIPT), str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("durability", ["full", "batch", "off"])
def test_killed_writers(durability: str, tmp_path: Path) -> None:
    result = crashes(tmp_path / "killed.viewlet", 12, 7, durability)
    assert result["verified"] > 6
    assert result["steps"] > 20
    assert result["checkpoints"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("durability", ["full", "batch", "off"])
def test_many_killed_writers(durability: str, seed: int, tmp_path: Path) -> None:
    assert crashes(tmp_path / "killed.viewlet", 60, seed, durability)["steps"] > 100
