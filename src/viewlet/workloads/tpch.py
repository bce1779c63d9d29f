"""TPC-H: the benchmark's own data, and streams made from it.

The data comes from ``tpchgen-cli`` (``pip install 'viewlet[workloads]'``), once per scale factor, and is kept
as Parquet files in the user's cache directory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from viewlet.workloads import WorkloadError, schema
from viewlet.workloads.ddl import arrow_schemas
from viewlet.workloads.draws import integers
from viewlet.workloads.stream import Stream, Tables, interleave, load, weighted
from viewlet.workloads.stream import round_robin as interleaved

# Parents before children.
TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
STATIC = ("region", "nation")


def tables(scale: float, names: Sequence[str] = TABLES) -> dict[str, pa.Table]:
    """The tables at a scale factor, with the types of the packaged schema, parents before children."""
    folder = generate(scale)
    schemas = arrow_schemas(schema("tpch"))
    return {
        name: pq.read_table(folder / f"{name}.parquet").cast(schemas[name])
        for name in TABLES
        if name in names
    }


def generate(scale: float, part: int = 1, parts: int = 1) -> Path:
    """The folder with the Parquet files of one part of a scale factor; generates them the first time.

    One part of one holds a file per table, one of several a folder per table; nation and region are in the
    first.
    The generator takes a second to start whatever it makes: all tables of a part are made at once.
    """
    name = f"sf{scale:g}"
    options: tuple[str, ...] = ()
    if parts > 1:
        name = f"{name}-{part}-of-{parts}"
        options = ("--parts", str(parts), "--part", str(part), "--num-threads", "1")
    folder = cache_directory() / "tpch" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "data"
        _write_parquet(made, scale, *options)
        try:
            made.rename(folder)
        except OSError:
            # Another process was first; its files are the same.
            if not folder.is_dir():
                raise
    return folder


def _write_parquet(folder: Path, scale: float, *options: str) -> None:
    chosen = ("--scale-factor", f"{scale:g}", "--output-dir", str(folder), "--quiet", *options)
    run = subprocess.run([_generator(), "parquet", *chosen], capture_output=True, text=True, check=False)
    if run.returncode:
        raise WorkloadError(f"tpchgen-cli failed at scale factor {scale:g}: {run.stderr.strip()}")


def cache_directory() -> Path:
    """Where generated data is kept: ``$VIEWLET_DATA``, else the user's cache directory.

    Programs are loaded from there, too, so nobody else may enter.
    """
    chosen = os.environ.get("VIEWLET_DATA")
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(chosen) if chosen else root / "viewlet"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _generator() -> str:
    beside = Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise WorkloadError("TPC-H data needs the program tpchgen-cli: pip install 'viewlet[workloads]'")
    return found


def round_robin(tables: Tables) -> Stream:
    """Nation and region whole, then inserts of the other tables interleaved in proportion to their sizes."""
    first = {name: rows for name, rows in tables.items() if name in STATIC}
    rest = {name: rows for name, rows in tables.items() if name not in STATIC}
    return load(first).then(interleaved(rest))


def bounded(tables: Tables, *, orders: int, seed: int = 0) -> Stream:
    """Orders come with their lines, and from the moment that there are ``orders`` of them, others leave.

    The other tables are inserted first. Foreign keys hold after every change: an order comes before its
    lines and goes after them. Each new order takes the place of a random one of those present, so Orders
    stays at ``orders`` rows and Lineitem at about four times that.
    """
    if orders < 1:
        raise WorkloadError(f"orders={orders}: at least one order must stay")
    parents = {name: rows for name, rows in tables.items() if name not in ("orders", "lineitem")}
    return load(parents).then(_replacing(tables["orders"], tables["lineitem"], orders, seed))


def _replacing(orders: pa.Table, lines: pa.Table, bound: int, seed: int) -> Stream:
    """Step k: delete the lines of the victim of k, then the victim; insert order k, then its lines."""
    count = orders.num_rows
    step = np.arange(count, dtype=np.int64)
    victim = _victims(count, bound, seed)
    owner = _positions(lines["l_orderkey"].to_numpy(), orders["o_orderkey"].to_numpy())
    removed = step[victim >= 0]
    last = np.full(count, -1, dtype=np.int64)
    last[victim[removed]] = removed
    dying = np.flatnonzero(last[owner] >= 0)
    return interleave(
        {
            "orders": (
                _inserted_deleted(orders, step, victim[removed]),
                np.concatenate([step + 0.5, removed + 0.25]),
            ),
            "lineitem": (
                _inserted_deleted(lines, np.arange(lines.num_rows), dying),
                np.concatenate([owner + 0.75, last[owner[dying]].astype(np.float64)]),
            ),
        }
    )


def _victims(count: int, bound: int, seed: int) -> NDArray[np.int64]:
    """Per step the order it removes, -1 for none: the one that last took the same of ``bound`` places.

    >>> _victims(6, 3, seed=1).tolist()[:3]
    [-1, -1, -1]
    """
    step = np.arange(count, dtype=np.int64)
    place = np.where(step < bound, step, integers(seed, "place", step, 0, bound))
    by_place = np.argsort(place, kind="stable")
    same = place[by_place][1:] == place[by_place][:-1]
    victim = np.full(count, -1, dtype=np.int64)
    victim[by_place[1:][same]] = by_place[:-1][same]
    return victim


def _positions(values: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each value stands in ``among``, which has each once."""
    order = np.argsort(among)
    return order[np.searchsorted(among, values, sorter=order)]


def _inserted_deleted(rows: pa.Table, inserts: NDArray[np.int64], deletes: NDArray[np.int64]) -> pa.Table:
    weights = np.concatenate([np.ones(len(inserts), np.int64), np.full(len(deletes), -1, np.int64)])
    return weighted(rows.take(pa.array(np.concatenate([inserts, deletes]))), weights)
