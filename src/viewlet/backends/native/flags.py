"""The NULL flags of keys: one bit for every column up to the last that may be NULL, 32 to a word.

One word is the member ``nulls``, as most records have it; several are an array of that name. Keys of some
columns, by which slices and ordered indexes are apart, have the words of their record: a column has its flag
at one place wherever it lies.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewlet.loops.nodes import Record

BITS = 32


def flag_words(record: Record) -> int:
    """How many words of flags a key of a record has."""
    return max((i // BITS + 1 for i, key in enumerate(record.keys) if key.nullable), default=0)


def flag_words_of(record: Record) -> list[str]:
    """The members that hold the flags."""
    count = flag_words(record)
    return ["nulls"] if count == 1 else [f"nulls[{word}]" for word in range(count)]


def masks(record: Record, positions: Iterable[int]) -> dict[str, int]:
    """The bits of the flags of some columns, by the members that hold any of them."""
    members = flag_words_of(record)
    found: dict[str, int] = {}
    for i in positions:
        if record.keys[i].nullable:
            member = members[i // BITS]
            found[member] = found.get(member, 0) | 1 << i % BITS
    return found


def flag(record: Record, i: int, key: str) -> str:
    """Whether a column is NULL in a key, given as ``e->key.``."""
    return f"{key}{flag_words_of(record)[i // BITS]} >> {i % BITS} & 1"


def set_flags(record: Record, tests: Iterable[tuple[int, str]]) -> list[str]:
    """What initializes the flags of a key, from what says that a column is NULL."""
    bits: dict[int, list[str]] = {}
    for i, test in tests:
        bits.setdefault(i // BITS, []).append(f"(uint32_t)({test}) << {i % BITS}")
    members = flag_words_of(record)
    return [f".{members[word]} = {' | '.join(each)}" for word, each in bits.items()]


def take_flags(record: Record, positions: Iterable[int], key: str) -> list[str]:
    """What initializes the flags of a key of some columns, from a key of the whole record as ``e->key.``."""
    return [f".{member} = {key}{member} & {mask:#x}" for member, mask in masks(record, positions).items()]
