"""Connecting: a database in memory, in a file, or on a Spark session."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from viewlet.backends import Backend, engine_for
from viewlet.backends.base import Strategy
from viewlet.database import Database
from viewlet.errors import StorageError
from viewlet.storage import Durability, Progress, open_into
from viewlet.storage.limit import MemoryLimit


def connect(
    target: object = None,
    folder: str | os.PathLike[str] | None = None,
    *,
    backend: Backend = "auto",
    strategy: Strategy = "auto",
    dialect: str = "spark",
    durability: Durability | None = None,
    memory_limit: int | str | None = None,
    spill: str | os.PathLike[str] | None = None,
    checkpoint_bytes: int = 64 << 20,
    progress: Progress | None = None,
) -> Database:
    """Open a database: in memory without ``target``, in the file at a path, or on a Spark session.

    ``folder`` makes a database on Spark durable: a folder on any file system that Hadoop can reach, given as
    a Hadoop path, ``hdfs://...`` or relative to the session's default file system.
    ``durability`` says what an acknowledged batch survives. ``"full"`` (the default) survives a power
    failure; ``"batch"`` and ``"off"`` survive the end of this process. After a power failure, the latest
    batches may be missing with ``"batch"``, and the whole file may be lost with ``"off"``.
    A checkpoint is written after each ``checkpoint_bytes`` of log. While a file is opened, ``progress`` is
    called with the number of records read so far and their total. ``memory_limit`` is in bytes, or a text
    such as ``"2GB"``. ``spill`` is a folder for files that hold the maps of views, so that rarely used parts
    of them need not stay in memory.

    >>> db = connect()
    >>> db.execute("CREATE TABLE bids (price BIGINT, volume BIGINT)")
    >>> db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(volume) AS volume FROM bids")
    >>> db.insert("bids", [(9_950, 200), (9_960, 50)])
    1
    >>> db.view("total").value
    250
    """
    if target is not None and not isinstance(target, (str, os.PathLike)):
        from viewlet.spark_database import connect_spark

        options = {"durability": durability, "memory_limit": memory_limit, "spill": spill}
        return connect_spark(target, folder, backend, strategy, dialect, checkpoint_bytes, options)
    if folder is not None:
        raise StorageError(
            f"folder={os.fspath(folder)!r} goes with a SparkSession: connect(path) without one"
        )
    engines = backend if spill is None else partial(engine_for, backend, spill=_existing(Path(spill)))
    database = Database(backend=engines, strategy=strategy, dialect=dialect)
    if target is not None:
        path = Path(os.fspath(target))
        database.attach(open_into(database, path, durability or "full", checkpoint_bytes, progress))
    elif durability is not None:
        raise StorageError(
            f"durability={durability!r} needs a path to write to: connect('name.viewlet', ...)"
        )
    database.memory_limit = None if memory_limit is None else MemoryLimit.of(memory_limit)
    return database


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise StorageError(f"spill={str(folder)!r}: there is no such folder")
    return folder
