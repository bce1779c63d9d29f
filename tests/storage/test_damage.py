"""Damaged files are refused, or the damage is where nothing was: no wrong answer, no silent loss."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import viewlet
from storage import damage
from viewlet.errors import StorageError
from viewlet.storage.container import PAGE_BYTES

PAGE = PAGE_BYTES


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("closed") / "a.viewlet"
    damage.make(path, crashed=False)
    return path


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crashed") / "a.viewlet"
    damage.make(path, crashed=True)
    return path


def flips(path: Path, file: Callable[[Path], Path], count: int, to: Path, seed: int) -> Counter[str]:
    rng, found = random.Random(seed), Counter[str]()
    for _ in range(count):
        copied = damage.copy(path, to)
        target = file(copied)
        damage.flip(target, rng.randrange(8 * target.stat().st_size))
        found[damage.verdict(copied)] += 1
        for left in to.parent.glob(to.name + "*"):
            left.unlink()
    return found


def test_undamaged(closed: Path, crashed: Path, tmp_path: Path) -> None:
    for number, path in enumerate((closed, crashed)):
        copied = damage.copy(path, tmp_path / f"{number}.viewlet")
        assert damage.verdict(copied) == "harmless"


@pytest.mark.parametrize("count", [40, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_bit_of_the_file_is_flipped(closed: Path, tmp_path: Path, count: int) -> None:
    found = flips(closed, lambda path: path, count, tmp_path / "b.viewlet", 1)
    assert found.keys() <= {"refused", "harmless"}
    assert found["refused"] > count // 8


@pytest.mark.parametrize("count", [25, pytest.param(800, marks=pytest.mark.slow)])
def test_a_bit_of_the_log_is_flipped(crashed: Path, tmp_path: Path, count: int) -> None:
    found = flips(crashed, damage.log_of, count, tmp_path / "b.viewlet", 2)
    assert found == {"refused": count}


def test_pages_are_torn_or_lost(closed: Path, tmp_path: Path) -> None:
    """Half a page of zeros, a page of another place, the end cut off."""
    size, rng, found = closed.stat().st_size, random.Random(3), Counter[str]()
    for number in range(24):
        copied = damage.copy(closed, tmp_path / f"{number}.viewlet")
        page = rng.randrange(size // PAGE) * PAGE
        match number % 3:
            case 0:
                damage.overwrite(copied, page + PAGE // 2, bytes(PAGE // 2))
            case 1:
                other = rng.randrange(size // PAGE) * PAGE
                damage.overwrite(copied, page, closed.read_bytes()[other : other + PAGE])
            case _:
                os.truncate(copied, page + rng.randrange(PAGE))
        found[damage.verdict(copied)] += 1
    assert found.keys() <= {"refused", "harmless"}
    assert found["refused"] > 8


def test_a_log_that_is_cut_off_is_noticed(crashed: Path, tmp_path: Path) -> None:
    """It could have ended there; the mark in the lock file knows better."""
    for number, keep in enumerate((0.9, 0.5, 0.0)):
        copied = damage.copy(crashed, tmp_path / f"{number}.viewlet")
        log = damage.log_of(copied)
        os.truncate(log, int(log.stat().st_size * keep))
        with pytest.raises(StorageError, match=r"were acknowledged by process \d+ and are missing"):
            viewlet.connect(copied)
        with pytest.raises(StorageError, match="are missing"):
            viewlet.connect(copied)  # the mark stays until somebody has decided
        assert log.exists(), "so does what is left"


@pytest.mark.parametrize("durability", ["full", "batch", "off"])
def test_what_a_power_failure_may_take(crashed: Path, durability: str, tmp_path: Path) -> None:
    """With ``full`` a flushed log cannot end early; else the file holds whole batches, and says so."""
    for number, keep in enumerate((0.2, 0.6, 0.95)):
        copied = damage.copy(crashed, tmp_path / f"{number}.viewlet")
        damage.cut_as_if_power_failed(copied, durability, keep)
        found = damage.prefix_verdict(copied, durability)
        assert found == ("refused" if durability == "full" else "a prefix, told")


def test_a_damaged_lock_file_is_noticed(crashed: Path, tmp_path: Path) -> None:
    copied = damage.copy(crashed, tmp_path / "b.viewlet")
    lock = copied.with_name("b.viewlet-lock")
    damage.flip(lock, 8 * 40)
    with pytest.raises(StorageError, match="-lock is damaged"):
        viewlet.connect(copied)
    lock.write_bytes(b"")
    assert damage.verdict(copied) == "harmless"
