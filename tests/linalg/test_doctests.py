"""Every example in the linear algebra modules and their guide runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import viewlet.linalg

MODULES = [
    "viewlet.linalg",
    *(module.name for module in pkgutil.walk_packages(viewlet.linalg.__path__, "viewlet.linalg.")),
]
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "linalg.md"


@pytest.mark.parametrize("name", MODULES)
def test_module_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_guide_examples():
    result = doctest.testfile(str(GUIDE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 10
    assert result.failed == 0
