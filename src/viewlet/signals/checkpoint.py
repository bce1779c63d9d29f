"""Snapshots as files: plain arrays and JSON in one NumPy archive; loading one runs no code."""

from __future__ import annotations

import io
import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.signals.chunks import Even, Events, Frames, PerKey, Runs
from viewlet.signals.errors import SessionError
from viewlet.signals.specs import WindowSpec

KINDS = {kind.__name__: kind for kind in (Events, Even, Runs, Frames, WindowSpec)}


def dump(snapshot: Any) -> bytes:
    """A snapshot as bytes.

    >>> load(dump({"a": [b"x", None, np.array([0, 1])]}))
    {'a': [b'x', None, array([0, 1])]}
    """
    arrays: dict[str, Any] = {}
    outline = json.dumps(_flatten(snapshot, arrays))
    out = io.BytesIO()
    np.savez(out, outline=np.array(outline), **arrays)
    return out.getvalue()


def load(data: bytes) -> Any:
    """The snapshot that ``dump`` wrote."""
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return _build(json.loads(str(archive["outline"])), archive)


def write(path: str | os.PathLike[str], snapshot: Any) -> None:
    """Write a snapshot so that a crash leaves the old file or the new one, never half of it."""
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    with open(draft, "wb") as out:
        out.write(dump(snapshot))
        out.flush()
        os.fsync(out.fileno())
    os.replace(draft, target)


def _flatten(value: Any, arrays: dict[str, Any]) -> Any:
    """JSON for the structure; arrays are set aside under numbered names."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.integer():
            return int(value)
        case bytes():
            return {"bytes": _store(np.frombuffer(value, np.uint8), arrays)}
        case np.ndarray():
            if value.dtype == object:
                raise SessionError(
                    "state of user-defined payloads cannot be checkpointed; they are Python objects"
                )
            return {"array": _store(value, arrays)}
        case pa.Array() | pa.Table():
            table = value if isinstance(value, pa.Table) else pa.table({"": value})
            sink = io.BytesIO()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            kind = "table" if isinstance(value, pa.Table) else "column"
            return {kind: _store(np.frombuffer(sink.getvalue(), np.uint8), arrays)}
        case list() | tuple():
            return [_flatten(item, arrays) for item in value]
        case dict():
            return {"dict": {name: _flatten(item, arrays) for name, item in value.items()}}
        case PerKey():
            layout = {
                n: [list(tail), np.dtype(d).str, int(fill)] for n, (tail, d, fill) in value.fields.items()
            }
            return {"per_key": layout, "data": _flatten(value.arrays, arrays)}
        case Events() | Even() | Runs() | Frames() | WindowSpec():
            parts = {f.name: _flatten(getattr(value, f.name), arrays) for f in fields(value)}
            return {"record": type(value).__name__, "parts": parts}
    raise SessionError(f"cannot checkpoint a {type(value).__name__}")


def _store(array: Any, arrays: dict[str, Any]) -> str:
    name = f"a{len(arrays)}"
    arrays[name] = array
    return name


def _build(outline: Any, archive: Any) -> Any:
    match outline:
        case list():
            return [_build(item, archive) for item in outline]
        case {"array": name}:
            return archive[name]
        case {"bytes": name}:
            return archive[name].tobytes()
        case {"table": name} | {"column": name}:
            table = pa.ipc.open_stream(archive[name].tobytes()).read_all()
            return table if "table" in outline else table.column(0).combine_chunks()
        case {"dict": items}:
            return {name: _build(item, archive) for name, item in items.items()}
        case {"per_key": layout, "data": data}:
            state = PerKey(**{n: (tuple(tail), np.dtype(d), fill) for n, (tail, d, fill) in layout.items()})
            state.load(_build(data, archive))
            return state
        case {"record": kind, "parts": parts}:
            return KINDS[kind](**{name: _build(part, archive) for name, part in parts.items()})
    return outline
