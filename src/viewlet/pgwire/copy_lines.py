"""Rows as the lines of COPY, in its two written forms."""

from __future__ import annotations

from collections.abc import Sequence


def text_line(cells: Sequence[bytes | None]) -> bytes:
    """Tabs between cells, ``\\N`` for NULL.

    >>> text_line([b"a", None, b"two\\nlines"])
    b'a\\t\\\\N\\ttwo\\\\nlines\\n'
    """
    return b"\t".join(b"\\N" if cell is None else _escaped(cell) for cell in cells) + b"\n"


def _escaped(cell: bytes) -> bytes:
    cell = cell.replace(b"\\", b"\\\\")
    return cell.replace(b"\t", b"\\t").replace(b"\n", b"\\n").replace(b"\r", b"\\r")


def csv_line(cells: Sequence[bytes | None]) -> bytes:
    """Commas between cells, nothing for NULL, quotes where they are needed, for the empty text too.

    >>> csv_line([b"a", None, b"", b'say "b", c'])
    b'a,,"","say ""b"", c"\\n'
    """
    return b",".join(b"" if cell is None else _quoted(cell) for cell in cells) + b"\n"


def _quoted(cell: bytes) -> bytes:
    # A line of nothing but a backslash and a dot would end the data for old clients.
    if cell and cell != b"\\." and not any(letter in cell for letter in (b",", b'"', b"\n", b"\r")):
        return cell
    return b'"' + cell.replace(b'"', b'""') + b'"'
