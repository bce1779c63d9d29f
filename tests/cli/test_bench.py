"""Benchmark suites are found, run and reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from viewlet.bench.suites import find_benchmarks, find_suites
from viewlet.cli import main

WRITES = '''"""Measures nothing, quickly.

    small.py [--quick]"""
import pathlib, sys
from viewlet.bench.suites import results_folder
out = results_folder(pathlib.Path(__file__).parent, "small", quick="--quick" in sys.argv)
if __name__ == "__main__":
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text("quick" if "--quick" in sys.argv else "full")
    print("measured")
'''
FAILS = '"""Fails."""\nif __name__ == "__main__":\n    raise SystemExit(3)\n'


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "benchmarks"
    (root / "deep").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    (root / "small.py").write_text(WRITES)
    (root / "shared.py").write_text('"""Parts of others."""\n')
    (root / "compare.py").write_text(FAILS)
    (root / "deep" / "run.py").write_text(FAILS)
    (root / "deep" / "other.py").write_text(FAILS)
    monkeypatch.chdir(root / "deep")
    return root


def test_suites_are_scripts_that_can_be_run(tree: Path) -> None:
    suites = find_suites(tree)
    assert sorted(suites) == ["deep", "deep/other", "small"]
    assert suites["small"].summary == "Measures nothing, quickly."
    assert (suites["small"].has_quick, suites["deep"].has_quick) == (True, False)
    assert {suite.results().relative_to(tree).as_posix() for suite in suites.values()} == {
        "results/small",
        "results/deep",
        "results/deep/other",
    }


def test_listing(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 0
    assert "small       Measures nothing, quickly." in capsys.readouterr().out
    assert main(["bench", "--json"]) == 0
    assert [suite["suite"] for suite in json.loads(capsys.readouterr().out)] == [
        "deep",
        "deep/other",
        "small",
    ]


def test_one_suite(tree: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "small", "--quick"]) == 0
    said = capfd.readouterr()
    assert said.out == "measured\n"
    assert "[1/1] small: done" in said.err
    assert (tree.parent / "build" / "quick" / "small" / "table.md").read_text() == "quick"
    assert not (tree / "results").exists()


def test_several_suites_in_the_order_named(tree: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "small", "deep/other", "small", "--json"]) == 1
    assert [found["suite"] for found in json.loads(capfd.readouterr().out)] == ["small", "deep/other"]
    assert main(["bench", "small", "smal"]) == 2
    assert "there is no suite 'smal'" in capfd.readouterr().err


def test_all_suites_run_even_if_one_fails(tree: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "all", "--json"]) == 1
    outcomes = {found["suite"]: found for found in json.loads(capfd.readouterr().out)}
    assert outcomes["deep"]["exit_code"] == 3
    assert outcomes["small"]["files"] == ["table.md"]
    index = (tree / "results" / "README.md").read_text()
    assert "[table.md](small/table.md)" in index
    assert "failed (3)" in index


def test_the_index_keeps_what_other_runs_found(tree: Path) -> None:
    found = tree / "results" / "deep" / "other" / "README.md"
    assert main(["bench", "deep"]) == 1
    assert "| not yet |" in (tree / "results" / "README.md").read_text()
    found.parent.mkdir(parents=True)
    found.touch()
    assert main(["bench", "small"]) == 0
    (*_, deep, other, small) = (tree / "results" / "README.md").read_text().splitlines()
    assert "failed (3)" in deep
    assert "earlier | | | [README.md](deep/other/README.md)" in other
    assert "[table.md](small/table.md)" in small
    assert main(["bench", "small", "--quick"]) == 0
    assert (tree / "results" / "README.md").read_text().splitlines()[-1] == small


def test_every_run_of_a_suite(tree: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tree / "several.py").write_text(
        '"""Several runs."""\nimport sys\nRUNS = ("--rows 10 --parts a", "--fail", "--last")\n'
        'if __name__ == "__main__":\n    print(sys.argv[1:])\n    sys.exit(4 * ("--fail" in sys.argv))\n'
    )
    assert main(["bench", "several"]) == 1
    said = capfd.readouterr()
    assert said.out.splitlines() == ["['--rows', '10', '--parts', 'a']", "['--fail']", "['--last']"]
    assert "exit code 4" in said.err


def test_unknown_suites_are_refused_with_the_choices(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "nothing"]) == 2
    assert "small, all" in capsys.readouterr().err


def test_without_a_source_tree(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("viewlet.cli.bench.find_benchmarks", lambda start: None)
    assert main(["bench"]) == 2
    assert "source tree" in capsys.readouterr().err


def test_the_benchmarks_of_this_project_are_found() -> None:
    root = find_benchmarks(Path(__file__).parent)
    assert root is not None
    assert {"linalg", "signals", "structures"} <= set(find_suites(root))


def test_the_pages_take_over_new_figures(tree: Path, capfd: pytest.CaptureFixture[str]) -> None:
    docs = tree.parent / "docs"
    docs.mkdir()
    (docs / "generated.py").write_text('print("pages rewritten")\n')
    main(["bench", "small"])
    assert "pages rewritten" in capfd.readouterr().out
    main(["bench", "all", "--quick"])
    assert "pages rewritten" not in capfd.readouterr().out
