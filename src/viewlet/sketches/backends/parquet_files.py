"""A table that is a folder of Parquet files: which files make it up, what changed, which ranges they hold.

A manifest beside the files names those of the present version; a batch writes new files, then the manifest,
then removes files that are not needed, so that a reader of the manifest always sees whole batches. Rows are
deleted by writing the files that hold them again. Files that appear by other hands are noticed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from viewlet.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    Column,
    Type,
    Value,
    decimal,
)
from viewlet.errors import DataError
from viewlet.sketches.errors import SketchError
from viewlet.sketches.partition import NULL_FRAGMENT, Partition
from viewlet.sketches.scans import WEIGHT
from viewlet.sql.catalog import Table
from viewlet.values import physical, read_column

HIDDEN = "_viewlet"
_TYPES: dict[pa.DataType, Type] = {
    pa.bool_(): BOOLEAN,
    pa.int8(): TINYINT,
    pa.int16(): SMALLINT,
    pa.int32(): INT,
    pa.int64(): BIGINT,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.date32(): DATE,
    pa.string(): VARCHAR,
    pa.large_string(): VARCHAR,
    pa.timestamp("us"): TIMESTAMP,
    pa.timestamp("ms"): TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a version, and the oldest version from which the changes are known."""

    version: int
    since: int
    files: tuple[str, ...]


