"""Every example in the documentation runs: doctests, the README, the guide and the one-file introduction."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import viewlet

PROJECT = Path(__file__).parents[1]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODULES = sorted(module.name for module in pkgutil.walk_packages(viewlet.__path__, "viewlet."))
PAGES = sorted([PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_doctests(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if str(missing.name).startswith("viewlet"):
            raise
        pytest.skip(f"{name} needs the optional package {missing.name}")
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_python_blocks_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "__main__"}
    for block in PYTHON_BLOCK.findall(page.read_text()):
        if block.startswith(">>>"):
            example = doctest.DocTestParser().get_doctest(block, scope, page.name, str(page), 0)
            results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, clear_globs=False)
            assert results.failed == 0
            scope.update(example.globs)
        else:
            exec(compile(block, f"<python in {page.name}>", "exec"), scope)


def test_the_idea_in_one_file_runs() -> None:
    script = PROJECT / "docs" / "from_scratch.py"
    if not script.exists():
        pytest.skip("docs/from_scratch.py is not written yet")
    subprocess.run([sys.executable, "-W", "error", script], check=True, capture_output=True, timeout=120)
