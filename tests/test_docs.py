"""Every example in the documentation runs: doctests, the README, the guide and the one-file introduction."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import viewlet
from test_layering import ORDER, SIBLINGS

PROJECT = Path(__file__).parents[1]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MODULES = sorted(module.name for module in pkgutil.walk_packages(viewlet.__path__, "viewlet."))
PRINTS = re.compile(r"^```python\n(.*?)^```\n\nprints\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")
PAGES = sorted([PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")])
ALL_PAGES = sorted({*PAGES, *PROJECT.glob("*.md")})


def _generated() -> ModuleType:
    """``docs/generated.py``, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("generated", PROJECT / "docs" / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATED = _generated()


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
    done = subprocess.run(
        [sys.executable, "-W", "error", script], check=True, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.count("events agree with SQLite") == 3


def test_the_example_in_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    found = PRINTS.findall((PROJECT / "README.md").read_text())
    assert len(found) == 1
    program, output = found[0]
    exec(compile(program, "<README.md>", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == output
    assert len([line for line in program.splitlines() if line]) <= 15


@pytest.mark.parametrize("page", GENERATED.pages(), ids=lambda page: page.name)
def test_generated_passages_are_what_the_code_gives_today(page: Path, update: bool) -> None:
    text = page.read_text(encoding="utf-8")
    expected = GENERATED.regenerated(text)
    if update:
        page.write_text(expected, encoding="utf-8")
    else:
        assert text == expected, f"{page.name} is out of date: run python docs/generated.py and read the diff"


def test_every_passage_is_used_once() -> None:
    used = [found[1] for page in GENERATED.pages() for found in GENERATED.MARK.findall(page.read_text())]
    assert sorted(used) == sorted(GENERATED.PASSAGES)


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} points to {target}, which is not there"


def test_code_names_in_the_architecture_exist() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    files = {path.name for path in (PROJECT / "src").rglob("*.py")} | {
        path.name for path in (PROJECT / "tests").rglob("*.py")
    }
    named = re.findall(r"`([\w/]+\.py)`", text)
    assert named
    assert [name for name in named if name.rpartition("/")[2] not in files] == []
    described = set(re.findall(r"\*\*`(\w+)/`\*\*", text))
    top = {path.name for path in (PROJECT / "src" / "viewlet").iterdir() if (path / "__init__.py").exists()}
    assert described <= top, "a paragraph about a folder that is not there"
    assert {*ORDER, *SIBLINGS} <= described, "every stage has its paragraph"


def test_the_picture_of_q3_is_what_the_code_gives_today() -> None:
    folder = PROJECT / "docs" / "pictures"
    shown = "import sys; from q3 import picture; sys.stdout.buffer.write(picture().encode())"
    drawn = subprocess.run([sys.executable, "-c", shown], cwd=folder, check=True, capture_output=True).stdout
    assert drawn == (folder / "q3_maps.svg").read_bytes(), "run python docs/pictures/q3.py"
