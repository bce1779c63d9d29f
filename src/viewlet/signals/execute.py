"""One executor for everything: offline runs, online sessions and Spark partitions feed the same operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.signals.chunks import Chunk, Events, Frames, Runs, concat_frames, concat_runs, side_by_side
from viewlet.signals.clock import write_times
from viewlet.signals.errors import SignalTypeError
from viewlet.signals.kernels import kernels
from viewlet.signals.keys import KeySpaces
from viewlet.signals.lower import has_lifetimes, lower
from viewlet.signals.operators.source import Ingress
from viewlet.signals.operators.temporal import unstack
from viewlet.signals.specs import NEVER
from viewlet.signals.values import from_values


class Executor:
    """The running operators of one query, and its result as Arrow tables."""

    def __init__(self, query: Any) -> None:
        self.query = query
        self.spaces = KeySpaces()
        self.clock = query.clock or "ticks"
        self.program = lower(query.node, self.spaces, self.clock)
        self.schema: pa.Schema | None = None
        self.lifetimes = has_lifetimes(query.node)

    @property
    def sources(self) -> list[Ingress]:
        """The operators that take batches."""
        return self.program.sources

    def feed(self, source: Ingress, events: Events) -> list[pa.Table]:
        """Accept a prepared batch; what it makes final."""
        out: list[Chunk] = []
        number = self.program.operators.index(source)
        for chunk in source.feed(events, 0):
            self._propagate(number, chunk, out)
        return self._tables(out)

    def advance(self, time: int) -> list[pa.Table]:
        """Learn that no event before ``time`` will come; what that makes final."""
        out: list[Chunk] = []
        horizons: list[int] = []
        for number, operator in enumerate(self.program.operators):
            reached = min((horizons[up] for up in self.program.producers[number]), default=time)
            if reached != NEVER:
                for chunk in operator.advance(reached):
                    self._propagate(number, chunk, out)
            horizons.append(NEVER if reached == NEVER else operator.horizon(reached))
        return self._tables(out)

    def flush(self) -> list[pa.Table]:
        """Learn that no event will come any more; everything else."""
        out: list[Chunk] = []
        for number, operator in enumerate(self.program.operators):
            for chunk in operator.flush():
                self._propagate(number, chunk, out)
        return self._tables(out)

    def schemas(self) -> dict[str, pa.Table]:
        """What ``bind`` learns from, of the sources that have seen a batch."""
        kinds = {s.node.name: [*s.key_types, s.time_type] for s in self.sources if s.index is not None}
        return {
            name: pa.schema([pa.field(str(i), kind) for i, kind in enumerate(types)]).empty_table()
            for name, types in kinds.items()
        }

    def bind(self, schemas: dict[str, pa.Table]) -> None:
        """Learn the column types of sources from a checkpoint: keys, then time, as empty tables."""
        for source in self.sources:
            table = schemas.get(source.node.name)
            if table is not None:
                *source.key_types, source.time_type = table.schema.types
                source.index = self.spaces.index(source.key_types or [pa.int64()])

    def snapshot(self) -> dict[str, Any]:
        """All that later batches depend on."""
        return {
            "keys": [[list(kinds), index.snapshot()] for kinds, index in self.spaces.indexes.items()],
            "operators": [operator.snapshot() for operator in self.program.operators],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot of the same query."""
        for kinds, keys in snapshot["keys"]:
            index = self.spaces.indexes.get(tuple(kinds))
            if index is None:
                index = self.spaces.adopt(tuple(kinds))
            index.restore(keys)
        for operator, state in zip(self.program.operators, snapshot["operators"], strict=True):
            operator.restore(state)

    # -- results ------------------------------------------------------------------------------------

    def _propagate(self, number: int, chunk: Chunk, out: list[Chunk]) -> None:
        if len(chunk) == 0:
            return
        consumers = self.program.consumers[number]
        if not consumers:
            out.append(chunk)
            return
        for consumer, side in consumers:
            for result in self.program.operators[consumer].feed(chunk, side):
                self._propagate(consumer, result, out)

    def _tables(self, chunks: list[Chunk]) -> list[pa.Table]:
        """Blocks of one push in one array: large ones take few pages, small ones would take many."""
        if len(chunks) > 1 and isinstance(chunks[0], Runs):
            runs = [chunk for chunk in chunks if isinstance(chunk, Runs)]
            return [self._table(concat_runs(part)) for part in side_by_side(runs)]
        if len(chunks) > 1 and isinstance(chunks[0], Frames):
            return [self._table(concat_frames([chunk for chunk in chunks if isinstance(chunk, Frames)]))]
        return [self._table(chunk) for chunk in chunks]

    def _table(self, chunk: Chunk) -> pa.Table:
        query = self.query
        owner = self.program.keyed_by[-1]
        if isinstance(chunk, Events):
            keys, times = chunk.row_keys(), chunk.start
            columns = {name: c for name, c in chunk.columns.items() if name not in query.key}
        elif isinstance(chunk, Runs):
            columns = self._value_columns(chunk.values)
            whole = self._whole_keys(chunk, columns)
            if whole is not None:
                return whole
            keys, times = chunk.row_keys(), chunk.ticks() * query.period + query.offset
        else:
            keys, times = chunk.keys, self._hop_times(chunk)
            columns = {"_".join(query.names): chunk.values}
        labels = owner.index.labels(keys, owner.key_types) if query.key and owner.index is not None else []
        arrays = dict(zip(query.key, labels, strict=True)) | {query.time: self._times(times)}
        if isinstance(chunk, Events) and self.lifetimes:
            arrays["end"] = self._times(chunk.ends())
        return self._finish(arrays, columns)

    def _whole_keys(self, chunk: Runs, columns: dict[str, Any]) -> pa.Table | None:
        """The common case in one pass: one 64-bit integer key column."""
        query, owner = self.query, self.program.keyed_by[-1]
        if not query.key or owner.index is None or owner.index.nulls or owner.key_types != [pa.int64()]:
            return None
        labels = owner.index.integer_labels()
        keys, times = kernels().expand(chunk, labels, query.period, query.offset)
        return self._finish({query.key[0]: pa.array(keys), query.time: self._times(times)}, columns)

    def _hop_times(self, chunk: Frames) -> Any:
        query = self.query
        return (chunk.first + query.size - 1) * query.signal.period + query.signal.offset

    def _value_columns(self, values: Any) -> dict[str, Any]:
        names = self.query.names
        if len(names) > 1 and values.ndim == 2 and values.shape[1] == len(names):
            return dict(unstack(values, names))
        return {names[0] if len(names) == 1 else "value": values}

    def _finish(self, arrays: dict[str, pa.Array], columns: dict[str, Any]) -> pa.Table:
        payload = getattr(self.query, "payload", None)
        for name, column in columns.items():
            if name in arrays:
                raise SignalTypeError(f"two result columns are called {name!r}; rename one with select")
            if isinstance(column, np.ndarray) and column.dtype == object and payload is not None:
                arrays[name] = payload.encode(column)
            else:
                arrays[name] = from_values(column) if isinstance(column, np.ndarray) else column
        table = pa.table(arrays)
        self.schema = table.schema
        return table

    def _times(self, times: Any) -> pa.Array:
        source = self.sources[0]
        return write_times(times, source.time_type, source.node.time, self.clock, source.node.unit)

    def collect(self, tables: list[pa.Table]) -> pa.Table:
        """One table of several; without rows, a value column of unknown type has type null."""
        if tables:
            return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        if self.schema is not None:
            return self.schema.empty_table()
        query, owner = self.query, self.program.keyed_by[-1]
        kinds = owner.key_types or [pa.null()] * len(query.key)
        fields = [pa.field(name, kind) for name, kind in zip(query.key, kinds, strict=True)]
        names = getattr(query, "names", ())
        fields += [pa.field(query.time, self._times(np.zeros(0, np.int64)).type)]
        return pa.schema(fields + [pa.field(name, pa.null()) for name in names]).empty_table()


def require_bound(source: Ingress, table: pa.Table) -> None:
    """Bind a source to the first schema it sees, and refuse another one."""
    if source.index is None:
        source.bind(table.schema)
    source.require_columns(table.schema)
    if table.schema.field(source.node.time).type != source.time_type:
        raise SignalTypeError(
            f"source {source.node.name!r}: time column changed from {source.time_type} to "
            f"{table.schema.field(source.node.time).type}"
        )
