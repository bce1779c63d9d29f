"""Programs are compiled as they are shipped, but for the largest of all, which takes as long as many."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def as_shipped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.originalname != "test_benchmark_data":
        monkeypatch.delenv("VIEWLET_CFLAGS", raising=False)
