"""benchmarks/compare.py: two commits of a small project of its own."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "compare.py"

SUITE = """'Tiny: tiny.py [--quick]'
import json, pathlib, sys
import viewlet_like
if __name__ == "__main__" and "--quick" in sys.argv:
    out = pathlib.Path(__file__).parent / "results" / "tiny"
    out.mkdir(parents=True, exist_ok=True)
    figures = [{"query": "q1", "ms": viewlet_like.MS}, {"query": "q2", "ms": 7}]
    (out / "figures.json").write_text(json.dumps({"figures": figures, "quick": True}))
"""


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, in a project with two commits: in the second, q1 takes half as long."""
    if shutil.which("git") is None:
        pytest.skip("needs git")

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "benchmarks" / "tiny.py").write_text(SUITE)
    git("init", "-q")
    for milliseconds in 10, 5:
        (tmp_path / "src" / "viewlet_like.py").write_text(f"MS = {milliseconds}\n")
        git("add", "benchmarks/tiny.py", "src")
        git("commit", "-q", "-m", f"{milliseconds}")
    spec = importlib.util.spec_from_file_location("viewlet_compare", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "viewlet_compare", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PROJECT", tmp_path)
    return module


def test_ratios_of_two_commits(
    compare: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert compare.main(["HEAD~1", "HEAD", "--suite", "tiny", "--repeat", "2"]) == 0
    said = capsys.readouterr().out
    assert "| figures figures query=q1 ms | 10 | 5 | 0.50 |" in said
    assert "| figures figures query=q2 ms | 7 | 7 | 1.00 |" in said
    listed = subprocess.run(["git", "worktree", "list"], cwd=tmp_path, capture_output=True, text=True)
    assert len(listed.stdout.splitlines()) == 1, "worktrees are left behind"


def test_the_files_as_they_are_and_a_limit(
    compare: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "src" / "viewlet_like.py").write_text("import time\ntime.sleep(0.8)\nMS = 20\n")
    assert compare.main(["HEAD", "--suite", "tiny", "--repeat", "1", "--fail-above", "1.5"]) == 1
    assert "| figures figures query=q1 ms | 5 | 20 | 4.00 |" in capsys.readouterr().out


def test_what_is_not_there_is_said(compare: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["HEAD", "HEAD~1", "--suite", "nothing", "--repeat", "1"]) == 0
    assert "nothing: not there at" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no-such-commit"):
        compare.main(["no-such-commit"])
