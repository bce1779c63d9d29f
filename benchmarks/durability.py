"""What durability costs, and what faults do: ingest, recovery, pauses, and the fault matrix.

    python benchmarks/durability.py [--quick] [--only figures|faults] [--rows 1000000] [--trials 100]
        [--logged-rows 10000000] [--groups 10000000] [--views 1000] [--backend auto] [--out FOLDER]

Ingest: batches of 10,000 rows of the order book's shape, with one grouped view, which costs next to nothing,
and with a nested one as well; and batches of one row.
Recovery: opening a file whose rows are all in its log, then from a checkpoint. Pauses: the slowest commit
while a checkpoint is written, next to the slowest without one: of a table, and of a view of a stream whose
maps take a gigabyte and must be written down. Views: many of them over one table. Faults:
see ``tests/storage``; a fault is "survived" if everything acknowledged is there, "refused" if the damage was
reported; LOST and WRONG must not occur. Faults take no quiet machine, figures do.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

import reports
import viewlet
from viewlet.workloads import queries

ROOT = Path(__file__).parents[1]
RESULTS = reports.results("durability")
RUNS = ("--only figures", "--only faults --trials 40")
TESTS = ROOT / "tests" / "storage"
sys.path.insert(0, str(TESTS))

import clock  # noqa: E402  (the faults live beside the tests that use them)
import damage  # noqa: E402

BATCH = 10_000
ROUNDS = 5
PAGE_OUT = 21  # MADV_PAGEOUT
MODES = ("full", "batch", "off")
SCHEMA = "CREATE TABLE bids (t BIGINT, id BIGINT, broker_id BIGINT, volume BIGINT, price BIGINT)"
VIEW = (
    "CREATE MATERIALIZED VIEW by_broker AS "
    "SELECT broker_id, sum(volume) AS volume, count(*) AS n FROM bids GROUP BY broker_id"
)


def batches(rows: int, size: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng(1)
    for start in range(0, rows, size):
        n = min(size, rows - start)
        ids = np.arange(start, start + n)
        columns = {"t": ids, "id": ids, "broker_id": rng.integers(0, 10, n)}
        yield pa.table(columns | {"volume": rng.integers(1, 500, n), "price": rng.integers(9000, 11000, n)})


def ingest(
    target: Path | None, mode: str | None, rows: int, size: int, backend: str, views: Sequence[str]
) -> float:
    """Rows per second, all batches acknowledged."""
    data = list(batches(rows, size))
    with viewlet.connect(target, durability=mode, backend=backend) as db:
        db.execute(SCHEMA)
        for view in views:
            db.execute(view)
        db.stats()  # compiles the views
        began = time.perf_counter()
        for batch in data:
            db.insert("bids", batch)
        return rows / (time.perf_counter() - began)


def ingest_table(folder: Path, rows: int, backend: str) -> list[dict[str, object]]:
    """The median of rounds in which every mode has its turn: caches and disks are warm for all or none."""
    result = []
    vwap = f"CREATE MATERIALIZED VIEW vwap AS {queries('finance')['vwap'].strip().rstrip(';')}"
    grouped, both = ("grouped", [VIEW]), ("grouped, vwap", [VIEW, vwap])
    few = max(300, rows // 2_000)
    for (kept, views), size, count in ((grouped, BATCH, rows), (both, BATCH, rows), (grouped, 1, few)):
        rates: dict[str | None, list[float]] = {mode: [] for mode in (None, *MODES)}
        for number in range(ROUNDS):
            for mode, found in rates.items():
                path = None if mode is None else folder / f"{mode}{size}-{number}.viewlet"
                found.append(ingest(path, mode, count, size, backend, views))
                if path is not None:
                    path.unlink()
        memory = statistics.median(rates[None])
        for mode, found in rates.items():
            rate = statistics.median(found)
            row = {"views": kept, "batch": size, "durability": mode or "in memory"}
            row |= {"rows per second": round(rate)}
            result.append(row | ({"of in memory": f"{rate / memory:.0%}"} if mode else {}))
    return result


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def recovery_table(folder: Path, rows: int, backend: str) -> list[dict[str, object]]:
    path = folder / "recovery.viewlet"
    with viewlet.connect(path, durability="off", checkpoint_bytes=1 << 50, backend=backend) as db:
        db.execute(SCHEMA)
        for batch in batches(rows, BATCH):
            db.insert("bids", batch)
        db.execute(VIEW)
        expected = db.view("by_broker").rows()
    result: list[dict[str, object]] = []
    for source in ("log", "checkpoint"):
        size = path.stat().st_size
        opened: list[viewlet.Database] = []
        taken = seconds(lambda opened=opened: opened.append(viewlet.connect(path, backend=backend)))
        with opened[0] as db:
            assert db.view("by_broker").rows() == expected
            row = {"from": source, "rows": rows, "file MB": round(size / 1e6), "seconds": round(taken, 2)}
            result.append(row | {"rows per second": round(rows / taken)})
            if source == "log":
                row["checkpoint seconds"] = round(seconds(db.compact), 2)
    return result


def pauses(db: viewlet.Database, what: str, commit: Callable[[], object]) -> list[dict[str, object]]:
    """How long commits of one row take, without a checkpoint and while one is written."""
    quiet = [seconds(commit) for _ in range(300)]
    began = time.perf_counter()
    writer = db._journal.checkpoint()
    frozen = time.perf_counter() - began
    during = []
    while writer.is_alive():
        during.append(seconds(commit))
    writer.wait()
    whole = time.perf_counter() - began
    found = {
        "commit of one row, no checkpoint: median": statistics.median(quiet),
        "commit of one row, no checkpoint: slowest": max(quiet),
        "freezing, which holds commits up": frozen,
        f"commit while the checkpoint is written: median of {len(during)}": statistics.median(during),
        "commit while the checkpoint is written: 99.9 %": float(np.quantile(during, 0.999)),
        "commit while the checkpoint is written: slowest": max(during),
        "the checkpoint itself": whole,
    }
    return [{"of": what, "what": name, "ms": round(taken * 1e3, 2)} for name, taken in found.items()]


def pause_table(folder: Path, rows: int, groups: int, backend: str) -> list[dict[str, object]]:
    lane = iter(range(1 << 50, 1 << 60))
    with viewlet.connect(
        folder / "pauses.viewlet", durability="batch", checkpoint_bytes=1 << 50, backend=backend
    ) as db:
        db.execute(SCHEMA)
        db.execute(VIEW)
        for batch in batches(rows, BATCH):
            db.insert("bids", batch)
        db.stats()
        table = pauses(db, f"a table of {rows} rows", lambda: db.insert("bids", [(next(lane), 1, 1, 1, 1)]))
    with viewlet.connect(
        folder / "maps.viewlet", durability="batch", checkpoint_bytes=1 << 50, backend=backend
    ) as db:
        db.execute("CREATE STREAM s (g BIGINT, x BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS x, count(*) AS n FROM s GROUP BY g")
        for start in range(0, groups, 10 * BATCH):
            keys = np.arange(start, min(start + 10 * BATCH, groups)) * 7919 % (1 << 40)
            db.insert("s", pa.table({"g": keys, "x": keys % 500}))
        size = sum(stats.bytes for stats in db._views.stats())
        what = f"{size / 1e9:.2f} GB of maps over a stream"
        maps = pauses(db, what, lambda: db.insert("s", [(next(lane), 1)]))
    return [*table, *maps]


def resident() -> int:
    """The bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def page_out() -> None:
    """What the system does when memory is short: let go of pages that files hold."""
    libc = ctypes.CDLL(None, use_errno=True)
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("(deleted)") and " rw-s " in line:
            start, end = (int(place, 16) for place in line.split()[0].split("-"))
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), PAGE_OUT)


