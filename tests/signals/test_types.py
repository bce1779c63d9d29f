"""A type checker refuses spectra of irregular signals, and what else does not make sense."""

from __future__ import annotations

import pytest
from mypy import api

CODE = """
import viewlet.signals as vs
signal = vs.source(key="k", time="t", value="v")
signal.sample(10).window(8).fft().ifft().overlap_add().fir([1.0])
signal.fft()  # refused
signal.window(8)  # refused
signal.fir([1.0])  # refused
signal.sample(10).fft()  # refused
signal.union(signal).sample(10)  # refused
signal.sample(10).window(8).fir([1.0])  # refused
"""


@pytest.mark.slow
def test_methods_follow_the_form_of_the_data(tmp_path):
    path = tmp_path / "queries.py"
    path.write_text(CODE)
    out, _, _ = api.run(
        ["--no-incremental", "--follow-imports=silent", "--ignore-missing-imports", str(path)]
    )
    refused = [number for number, line in enumerate(CODE.splitlines(), 1) if "refused" in line]
    reported = [int(line.split(":")[1]) for line in out.splitlines() if "attr-defined" in line]
    assert reported == refused, out


def test_methods_are_absent_at_run_time_too():
    import viewlet.signals as vs

    signal = vs.source(time="t", value="v")
    for thing, method in (
        (signal, "window"),
        (signal, "fir"),
        (signal.sample(1), "fft"),
        (signal.union(signal), "sample"),
    ):
        assert not hasattr(thing, method)
