"""Over the limit a batch is refused with the names of what is largest, and work goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewlet
from viewlet.errors import StorageError
from viewlet.storage.limit import MemoryLimitError


def test_a_batch_over_the_limit_is_refused(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "a.viewlet", backend="reference", memory_limit="300KB") as db:
        db.execute("CREATE TABLE r (a BIGINT, b BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW g AS SELECT a, sum(b) AS s FROM r GROUP BY a")
        db.insert("r", [(i, i) for i in range(200)])
        before = db.table("r").rows(), db.view("g").rows(), db.version
        with pytest.raises(
            MemoryLimitError, match=r"memory_limit is 300000; largest: .*\(\d+ records, \d+ bytes\)"
        ):
            db.insert("r", [(i, i) for i in range(1000, 3000)])
        assert (db.table("r").rows(), db.view("g").rows(), db.version) == before
        db.insert("r", [(7, 7)])
        db.delete("r", [(i, i) for i in range(100)])
        db.insert("r", [(i, i) for i in range(500, 600)])
        expected = db.table("r").rows()
    with viewlet.connect(tmp_path / "a.viewlet", backend="reference", memory_limit=1000) as db:
        assert db.table("r").rows() == expected, "what is there may be opened"
        with pytest.raises(MemoryLimitError, match="memory_limit is 1000; largest: g"):
            db.insert("r", [(9999, 1)])
        db.delete("r", [(7, 7)])  # over the limit still, but less


def test_a_view_over_the_limit_is_refused() -> None:
    with viewlet.connect(backend="reference", memory_limit=40_000) as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        db.insert("r", [(i,) for i in range(200)])
        with pytest.raises(MemoryLimitError, match="Raise the limit, delete rows, or drop views"):
            db.execute("CREATE MATERIALIZED VIEW g AS SELECT a, count(*) AS n FROM r GROUP BY a")
        assert "g" not in db.catalog
        db.execute("CREATE MATERIALIZED VIEW small AS SELECT count(*) AS n FROM r")
        assert db.view("small").value == 200


def test_a_limit_of_streams() -> None:
    with viewlet.connect(backend="reference", memory_limit=20_000) as db:
        db.execute(
            "CREATE STREAM s (a BIGINT); "
            "CREATE MATERIALIZED VIEW g AS SELECT a, count(*) AS n FROM s GROUP BY a"
        )
        db.insert("s", [(i % 5,) for i in range(1000)])
        with pytest.raises(MemoryLimitError):
            db.insert("s", [(i,) for i in range(1000)])
        assert db.view("g").rows() == [(i, 200) for i in range(5)]


@pytest.mark.parametrize("wrong", ["much", "1 TBB", "-5", True, "1e9"])
def test_limits_that_are_none(wrong: str) -> None:
    with pytest.raises(StorageError, match="memory_limit="):
        viewlet.connect(memory_limit=wrong)


@pytest.mark.native
def test_texts_of_native_programs_count() -> None:
    with viewlet.connect(backend="native", memory_limit="1MB") as db:
        db.execute("CREATE STREAM s (g VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM s GROUP BY g")
        db.insert("s", [(f"{i}",) for i in range(100)])
        with pytest.raises(MemoryLimitError, match="largest: texts and working memory"):
            db.insert("s", [(f"{i}" * 10_000,) for i in range(100, 150)])
        db.insert("s", [(f"{i}",) for i in range(100, 150)])
        assert db.view("v").rows() == sorted((f"{i}", 1) for i in range(150))
