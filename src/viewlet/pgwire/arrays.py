"""Arrays of one dimension as clients send them: text in braces, or elements with their lengths."""

from __future__ import annotations

import re
import struct

_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s{},"\\](?:[^{},"\\]*[^\s{},"\\])?))\s*(,|$)', re.DOTALL)


def text_items(text: str) -> list[str | None]:
    """The items of an array in braces; a bare NULL is none.

    >>> text_items('{a, "b, c",NULL,"NULL","say \\\\"d\\\\""}')
    ['a', 'b, c', None, 'NULL', 'say "d"']
    >>> text_items("{}")
    []
    """
    bare = text.strip()
    if not (bare.startswith("{") and bare.endswith("}") and len(bare) > 1):
        raise ValueError(f"{text[:40]!r} is no array in braces")
    rest = bare[1:-1]
    if not rest.strip():
        return []
    items: list[str | None] = []
    place, more = 0, True
    while more:
        found = _ITEM.match(rest, place)
        if found is None:
            raise ValueError(f"{text[:40]!r} is no array of one dimension")
        quoted, plain, comma = found.groups()
        if plain is None:
            items.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
        else:
            items.append(None if plain.upper() == "NULL" else plain)
        place, more = found.end(), bool(comma)
    return items


def binary_items(data: bytes) -> list[bytes | None]:
    """The items of an array in binary form: dimensions, a flag, the type, a length, then the elements.

    >>> binary_items(struct.pack("!iiIiii1s", 1, 0, 25, 1, 1, 1, b"a"))
    [b'a']
    """
    dimensions, _, _ = struct.unpack_from("!iiI", data)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError(f"it has {dimensions} dimensions, and 1 is read")
    count, _ = struct.unpack_from("!ii", data, 12)
    items: list[bytes | None] = []
    place = 20
    for _ in range(count):
        (size,) = struct.unpack_from("!i", data, place)
        place += 4
        if size > len(data) - place or size < -1:
            raise ValueError("an element is longer than the array")
        items.append(None if size == -1 else data[place : place + size])
        place += max(size, 0)
    return items
