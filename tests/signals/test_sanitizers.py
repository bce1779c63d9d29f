"""The C kernels under AddressSanitizer and UndefinedBehaviorSanitizer, warning-free, over random inputs."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from viewlet.signals import native

PROGRAM = """
import numpy as np, pyarrow as pa
from viewlet.signals.native import binding, build
flags = ("-O1", "-g", "-std=gnu11", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
binding.build = lambda sources, headers: build.build(sources, headers, flags)
from signals.laws import cuts_of, pushed
from signals.queries import IRREGULAR, UNIFORM

def readings(seed, rows, on_grid):
    rng = np.random.default_rng(seed)
    key = rng.integers(0, 5, rows)
    steps = np.where(rng.random(rows) < 0.15, rng.integers(1, 240, rows), rng.integers(1, 40, rows))
    if on_grid:
        steps = np.where(rng.random(rows) < 0.85, on_grid, on_grid * rng.integers(1, 12, rows))
    times = np.zeros(rows, np.int64)
    for k in range(5):
        times[key == k] = np.cumsum(steps[key == k]) + rng.integers(-50, 50) * (on_grid or 1)
    return pa.table({"k": key, "t": times, "v": rng.normal(size=rows)})

turns = pa.table({"k": np.tile([4, 2, 7], 100), "t": np.repeat(10 * np.arange(100), 3),
                  "v": np.random.default_rng(9).normal(size=300)})
for query in (*IRREGULAR.values(), *UNIFORM.values()):
    pushed(query, turns, [150, 200])
for seed in range(5):
    for queries, grid in ((IRREGULAR, 0), (UNIFORM, 10)):
        for query in queries.values():
            pushed(query, readings(seed, 300, grid), cuts_of(300, seed))
print("clean")
"""


def library(name: str) -> str:
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.mark.slow
@pytest.mark.native
def test_kernels_are_clean_under_sanitizers():
    preload = [library("libasan.so"), library("libubsan.so")]
    if not all(os.path.isabs(path) for path in preload):
        pytest.skip("this compiler comes without sanitizers")
    env = os.environ | {"LD_PRELOAD": " ".join(preload), "ASAN_OPTIONS": "detect_leaks=0"}
    env["PYTHONPATH"] = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "clean", done.stderr[-3000:]


@pytest.mark.native
@pytest.mark.parametrize("machine", ["", "-mavx2", "-mavx512f"])
def test_kernels_compile_without_warnings_for_vectors_of_any_width(machine: str):
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("these flags are of x86-64 compilers")
    sources = sorted(Path(native.__file__).parent.glob("*.c"))
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *machine.split()]
    done = subprocess.run(["gcc", *flags, *sources], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(sources) > 4
