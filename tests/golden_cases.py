"""Golden files: what a stage makes of a text, written down for review.

A file holds cases, separated by blank lines::

    -- title
    given text
    =>
    expected text

``check`` runs one case; with ``pytest --update`` it writes today's output into the file instead of comparing.
Lines that start with ``#`` before the first case are the file's own comment and are kept. A blank line inside
a text is written as a line with a single dot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"
BLANK = "."


@dataclass(frozen=True)
class Case:
    """One case of a golden file."""

    path: Path
    title: str
    given: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path.stem}: {self.title}"


def load(name: str) -> list[Case]:
    """The cases of ``tests/golden/<name>.txt``; none is an error, so that no test passes over nothing."""
    path = GOLDEN / f"{name}.txt"
    cases = [_case(path, block) for block in _blocks(path.read_text(encoding="utf-8"))]
    assert cases, f"{path} holds no case"
    titles = [case.title for case in cases]
    assert len(set(titles)) == len(titles), f"{path} repeats a title"
    return cases


def check(case: Case, produce: Callable[[str], str], update: bool) -> None:
    """Compare what ``produce`` makes of the given text with the expected text, or write it down."""
    actual = _dotted(produce(case.given).rstrip("\n"))
    if update:
        _rewrite(case, actual)
        return
    assert actual == case.expected, f"{case}\n--- expected\n{case.expected}\n--- actual\n{actual}"


def _blocks(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [block.strip("\n") for block in "\n".join(lines).split("\n\n") if block.strip()]


def _case(path: Path, block: str) -> Case:
    title, *lines = block.splitlines()
    assert title.startswith("-- "), f"{path}: a case starts with '-- title', found {title!r}"
    assert "=>" in lines, f"{path}: {title!r} has no line '=>'"
    arrow = lines.index("=>")
    given = "\n".join("" if line == BLANK else line for line in lines[:arrow])
    return Case(path, title[3:], given, "\n".join(lines[arrow + 1 :]))


def _dotted(text: str) -> str:
    return "\n".join(line.rstrip() or BLANK for line in text.splitlines())


def _rewrite(case: Case, actual: str) -> None:
    """Replace the expected part of one case in its file."""
    text = case.path.read_text(encoding="utf-8")
    start = text.index(f"-- {case.title}\n")
    arrow = text.index("\n=>", start) + len("\n=>")
    end = text.find("\n\n", arrow)
    rest = text[end:] if end >= 0 else "\n"
    case.path.write_text(f"{text[:arrow]}\n{actual}{rest}", encoding="utf-8")


def cases(name: str) -> list[Any]:
    """The cases of a file as test parameters; one worker runs them all, since they may rewrite the file."""
    return [pytest.param(case, id=case.title, marks=pytest.mark.xdist_group(name)) for case in load(name)]
