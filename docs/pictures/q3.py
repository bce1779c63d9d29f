"""Draws the picture of ``docs/how_it_works.md``: python docs/pictures/q3.py

What stands in it is read from the compiled program: the maps, the tables that each is made of, and which map
a changed row of which table adds to which other. Only the places are chosen by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from draw import box, svg, text
from generated import q3

from viewlet.calculus.nodes import Rel
from viewlet.triggers.order import reads
from viewlet.triggers.records import lay_out

WIDTH, HEIGHT, WIDE, HIGH = 700, 312, 200, 44
PLACES = {
    "result": (350, 60),
    "customer_orders": (230, 170),
    "orders_lineitem": (470, 170),
    "customer": (110, 280),
    "orders": (350, 280),
    "lineitem": (590, 280),
}
COLORS = {"customer": "#3b6ea5", "orders": "#c0392b", "lineitem": "#2e7d4f"}


def joined() -> dict[str, list[str]]:
    """The records of maps, each with the tables that it is made of."""
    program = q3()
    places = lay_out(program.maps.values()).places
    return {
        places[name].record: [
            factor.table for term in kept.definition for factor in term.factors if isinstance(factor, Rel)
        ]
        for name, kept in program.maps.items()
    }


def steps() -> list[tuple[str, str, str]]:
    """Which record a row of which table reads, to add to which other."""
    program = q3()
    places = lay_out(program.maps.values()).places
    found = {
        (table, places[read].record, places[statement.target].record)
        for table, trigger in program.triggers.items()
        for statement in trigger.statements
        for read in reads(statement.query)
    }
    return sorted(found)


def arrow(table: str, read: str, target: str) -> str:
    """From the record that is read to the one that is added to; around a record that is in the way."""
    (x, y), (to_x, to_y) = PLACES[read], PLACES[target]
    start, end = y - HIGH / 2, to_y + HIGH / 2
    if y - to_y > 200 and x != to_x:
        side = 1 if x > to_x else -1
        end_x, end_y = to_x + side * WIDE / 2, to_y
        path = f"M{x:g},{start:g} C{x:g},{to_y + 30:g} {x:g},{to_y:g} {end_x + side * 4:g},{end_y:g}"
    else:
        lean = (x - to_x) / 6
        path = f"M{x - lean:g},{start:g} L{to_x + lean:g},{end + 4:g}"
    color = COLORS[table]
    return f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.6" marker-end="url(#{table})"/>'


def picture() -> str:
    """The records in rows, by how many tables they join, and an arrow for each step."""
    parts = [
        f'<marker id="{table}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{color}"/></marker>'
        for table, color in COLORS.items()
    ]
    parts += [arrow(*step) for step in steps()]
    for name, tables in joined().items():
        x, y = PLACES[name]
        parts += [
            f'<rect x="{x - WIDE / 2:g}" y="{y - HIGH / 2:g}" width="{WIDE}" height="{HIGH}" rx="5" '
            'fill="#eef2f6" stroke="#b8c4d0"/>',
            f'<g font-weight="bold">{text(x, y - 3, name)}</g>',
            text(x, y + 14, " ⋈ ".join(tables) if len(tables) > 1 else f"rows of {tables[0]}"),
        ]
    for i, (table, color) in enumerate(COLORS.items()):
        parts += [
            box(150 + 150 * i, 11, 18, 4, color),
            text(174 + 150 * i, 17, f"a row of {table}", anchor="start"),
        ]
    return svg(WIDTH, HEIGHT, parts)


if __name__ == "__main__":
    Path(__file__).with_name("q3_maps.svg").write_text(picture(), encoding="utf-8")
