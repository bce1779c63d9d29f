"""Draws the pictures of ``docs/how_vwap_is_maintained.md``: python docs/pictures/vwap.py"""

from __future__ import annotations

from pathlib import Path

from draw import box, line, svg, text

LEVELS = ((10, 4), (12, 2), (13, 6), (15, 3), (16, 5), (18, 1), (20, 2), (21, 1))
LEAVES = (LEVELS[:3], LEVELS[3:6], LEVELS[6:])
BLUE, GREY, RED = "#3b6ea5", "#b8c4d0", "#c0392b"


def book() -> str:
    """Volume per price, and how much lies above each price: the quarter is passed at one place."""
    quarter = sum(volume for _, volume in LEVELS) / 4
    parts = [text(24, 16, "volume at each price", anchor="start")]
    for i, (price, volume) in enumerate(LEVELS):
        above = sum(v for p, v in LEVELS if p > price)
        counts = 0 < above < quarter
        x = 40 + 60 * i
        parts += [
            box(x, 130 - 15 * volume, 36, 15 * volume, BLUE if counts else GREY),
            text(x + 18, 124 - 15 * volume, volume),
            text(x + 18, 146, price),
            text(x + 18, 184, above, BLUE if counts else "black"),
        ]
    told = f"edge: to the right, less than a quarter ({quarter:g}) of the volume is at higher prices"
    edge = 40 + 60 * 4 - 12
    parts += [
        text(506, 146, "price", anchor="start"),
        text(24, 168, "volume at higher prices", anchor="start"),
        line(edge, 24, edge, 192, RED, "4 3"),
        text(edge, 206, told, RED),
    ]
    return svg(540, 216, parts)


def tree() -> str:
    """The walk: whole children are skipped by their sums, until the condition holds within one."""
    told = "6 &gt; 12 is false: skip the child. 6 &gt; 3 is true: look inside. First true: 6 &gt; 4"
    parts: list[str] = []
    for i, leaf in enumerate(LEAVES):
        total = sum(volume for _, volume in leaf)
        x = 30 + 180 * i
        walked = i == 1
        color = RED if walked else "black"
        parts += [
            box(x + 40, 20, 80, 34, "#eef2f6"),
            text(x + 80, 35, f"up to {leaf[-1][0]}"),
            text(x + 80, 49, f"volume {total}"),
            line(x + 80, 54, x + 80, 90, color),
        ]
        for j, (price, volume) in enumerate(leaf):
            parts += [
                box(x + 52 * j, 90, 46, 40, "#eef2f6"),
                text(x + 52 * j + 23, 106, price),
                text(x + 52 * j + 23, 122, volume, BLUE),
            ]
    parts += [
        text(498, 106, "price", anchor="start"),
        text(498, 122, "volume", BLUE, anchor="start"),
        text(150, 12, "volume above 13: 12"),
        text(330, 12, "volume above 18: 3"),
        text(233, 148, "9 above"),
        text(285, 148, "4 above", RED),
        text(285, 174, told, RED),
    ]
    return svg(570, 186, parts)


def main() -> None:
    """Write the pictures beside this file."""
    folder = Path(__file__).parent
    for name, picture in (("vwap_book", book()), ("vwap_tree", tree())):
        (folder / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
