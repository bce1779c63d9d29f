"""Operators on events one by one, or on neighbours in time of one key."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewlet.signals.chunks import Chunk, Events, Ints, Runs, Values, concat_events, events_of_rows
from viewlet.signals.errors import OverlapError, SignalTypeError
from viewlet.signals.expressions import evaluate, evaluate_mask
from viewlet.signals.keys import KeyIndex, KeySpaces
from viewlet.signals.nodes import (
    Deduplicate,
    Group,
    Hopping,
    Lifetime,
    Lookup,
    Select,
    Sessions,
    UntilNext,
    Where,
)
from viewlet.signals.operators.base import Operator
from viewlet.signals.specs import NEVER

FOREVER = np.iinfo(np.int64).max


class Filter(Operator["Events | Runs"]):
    """Keep the rows for which a predicate is true."""

    def __init__(self, node: Where) -> None:
        self.node = node

    def feed(self, chunk: Events | Runs, side: int) -> Iterable[Chunk]:
        """Filter a chunk; samples that fail become missing."""
        if isinstance(chunk, Events):
            columns = dict(chunk.columns)
            if len(self.node.names) == 1:
                columns.setdefault("value", chunk.columns[self.node.names[0]])
        else:
            columns = {"value": chunk.values}
            if chunk.values.ndim == 1:
                columns |= dict.fromkeys(self.node.names, chunk.values)
            else:
                columns |= {name: chunk.values[:, i] for i, name in enumerate(self.node.names)}
        mask = evaluate_mask(self.node.predicate, columns, len(chunk))
        kept = np.flatnonzero(mask)
        if len(kept) == len(chunk):
            return (chunk,)
        return (chunk.take(kept),) if len(kept) else ()


class Project(Operator[Events]):
    """Compute new columns."""

    def __init__(self, node: Select) -> None:
        self.node = node

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Replace the columns of a chunk."""
        columns = {
            name: evaluate(expression, chunk.columns, len(chunk)) for name, expression in self.node.columns
        }
        return (Events(chunk.keys, chunk.ptr, chunk.start, chunk.end, columns),)


class AlterLifetime(Operator[Events]):
    """Shift, replace, extend or cut lifetimes."""

    def __init__(self, node: Lifetime) -> None:
        self.node = node

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Change the lifetimes of a chunk; starts move together, so order stays."""
        node, start, end = self.node, chunk.start, chunk.end
        if node.duration is not None:
            end = start + node.duration
        if node.extend:
            end = (start + 1 if end is None else end) + node.extend
        if node.limit is not None and end is not None:
            end = np.minimum(end, start + node.limit)
        if end is not None and (end <= start).any():
            raise SignalTypeError(
                f"a lifetime shortened by {-node.extend} would be empty; use a smaller change"
            )
        end = None if end is None else end + node.shift
        return (Events(chunk.keys, chunk.ptr, start + node.shift, end, chunk.columns),)

    def horizon(self, time: int) -> int:
        """Output moves with the shift."""
        return time + self.node.shift


class HoppingLifetime(Operator[Events]):
    """Quantize lifetimes to hopping windows."""

    def __init__(self, node: Hopping) -> None:
        self.node = node

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """[s, e) -> [first grid point g > s, first grid point g with g - size > s)."""
        node = self.node
        start = _next_grid_point(chunk.start, node.hop, node.offset)
        end = _next_grid_point(chunk.start + node.size, node.hop, node.offset)
        kept = np.flatnonzero(end > start)  # with hop > size, events between windows belong to none
        moved = Events(chunk.keys, chunk.ptr, start, end, chunk.columns)
        return (moved if len(kept) == len(chunk) else moved.take(kept),)


def _next_grid_point(time: Ints, hop: int, offset: int) -> Ints:
    return ((time - offset) // hop + 1) * hop + offset


class Holding(Operator[Events]):
    """Operators that hold back some events of each key until later ones arrive."""

    carried = ("held",)

    def __init__(self) -> None:
        self.held: Events | None = None

    def joined(self, chunk: Events | None) -> Events | None:
        """Held events and a new chunk; afterwards nothing is held."""
        parts = [part for part in (self.held, chunk) if part is not None and len(part)]
        self.held = None
        return concat_events(parts) if parts else None

    def split(self, events: Events, released: Values) -> Iterable[Chunk]:
        """Release the rows of a mask and hold the others."""
        rest = np.flatnonzero(~released)
        self.held = events.take(rest) if len(rest) else None
        kept = np.flatnonzero(released)
        return (events.take(kept),) if len(kept) else ()


class ClipAtNext(Holding):
    """Let each event end where the next of its key starts."""

    def __init__(self, node: UntilNext) -> None:
        super().__init__()

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Hold the last event of each key; cut the others at their successors."""
        events = self.joined(chunk)
        if events is None:
            return ()
        last = np.zeros(len(events), bool)
        last[events.ptr[1:] - 1] = True
        follower = np.append(events.start[1:], 0)
        end = np.where(last, events.ends(), np.minimum(events.ends(), follower))
        clipped = Events(events.keys, events.ptr, events.start, end, events.columns)
        rest = np.flatnonzero(last)
        self.held = clipped.take(rest)
        kept = np.flatnonzero(~last & (end > events.start))  # two starts at one time: the later event wins
        return (clipped.take(kept),) if len(kept) else ()

    def advance(self, time: int) -> Iterable[Chunk]:
        """An event that ends before ``time`` cannot be cut any more."""
        return () if self.held is None else self.split(self.held, self.held.ends() <= time)

    def flush(self) -> Iterable[Chunk]:
        """Release what is held."""
        return () if self.held is None else self.split(self.held, np.ones(len(self.held), bool))

    def horizon(self, time: int) -> int:
        """A held event may start long before ``time``."""
        return time if self.held is None else min(time, int(self.held.start.min()))


