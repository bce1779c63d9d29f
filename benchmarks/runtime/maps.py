"""Nanoseconds per operation of the native runtime's maps and slice indexes.

    python benchmarks/runtime/maps.py [--quick] [--events 2000000]

The reference column holds figures of hand-written structures of the same kind (in place at load 0.5, pool
with {hash, id} at load 0.7), measured once on a 2-core Zen 4 machine with ``gcc -O3 -march=native``. They
say what to expect, not what this machine did: compare the ratios only on a quiet machine of that kind.
Writes the table and ``figures.json``, as all suites do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from viewlet.backends.native.build import RUNTIME, CompilerError, find_compiler
from viewlet.bench.suites import results_folder

REFERENCE = {  # (layout, groups): upsert, churn, chained, batched
    ("flat", 11000): (7, 19, 13, 6),
    ("flat", 90000): (10, 24, 22, 7),
    ("flat", 730000): (38, 50, 144, 17),
    ("full", 11000): (13, 30, 19, 11),
    ("full", 90000): (18, 34, 44, 12),
    ("full", 730000): (94, 72, 248, 33),
}
REFERENCE_SLICE = {10: (25, 34), 100: (12, 58), 1000: (10, 83)}  # scan per record, move


def measure(events: int) -> list[list[str]]:
    """Compile the benchmark as programs are compiled, and run it."""
    compiler = find_compiler()
    if compiler is None:
        raise CompilerError("this benchmark needs a C compiler")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "maps")
        flags = ("-std=gnu11", "-O2", "-march=native", "-Wall", "-Wextra", "-iquote", str(RUNTIME))
        source = Path(__file__).with_suffix(".c")
        subprocess.run([*compiler.command, *flags, "-o", str(program), str(source)], check=True)
        answer = subprocess.run([program, str(events)], check=True, capture_output=True, text=True)
    return [line.split() for line in answer.stdout.splitlines()]


def as_records(lines: list[list[str]]) -> list[dict[str, Any]]:
    """One dictionary per measured line, with the reference figures beside the measured ones."""
    records: list[dict[str, Any]] = []
    for kind, size, *figures in lines:
        if kind == "slice":
            scan, move, bytes_, _ = map(float, figures)
            reference = REFERENCE_SLICE[int(size)]
            measured = {"scan_ns": scan, "move_ns": move, "bytes": bytes_}
            known = dict(zip(("scan_ns", "move_ns"), reference, strict=True))
        else:
            names = ("upsert_ns", "churn_ns", "chained_ns", "batched_ns")
            measured = dict(zip((*names, "bytes"), map(float, figures), strict=True))
            known = dict(zip(names, REFERENCE.get((kind, int(size)), ()), strict=False))
        label = {"flat": "in place", "full": "pooled", "slice": "slice of"}[kind]
        records.append({"structure": label, "size": int(size), **measured, "reference": known})
    return records


def shown(record: dict[str, Any]) -> str:
    """One line of the table: every figure with the reference in brackets."""
    cells = [
        f"{name} {value:.1f}" + (f" ({record['reference'][name]})" if name in record["reference"] else "")
        for name, value in record.items()
        if isinstance(value, float)
    ]
    return f"| {record['structure']} | {record['size']:,} | {', '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--quick", action="store_true", help="few events: does it work?")
    options = parser.parse_args()
    records = as_records(measure(20_000 if options.quick else options.events))
    head = ["| structure | entries | nanoseconds (reference), bytes |", "|---|---:|---|"]
    table = "\n".join([*head, *map(shown, records)])
    print(table)
    folder = results_folder(Path(__file__).parents[1], "runtime/maps", quick=options.quick)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    page = f"# Maps of the runtime\n\n`python benchmarks/runtime/maps.py`\n\n{table}\n"
    (folder / "README.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
