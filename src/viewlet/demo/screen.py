"""The terminal: a page that redraws itself, or a few snapshots where output goes to a file."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from viewlet.cli.tables import cut, show_table, show_value
from viewlet.database import Database
from viewlet.demo.play import Run
from viewlet.demo.reevaluation import Reevaluation
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

    def draw(self, page: Page) -> None:
        """Replace the page, cut to the size of the terminal, in its short form if it is too long."""
        width, height = shutil.get_terminal_size()
        full = page.full()
        lines = full if len(full) < height else page.short()
        shown = "\n".join(cut(line, width) for line in lines[: height - 1])
        self._output.write(_HOME_AND_CLEAR + shown + "\n")
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

    def draw(self, page: Page) -> None:
        """Print the page."""
        self._output.write("\n".join(page.full()) + "\n\n")
        self._output.flush()
        self._taken += 1


@dataclass(frozen=True, slots=True)
class Page:
    """What there is to show: how fast it goes, what the views hold now, and DuckDB's latest times."""

    title: str
    scene: Scene
    db: Database
    run: Run
    share: float
    rival: Sequence[Reevaluation] = ()

    def full(self) -> list[str]:
        """The views as tables of a few rows."""
        lines = self._head()
        for name in self.scene.views:
            columns, rows = self._contents(name)
            table = show_table(columns, rows, limit=ROWS)
            lines += ["", self._caption(name), *(f"  {line}" for line in table)]
        return lines

    def short(self) -> list[str]:
        """Two lines for each view: what it is, and its first row."""
        lines = [*self._head(), ""]
        for name in self.scene.views:
            columns, rows = self._contents(name)
            first = ", ".join(
                f"{column} {show_value(value)}"
                for row in rows[:1]
                for column, value in zip(columns, row, strict=True)
            )
            more = f"  (and {len(rows) - 1:,} more)" if len(rows) > 1 else ""
            lines += [self._caption(name), f"  {first or 'no rows'}{more}"]
        return lines

    def _head(self) -> list[str]:
        run, bar = self.run, "#" * round(self.share * 30)
        return [
            f"{self.title}: {self.scene.about}",
            f"[{bar:<30}] {run.changes:,} changes, {run.rate:,.0f} per second",
            f"a batch takes {_ms(run.quantile(0.5))} (half of them), {_ms(run.quantile(0.99))} (99 %)",
            *self._ratio(),
        ]

    def _ratio(self) -> list[str]:
        """All queries from scratch against all views fresh after a batch, if every query was answered."""
        times = [found.seconds for found in self.rival if found.seconds is not None]
        if not times or len(times) < len(self.rival) or not self.run.latencies:
            return []
        again, ours = sum(times), self.run.quantile(0.5)
        return [f"all of them from scratch, by DuckDB a moment ago: {_ms(again)}, ratio {again / ours:.1f}"]

    def _caption(self, name: str) -> str:
        return f"{name}: {self.scene.captions[name]}"

    def _contents(self, name: str) -> tuple[list[str], Sequence[Sequence[Any]]]:
        view = self.db.view(name)
        return [column.name for column in view.columns], view.rows()


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
