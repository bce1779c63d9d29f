"""Imports run one way: stages import what stands before them, never what follows."""

from __future__ import annotations

import ast
from pathlib import Path

import viewlet

ROOT = Path(viewlet.__file__).parent

# Each folder may import those before it.
ORDER = ("core", "sql", "plan", "calculus", "triggers", "loops", "indexes", "workers", "backends")

# Siblings stand beside the pipeline: they share its front, its boundary to Arrow and the way to hold state on
# Spark, not its machinery.
SHARED = ("core", "sql", "plan", "values", "workers")
SIBLINGS = ("sketches", "linalg", "signals")

# Row, Bag and Change, and what an engine promises: words that siblings share, without any engine.
VOCABULARY = "viewlet.backends.base"

# Exceptions, each with its reason, as (importing file, imported folder).
ALLOWED = {
    ("sql/__init__.py", "plan"),  # compile_query, the front door of both, imports plan when called
    ("sketches/backends/database.py", "connecting"),  # sketches of a Viewlet database open it
    ("sketches/backends/database.py", "database"),  # and read it as users do
    ("sketches/backends/database.py", "storage"),  # and its triggers' state is saved as its checkpoints are
    ("sketches/store.py", "changes"),  # and take the same kinds of changes
}


def imports(path: Path) -> set[str]:
    """The modules of viewlet that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                modules = [f"viewlet.{alias.name}" for alias in names] if module == "viewlet" else [module]
            case ast.ImportFrom(level=level) if level:
                raise AssertionError(f"{path} imports relatively: write the whole name")
            case _:
                continue
        found |= {module for module in modules if module.startswith("viewlet.")}
    return found


def folders(modules: set[str]) -> set[str]:
    return {module.split(".")[1] for module in modules}


def violations() -> list[str]:
    result = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT)
        folder = name.parts[0] if len(name.parts) > 1 else None
        if folder in ORDER:
            allowed = {*ORDER[: ORDER.index(folder) + 1], "errors"}
        elif folder in SIBLINGS:
            allowed = {*SHARED, folder, "errors"}
        else:
            continue
        modules = imports(path) - {VOCABULARY} if folder in SIBLINGS else imports(path)
        for imported in sorted(folders(modules) - allowed):
            if (name.as_posix(), imported) not in ALLOWED:
                result.append(f"{name} imports viewlet.{imported}")
    return result


def test_imports_run_one_way() -> None:
    assert violations() == []


def test_the_check_sees_imports() -> None:
    assert {"core", "errors"} <= folders(imports(ROOT / "sql" / "catalog.py"))
    assert "viewlet.plan.nodes" in imports(ROOT / "backends" / "base.py")


def test_errors_import_nothing_and_values_only_core() -> None:
    assert imports(ROOT / "errors.py") == set()
    assert folders(imports(ROOT / "values.py")) == {"core", "errors"}
