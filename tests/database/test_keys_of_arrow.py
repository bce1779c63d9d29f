"""Keys hold however rows came: as Arrow batches, which stay as they are, or as tuples."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import viewlet
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
