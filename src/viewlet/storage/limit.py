"""The memory that a database may take, and the refusal of what would exceed it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from viewlet.backends.base import MapStats
from viewlet.errors import StorageError, ViewletError

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
NAMED = 3


class MemoryLimitError(ViewletError):
    """A batch or view would exceed ``memory_limit``; it was refused, and the database goes on without it."""


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A number of bytes for all tables and maps, as far as their engines account for them."""

    bytes: int

    @staticmethod
    def of(limit: int | str) -> MemoryLimit:
        """A limit from a number of bytes, or a text with a unit.

        >>> MemoryLimit.of("1.5 GB").bytes
        1500000000
        """
        found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMG]?I?B?)", str(limit).strip().upper())
        if isinstance(limit, bool) or found is None or found[2] not in _UNITS:
            raise StorageError(
                f"memory_limit={limit!r}: use a number of bytes, or a text such as '2GB' or '512MiB'"
            )
        return MemoryLimit(int(float(found[1]) * _UNITS[found[2]]))

    def allows(self, sizes: Sequence[MapStats], growth: int) -> bool:
        """Are the sizes with what is still to come within the limit?"""
        return sum(size.bytes for size in sizes) + growth <= self.bytes

    def check(self, sizes: Sequence[MapStats], growth: int, before: int) -> None:
        """Refuse if the sizes with what is still to come exceed the limit, unless they shrink.

        >>> MemoryLimit(100).check([MapStats("total", 2, 90)], growth=20, before=80)
        Traceback (most recent call last):
        viewlet.storage.limit.MemoryLimitError: 110 bytes would be needed, memory_limit is 100; largest: ...
        """
        needed = sum(size.bytes for size in sizes) + growth
        if self.allows(sizes, growth) or needed <= before:
            return
        largest = sorted(sizes, key=lambda size: -size.bytes)[:NAMED]
        shown = ", ".join(f"{size.name} ({size.records} records, {size.bytes} bytes)" for size in largest)
        raise MemoryLimitError(
            f"{needed} bytes would be needed, memory_limit is {self.bytes}; largest: {shown}. "
            "Raise the limit, delete rows, or drop views"
        )
