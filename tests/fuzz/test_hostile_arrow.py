"""Hostile Arrow data: refused without a trace, or read as Arrow reads it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import viewlet
from fuzz import hostile_arrow
from viewlet.errors import DataError, ViewletError

SCRIPT = Path(__file__).with_name("run.py")


@pytest.mark.parametrize(
    ("backend", "count"),
    [
        ("reference", 400),
        pytest.param("native", 400, marks=pytest.mark.native),
        pytest.param("native", 30_000, marks=[pytest.mark.native, pytest.mark.slow]),
    ],
)
def test_columns_out_of_arbitrary_bytes(backend: str, count: int) -> None:
    with hostile_arrow.fresh(backend) as db:
        found = Counter(hostile_arrow.attempt(db, data) for data in hostile_arrow.random_inputs(3, count))
    assert found["refused"] > count // 10
    assert found["taken"] > count // 50


@pytest.mark.slow
@pytest.mark.native
def test_columns_that_coverage_leads_to(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    command = [
        sys.executable,
        str(SCRIPT),
        "hostile_arrow",
        "-max_total_time=60",
        "-max_len=700",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def one(values: pa.Array) -> pa.Table:
    return pa.table({"s": values})


def text(offsets: list[int], data: bytes, valid: bytes | None = None, nulls: int = -1) -> pa.Array:
    packed = np.array(offsets, np.int32).tobytes()
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(packed), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers, nulls)


@pytest.mark.parametrize(
    "hostile",
    [
        text([0, -5, 3], b"abc"),
        text([0, 1 << 30, 3], b"abc"),
        text([2, 1, 3], b"abc"),
        text([0, 1, 3], b"\xff\xfe\xfd"),
        text([0, 1, 2], b"ab", valid=b"\1", nulls=2),
        pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int8()), pa.array(["a"]), safe=False),
        pa.DictionaryArray.from_arrays(pa.array([0, -1], pa.int8()), pa.array(["a"]), safe=False),
    ],
)
def test_columns_that_lie(hostile: pa.Array) -> None:
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE r (s VARCHAR)")
        with pytest.raises(DataError):
            db.insert("r", one(hostile))
        assert db.table("r").rows() == []
        assert db.version == 0


@pytest.mark.native
def test_a_huge_text() -> None:
    huge = "ä" * (8 << 20)
    with viewlet.connect() as db:
        db.execute("CREATE TABLE r (s VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT s, count(*) AS n FROM r GROUP BY s")
        db.insert("r", one(pa.array([huge, huge, "x"])))
        assert db.view("v").rows() == [("x", 1), (huge, 2)]
        db.apply({"r": one(pa.array([huge, huge])).append_column("_weight", pa.array([-1, -1]))})
        assert db.view("v").rows() == [("x", 1)]


def test_more_text_than_a_batch_may_hold() -> None:
    chunk = pa.array(["x" * (1 << 20)])
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE r (s VARCHAR)")
        with pytest.raises(ViewletError, match="over 2 GB of text: split it"):
            db.insert("r", one(pa.chunked_array([chunk] * 2049)))
        assert db.table("r").rows() == []
