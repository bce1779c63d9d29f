"""The sizes of a database, as numbers and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from viewlet.backends.base import MapStats


@dataclass(frozen=True, slots=True)
class Stats:
    """Sizes and counts at one version. ``seconds`` is the time that engines have spent on changes."""

    version: int
    tables: Mapping[str, int]
    views: Mapping[str, int]
    refreshes: Mapping[str, int]
    maps: Sequence[MapStats]
    seconds: float

    def __str__(self) -> str:
        lines = [f"version {self.version}, {self.seconds:.3f} s in engines"]
        lines += [f"table {name}: {rows} rows" for name, rows in self.tables.items()]
        lines += [
            f"view {name}: {rows} rows, {self.refreshes[name]} refreshes" for name, rows in self.views.items()
        ]
        lines += [f"map {stats.name}: {stats.records} records, {stats.bytes} bytes" for stats in self.maps]
        return "\n".join(lines)
