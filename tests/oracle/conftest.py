"""Programs are compiled as they are shipped: here every query of the workloads runs natively."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIEWLET_CFLAGS", raising=False)
