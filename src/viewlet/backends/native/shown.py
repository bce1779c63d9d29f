"""The rows of a view as Arrow, straight from native code (``runtime/shown.h``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.backends.native.forms import cell_kind
from viewlet.core.types import Kind, Type
from viewlet.plan.nodes import Query
from viewlet.triggers.program import View

_WIDTHS = {"VL_INT32": pa.int32(), "VL_INT64": pa.int64(), "VL_DOUBLE": pa.float64()}
_SAME_BITS = {Kind.DATE: pa.date32(), Kind.TIMESTAMP: pa.timestamp("us")}
_NARROW = {Kind.TINYINT: pa.int8(), Kind.SMALLINT: pa.int16(), Kind.FLOAT: pa.float32()}


def view_columns(view: View, query: Query, runs: Sequence[bytes]) -> tuple[list[pa.Array], NDArray[np.int64]]:
    """The columns of a view in the order of its query, and weights, from the runs that a program gives."""
    names, kinds = zip(*view.columns, strict=True) if view.columns else ((), ())
    arrays = dict(zip(names, arrow_columns(runs, kinds), strict=True))
    return [arrays[var.name] for _, var in query.columns], np.frombuffer(runs[-1], np.int64)


def arrow_columns(runs: Sequence[bytes], kinds: Sequence[Type]) -> list[pa.Array]:
    """Columns of the given types from the runs of bytes that a program gives, three for each."""
    return [_column(kind, *runs[3 * c : 3 * c + 3]) for c, kind in enumerate(kinds)]


def _column(kind: Type, values: bytes, presence: bytes, ends: bytes) -> pa.Array:
    present = np.frombuffer(presence, np.bool_)
    rows = len(present)
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    match cell_kind(kind):
        case "VL_TEXT":
            offsets = pa.py_buffer(bytes(8) + ends)
            texts = pa.Array.from_buffers(pa.large_string(), rows, [valid, offsets, pa.py_buffer(values)])
            return texts.cast(pa.string())
        case "VL_DECIMAL":
            wanted = pa.decimal128(kind.precision, kind.scale)
            return pa.Array.from_buffers(wanted, rows, [valid, pa.py_buffer(values)])
        case "VL_BOOLEAN":
            bits = pa.py_buffer(np.packbits(np.frombuffer(values, np.bool_), bitorder="little"))
            truths = pa.Array.from_buffers(pa.bool_(), rows, [valid, bits])
            return pa.nulls(rows) if kind.kind is Kind.NULL else truths
        case stored:
            numbers = pa.Array.from_buffers(_WIDTHS[stored], rows, [valid, pa.py_buffer(values)])
            if kind.kind in _SAME_BITS:
                return numbers.view(_SAME_BITS[kind.kind])
            return numbers.cast(_NARROW[kind.kind]) if kind.kind in _NARROW else numbers