class Sessionize(Holding):
    """Give the events of a session one lifetime; a session is released once, when it has ended."""

    def __init__(self, node: Sessions) -> None:
        super().__init__()
        self.timeout = node.timeout

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Release sessions that a later event of the key has closed."""
        return self._close(self.joined(chunk), NEVER)

    def advance(self, time: int) -> Iterable[Chunk]:
        """Release sessions that have timed out."""
        return self._close(self.joined(None), time)

    def flush(self) -> Iterable[Chunk]:
        """Release all sessions."""
        return self._close(self.joined(None), FOREVER)

    def horizon(self, time: int) -> int:
        """An open session starts at its first event."""
        return time if self.held is None else min(time, int(self.held.start.min()))

    def _close(self, events: Events | None, time: int) -> Iterable[Chunk]:
        if events is None:
            return ()
        opens = np.zeros(len(events), bool)
        opens[1:] = np.diff(events.start) >= self.timeout
        opens[events.ptr[:-1]] = True
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(events)) - 1
        session = np.cumsum(opens) - 1
        open_still = np.isin(last, events.ptr[1:] - 1) & (events.start[last] + self.timeout > time)
        closed = ~open_still[session]
        kept = np.flatnonzero(closed)
        rest = np.flatnonzero(~closed)
        self.held = events.take(rest) if len(rest) else None
        if len(kept) == 0:
            return ()
        start, end = events.start[first][session], (events.start[last] + self.timeout)[session]
        return (Events(events.keys, events.ptr, start, end, events.columns).take(kept),)


class DropDuplicates(Holding):
    """Keep the first or the last of the events of one key that start together; then check the signal."""

    def __init__(self, node: Deduplicate) -> None:
        super().__init__()
        self.keep_last = node.keep == "last"

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """The last start of each key stays held: another event may share it."""
        events = self.joined(chunk)
        if events is None:
            return ()
        same_as_next = np.append(events.start[1:] == events.start[:-1], False)
        same_as_next[events.ptr[1:] - 1] = False
        same_as_previous = np.concatenate(([False], same_as_next[:-1]))
        winners = np.flatnonzero(~(same_as_next if self.keep_last else same_as_previous))
        distinct = events.take(winners)
        _check_overlap(distinct)
        last = np.zeros(len(distinct), bool)
        last[distinct.ptr[1:] - 1] = True
        return self.split(distinct, ~last)

    def advance(self, time: int) -> Iterable[Chunk]:
        """An event that ended before ``time`` has no more companions."""
        return () if self.held is None else self._release(self.held.ends() <= time)

    def flush(self) -> Iterable[Chunk]:
        """Release what is held."""
        return () if self.held is None else self._release(np.ones(len(self.held), bool))

    def _release(self, rows: Values) -> Iterable[Chunk]:
        return () if self.held is None else self.split(self.held, rows)

    def horizon(self, time: int) -> int:
        """A held event may start before ``time``."""
        return time if self.held is None else min(time, int(self.held.start.min()))


def _check_overlap(events: Events) -> None:
    """Raise where an event starts before its predecessor of the same key ends."""
    early = events.start[1:] < events.ends()[:-1]
    early[events.ptr[1:-1] - 1] = False
    if early.any():
        row = int(np.flatnonzero(early)[0]) + 1
        raise OverlapError(
            f"an event at {events.start[row]} overlaps one that lasts until {events.ends()[row - 1]}: a "
            f"signal has one event of each key at a time; aggregate the stream, or use until_next()"
        )


class Regroup(Holding):
    """Give events new keys; they are held until time has passed them, for old keys come unordered."""

    def __init__(self, node: Group, spaces: KeySpaces) -> None:
        super().__init__()
        self.by, self.spaces = node.by, spaces
        self.key_types: list[pa.DataType] = []
        self.index: KeyIndex | None = None

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Hold everything."""
        for name in self.by:
            if name not in chunk.columns:
                raise SignalTypeError(f"cannot group by {name!r}; there are {', '.join(chunk.columns)}")
        if self.index is None:
            columns = [chunk.columns[name] for name in self.by]
            self.key_types = [c.type if isinstance(c, pa.Array) else pa.array(c[:0]).type for c in columns]
            self.index = self.spaces.index(self.key_types)
        self.held = self.joined(chunk)
        return ()

    def advance(self, time: int) -> Iterable[Chunk]:
        """Release events before ``time``."""
        return () if self.held is None else self._rekeyed(self.split(self.held, self.held.start < time))

    def flush(self) -> Iterable[Chunk]:
        """Release everything."""
        return (
            () if self.held is None else self._rekeyed(self.split(self.held, np.ones(len(self.held), bool)))
        )

    def _rekeyed(self, chunks: Iterable[Chunk]) -> Iterable[Chunk]:
        for chunk in chunks:
            if isinstance(chunk, Events) and self.index is not None:
                columns = [chunk.columns[name] for name in self.by]
                arrays = [
                    pa.array(column) if isinstance(column, np.ndarray) else column for column in columns
                ]
                ids = self.index.encode(arrays)
                yield events_of_rows(ids, chunk.start, chunk.end, chunk.columns)


class LookUp(Operator[Events]):
    """Add columns of a reference table, read anew for every chunk."""

    def __init__(self, node: Lookup) -> None:
        self.node = node

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Find the row of each event by equality."""
        node, reference = self.node, self.node.reference
        table = reference if isinstance(reference, pa.Table) else reference.to_arrow()
        known = table.column(node.to).combine_chunks()
        if len(known.unique()) < len(known):
            raise SignalTypeError(
                f"reference column {node.to!r} holds duplicates; a lookup needs one row per value"
            )
        wanted = chunk.columns[node.on]
        if isinstance(wanted, np.ndarray):
            wanted = pa.array(wanted)
        found = pc.index_in(wanted.cast(known.type), value_set=known)
        added = {
            name: table.column(name).combine_chunks().take(found)
            for name in table.column_names
            if name != node.to
        }
        merged = Events(chunk.keys, chunk.ptr, chunk.start, chunk.end, {**chunk.columns, **added})
        if node.keep or not found.null_count:
            return (merged,)
        kept = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        return (merged.take(kept),) if len(kept) else ()
