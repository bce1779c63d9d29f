"""Pictures of results, all in one style: logarithmic axes, a colour and a mark of its own for each series.

``curves`` draws series over one axis, ``panels`` each series by itself with the others in grey behind it,
``leads`` ratios of many queries to several rivals. What was not measured is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Points = Sequence[tuple[float, float]]

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#8c564b")
"""Told apart by nearly all eyes, also by those that see red as green."""

MARKS = "osD^vPX*"
GREY = "#d5d5d5"


def axes(columns: int = 1, rows: int = 1, size: tuple[float, float] = (7, 4.5), **shared: Any) -> Any:
    """A figure and its pairs of axes, row by row, each with a light grid."""
    from matplotlib.figure import Figure  # here, so that processes which only measure do without it

    figure = Figure(figsize=size)
    found = figure.subplots(rows, columns, squeeze=False, **shared)
    for one in found.flat:
        one.grid(True, which="major", color="#ececec", linewidth=0.8)
        one.set_axisbelow(True)
        for side in ("top", "right"):
            one.spines[side].set_visible(False)
    return figure, found


def styled(names: Iterable[str]) -> Iterable[tuple[str, dict[str, str]]]:
    """Every name with what tells its series apart.

    >>> list(styled(["ours"]))
    [('ours', {'color': '#0072b2', 'marker': 'o', 'label': 'ours'})]
    """
    for i, name in enumerate(names):
        yield name, {"color": COLORS[i % len(COLORS)], "marker": MARKS[i % len(MARKS)], "label": name}


def curves(
    path: Path, series: Mapping[str, Points], x: str, y: str, *, title: str = "", log: bool = True
) -> None:
    """Lines over a logarithmic axis, one per name."""
    figure, ((drawn,),) = axes()
    for name, style in styled(name for name, points in series.items() if points):
        drawn.plot(*zip(*series[name], strict=True), markersize=5, **style)
    drawn.set(xscale="log", yscale="log" if log else "linear", xlabel=x, ylabel=y, title=title)
    _legend(drawn)
    save(figure, path)


def panels(
    path: Path,
    series: Mapping[str, Points],
    x: str,
    y: str,
    goal: Callable[[str], float | None] | None = None,
) -> None:
    """A panel for each name on the same axes; ``goal`` tells up to where its line should stay."""
    known = {name: points for name, points in series.items() if points}
    across = min(len(known), 7)
    down = -(-len(known) // across)
    figure, grid = axes(across, down, (1.9 * across, 1.9 * down + 0.4), sharex=True, sharey=True)
    for one, (name, points) in zip(grid.flat, known.items(), strict=False):
        for others in known.values():
            one.plot(*zip(*others, strict=True), color=GREY, linewidth=0.8)
        one.plot(*zip(*points, strict=True), color=COLORS[0], marker="o", markersize=4)
        most = goal(name) if goal is not None else None
        if most is not None:
            one.axhline(most, color=COLORS[1], linewidth=1, linestyle=":")
        one.set(xscale="log", yscale="log")
        one.set_title(name, fontsize="medium")
    for empty in list(grid.flat)[len(known) :]:
        empty.set_visible(False)
    figure.supxlabel(x, fontsize="medium")
    figure.supylabel(y, fontsize="medium")
    save(figure, path)


def leads(
    path: Path,
    names: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    label: str,
    title: str = "",
) -> None:
    """A mark per name and series on a logarithmic scale; 1 is as fast."""
    figure, ((drawn,),) = axes(size=(max(6, 0.45 * len(names) + 2), 4.5))
    for i in range(0, len(names), 2):
        drawn.axvspan(i - 0.5, i + 0.5, color="#f6f6f6", zorder=0)
    for name, style in styled(name for name, ratios in series.items() if any(ratios)):
        known = [(i, ratio) for i, ratio in enumerate(series[name]) if ratio]
        drawn.plot(*zip(*known, strict=True), linestyle="", markersize=7, alpha=0.85, **style)
    drawn.axhline(1, color="black", linewidth=0.8)
    drawn.set(yscale="log", ylabel=label, title=title, xlim=(-0.5, len(names) - 0.5))
    drawn.set_xticks(range(len(names)), names, rotation=45)
    _legend(drawn)
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a figure, with all that stands beside its axes."""
    figure.tight_layout()
    figure.savefig(path, dpi=110, bbox_inches="tight")


def _legend(drawn: Any) -> None:
    """Beside the axes, where it hides nothing; none for a single series."""
    if len(drawn.get_legend_handles_labels()[1]) > 1:
        drawn.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize="small")