def spill_table(folder: Path, groups: int, backend: str) -> list[dict[str, object]]:
    """Maps in memory, and in files of which only hot pages need to be in memory."""
    rng, result = np.random.default_rng(2), []
    for spill in (None, folder):
        before = resident()
        with viewlet.connect(spill=spill, backend=backend) as db:
            db.execute("CREATE STREAM s (g BIGINT, x BIGINT)")
            db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS x FROM s GROUP BY g")
            db.stats()

            def batch(keys: np.ndarray, db: viewlet.Database = db) -> float:
                return seconds(lambda: db.insert("s", pa.table({"g": keys, "x": keys % 500})))

            starts = range(0, groups, BATCH)
            filling = sum(batch(np.arange(start, start + BATCH)) for start in starts)
            filled = resident() - before
            page_out()
            left = resident() - before
            cold = batch(rng.integers(0, groups, BATCH))
            hot = statistics.median(batch(np.arange(BATCH)) for _ in range(20))
            figures = {
                "fill, rows per second": round(groups / filling),
                "memory, MB": round(filled / 1e6),
                "memory after paging out, MB": round(left / 1e6),
                "then 10,000 rows all over the map, ms": round(cold * 1e3, 1),
                "then 10,000 rows of the same groups, ms": round(hot * 1e3, 2),
            }
        result.append({"maps": "in files" if spill else "in memory", "groups": groups, **figures})
    return result


