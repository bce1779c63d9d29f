"""The HTML page that the demo leaves behind: one file, everything inside."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from typing import Any

from viewlet.cli.tables import show_value
from viewlet.demo.play import Run
from viewlet.demo.plots import bar_plot, line_plot
from viewlet.demo.reevaluation import Reevaluation
from viewlet.demo.scenes import Scene

ROWS = 20
POINTS = 120

STYLE = """
:root { color-scheme: light dark; --line: #2a6fdb; --faint: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; } th, td { padding: .15rem .7rem; text-align: left; }
th { border-bottom: 1px solid var(--faint); } td.n { text-align: right; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
pre { overflow-x: auto; padding: .7rem; background: var(--faint); border-radius: .3rem; font-size: 13px; }
svg { width: 100%; max-width: 40rem; display: block; margin: 1rem 0; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; } svg .title { font-weight: 600; }
svg .grid { stroke: var(--faint); } svg .bar { fill: var(--line); }
svg .curve { fill: none; stroke: var(--line); stroke-width: 1.5; }
"""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a view held at the end, and how it was kept."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    explanation: str


@dataclass(frozen=True, slots=True)
class Played:
    """A scene that was played: in batches, and then for a moment one change at a time."""

    scene: Scene
    backend: str
    batch: int
    run: Run
    singles: Run
    views: Sequence[Contents]
    rival: Sequence[Reevaluation]


def report(scenes: Sequence[Played], notes: Sequence[str]) -> str:
    """The whole page."""
    machine = f"viewlet {version('viewlet')}, Python {platform.python_version()}, {platform.machine()}"
    body = [
        f"<h1>Viewlet: a short run</h1><p>{escape(machine)}. Figures of this one run on this machine.</p>"
    ]
    body += [f"<p>{escape(note)}</p>" for note in notes]
    for played in scenes:
        body += _scene(played)
    head = f'<meta charset="utf-8"><title>Viewlet demo</title><style>{STYLE}</style>'
    return (
        f"<!doctype html>\n<html lang=en><head>{head}</head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _scene(played: Played) -> Iterator[str]:
    run, rival = played.run, {found.view: found for found in played.rival}
    yield f"<h2>{escape(played.scene.title)}</h2><p>{escape(played.scene.about)}.</p>"
    yield (
        f"<p>{run.changes:,} changes in batches of {played.batch} by the {played.backend} backend: "
        f"{run.rate:,.0f} changes per second, with all {len(played.views)} views fresh after each batch.</p>"
    )
    binned = bins(run)
    yield line_plot("Changes per second", "seconds", "", [(end, rate) for end, rate, _ in binned])
    yield line_plot("Time per batch", "seconds", "ms", [(end, latency * 1e3) for end, _, latency in binned])
    if rival:
        yield bar_plot("One refresh of all views", refresh_times(played), "ms")
    for view in played.views:
        yield f"<h3>{escape(view.name)}</h3><p>{escape(played.scene.captions[view.name])}.</p>"
        if view.name in rival:
            yield f"<p>{escape(verdict(rival[view.name]))}</p>"
        yield _table(view)
        sql = played.scene.views[view.name].strip()
        yield f"<details><summary>SQL</summary><pre>{escape(sql)}</pre></details>"
        yield f"<details><summary>How it is kept</summary><pre>{escape(view.explanation)}</pre></details>"


def bins(run: Run) -> list[tuple[float, float, float]]:
    """Time, rate and mean latency of runs of batches, so that a plot has few points."""
    step = max(1, len(run.ends) // POINTS)
    found = []
    for start in range(0, len(run.ends) - step + 1, step):
        part = slice(start, start + step)
        worked = sum(run.latencies[part])
        found.append((run.ends[part][-1], sum(run.sizes[part]) / worked, worked / step))
    return found


def refresh_times(played: Played) -> dict[str, float]:
    """Milliseconds to bring all views up to date: after a change, after a batch, and from scratch."""
    again = sum(found.seconds for found in played.rival if found.seconds is not None)
    return {
        "viewlet, one change": played.singles.quantile(0.5) * 1e3,
        f"viewlet, {played.batch} changes": played.run.quantile(0.5) * 1e3,
        "DuckDB, from scratch": again * 1e3,
    }


def verdict(found: Reevaluation) -> str:
    """One sentence about DuckDB's answer."""
    if found.seconds is None:
        return "DuckDB was stopped before it had an answer: not compared."
    same = "the same rows" if found.agrees else "DIFFERENT ROWS"
    return f"DuckDB, from scratch: {found.seconds * 1e3:.2f} ms, {same}."


def _table(view: Contents) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in view.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in view.rows[:ROWS])
    more = len(view.rows) - ROWS
    rest = f"<p>and {more} more rows</p>" if more > 0 else ""
    return f"<div class=wide><table><tr>{head}</tr>{rows}</table></div>{rest}"


def _cell(value: Any) -> str:
    kind = "" if isinstance(value, str) else ' class="n"'
    return f"<td{kind}>{escape(show_value(value))}</td>"
