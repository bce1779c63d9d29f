"""The text that Prometheus reads: one family per quantity, one line per table, view or map."""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping

from viewlet.server.meter import Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def prometheus(sample: Sample | None, clients: int) -> str:
    """Everything measured, in the exposition format."""
    return "".join(_families(sample, clients))


def _families(sample: Sample | None, clients: int) -> Iterator[str]:
    yield _family("up", "gauge", "Whether the database could be measured.", {"": int(sample is not None)})
    yield _family("feed_clients", "gauge", "Pages that listen to changes.", {"": clients})
    yield _family("resident_peak_bytes", "gauge", "Most memory the process has had.", {"": _peak_bytes()})
    if sample is None:
        return
    stats = sample.stats
    age = time.monotonic() - sample.at
    yield _family("sample_age_seconds", "gauge", "Time since the sizes were measured.", {"": round(age, 3)})
    yield _family("commits_total", "counter", "Commits so far, over all runs.", {"": stats.version})
    yield _family("engine_seconds_total", "counter", "Time spent on changes.", {"": stats.seconds})
    yield _family("table_rows", "gauge", "Rows that a table keeps.", stats.tables, "table")
    yield _family("view_rows", "gauge", "Rows of a view.", stats.views, "view")
    yield _family("view_bytes", "gauge", "Bytes of the maps a view needs.", sample.view_bytes, "view")
    yield _family("view_refreshes_total", "counter", "Batches that reached a view.", stats.refreshes, "view")
    records, size = Counter[str](), Counter[str]()  # several programs may each have a map of a name
    for found in stats.maps:
        records[found.name] += found.records
        size[found.name] += found.bytes
    yield _family("map_records", "gauge", "Entries of the maps of a name.", records, "map")
    yield _family("map_bytes", "gauge", "Bytes of the maps of a name.", size, "map")


def _peak_bytes() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _family(name: str, kind: str, help_text: str, values: Mapping[str, float], label: str = "") -> str:
    full = f"viewlet_{name}"
    lines = [f"# HELP {full} {help_text}", f"# TYPE {full} {kind}"]
    for key, value in values.items():
        lines.append(f'{full}{{{label}="{escape(key)}"}} {value}' if label else f"{full} {value}")
    return "\n".join(lines) + "\n"


def escape(label: str) -> str:
    r"""A label's value, with the three characters escaped that would end it.

    >>> print(escape('a"b'))
    a\"b
    """
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
