"""Rows come and go for a while, and memory stays what it was; see ``soak.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.soak import growth, soak

pytestmark = pytest.mark.native

SHORT_GROWTH, LONG_GROWTH = 64 << 20, 16 << 20
"""Allocators keep some of what they got, at first: a byte per row would pass the long one by far."""


@pytest.mark.slow
def test_a_moment(tmp_path: Path) -> None:
    assert growth(list(soak(1.0, tmp_path))) < SHORT_GROWTH


@pytest.mark.slow
def test_half_an_hour(tmp_path: Path) -> None:
    assert growth(list(soak(1_800.0, tmp_path))) < LONG_GROWTH
