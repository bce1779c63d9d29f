"""Keys hold however rows came: as Arrow batches, which stay as they are, or as tuples."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import viewlet
from viewlet import kept as kept_rows
from viewlet import places
from viewlet.errors import DataError


def arrow(rows: list[tuple[int, int]]) -> pa.Table:
    return pa.table(
        {"a": [a for a, _ in rows], "b": [b for _, b in rows]}, pa.schema({"a": "int64", "b": "int64"})
    )


@pytest.mark.parametrize("seed", range(20))
def test_any_mix_of_forms_is_a_dict_by_key(seed: int) -> None:
    draw = random.Random(seed)
    db = viewlet.connect(backend="reference")
    db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT)")
    kept: dict[int, int] = {}
    for _ in range(30):
        keys = draw.sample(range(12), draw.randint(1, 3))
        rows = [(key, draw.randrange(3)) for key in keys]
        form = draw.choice([arrow, list])
        if draw.random() < 0.5:
            if any(key in kept for key in keys):
                with pytest.raises(DataError):
                    db.insert("t", form(rows))
                db.insert("t", form(rows), on_conflict="update")
            else:
                db.insert("t", form(rows))
            kept.update(rows)
        elif all(kept.get(a) == b for a, b in rows):
            db.delete("t", form(rows))
            for key in keys:
                del kept[key]
        else:
            with pytest.raises(DataError):
                db.delete("t", form(rows))
    assert db.table("t").rows() == sorted(kept.items())


def wide(rows: list[tuple[int, str, int | None]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table(list(columns), pa.schema({"a": "int64", "b": "string", "c": "int32"}))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("backend", ["reference", pytest.param("native", marks=pytest.mark.native)])
def test_many_rows_by_key_stay_arrow(seed: int, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is replaced, left out or deleted by key: rows that came as Arrow stay so, and are a dict."""
    monkeypatch.setattr(kept_rows, "MOST_BESIDE", 40)
    monkeypatch.setattr(places, "MANY_KEYS", 1_510)
    draw = random.Random(seed)
    db = viewlet.connect(backend=backend)
    db.execute("CREATE TABLE t (a BIGINT, b VARCHAR, c INT, PRIMARY KEY (b, a))")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(c) AS c FROM t")
    first = [(i, "xyz"[i % 3], i % 7 or None) for i in range(1_500)]
    db.insert("t", wide(first))
    kept = {(a, b): c for a, b, c in first}
    for _ in range(60):
        size = draw.choice([1, 1, 3, 150])
        keys = list(dict.fromkeys((draw.randrange(1_800), draw.choice("xyz")) for _ in range(size)))
        rows = [(a, b, draw.choice([None, 1, 2])) for a, b in keys]
        form = draw.choice([wide, list])
        match draw.choice(["error", "update", "nothing", "rows", "keys"]):
            case "error" if any(key in kept for key in keys):
                with pytest.raises(DataError, match="would occur twice"):
                    db.insert("t", form(rows))
            case "error" | "update":
                again = draw.sample(rows, len(rows) // 3)
                db.insert("t", form([(a, b, 5) for a, b, _ in again] + rows), on_conflict="update")
                kept.update({(a, b): c for a, b, c in rows})
            case "nothing":
                again = draw.sample(rows, len(rows) // 3)
                db.insert("t", form(rows + [(a, b, 5) for a, b, _ in again]), on_conflict="nothing")
                kept = {(a, b): c for a, b, c in rows} | kept
            case "rows" if draw.random() < 0.5 and any(kept.get((a, b), 9) != c for a, b, c in rows):
                with pytest.raises(DataError, match="it is not there"):
                    db.delete("t", form(rows))
            case "rows":
                there = [(*key, kept.pop(key)) for key in keys if key in kept]
                db.delete("t", form(there))
            case _:
                there = [key for key in keys if key in kept]
                db.delete("t", [{"b": b, "a": a} for a, b in there])
                for key in there:
                    del kept[key]
        assert db.view("v").rows() == [(len(kept), sum(c or 0 for c in kept.values()))]
    assert db.table("t").rows() == sorted(((*key, c) for key, c in kept.items()), key=repr_order)
    assert sum(map(len, db._tables.image("t").arrived)) >= 1_000, "they are not a bag"


def repr_order(row: tuple[int, str, int | None]) -> tuple[int, str, int]:
    return (row[0], row[1], -1 if row[2] is None else row[2])
