"""Samples in Arrow columns: real numbers as they are, complex ones and channels as fixed-size lists.

Arrow has no complex type; a complex column is a list of two doubles whose item is called "complex", which
shares memory with NumPy's layout. A struct of ``re`` and ``im`` is read as complex too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.signals.chunks import Values
from viewlet.signals.errors import SignalTypeError

COMPLEX = pa.list_(pa.field("complex", pa.float64()), 2)


def to_values(column: Any, name: str = "value") -> Values:
    """An Arrow column (or a result column) as samples: float64 or complex128, channels on the second axis.

    >>> to_values(from_values(np.array([1 + 2j])))
    array([1.+2.j])
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        plain: Values = column.to_numpy(zero_copy_only=False)
        return plain.astype(np.float64, copy=False)
    if pa.types.is_decimal(kind):
        return to_values(column.cast(pa.float64()), name)
    if pa.types.is_struct(kind) and {field.name for field in kind} == {"re", "im"}:
        return to_values(column.field("re")) + 1j * to_values(column.field("im"))
    if pa.types.is_fixed_size_list(kind):
        if kind.value_field.name == "complex":
            return np.ascontiguousarray(column.flatten().to_numpy(zero_copy_only=False)).view(np.complex128)
        inner = to_values(column.flatten(), name)
        return inner.reshape(len(column), kind.list_size, *inner.shape[1:])
    raise SignalTypeError(
        f"column {name!r} has type {kind}; samples are numbers, complex numbers or fixed-size lists of them "
        f"(for other types give source(..., payload=...))"
    )


def from_values(values: Values) -> pa.Array:
    """Samples as an Arrow column; no copy for contiguous float64 and complex128."""
    if values.dtype == object:
        return pa.array(values.tolist())
    if values.ndim > 1:
        flat = np.ascontiguousarray(values).reshape(-1, *values.shape[2:])
        return pa.FixedSizeListArray.from_arrays(from_values(flat), values.shape[1])
    if values.dtype == np.complex128:
        flat = np.ascontiguousarray(values).view(np.float64)
        return pa.FixedSizeListArray.from_arrays(pa.array(flat), type=COMPLEX)
    return pa.array(values)