def views_table(views: int, backend: str) -> list[dict[str, object]]:
    """Many views over one table: to create them, to compile them, to keep them fresh."""
    with viewlet.connect(backend=backend) as db:
        db.execute(SCHEMA)
        before, began = resident(), time.perf_counter()
        for i in range(views):
            query = f"SELECT sum(volume + {i}) AS s, count(*) AS n FROM bids WHERE broker_id > {i % 12}"
            db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
        created = time.perf_counter() - began
        first, *others = batches(3 * BATCH, BATCH)
        compiled = seconds(lambda: db.insert("bids", first))
        applied = statistics.median(seconds(lambda batch=batch: db.insert("bids", batch)) for batch in others)
        single = statistics.median(seconds(lambda: db.insert("bids", [(1, 1, 1, 1, 1)])) for _ in range(50))
        volumes = db.sql("SELECT sum(volume) AS v, count(*) AS n FROM bids WHERE broker_id > 5").to_pylist()[
            0
        ]
        for i in range(5, views, 12):
            assert db.view(f"v{i}").rows() == [(int(volumes["v"]) + i * volumes["n"], volumes["n"])]
        return [
            {
                "views": views,
                "created, s": round(created, 1),
                "first batch, s": round(compiled, 1),
                "batch of 10,000 rows, ms": round(applied * 1e3, 1),
                "one row, ms": round(single * 1e3, 2),
                "memory, MB": round((resident() - before) / 1e6),
            }
        ]


# Faults.


def script(name: str, *arguments: object) -> dict[str, object]:
    command = [sys.executable, str(TESTS / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1]}
    return dict(json.loads(done.stdout))


def killed(folder: Path, mode: str, count: int) -> str:
    options = ("--kills", count, "--seed", 5, "--durability", mode)
    result = script("crash.py", folder / f"killed-{mode}.viewlet", *options)
    if "failed" in result:
        return f"LOST or WRONG: {result['failed']}"
    return f"{count} survived, {result['steps']} acknowledged steps, {result['checkpoints']} checkpoints"


def full_disk(folder: Path, mode: str, _: int) -> str:
    path = folder / f"full-{mode}.viewlet"
    result = script("full_disk.py", path, mode)
    if "failed" in result:
        return f"LOST or WRONG: {result['failed']}"
    with viewlet.connect(path) as db:
        kept = [a for a, _ in db.table("r").rows()]
    verdict = "survived" if kept == result["rows"] else "LOST"
    return f"{verdict}: {len(result['refused'])} batches refused whole, {len(kept)} kept"


def tally(found: Counter[str]) -> str:
    names = {"harmless": "survived (nothing there)"}
    return ", ".join(f"{n} {names.get(what, what)}" for what, n in sorted(found.items()))


def damaged(
    folder: Path, mode: str, count: int, harm: Callable[[Path, random.Random], None], crashed: bool
) -> str:
    source = folder / f"source-{mode}-{crashed}.viewlet"
    if not source.exists():
        damage.make(source, mode, crashed=crashed)
    rng, found = random.Random(4), Counter[str]()
    for _ in range(count):
        copied = damage.copy(source, folder / "damaged.viewlet")
        harm(copied, rng)
        found[damage.verdict(copied)] += 1
        for left in folder.glob("damaged.viewlet*"):
            left.unlink()
    return tally(found)


def flip_in(file: Callable[[Path], Path]) -> Callable[[Path, random.Random], None]:
    def harm(path: Path, rng: random.Random) -> None:
        target = file(path)
        damage.flip(target, rng.randrange(8 * target.stat().st_size))

    return harm


