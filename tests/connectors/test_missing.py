"""Without an optional package its connectors refuse at once and say what to install."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from viewlet.connectors import ConnectorError, DeltaSink, DeltaSource, PostgresSink, PostgresSource


@pytest.mark.parametrize(
    ("package", "extra", "make"),
    [
        ("deltalake", "delta", lambda: DeltaSource("x", "t")),
        ("deltalake", "delta", lambda: DeltaSink("x", ["k"])),
        ("psycopg", "postgres", lambda: PostgresSource("", {"t": "t"})),
        ("psycopg", "postgres", lambda: PostgresSink("", "t", ["k"])),
    ],
    ids=range(4),
)
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, package: str, extra: str, make: Callable[[], object]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConnectorError, match=rf"{package}: pip install 'viewlet\[{extra}\]'"):
        make()
