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
    "sanitized": ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
}

Run = Callable[[list[int]], list[int]]
Build = Callable[..., Run]


@pytest.fixture(scope="session", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory, mode: str) -> Build:
    """``build(driver, *defines)``: a driver in that shape, as a function from words to words."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp(mode)
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}

    def make(driver: str, *defines: str) -> Run:
        program = folder / (driver + sha256(" ".join(defines).encode()).hexdigest()[:12])
        if not program.exists():
            command = [*compiler.command, *WARNINGS, *MODES[mode], *(f"-D{define}" for define in defines)]
            includes = ("-iquote", str(RUNTIME), "-iquote", str(DRIVERS))
            subprocess.run(
                [*command, *includes, "-o", str(program), str(DRIVERS / f"{driver}.c")], check=True
            )

        def run(words: list[int]) -> list[int]:
            data = np.array(words, dtype=np.int64).tobytes()
            answer = subprocess.run([program], input=data, capture_output=True, env=environment, timeout=600)
            assert answer.returncode == 0, answer.stderr.decode(errors="replace")[:4000]
            return np.frombuffer(answer.stdout, dtype=np.int64).tolist()

        return run

    return make
