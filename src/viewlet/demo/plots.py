"""Plots as SVG text: a line over time, and bars side by side. No library, no script, no outside request."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 220, 70, 34, 28


def line_plot(title: str, x_label: str, y_label: str, points: Sequence[tuple[float, float]]) -> str:
    """A curve from zero.

    >>> line_plot("rate", "s", "1/s", [(0, 1), (1, 2)]).count("polyline")
    1
    """
    most_x = axis_end(max((x for x, _ in points), default=0))
    most_y = axis_end(max((y for _, y in points), default=0))
    span, rise = WIDTH - LEFT - 20, HEIGHT - TOP - BOTTOM
    placed = " ".join(
        f"{LEFT + span * x / most_x:.1f},{HEIGHT - BOTTOM - rise * y / most_y:.1f}" for x, y in points
    )
    grid = []
    for i in range(5):
        y = HEIGHT - BOTTOM - rise * i / 4
        grid.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 20}" y2="{y:.1f}"/>')
        grid.append(_text(LEFT - 6, y + 4, number(most_y * i / 4), "end"))
        grid.append(_text(LEFT + span * i / 4, HEIGHT - BOTTOM + 16, number(most_x * i / 4), "middle"))
    body = [*grid, f'<polyline class="curve" points="{placed}"/>']
    return _svg(
        title, HEIGHT, [*body, _text(WIDTH - 20, HEIGHT - 2, x_label, "end"), _text(4, TOP - 8, y_label)]
    )


def bar_plot(title: str, bars: Mapping[str, float], unit: str) -> str:
    """Horizontal bars with their values.

    >>> bar_plot("time", {"a": 1.0, "b": 2.0}, "ms").count("<rect")
    2
    """
    most = max(bars.values(), default=0) or 1
    body = []
    for i, (name, value) in enumerate(bars.items()):
        y, length = TOP + 6 + i * 30, (WIDTH - 330) * value / most
        body.append(_text(190, y + 15, name, "end"))
        body.append(f'<rect class="bar" x="200" y="{y}" width="{max(length, 1):.1f}" height="20"/>')
        body.append(_text(206 + length, y + 15, f"{number(value)} {unit}"))
    return _svg(title, TOP + 16 + 30 * len(bars), body)


def axis_end(most: float) -> float:
    """A round number, not much above the largest value, whose quarters are round too.

    >>> axis_end(3020), axis_end(0.00152), axis_end(0)
    (3200.0, 0.0016, 1.0)
    """
    if most <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(most))
    return float(
        f"{next(step for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * unit >= most) * unit:.6g}"
    )


def number(value: float) -> str:
    """Three digits, with a letter for thousands and millions.

    >>> number(1234567), number(0.01234), number(250)
    ('1.23M', '0.0123', '250')
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, height: int, body: Sequence[str]) -> str:
    heading = f'<text class="title" x="{LEFT}" y="16">{escape(title)}</text>'
    opening = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    return "\n".join([opening, heading, *body, "</svg>"])
