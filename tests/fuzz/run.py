"""Lets atheris look for inputs that break something, led by the code that they reach.

python tests/fuzz/run.py hostile_sql|hostile_arrow [-max_total_time=60] [-runs=100000] [CORPUS]
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))


def main() -> None:
    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=["viewlet", "hostile_sql", "hostile_arrow"]):
        target = importlib.import_module(name)
    attempt = target.starts()

    def run(data: bytes) -> None:
        attempt(data)

    atheris.Setup(sys.argv, run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
