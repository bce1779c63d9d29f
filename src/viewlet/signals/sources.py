"""Where queries begin: signals and streams of events read from tables."""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.signals import nodes
from viewlet.signals.clock import NANOSECONDS
from viewlet.signals.errors import SignalTypeError, UnitError
from viewlet.signals.nodes import Payload
from viewlet.signals.query import Signal, Stream


def source(
    *,
    time: str,
    value: str | Sequence[str],
    key: str | Sequence[str] = (),
    end: str | None = None,
    duration: int = 1,
    unit: str | None = None,
    payload: Payload | None = None,
    name: str = "input",
) -> Signal:
    """A signal per key, read from batches of a table: columns for key, time and value.

    Several value columns are channels. Events are points of one time unit unless ``end`` or ``duration``
    says otherwise. Two events of a key at once raise, as does time running backwards; rows with a NULL value
    are missing samples. ``unit`` is the unit of an integer time column, for durations such as "100ms".

    >>> import pyarrow as pa
    >>> q = source(key="k", time="t", value="v").sample(5, interpolate="linear")
    >>> q.run(pa.table({"k": ["a", "a"], "t": [0, 10], "v": [0.0, 1.0]})).to_pydict()
    {'k': ['a', 'a', 'a'], 't': [0, 5, 10], 'v': [0.0, 0.5, 1.0]}
    """
    values = (value,) if isinstance(value, str) else tuple(value)
    node = _source_node(name, key, time, end, duration, values, payload, unit)
    return Signal(node, None, node.key, time, values, payload, None)


def events(
    *,
    time: str,
    key: str | Sequence[str] = (),
    end: str | None = None,
    duration: int = 1,
    unit: str | None = None,
    name: str = "input",
) -> Stream:
    """A stream of events with all the columns of a table; events of one key may overlap.

    >>> import pyarrow as pa
    >>> q = events(time="s", end="e").aggregate(n="count(*)")
    >>> q.run(pa.table({"s": [0, 2], "e": [4, 6]})).to_pydict()
    {'s': [0, 2, 4], 'end': [2, 4, 6], 'n': [1, 2, 1]}
    """
    node = _source_node(name, key, time, end, duration, (), None, unit)
    return Stream(node, None, node.key, time)


def _source_node(
    name: str,
    key: str | Sequence[str],
    time: str,
    end: str | None,
    duration: int,
    value: tuple[str, ...],
    payload: Payload | None,
    unit: str | None,
) -> nodes.Source:
    if unit is not None and unit not in NANOSECONDS:
        raise UnitError(f"unknown unit {unit!r}; use one of {', '.join(NANOSECONDS)}")
    if duration < 1:
        raise SignalTypeError(f"events last at least one time unit, not {duration}")
    keys = (key,) if isinstance(key, str) else tuple(key)
    return nodes.Source(name, keys, time, end, duration, value, payload, unit)
