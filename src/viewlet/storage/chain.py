"""What a container is made of: steps and pieces of a checkpoint, each linked to the one before; a head."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Head:
    """What the container holds: the ends of both chains, and where the log begins."""

    dialect: str
    written_by: str
    sequence: int = 0
    version: int = 0
    digest: str = ""
    generation: int = 0
    parts_digest: str = ""
    log_start: int = 0
    log_start_digest: str = ""
    log_start_version: int = 0
    tokens: int = 0

    def from_checkpoint(self, generation: int, parts_digest: str, start: Head) -> Head:
        """The head once a checkpoint counts that was taken when ``start`` was the head."""
        return replace(
            self,
            generation=generation,
            parts_digest=parts_digest,
            log_start=start.sequence,
            log_start_digest=start.digest,
            log_start_version=start.version,
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of the log: a definition or a commit, with the version of the database after it."""

    sequence: int
    version: int
    kind: str
    token: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a checkpoint."""

    kind: str
    name: str
    body: bytes


def link(previous: str, *fields: object) -> bytes:
    """The digest of a record in a chain: of the one before it and of each field with its length.

    >>> link("", "ab", "c") == link("", "a", "bc")
    False
    """
    state = hashlib.blake2b(digest_size=16)
    for field in (previous, *fields):
        data = field if isinstance(field, bytes) else b"-" if field is None else f"+{field}".encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.digest()


def sealed(head: Head) -> tuple[str, bytes]:
    """A head as JSON, and its digest."""
    fields = json.dumps({name: getattr(head, name) for name in Head.__slots__})
    return fields, link("", fields)
