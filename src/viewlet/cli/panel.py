"""Watched views at the top of a terminal, drawn again in place after every commit.

The terminal keeps scrolling below: the panel takes the upper lines out of the scrolling region, writes there
and puts the cursor back where it was.

>>> screen: list[str] = []
>>> panel = Panel(screen.append, lambda: (20, 8))
>>> panel.pin("totals", lambda: Face(["shop", "total"], [("a", 1), ("b", 2), ("c", 3)], 3, 7))
>>> print(screen[-1].replace("\\x1b", "^"))
^7^[1;1H^[2K^[7mtotals: 3 rows, comm^[0m
^[2Kshop  total
^[2K----  -----
^[2K(3 more rows)^[5;8r^8
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.cli.tables import cut, show_table

SAVE, RESTORE, HOME, CLEAR, REVERSE, PLAIN, WHOLE = (
    "\x1b7",
    "\x1b8",
    "\x1b[1;1H",
    "\x1b[2K",
    "\x1b[7m",
    "\x1b[0m",
    "\x1b[r",
)
TITLE_AND_HEAD = 3


@dataclass(frozen=True, slots=True)
class Face:
    """How a view looks: its columns, its first rows, how many there are, and since which commit."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    count: int
    version: int


class Panel:
    """The upper half of a terminal, shared by the views that are pinned there."""

    def __init__(self, write: Callable[[str], object], size: Callable[[], tuple[int, int]]) -> None:
        self._write, self._size = write, size
        self._faces: dict[str, Callable[[], Face]] = {}

    def pin(self, name: str, face: Callable[[], Face]) -> None:
        """Show a view from now on."""
        if not self._faces:
            self._write("\n" * (self._size()[1] // 2))  # what stands above scrolls out of the way
        self._faces[name] = face
        self.draw()

    def unpin(self, name: str) -> None:
        """Show it no longer; without any view, the terminal is whole again."""
        del self._faces[name]
        if self._faces:
            self.draw()
        else:
            self._write(f"{SAVE}{WHOLE}{RESTORE}")

    def close(self) -> None:
        """Give the lines back."""
        for name in list(self._faces):
            self.unpin(name)

    def draw(self) -> None:
        """Write every pinned view as it is now."""
        width, height = self._size()
        room = max(height // 2 // len(self._faces), TITLE_AND_HEAD + 1)
        lines = [line for name, face in self._faces.items() for line in _lines(name, face(), width, room)]
        text = "\n".join(f"{CLEAR}{line}" for line in lines)
        self._write(f"{SAVE}{HOME}{text}\x1b[{len(lines) + 1};{height}r{RESTORE}")


def _lines(name: str, face: Face, width: int, room: int) -> list[str]:
    """A view in so many lines: a title, the head of the table, and as many rows as fit."""
    title = f"{name}: {face.count:,} row{'s' * (face.count != 1)}, commit {face.version}"
    most = room - TITLE_AND_HEAD
    fits = face.count <= most
    table = show_table(face.columns, face.rows[: most if fits else most - 1])
    rest = [""] * (most - face.count) if fits else [f"({face.count - most + 1:,} more rows)"]
    return [f"{REVERSE}{cut(title, width)}{PLAIN}", *(cut(line, width) for line in (*table, *rest))]
