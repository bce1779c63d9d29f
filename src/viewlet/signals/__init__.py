"""Digital signal processing inside stream queries: grouped, gap-aware, the same offline and online.

A query goes from a stream of events (:class:`Stream`) to a signal (:class:`Signal`, one event at a time), to
samples on a grid (:class:`Uniform`), to windows of samples (:class:`Windows`) and back. It is a description;
``run``, ``start`` and ``spark`` execute it.

>>> import numpy as np, pyarrow as pa, viewlet.signals as vs
>>> readings = pa.table({"sensor": [1, 1, 1, 1], "t": [0, 10, 20, 40], "v": [1.0, 2.0, 3.0, 5.0]})
>>> q = vs.source(key="sensor", time="t", value="v").sample(10, interpolate="linear").fir([0.5, 0.5])
>>> q.run(readings)["v"].to_pylist()
[0.5, 1.5, 2.5, 3.5, 4.5]
"""

from viewlet.signals.errors import (
    OrderError,
    OverlapError,
    SessionError,
    SignalError,
    SignalTypeError,
    UnitError,
)
from viewlet.signals.functions import Function, WindowOperation, window_op
from viewlet.signals.joins import join
from viewlet.signals.nodes import Payload
from viewlet.signals.query import Signal, Stream, Uniform
from viewlet.signals.session import Session
from viewlet.signals.sources import events, source
from viewlet.signals.values import from_values, to_values
from viewlet.signals.windows import Windows

__all__ = [
    "Function",
    "OrderError",
    "OverlapError",
    "Payload",
    "Session",
    "SessionError",
    "Signal",
    "SignalError",
    "SignalTypeError",
    "Stream",
    "Uniform",
    "UnitError",
    "WindowOperation",
    "Windows",
    "events",
    "from_values",
    "join",
    "source",
    "to_values",
    "window_op",
]
