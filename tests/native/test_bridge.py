"""The bridge compiles without warnings."""

from __future__ import annotations

import sysconfig

import pytest

from viewlet.backends.native.build import BASELINE_FLAGS, RUNTIME, compile_library

pytestmark = pytest.mark.native


def test_no_warnings():
    # Functions of methods have other parameters than PyCFunction says; every extension casts them.
    warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type")
    flags = (*BASELINE_FLAGS, *warnings, "-isystem", sysconfig.get_paths()["include"])
    assert compile_library((RUNTIME / "bridge.c").read_text(encoding="utf-8"), flags=flags).exists()
