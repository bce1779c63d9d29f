"""Maps in files: the same results, and nothing left of them afterwards."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import viewlet
from viewlet.errors import BackendError, StorageError

pytestmark = pytest.mark.native

SCHEMA = """
    CREATE TABLE r (k BIGINT, t VARCHAR);
    CREATE STREAM s (k BIGINT, t VARCHAR);
    CREATE MATERIALIZED VIEW joined AS
        SELECT r.t, count(*) AS n, min(s.k) AS k FROM r JOIN s ON r.k = s.k GROUP BY r.t;
    CREATE MATERIALIZED VIEW seen AS SELECT t, sum(k) AS k FROM s GROUP BY t;
"""


def changes(rng: random.Random, present: list[tuple[int, str]]) -> dict[str, list[dict[str, object]]]:
    new = [(rng.randrange(20), f"text {rng.randrange(30)}") for _ in range(40)]
    gone = rng.sample(present, min(len(present), 20))
    for row in gone:
        present.remove(row)
    present += new
    rows = [*((row, 1) for row in new), *((row, -1) for row in gone)]
    batch = [{"k": k, "t": t, "_weight": weight} for (k, t), weight in rows]
    return {"r": batch, "s": batch}


def test_spilled_maps_are_right(tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    folder.mkdir()
    path, rng, present = tmp_path / "a.viewlet", random.Random(1), list[tuple[int, str]]()
    with viewlet.connect() as plain:
        plain.execute(SCHEMA)
        for _ in range(3):
            with viewlet.connect(path, spill=folder, durability="off") as spilled:
                if "r" not in spilled.catalog:
                    spilled.execute(SCHEMA)
                for _ in range(5):
                    batch = changes(rng, present)
                    plain.apply(batch)
                    spilled.apply(batch)
                    for view in ("joined", "seen"):
                        assert spilled.view(view).rows() == plain.view(view).rows()
                spilled.checkpoint()
    assert list(folder.iterdir()) == []


def test_who_cannot_spill(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such folder"):
        viewlet.connect(spill=tmp_path / "missing")
    with pytest.raises(BackendError, match="only native code"):
        viewlet.connect(spill=tmp_path, backend="reference")
