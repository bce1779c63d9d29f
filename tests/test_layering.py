"""Imports run one way: stages import what stands before them, never what follows."""

from __future__ import annotations

import ast
from pathlib import Path

import viewlet

ROOT = Path(viewlet.__file__).parent

# Each folder may import those before it.
ORDER = ("core", "sql", "plan", "calculus", "triggers", "loops", "indexes", "backends")

# Siblings stand beside the pipeline: they share its front, not its machinery.
SIBLINGS = {"sketches": ("core", "sql", "plan"), "linalg": ("core",), "signals": ("core", "sql", "plan")}

# Exceptions, each with its reason, as (importing file, imported folder).
ALLOWED = {
    (
        "sql/__init__.py",
        "plan",
    ),  # compile_query is the front door of both stages and imports plan when called
}


def imports(path: Path) -> set[str]:
    """The viewlet folders and top-level modules that a file imports."""
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
        found |= {module.split(".")[1] for module in modules if module.startswith("viewlet.")}
    return found


def violations() -> list[str]:
    result = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT)
        folder = name.parts[0] if len(name.parts) > 1 else None
        if folder in ORDER:
            allowed = {*ORDER[: ORDER.index(folder) + 1], "errors"}
        elif folder in SIBLINGS:
            allowed = {*SIBLINGS[folder], folder, "errors"}
        else:
            continue
        for imported in sorted(imports(path) - allowed):
            if (name.as_posix(), imported) not in ALLOWED:
                result.append(f"{name} imports viewlet.{imported}")
    return result


def test_imports_run_one_way() -> None:
    assert violations() == []


def test_the_check_sees_imports() -> None:
    assert {"core", "errors"} <= imports(ROOT / "sql" / "catalog.py")
    assert "plan" in imports(ROOT / "backends" / "base.py")


def test_errors_import_nothing() -> None:
    assert imports(ROOT / "errors.py") == set()
