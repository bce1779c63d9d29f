"""Maps of native programs are written down as they were, while the programs go on."""

from __future__ import annotations

import datetime
import random
import resource
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.backends.native.engine import NativeEngine
from viewlet.backends.native.image import Frozen, entries_of
from viewlet.errors import StorageError

pytestmark = pytest.mark.native

STREAM = (
    "CREATE STREAM s (b BOOLEAN, i INT, k BIGINT, n DECIMAL(38,2), f DOUBLE, t VARCHAR, d DATE, x BIGINT)"
)
VIEWS = {
    "wide": "SELECT b, i, k, n, f, t, d, sum(x) AS x, sum(f) AS total FROM s GROUP BY b, i, k, n, f, t, d",
    "whole": "SELECT sum(f) AS f, sum(n) AS n, count(*) AS c FROM s",
    "ends": "SELECT t, min(f) AS low, max(n) AS high FROM s GROUP BY t",
}


def row(rng: random.Random) -> tuple[Any, ...]:
    values = (
        rng.random() < 0.5,
        rng.randrange(-(2**31), 2**31),
        rng.randrange(-(2**63), 2**63),
        Decimal(rng.randrange(-(10**33), 10**33)) / 100,
        rng.choice([0.1, -0.0, 1e300, rng.random()]),
        rng.choice(["", "straße", "a", "\0", "x" * 100]),
        datetime.date(1970, 1, 1) + datetime.timedelta(rng.randrange(-9999, 9999)),
        rng.randrange(-5, 5),
    )
    return tuple(None if rng.random() < 0.15 else value for value in values)


def filled(db: viewlet.Database, seed: int) -> random.Random:
    rng = random.Random(seed)
    db.execute(STREAM)
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    db.insert("s", [row(rng) for _ in range(300)])
    return rng


def test_what_was_frozen_stays(tmp_path: Path) -> None:
    with viewlet.connect() as db:
        rng = filled(db, 1)
        (engine,) = {id(v.engine): v.engine for v in db._views.values()}.values()
        assert isinstance(engine, NativeEngine)
        names = list(engine.program.maps)
        before = {name: dict(engine.contents(name)) for name in names}
        frozen = Frozen([engine], tmp_path)
        for _ in range(3):
            db.insert("s", [row(rng) for _ in range(200)])
        db.execute("CREATE MATERIALIZED VIEW more AS SELECT count(*) AS c FROM s")  # another program comes
        db.insert("s", [row(rng)])
        for name in names:
            blocks = list(frozen.map(engine, name).blocks(64))
            assert all(len(block) <= 64 for block in blocks)
            found = [entry for block in blocks for entry in entries_of(block)]
            assert dict(found) == before[name]
            assert len(found) == len(before[name])
        frozen.close()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", range(3))
def test_checkpoints_give_streams_back(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.viewlet"
    with viewlet.connect(path, durability="off") as db:
        rng = filled(db, seed)
        db.checkpoint()
        db.insert("s", [row(rng) for _ in range(50)])
        expected = {name: db.view(name).rows() for name in VIEWS}
    for backend in ("native", "native", "reference"):
        with viewlet.connect(path, backend=backend) as db:
            assert {name: db.view(name).rows() for name in VIEWS} == expected
            db.checkpoint()


def test_special_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.viewlet"
    with viewlet.connect(path) as db:
        db.execute("CREATE STREAM s (f DOUBLE, x DOUBLE)")
        db.execute("CREATE MATERIALIZED VIEW g AS SELECT f, sum(x) AS x FROM s GROUP BY f")
        db.insert("s", [(5e-324, 1e16), (5e-324, 1.0), (1e308, 0.1), (-0.0, 0.2), (0.0, 0.1)])
        expected = repr(db.view("g").rows())
        db.checkpoint()
    with viewlet.connect(path) as db:
        assert repr(db.view("g").rows()) == expected


def test_no_room_for_the_copy(tmp_path: Path) -> None:
    with viewlet.connect() as db:
        filled(db, 1)
        engine = db.view("wide") and db._views["wide"].engine
        assert isinstance(engine, NativeEngine)
        with pytest.raises(StorageError, match="cannot be copied to"):
            Frozen([engine], tmp_path / "missing")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        try:
            frozen = Frozen([engine], tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        with pytest.raises(StorageError, match="is there room on the disk"):
            next(frozen.map(engine, next(iter(engine.program.maps))).blocks(10))
        frozen.close()
