"""The clock on the wall does not matter: neither to what is kept nor to what is found again."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewlet
from storage import clock


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_the_clock_goes_backwards(seed: int, tmp_path: Path) -> None:
    assert clock.verdict(tmp_path / "a.viewlet", "full", seed) == "survived"


def test_nobody_asks_what_time_it_is() -> None:
    folder = Path(viewlet.__file__).parent
    sources = [
        *(folder / "storage").glob("*.py"),
        *(folder / f"{name}.py" for name in ("database", "kept", "views")),
    ]
    for source in sources:
        for word in ("time.time", "datetime.now", "utcnow", "st_mtime", "date.today"):
            assert word not in source.read_text(), f"{source.name} depends on {word}"
