"""The HTML page that the demo leaves behind: one file, everything inside."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from typing import Any

from viewlet.cli.tables import show_value
from viewlet.demo.on_spark import Piped
from viewlet.demo.play import Run
from viewlet.demo.plots import bar_plot, line_plot
from viewlet.demo.reevaluation import Reevaluation
from viewlet.demo.scenes import Scene

ROWS = 20
POINTS = 120

STYLE = """
:root { color-scheme: light dark; --line: #0f766e; --faint: #8883; }
@media (prefers-color-scheme: dark) { :root { --line: #2dd4bf; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 3rem; border-top: 1px solid var(--faint); padding-top: 1.5rem; } h3 { margin: 2rem 0 0; }
h3 + p { margin-top: 0; } .quiet { opacity: .75; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .7rem; margin: 1rem 0; }
dl div { background: var(--faint); border-radius: .4rem; padding: .6rem .9rem; }
dt { font-size: .8rem; opacity: .75; } dd { margin: 0; font-size: 1.4rem; font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; } th, td { padding: .15rem .7rem; text-align: left; }
th { border-bottom: 1px solid var(--faint); } td.n { text-align: right; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
pre { overflow-x: auto; padding: .7rem; background: var(--faint); border-radius: .4rem; font-size: 13px; }
svg { width: 100%; display: block; }
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
    """A scene that was played: in batches, for a moment one change at a time, and as a pipeline on Spark."""

    scene: Scene
    backend: str
    batch: int
    run: Run
    singles: Run
    views: Sequence[Contents]
    rival: Sequence[Reevaluation]
    piped: Piped | None = None


def report(scenes: Sequence[Played], notes: Sequence[str]) -> str:
    """The whole page."""
    machine = f"viewlet {version('viewlet')}, Python {platform.python_version()}, {platform.machine()}."
    about = [machine, "Figures of this one run on this machine.", *notes]
    body = [f"<h1>Viewlet: a short run</h1><p class=quiet>{escape(' '.join(about))}</p>"]
    for played in scenes:
        body += _scene(played)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head += f"<title>Viewlet demo</title><style>{STYLE}</style>"
    return (
        f"<!doctype html>\n<html lang=en><head>{head}</head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _scene(played: Played) -> Iterator[str]:
    run, rival = played.run, {found.view: found for found in played.rival}
    yield f"<h2>{escape(played.scene.title)}</h2><p>{escape(_sentence(played.scene.about))}</p>"
    yield (
        f"<p>{run.changes:,} changes in batches of {played.batch} by the {played.backend} backend, "
        f"with all {len(played.views)} views fresh after each batch.</p>"
    )
    tiles = (f"<div><dt>{what}</dt><dd>{size}</dd></div>" for what, size in _figures(played))
    yield f"<dl>{''.join(tiles)}</dl>"
    binned = bins(run)
    yield "<div class=plots>"
    yield line_plot("Changes per second", "seconds", "", [(end, rate) for end, rate, _ in binned])
    yield line_plot("Time per batch", "seconds", "ms", [(end, latency * 1e3) for end, _, latency in binned])
    if rival:
        yield bar_plot("One refresh of all views", refresh_times(played), "ms")
    if played.piped:
        points = list(zip(played.piped.run.ends, played.piped.run.latencies, strict=True))
        yield line_plot(
            "On Spark: from one commit to the next",
            "seconds",
            "ms",
            [(end, took * 1e3) for end, took in points],
        )
    yield "</div>"
    if played.piped:
        yield f"<p>The same stream as a pipeline on Spark: {escape(pipeline_verdict(played.piped))}</p>"
    for view in played.views:
        yield f"<h3>{escape(view.name)}</h3><p>{escape(_sentence(played.scene.captions[view.name]))}</p>"
        if view.name in rival:
            yield f"<p>{escape(verdict(rival[view.name]))}</p>"
        yield _table(view)
        sql = played.scene.views[view.name].strip()
        yield f"<details><summary>SQL</summary><pre>{escape(sql)}</pre></details>"
        yield f"<details><summary>How it is kept</summary><pre>{escape(view.explanation)}</pre></details>"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _figures(played: Played) -> Iterator[tuple[str, str]]:
    """What to see at a glance."""
    run = played.run
    yield "changes per second", f"{run.rate:,.0f}"
    yield "a batch, half of them within", f"{run.quantile(0.5) * 1e3:.2f} ms"
    yield "a batch, 99 % within", f"{run.quantile(0.99) * 1e3:.2f} ms"
    one, many, again = refresh_times(played).values()
    if played.rival and one and many:
        yield "DuckDB from scratch, against a batch", f"{at_least(played)}{again / many:.1f} times"
        yield "DuckDB from scratch, against one change", f"{at_least(played)}{again / one:.1f} times"


def at_least(played: Played) -> str:
    """Said before what DuckDB takes, if one of its queries was stopped."""
    return "more than " if any(found.seconds is None for found in played.rival) else ""


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


def pipeline_verdict(piped: Piped) -> str:
    """What Structured Streaming and the views on its executors came to, in one sentence."""
    run = piped.run
    speed = (
        f"{run.changes:,} changes in {len(run.sizes)} commits of {max(run.sizes, default=0):,} or fewer, "
        f"one every {run.quantile(0.5):.2f} s, the overhead of Spark's streaming included"
    )
    if not piped.rival:
        return f"{speed}."
    compared = [found for found in piped.rival if found.agrees is not None]
    different = [found.view for found in compared if not found.agrees]
    if different:
        return f"{speed}; DIFFERENT ROWS in {', '.join(different)}."
    return f"{speed}; {len(compared)} of {len(piped.rival)} views compared with DuckDB, the same rows."


def _table(view: Contents) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in view.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in view.rows[:ROWS])
    more = len(view.rows) - ROWS
    rest = f"<p>and {more} more rows</p>" if more > 0 else ""
    return f"<div class=wide><table><tr>{head}</tr>{rows}</table></div>{rest}"


def _cell(value: Any) -> str:
    kind = "" if isinstance(value, str) else ' class="n"'
    return f"<td{kind}>{escape(show_value(value))}</td>"
