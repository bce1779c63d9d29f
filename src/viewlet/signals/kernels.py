"""Which kernels run: C where it can be built, NumPy otherwise, announced once.

Set ``VIEWLET_SIGNALS_KERNELS=reference`` to run without C on purpose.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from viewlet.errors import BackendError
from viewlet.signals import reference
from viewlet.signals.chunks import Values

_chosen: list[ModuleType] = []


def kernels(values: Values | None = None) -> ModuleType:
    """The kernels for these values: payloads that are Python objects need the NumPy ones."""
    if values is not None and values.dtype == object:
        return reference
    if not _chosen:
        _chosen.append(_choose())
    return _chosen[-1]


def _choose() -> ModuleType:
    if os.environ.get("VIEWLET_SIGNALS_KERNELS") == "reference":
        return reference
    from viewlet.signals.native import library

    try:
        library.load()
    except BackendError as error:
        warnings.warn(
            f"signals run on NumPy, far slower than native code: {error}", RuntimeWarning, stacklevel=4
        )
        return reference
    return library


@contextmanager
def using(module: ModuleType) -> Iterator[None]:
    """Run with the kernels of ``module``, for comparing the two implementations."""
    _chosen.append(module)
    try:
        yield
    finally:
        _chosen.pop()
