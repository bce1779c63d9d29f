"""What connects a database to the world: sources give batches with positions, sinks take changes.

A source is asked for batches from a position on. Each batch says up to which position it leads, and both are
committed together (``run.py``), so a source that is started again, after whatever end, goes on exactly where
the database stands: nothing twice, nothing left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

import pyarrow as pa

from viewlet.changes import Data
from viewlet.errors import ViewletError
from viewlet.sql.catalog import Catalog


class ConnectorError(ViewletError):
    """A source or a sink cannot continue; the message names it and says what would help."""


def require(package: str, extra: str) -> None:
    """Refuse at once where an optional package is missing.

    >>> require("no_such_package", "delta")
    Traceback (most recent call last):
    viewlet.connectors.base.ConnectorError: this needs no_such_package: pip install 'viewlet[delta]'
    """
    try:
        import_module(package)
    except ImportError:
        raise ConnectorError(f"this needs {package}: pip install 'viewlet[{extra}]'") from None


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes by table, as :meth:`viewlet.Database.apply` takes them, and the positions behind them.

    A source has one position or several, each of a named *part* (a file of a folder). Tables in ``emptied``
    lose all their rows before the changes.
    """

    changes: Mapping[str, Data]
    positions: Mapping[str, str]
    emptied: frozenset[str] = frozenset()


class Source(Protocol):
    """Where changes come from. Its positions are stored under its ``name``: do not change it."""

    name: str

    def batches(self, catalog: Catalog, positions: Mapping[str, str]) -> Iterator[Batch]:
        """The data after the positions that is available now, in order.

        When the iterator is asked for the next batch, or ends, the one before has been committed.
        """

    def close(self) -> None:
        """Release connections."""


class Sink(Protocol):
    """Where the rows of a view go."""

    def replace(self, rows: pa.Table, version: int) -> None:
        """Make the target hold exactly these rows, in one step."""

    def write(self, changes: pa.Table, version: int) -> None:
        """Apply changes with ``_change_type``, in one step."""

    def close(self) -> None:
        """Release connections."""


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it.

    >>> quoted("volume"), len(quoted('"'))
    ('"volume"', 4)
    """
    return '"' + name.replace('"', '""') + '"'
