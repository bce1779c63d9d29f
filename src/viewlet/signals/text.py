"""Signal queries as text, for ``explain`` and for recognizing a checkpoint's query."""

from __future__ import annotations

import zlib
from dataclasses import fields
from typing import Any

from viewlet.signals.nodes import Node, inputs


def describe(node: Node, depth: int = 0) -> str:
    """A node, its parameters, and below it what it reads.

    >>> from viewlet.signals import source
    >>> print(source(key="k", time="t", value="v").sample(10).fir([0.5, 0.5]).explain())
    Fir(taps=2 values #144232c9, missing='zero')
      Sample(period=10, offset=0, policy=exact, names=('v',))
        Source(name='input', key=('k',), time='t', duration=1, value=('v',))
    """
    below = set(map(id, inputs(node)))
    shown = [
        f"{f.name}={_short(value)}"
        for f in fields(node)
        if id(value := getattr(node, f.name)) not in below and value is not None
    ]
    line = "  " * depth + f"{type(node).__name__}({', '.join(shown)})"
    return "\n".join([line, *(describe(child, depth + 1) for child in inputs(node))])


def _short(value: Any) -> str:
    """A parameter without memory addresses, so that two processes print the same."""
    from viewlet.signals.nodes import Policy

    if isinstance(value, Policy):
        return value.mode if value.gap < 0 else f"{value.mode} within {value.gap}"
    if isinstance(value, str | int | float | complex | bool):
        return repr(value)
    if isinstance(value, tuple):
        numbers = value and all(isinstance(item, int | float | complex | tuple) for item in value)
        mark = zlib.crc32(repr(value).encode())  # other taps are another query
        return f"{len(value)} values #{mark:08x}" if numbers else "(" + ", ".join(map(_short, value)) + ",)"
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    return type(value).__name__
