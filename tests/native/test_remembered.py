"""What compiling came to is found again, and only if it is to be trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import viewlet
from viewlet.backends.native import engine as native
from viewlet.backends.native.remembered import key_of, recall, remember

pytestmark = pytest.mark.native


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("VIEWLET_CACHE", str(folder))
    return folder


def entry(cache: Path) -> Path:
    (found,) = (cache / "compiled").iterdir()
    return found


def test_a_flipped_bit_is_found_and_removed(cache: Path) -> None:
    key = key_of("x")
    remember(key, [1, 2, 3])
    path = entry(cache)
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    assert recall(key) is None
    assert not path.exists()


def test_what_others_can_write_is_not_read(cache: Path) -> None:
    key = key_of("x")
    remember(key, [1, 2, 3])
    os.chmod(entry(cache), 0o666)
    assert recall(key) is None


def test_keys_tell_parts_apart() -> None:
    assert key_of("a", "b") != key_of("ab")
    assert key_of("a", "b") == key_of("a", "b")


def test_a_view_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(values: list[tuple[int, int]]) -> list[tuple[object, ...]]:
        db = viewlet.connect(backend="native", strategy="higher_order")
        db.execute("CREATE TABLE r (a INT, b INT)")
        for number, op in enumerate(("SUM", "MIN", "SUM")):
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS SELECT a, {op}(b) AS s FROM r GROUP BY a")
        db.execute("DROP VIEW v1")
        db.insert("r", values)
        return sorted(db.view("v2").rows())

    assert rows([(1, 2), (1, 3), (2, 5)]) == [(1, 5), (2, 5)]

    def compiled(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(native, "triggers_to_loops", compiled)
    monkeypatch.setattr(native.Compiler, "add", compiled)
    assert rows([(1, 7)]) == [(1, 7)]
