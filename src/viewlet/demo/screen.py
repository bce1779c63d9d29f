"""The terminal: a page that redraws itself, or a few snapshots where output goes to a file."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import TextIO

from viewlet.cli.tables import show_table
from viewlet.database import Database
from viewlet.demo.play import Run
from viewlet.demo.scenes import Scene

FRAME_SECONDS = 0.25
SNAPSHOTS = (0.0,)
ROWS = 3

_HOME_AND_CLEAR = "\x1b[H\x1b[J"


class LiveScreen:
    """Redraws the whole page a few times per second."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._drawn = 0.0

    def due(self, share: float) -> bool:
        """Is it time to draw again?"""
        return time.perf_counter() - self._drawn >= FRAME_SECONDS

    def draw(self, lines: list[str]) -> None:
        """Replace the page, cut to the size of the terminal."""
        width, height = shutil.get_terminal_size()
        self._output.write(_HOME_AND_CLEAR + "\n".join(line[:width] for line in lines[: height - 1]) + "\n")
        self._output.flush()
        self._drawn = time.perf_counter()


class SnapshotScreen:
    """Prints the page when a scene begins, and again when it ends."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._taken = 0

    def due(self, share: float) -> bool:
        """Has the next moment come?"""
        return self._taken < len(SNAPSHOTS) and share >= SNAPSHOTS[self._taken]

    def draw(self, lines: list[str]) -> None:
        """Print the page."""
        self._output.write("\n".join(lines) + "\n\n")
        self._output.flush()
        self._taken += 1


def page(scene: Scene, db: Database, run: Run, share: float) -> Iterator[str]:
    """The lines to show: how fast it goes, and what the views hold now."""
    yield f"{scene.title}: {scene.about}"
    bar = "#" * round(share * 30)
    yield f"[{bar:<30}] {run.changes:,} changes, {run.rate:,.0f} per second"
    yield f"a batch takes {_ms(run.quantile(0.5))} (half of them), {_ms(run.quantile(0.99))} (99 %)"
    for name in scene.views:
        view = db.view(name)
        yield ""
        yield f"{name}: {scene.captions[name]}"
        columns = [column.name for column in view.columns]
        yield from (f"  {line}" for line in show_table(columns, view.rows(), limit=ROWS))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
