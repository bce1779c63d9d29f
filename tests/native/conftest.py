"""Compiles the C drivers of this folder, plain and under sanitizers, once per test session."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from viewlet.backends.native.build import RUNTIME, find_compiler

DRIVERS = Path(__file__).parent / "drivers"
WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wconversion")
MODES = {
    "plain": ("-O2", "-march=native"),
    "sanitized": ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
}

Driver = Callable[[list[int]], list[int]]


@pytest.fixture(scope="session", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def build_driver(
    tmp_path_factory: pytest.TempPathFactory, mode: str
) -> Callable[[str], Callable[[list[int]], list[int]]]:
    """A driver by name, as a function from int64 words to int64 words."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp(mode)
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"}

    def build(name: str) -> Driver:
        program = folder / name
        if not program.exists():
            includes = ("-iquote", str(RUNTIME), "-iquote", str(DRIVERS))
            command = [*compiler.command, *WARNINGS, *MODES[mode], *includes, "-ffp-contract=off"]
            subprocess.run([*command, "-o", str(program), str(DRIVERS / f"{name}.c")], check=True)

        def run(words: list[int]) -> list[int]:
            data = np.array(words, dtype=np.int64).tobytes()
            answer = subprocess.run([program], input=data, capture_output=True, env=environment, timeout=60)
            assert answer.returncode == 0, answer.stderr.decode(errors="replace")[:4000]
            return list(map(int, np.frombuffer(answer.stdout, dtype=np.int64)))

        return run

    return build


def word(x: float) -> int:
    """The bits of a double as an int64."""
    return int(np.float64(x).view(np.int64))


def halves(x: int) -> list[int]:
    """A 128-bit integer as two int64 words, high first."""
    x &= (1 << 128) - 1
    return [signed(x >> 64, 64), signed(x & ((1 << 64) - 1), 64)]


def signed(x: int, bits: int) -> int:
    """``x`` modulo ``2**bits``, as a signed number."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x