def tear_page(path: Path, rng: random.Random) -> None:
    page = rng.randrange(path.stat().st_size // 4096) * 4096
    damage.overwrite(path, page + 2048, bytes(2048))


def cut_file(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def jumping_clock(folder: Path, mode: str, count: int) -> str:
    found = Counter(
        clock.verdict(folder / f"clock-{mode}-{seed}.viewlet", mode, seed)
        for seed in range(max(1, count // 10))
    )
    return tally(found)


def cut_log(path: Path, rng: random.Random) -> None:
    log = damage.log_of(path)
    os.truncate(log, rng.randrange(log.stat().st_size))


def power(folder: Path, mode: str, count: int) -> str:
    source = folder / f"source-{mode}-True.viewlet"
    if not source.exists():
        damage.make(source, mode, crashed=True)
    rng, found = random.Random(6), Counter[str]()
    for _ in range(count):
        copied = damage.copy(source, folder / "power.viewlet")
        damage.cut_as_if_power_failed(copied, mode, rng.random())
        found[damage.prefix_verdict(copied, mode)] += 1
        for left in folder.glob("power.viewlet*"):
            left.unlink()
    return tally(found)


FAULTS: dict[str, Callable[[Path, str, int], str]] = {
    "kill -9 at a random moment": killed,
    "disk full": full_disk,
    "the clock goes backwards": jumping_clock,
    "one bit flipped in the closed file": lambda f, m, n: damaged(f, m, n, flip_in(lambda path: path), False),
    "one bit flipped in the log of a killed writer": lambda f, m, n: damaged(
        f, m, n, flip_in(damage.log_of), True
    ),
    "half a page zeroed in the closed file": lambda f, m, n: damaged(f, m, n, tear_page, False),
    "closed file cut short": lambda f, m, n: damaged(f, m, n, cut_file, False),
    "log of a killed writer cut short": lambda f, m, n: damaged(f, m, n, cut_log, True),
    "power failure (simulated: the unflushed end of the log is gone)": power,
}


def fault_matrix(folder: Path, count: int) -> list[dict[str, object]]:
    result = []
    for fault, run in FAULTS.items():
        row: dict[str, object] = {"fault": fault}
        for mode in MODES:
            row[mode] = run(folder, mode, count)
            print(f"  {fault} x {mode}: {row[mode]}", flush=True)
        result.append(row)
    return result


# Results.


def markdown(title: str, rows: list[dict[str, object]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [f"## {title}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(row.get(column, "")) for column in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write(out: Path, name: str, heading: str, tables: dict[str, list[dict[str, object]]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(tables, indent=1) + "\n")
    body = "\n".join(markdown(title, rows) for title, rows in tables.items())
    (out / f"{name}.md").write_text(f"{heading}\n\n{body}")
    print(body)


def heading(title: str, options: argparse.Namespace) -> str:
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    load = os.getloadavg()[0]
    state = "preliminary, others were using the machine" if options.quick or load > 1.5 else "an idle machine"
    command = " ".join(["python benchmarks/durability.py", *sys.argv[1:]])
    return f"# {title}\n\n`{command}` on {machine}, `backend={options.backend!r}`, load {load:.1f}: {state}."


def figures(folder: Path, options: argparse.Namespace) -> None:
    said = heading("Durability", options)
    tables = {
        "Ingest": ingest_table(folder, options.rows, options.backend),
        "Recovery": recovery_table(folder, options.logged_rows, options.backend),
        "Pauses": pause_table(folder, options.rows, options.groups, options.backend),
        "Spill": spill_table(folder, options.groups // 5, options.backend),
        "Views over one table": views_table(options.views, options.backend),
    }
    write(options.out, "figures", said, tables)


def faults(folder: Path, options: argparse.Namespace) -> bool:
    matrix = fault_matrix(folder, options.trials)
    counted = f"# Fault matrix\n\n{options.trials} trials of each random fault (`benchmarks/durability.py`)."
    write(options.out, "fault_matrix", counted, {"Faults": matrix})
    return any(word in str(cell) for row in matrix for cell in row.values() for word in ("LOST", "WRONG"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("figures", "faults"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--logged-rows", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=10_000_000)
    parser.add_argument("--views", type=int, default=1_000)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.quick:
        small = {"rows": 40_000, "logged_rows": 40_000, "groups": 40_000, "views": 40, "trials": 5}
        vars(options).update(small)
    failed = False
    with tempfile.TemporaryDirectory() as name:
        if options.only != "faults":
            figures(Path(name), options)
        if options.only != "figures":
            failed = faults(Path(name), options)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
