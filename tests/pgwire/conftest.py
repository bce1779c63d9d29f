"""Every test has a server of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgwire.served import Served, market, serving


@pytest.fixture
def served() -> Iterator[Served]:
    with market() as db, serving(db) as running:
        yield running
