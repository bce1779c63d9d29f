"""The guide's examples run and say what the guide says; the example of section 7.1.1 does its work."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import runpy
from pathlib import Path

import pytest

import viewlet.signals

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


def test_examples_in_the_guide():
    failed, tried = doctest.testfile(str(GUIDE / "signals.md"), module_relative=False)
    assert failed == 0
    assert tried >= 10


def test_spectral_analysis_removes_noise_and_draws(tmp_path):
    main = runpy.run_path(str(GUIDE / "spectral_analysis.py"))["main"]
    figures = main(str(tmp_path / "picture.png"))
    assert figures["noise after"] < 0.5 * figures["noise before"]
    assert figures["offline and online apart"] < 1e-9
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


MODULES = [
    info.name
    for info in pkgutil.walk_packages(viewlet.signals.__path__, "viewlet.signals.")
    if "spark" not in info.name
]


@pytest.mark.parametrize("name", ["viewlet.signals", *MODULES])
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
