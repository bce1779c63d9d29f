"""Builds the C drivers of this folder in a given shape, plain and under sanitizers, once per session."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from viewlet.backends.native.build import RUNTIME, find_compiler

DRIVERS = Path(__file__).parent / "drivers"
WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-ffp-contract=off")
MODES = {
    "plain": ("-O2", "-march=native"),
    "sanitized": ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
}

SANITIZED_BY_DEFAULT = ("tiny maximum", "tiny cumulative", "pair", "wide keys")
"""Shapes that the quick tests build with sanitizers, and the others plainly; the long ones do both."""

for_long = pytest.mark.parametrize(
    ("mode", "seed"),
    [("plain", 2), ("plain", 3), ("sanitized", 4), ("sanitized", 5)],
    indirect=["mode"],
)
"""A seed runs in one mode alone: the reference takes most of the time, and says the same in both."""

Run = Callable[[list[int]], list[int]]
Build = Callable[..., Run]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        shaped = call is not None and {"mode", "shape"} <= call.params.keys()
        if shaped and (call.params["mode"] == "sanitized") != (call.params["shape"] in SANITIZED_BY_DEFAULT):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory, mode: str) -> Build:
    """``build(driver, *defines)``: a driver in that shape, as a function from words to words."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.getbasetemp().parent / f"drivers-{mode}"  # shared by parallel workers
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}

    def make(driver: str, *defines: str) -> Run:
        flags = [*WARNINGS, *MODES[mode], *(f"-D{define}" for define in defines)]
        includes = ["-iquote", str(RUNTIME), "-iquote", str(DRIVERS)]
        sources = [DRIVERS / f"{driver}.c", DRIVERS / "words.h", *sorted(RUNTIME.glob("*.h"))]
        digest = sha256(" ".join(flags).encode() + b"".join(path.read_bytes() for path in sources))
        program = folder / f"{driver}-{digest.hexdigest()[:16]}"
        if not program.exists():
            fresh = program.with_suffix(f".{os.getpid()}")
            subprocess.run([*compiler.command, *flags, *includes, "-o", fresh, sources[0]], check=True)
            fresh.rename(program)

        def run(words: list[int]) -> list[int]:
            data = np.array(words, dtype=np.int64).tobytes()
            answer = subprocess.run([program], input=data, capture_output=True, env=environment, timeout=600)
            assert answer.returncode == 0, answer.stderr.decode(errors="replace")[:4000]
            return np.frombuffer(answer.stdout, dtype=np.int64).tolist()

        return run

    return make
