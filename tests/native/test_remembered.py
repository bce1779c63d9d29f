"""What compiling came to is found again, and only if it is to be trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import viewlet
from viewlet.backends.base import Change
from viewlet.backends.native import engine as native
from viewlet.backends.native.remembered import key_of, recall, remember
from viewlet.core.later import Later
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse

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


def test_statements_are_read_only_for_who_asks() -> None:
    catalog = Catalog(
        statement.table for statement in parse("CREATE TABLE r (a INT, b INT); CREATE TABLE s (a INT, c INT)")
    )
    query = compile_query("SELECT SUM(b * c) x FROM r, s WHERE r.a = s.a", catalog)

    def created(*views: str) -> native.NativeEngine:
        engine = native.NativeEngine()
        for view in views:
            engine.create(view, query, catalog, {"r": {}, "s": {}}, "higher_order")
        engine.apply("r", [Change((1, 2), 1)], "tuple", frozenset())
        engine.apply("s", [Change((1, 3), 1)], "tuple", frozenset())
        assert [engine.output(view) for view in views] == [{(6,): 1}] * len(views)
        return engine

    first, again = created("v"), created("v")
    told = [again.program.triggers, again.program.batch_triggers, again._compiler._statements]
    assert [part.is_read for part in told if isinstance(part, Later)] == [False] * 3
    assert again.program.triggers == first.program.triggers
    created("v", "w")  # what was recalled goes on from there
