"""Bringing the batches of a source into a database, each with its positions in one commit.

Positions are rows of an ordinary table, ``connector_positions``: a commit changes them with the data or not
at all, a durable database keeps them, and SQL can read them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from viewlet.changes import CHANGE_TYPE, WEIGHT, Data
from viewlet.connectors.base import Batch, Source
from viewlet.database import Database

POSITIONS = "connector_positions"
DDL = f"""
CREATE TABLE IF NOT EXISTS {POSITIONS} (
  source VARCHAR NOT NULL, part VARCHAR NOT NULL, position VARCHAR NOT NULL, PRIMARY KEY (source, part)
) ON CONFLICT REPLACE
"""


def positions(database: Database, source: str) -> dict[str, str]:
    """Up to where the batches of a source are in the database, by part; empty before the first."""
    if POSITIONS not in database.catalog:
        return {}
    rows = database.table(POSITIONS).rows()
    return {part: position for name, part, position in rows if name == source}


def forget(database: Database, source: str) -> None:
    """Let a source begin anew; the rows that came from it stay."""
    gone = [(source, part) for part in positions(database, source)]
    if gone:
        database.delete(POSITIONS, gone)


def run(
    database: Database,
    source: Source,
    *,
    follow: bool = False,
    interval: float = 0.2,
    stop: threading.Event | None = None,
) -> int:
    """Commit what a source has, and with ``follow`` what comes, until ``stop``; returns how many batches.

    Without ``follow`` it returns when the source has nothing more now. ``interval`` is the pause in seconds
    before a source that had nothing is asked again.
    """
    stop = stop or threading.Event()
    known = positions(database, source.name)
    total = 0
    while not stop.is_set():
        done = 0
        for batch in source.batches(database.catalog, dict(known)):
            _commit(database, source.name, batch)
            known.update(batch.positions)
            done += 1
            if stop.is_set():
                break
        total += done
        if not follow:
            break
        if not done:
            stop.wait(interval)
    return total


@contextmanager
def following(database: Database, source: Source, *, interval: float = 0.2) -> Iterator[threading.Thread]:
    """Follow a source in a thread while the ``with`` lasts; its failure is raised at the end."""
    stop, failures = threading.Event(), list[BaseException]()

    def body() -> None:
        try:
            run(database, source, follow=True, interval=interval, stop=stop)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=body, name=f"viewlet source {source.name}", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()
        source.close()
    if failures:
        raise failures[0]


def _commit(database: Database, source: str, batch: Batch) -> None:
    if POSITIONS not in database.catalog:  # not earlier: a source that is refused leaves nothing behind
        database.execute(DDL)
    moved = [(source, part, position) for part, position in batch.positions.items()]
    changes = dict(batch.changes)
    for table in batch.emptied:
        changes[table] = _after_all_are_gone(database, table, changes.get(table))
    database.apply({**changes, POSITIONS: moved})


def _after_all_are_gone(database: Database, table: str, changes: Data | None) -> pa.Table:
    present = database.table(table).to_arrow()
    gone = present.append_column(WEIGHT, pa.array([-1] * present.num_rows, pa.int64()))
    if changes is None:
        return gone
    assert CHANGE_TYPE not in changes.column_names, "a source that empties tables gives weights"
    return pa.concat_tables([gone, changes.select(gone.column_names).cast(gone.schema)])
