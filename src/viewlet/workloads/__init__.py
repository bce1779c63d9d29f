"""Workloads: schemas, queries, data and streams of changes to try Viewlet on.

Suites are folders of packaged SQL: one ``schema.sql`` and one file per query.

>>> len(queries("tpch"))
22
>>> sorted(queries("finance"))
['axf', 'bsp', 'bsv', 'mst', 'psp', 'vwap']
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

from viewlet.errors import ViewletError

SUITES = ("tpch", "finance", "nested", "tpcds", "imp", "nexmark")


class WorkloadError(ViewletError):
    """A workload was asked for something it does not have, or its generator is not installed."""


def queries(suite: str) -> dict[str, str]:
    """The SQL text of every query of a suite, by name, in the order of the names."""
    found = sorted(_folder(suite).iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in found
        if file.name.endswith(".sql") and file.name != "schema.sql"
    }


def schema(suite: str) -> str:
    """The CREATE TABLE statements of a suite.

    >>> schema("finance").count("CREATE TABLE")
    2
    """
    return (_folder(suite) / "schema.sql").read_text(encoding="utf-8")


def _folder(suite: str) -> Traversable:
    if suite not in SUITES:
        raise WorkloadError(f"there is no suite {suite!r}; existing: {', '.join(SUITES)}")
    return files("viewlet.workloads") / "queries" / suite
