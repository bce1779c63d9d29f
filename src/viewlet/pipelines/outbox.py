"""What sinks are still to be given, in a folder beside a durable database.

The changes of a commit are put here before the commit, and removed once their sink has them. So whenever a
run ends, the next one knows what to do with what it finds:

==========================  ===================================  ==========================================
the run ended               the database                         the next run
==========================  ===================================  ==========================================
before the commit           does not know the batch's token      throws them away: the batch comes again
before the sink was done    has the token with their version     writes them to the sink
before they were removed    has the token with their version     writes them to the sink a second time
==========================  ===================================  ==========================================

Every change reaches its sink at least once, and those that came twice have the same ``_commit_version``. How
safe a closed file is when the machine goes down, is a matter of the file system.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa

from viewlet.changes import COMMIT_VERSION
from viewlet.spark_journal import Folder

SINK, TOKEN = b"viewlet.sink", b"viewlet.token"


@dataclass(frozen=True, slots=True)
class Letter:
    """Changes of one commit for one sink, and the token of the batch that made the commit."""

    name: str
    sink: str
    token: str
    changes: pa.Table

    @property
    def version(self) -> int:
        """The version that the commit makes, or was to make."""
        return version_of(self.changes)


class Outbox:
    """The folder; a file that bears a number is whole, since it was written under another name."""

    def __init__(self, spark: Any, uri: str) -> None:
        self._folder = Folder(spark, uri)
        self._numbers = count()
        self._put: dict[str, list[str]] = {}

    def put(self, sink: str, token: str, changes: pa.Table) -> None:
        """Keep the changes that a commit is about to make."""
        name = f"{version_of(changes):012}-{next(self._numbers):06}"
        labelled = changes.replace_schema_metadata({SINK: sink.encode(), TOKEN: token.encode()})
        written = pa.BufferOutputStream()
        with pa.ipc.new_file(written, labelled.schema) as file:
            file.write_table(labelled)
        self._folder.write(f"new-{name}", written.getvalue().to_pybytes())
        self._folder.rename(f"new-{name}", name)
        self._put.setdefault(sink, []).append(name)

    def done(self, sink: str) -> None:
        """A sink has all that was put here for it since it was done before."""
        for name in self._put.pop(sink, []):
            self._folder.remove(name)

    def left(self) -> Iterator[Letter]:
        """What a run before left here, in the order of commits."""
        for name in sorted(self._folder.names()):
            if name.startswith("new-"):
                self._folder.remove(name)
                continue
            with pa.ipc.open_file(pa.py_buffer(self._folder.read(name))) as file:
                changes = file.read_all()
            labels = changes.schema.metadata
            yield Letter(name, labels[SINK].decode(), labels[TOKEN].decode(), changes)

    def discard(self, letter: Letter) -> None:
        """Remove what a run before left here."""
        self._folder.remove(letter.name)


def version_of(changes: pa.Table) -> int:
    """The version of the commit that some changes are of."""
    version: int = changes[COMMIT_VERSION][0].as_py()
    return version
