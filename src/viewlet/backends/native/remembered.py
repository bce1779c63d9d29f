"""What compiling views came to, remembered on disk: the second time, nothing is compiled but looked up.

A key is the hash of everything that decides the result, the version of Viewlet itself included. Entries lie
beside the libraries (see :mod:`viewlet.backends.native.build`), under the same rules: they appear whole or
not at all, belong to the user alone, and are read only if owner, mode and hash are right.

>>> key = key_of("an example", 1)
>>> remember(key, {"answer": 42})
>>> recall(key)
{'answer': 42}
"""

from __future__ import annotations

import gc
import hashlib
import io
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from viewlet.backends.native.build import cache_directory
from viewlet.core.later import Later

COMPILER = Path(__file__).parents[2]
"""The package: an entry that other files of it made is never found."""

DIGEST = 32


def key_of(*parts: object) -> str:
    """The key of what these parts decide."""
    digest = hashlib.sha256(_version())
    for part in parts:
        data = repr(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def recall(key: str) -> Any | None:
    """What was remembered under a key; ``None`` if there is nothing, or nothing to be trusted."""
    path = _path(key)
    try:
        found = path.lstat()
        data = path.read_bytes()
    except OSError:
        return None
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    if not is_own or hashlib.sha256(data[DIGEST:]).digest() != data[:DIGEST]:
        path.unlink(missing_ok=True)
        return None
    with _no_collection():
        return pickle.loads(data[DIGEST:])


@contextmanager
def _no_collection() -> Iterator[None]:
    """No search for garbage: among tens of thousands of new nodes there is none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def remember(key: str, value: object) -> None:
    """Keep a value under a key; a disk that is full is no reason to fail."""
    data = _written(value)
    path = _path(key)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        Path(name).replace(path)
    except OSError:
        return


def _written(value: object) -> bytes:
    into = io.BytesIO()
    _Pickler(into, protocol=5).dump(value)
    return into.getvalue()


class _Pickler(pickle.Pickler):
    """Writes frozen nodes so that they are read in half the time.

    What a dataclass does itself looks up its fields for every single node.
    """

    def reducer_override(self, value: Any) -> Any:
        """How to make a node again; as usual for anything else."""
        if isinstance(value, Later):
            return Later, (value.written(_written),)
        kind = type(value)
        if not is_dataclass(kind) or not _is_frozen_in_slots(kind):
            return NotImplemented
        return _made_again, (kind, *(getattr(value, name) for name, _ in _slots(kind)))


def _made_again(kind: type, *values: object) -> object:
    """A node of these values, which were checked when it was first made."""
    node: object = object.__new__(kind)
    for (_, put), value in zip(_slots(kind), values, strict=True):
        put(node, value)
    return node


@lru_cache(maxsize=1024)
def _is_frozen_in_slots(kind: Any) -> bool:
    is_frozen: bool = kind.__dataclass_params__.frozen
    return is_frozen and all(hasattr(kind.__dict__.get(f.name), "__set__") for f in fields(kind))


@lru_cache(maxsize=1024)
def _slots(kind: Any) -> tuple[tuple[str, Callable[[object, object], None]], ...]:
    """The fields of a node, and what puts a value into each."""
    return tuple((f.name, kind.__dict__[f.name].__set__) for f in fields(kind))


def _path(key: str) -> Path:
    return cache_directory() / "compiled" / key


@lru_cache(maxsize=1)
def _version() -> bytes:
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(COMPILER.rglob("*.py")):
        found = path.stat()
        digest.update(f"{path.relative_to(COMPILER)} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.digest()