class ParquetFiles:
    """One table."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self._folder = name, folder
        (folder / HIDDEN).mkdir(exist_ok=True)
        if not self._listed():
            raise SketchError(f"table {name!r}: there are no Parquet files in {folder}")
        self.table = self._describe()

    def _describe(self) -> Table:
        schema = pq.read_schema(self._folder / self._listed()[0])
        columns = []
        for field in schema:
            kind = (
                decimal(field.type.precision, field.type.scale)
                if pa.types.is_decimal128(field.type)
                else _TYPES.get(field.type)
            )
            if kind is None:
                raise SketchError(
                    f"table {self.name!r}, column {field.name!r}: {field.type} is not supported"
                )
            columns.append(Column(field.name.lower(), kind, field.nullable))
        return Table(self.name, tuple(columns))

    # Versions.

    def manifest(self) -> Manifest:
        """The present version; files that others added or removed make a new one, of unknown changes."""
        path = self._folder / HIDDEN / "manifest.json"
        listed = self._listed()
        if path.exists():
            written = json.loads(path.read_text())
            known = Manifest(written["version"], written["since"], tuple(written["files"]))
            if set(known.files) == set(listed):
                return known
            return self._publish(Manifest(known.version + 1, known.version + 1, tuple(listed)))
        return self._publish(Manifest(0, 0, tuple(listed)))

    def _listed(self) -> list[str]:
        return sorted(path.name for path in self._folder.glob("*.parquet") if not path.name.startswith("_"))

    def _publish(self, manifest: Manifest) -> Manifest:
        """The manifest appears whole or not at all."""
        new = self._folder / HIDDEN / f"manifest-{uuid4().hex}"
        content = {"version": manifest.version, "since": manifest.since, "files": manifest.files}
        new.write_text(json.dumps(content))
        os.replace(new, self._folder / HIDDEN / "manifest.json")
        return manifest

    def paths(self, files: Sequence[str]) -> list[str]:
        """Where files are."""
        return [str(self._folder / name) for name in files]

    def changes(self, since: int) -> list[str]:
        """The files with the changes after a version."""
        numbered = [
            (int(p.stem.split("-")[1]), str(p)) for p in self._folder.glob(f"{HIDDEN}/changes-*.parquet")
        ]
        return [path for version, path in sorted(numbered) if version > since]

    def forget(self, oldest: int) -> None:
        """Remove changes up to a version."""
        kept = set(self.changes(oldest))
        for path in self.changes(-1):
            if path not in kept:
                os.remove(path)
        manifest = self.manifest()
        if manifest.since < oldest:
            self._publish(Manifest(manifest.version, oldest, manifest.files))

    # Changing.

    def prepare(self, batch: pa.Table) -> PreparedBatch:
        """Write everything that a batch needs, without anyone seeing it yet."""
        manifest = self.manifest()
        schema = pq.read_schema(self._folder / manifest.files[0])
        batch = batch.rename_columns([*schema.names, WEIGHT])
        inserted = batch.filter(pc.greater(batch[WEIGHT], 0)).drop_columns([WEIGHT]).cast(schema)
        deleted = batch.filter(pc.less(batch[WEIGHT], 0)).drop_columns([WEIGHT]).cast(schema)
        replaced, written = self._without(manifest.files, deleted)
        if inserted.num_rows:
            written.append(self._write(inserted))
        version = manifest.version + 1
        changes = self._folder / HIDDEN / f"changes-{version}.parquet"
        pq.write_table(batch, changes)
        files = (*(name for name in manifest.files if name not in replaced), *written)
        return PreparedBatch(self, Manifest(version, manifest.since, files), replaced, written, changes)

    def _without(self, files: Sequence[str], deleted: pa.Table) -> tuple[list[str], list[str]]:
        """Write the files that hold deleted rows again, without these."""
        wanted = Counter(_tuples(deleted))
        asked = sum(wanted.values())
        replaced: list[str] = []
        written: list[str] = []
        for name in files if asked else ():
            content = pq.read_table(self._folder / name)
            mask = None
            for column in deleted.column_names:
                inside = pc.is_in(content[column], value_set=deleted[column].combine_chunks())
                mask = inside if mask is None else pc.and_(mask, inside)
            candidates = pc.indices_nonzero(mask)
            gone = []
            rows = _tuples(content.take(candidates))
            for index, row in zip(candidates.to_pylist(), rows, strict=True):
                if wanted[row] > 0:
                    wanted[row] -= 1
                    gone.append(index)
            if gone:
                kept = pc.invert(pc.is_in(pa.array(range(content.num_rows)), value_set=pa.array(gone)))
                replaced.append(name)
                written.append(self._write(content.filter(kept)))
        missing = sum(wanted.values())
        if missing:
            for name in written:
                os.remove(self._folder / name)
            raise DataError(
                f"table {self.name!r}: {missing} of {asked} rows to delete are not there; nothing was changed"
            )
        return replaced, written

    def _write(self, content: pa.Table) -> str:
        name = f"part-{uuid4().hex}.parquet"
        # Written where nobody looks, then moved: a half-written file is never part of the table.
        hidden = self._folder / HIDDEN / name
        pq.write_table(content, hidden)
        os.replace(hidden, self._folder / name)
        return name

    # Ranges.

    def overlapping(
        self, files: Sequence[str], partition: Partition, fragments: Collection[int]
    ) -> list[str]:
        """The files that may hold rows of the fragments, by the least and greatest values in footers."""
        column = next(c for c in self.table.columns if c.name == partition.column)
        return [name for name in files if any(self._groups(name, column, partition, fragments))]

    def touched(self, files: Sequence[str], partition: Partition, fragments: Collection[int]) -> float:
        """The share of row groups that may hold rows of the fragments."""
        column = next(c for c in self.table.columns if c.name == partition.column)
        groups = [hit for name in files for hit in self._groups(name, column, partition, fragments)]
        return sum(groups) / len(groups) if groups else 1.0

    def _groups(
        self, name: str, column: Column, partition: Partition, fragments: Collection[int]
    ) -> Iterator[bool]:
        metadata = pq.read_metadata(self._folder / name)
        place = [field.lower() for field in metadata.schema.names].index(column.name)
        for number in range(metadata.num_row_groups):
            chunk = metadata.row_group(number).column(place)
            statistics = chunk.statistics
            if metadata.row_group(number).num_rows == 0:
                yield False
            elif statistics is None or statistics.null_count is None:
                yield True
            elif not statistics.has_min_max:
                yield statistics.null_count < chunk.num_values or NULL_FRAGMENT in fragments
            else:
                low, high = (physical(v, column, self.name, None) for v in (statistics.min, statistics.max))
                first, last = partition.fragment_of(low), partition.fragment_of(high)
                has_null = statistics.null_count > 0 and NULL_FRAGMENT in fragments
                yield has_null or any(first <= fragment <= last for fragment in fragments)

    def values(self, column: Column, limit: int) -> list[Value]:
        """Values of a column, of at most about ``limit`` rows, NULL left out."""
        found: list[Value] = []
        for name in self.manifest().files:
            original = next(f for f in pq.read_schema(self._folder / name).names if f.lower() == column.name)
            content = pq.read_table(self._folder / name, columns=[original])[original].drop_null()
            found.extend(read_column(content, column, self.name))
            if len(found) >= limit:
                break
        return found

    def count(self) -> int:
        """The number of rows, from the footers."""
        return rows_in(self.paths(self.manifest().files))


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """A batch whose files are written: it takes effect, or leaves no trace."""

    files: ParquetFiles
    manifest: Manifest
    replaced: list[str]
    written: list[str]
    changes: Path

    def commit(self) -> None:
        """Publish the manifest, then remove what it no longer names."""
        self.files._publish(self.manifest)
        for path in self.files.paths(self.replaced):
            os.remove(path)

    def abandon(self) -> None:
        """Remove what was written."""
        for path in (*self.files.paths(self.written), str(self.changes)):
            os.remove(path)


def rows_in(paths: Sequence[str]) -> int:
    """The number of rows of some files, from their footers."""
    return sum(pq.read_metadata(path).num_rows for path in paths)


def _tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
