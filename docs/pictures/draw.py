"""What the pictures of the documents are drawn with: SVG as text."""

from __future__ import annotations


def svg(width: int, height: int, parts: list[str]) -> str:
    """A whole picture."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
    paper = box(0, 0, width, height, "white")  # also where the page around it is dark
    return f'{head} font-size="12">\n' + "\n".join([paper, *parts, "</svg>", ""])


def text(x: float, y: float, words: object, color: str = "black", anchor: str = "middle") -> str:
    """Words at a point."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{color}">{words}</text>'


def box(x: float, y: float, width: float, height: float, color: str) -> str:
    """A filled rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{color}"/>'


def line(x: float, y: float, to_x: float, to_y: float, color: str = "black", dash: str = "") -> str:
    """A line between two points."""
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="{color}"{style}/>'
