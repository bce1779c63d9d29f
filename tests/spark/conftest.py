"""Programs of partitions are compiled quickly in all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agree.agreement import QUICK


@pytest.fixture(scope="session", autouse=True)
def compiled_quickly() -> Iterator[None]:
    """Nothing is timed here, and partitions get their flags from the driver."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("viewlet.backends.spark.native.DEFAULT_FLAGS", QUICK)
        yield
