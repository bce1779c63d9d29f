"""A table that is a folder of Parquet files: which files make it up, what changed, which ranges they hold.

A manifest beside the files names those of the present version; a batch writes new files, then the manifest,
then removes files that are not needed, so that a reader of the manifest always sees whole batches. Rows are
deleted by writing the files that hold them again. Files that appear by other hands are noticed.

Files may lie in folders ``column=value``, as Hive and Spark write them; such a column is not in the files.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
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
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
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
        self.name, self.folder = name, folder
        (folder / HIDDEN).mkdir(exist_ok=True)
        if not self._listed():
            raise SketchError(f"table {name!r}: there are no Parquet files in {folder}")
        self.folders = folder_columns(name, self._listed())
        self.table = self._describe()

    def _describe(self) -> Table:
        schema = pq.read_schema(self.folder / self._listed()[0])
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
        return Table(self.name, (*columns, *self.folders))

    # Versions.

    def manifest(self) -> Manifest:
        """The present version; files that others added or removed make a new one, of unknown changes."""
        path = self.folder / HIDDEN / "manifest.json"
        listed = self._listed()
        if path.exists():
            written = json.loads(path.read_text())
            known = Manifest(written["version"], written["since"], tuple(written["files"]))
            if set(known.files) == set(listed):
                return known
            return self._publish(Manifest(known.version + 1, known.version + 1, tuple(listed)))
        return self._publish(Manifest(0, 0, tuple(listed)))

    def _listed(self) -> list[str]:
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*.parquet"))
        return sorted(path.as_posix() for path in found if not path.parts[0].startswith("_"))

    def _publish(self, manifest: Manifest) -> Manifest:
        """The manifest appears whole or not at all."""
        new = self.folder / HIDDEN / f"manifest-{uuid4().hex}"
        content = {"version": manifest.version, "since": manifest.since, "files": manifest.files}
        new.write_text(json.dumps(content))
        os.replace(new, self.folder / HIDDEN / "manifest.json")
        return manifest

    def paths(self, files: Sequence[str]) -> list[str]:
        """Where files are."""
        return [str(self.folder / name) for name in files]

    def changes(self, since: int) -> list[str]:
        """The files with the changes after a version."""
        numbered = [
            (int(p.stem.split("-")[1]), str(p)) for p in self.folder.glob(f"{HIDDEN}/changes-*.parquet")
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
        schema = self._schema(manifest.files[0])
        batch = batch.rename_columns([*schema.names, WEIGHT])
        inserted = batch.filter(pc.greater(batch[WEIGHT], 0)).drop_columns([WEIGHT]).cast(schema)
        deleted = batch.filter(pc.less(batch[WEIGHT], 0)).drop_columns([WEIGHT]).cast(schema)
        replaced, written = self._without(manifest.files, deleted)
        written += [self._write(part, folder) for folder, part in self._by_folder(inserted)]
        version = manifest.version + 1
        changes = self.folder / HIDDEN / f"changes-{version}.parquet"
        pq.write_table(batch, changes)
        files = (*(name for name in manifest.files if name not in replaced), *written)
        return PreparedBatch(self, Manifest(version, manifest.since, files), replaced, written, changes)

    def _schema(self, name: str) -> pa.Schema:
        """The columns of a file, and those of its folders."""
        schema = pq.read_schema(self.folder / name)
        for column in self.folders:
            schema = schema.append(pa.field(column.name, arrow_type(column.type)))
        return schema

    def _content(self, name: str) -> pa.Table:
        """The rows of a file, with the columns of its folders."""
        content = pq.read_table(self.folder / name)
        for column, value in zip(self.folders, self._folder_values(name), strict=True):
            kind = arrow_type(column.type)
            content = content.append_column(column.name, pa.array([value] * content.num_rows, kind))
        return content

    def _folder_values(self, name: str) -> list[Any]:
        return [
            _folder_value(text, column.type)
            for (_, text), column in zip(_steps(name), self.folders, strict=True)
        ]

    def _by_folder(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Rows by the folder that they belong into; the rest of the columns."""
        if not self.folders:
            if rows.num_rows:
                yield "", rows
            return
        names = [column.name for column in self.folders]
        for values in dict.fromkeys(_tuples(rows.select(names))):
            part = rows
            for name, value in zip(names, values, strict=True):
                part = part.filter(pc.is_null(part[name]) if value is None else pc.equal(part[name], value))
            steps = (f"{name}={_folder_text(value)}" for name, value in zip(names, values, strict=True))
            yield "/".join(steps), part.drop_columns(names)

    def _without(self, files: Sequence[str], deleted: pa.Table) -> tuple[list[str], list[str]]:
        """Write the files that hold deleted rows again, without these."""
        wanted = Counter(_tuples(deleted))
        asked = sum(wanted.values())
        replaced: list[str] = []
        written: list[str] = []
        for name in files if asked else ():
            content = self._content(name)
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
                left = content.filter(kept).drop_columns([column.name for column in self.folders])
                written.append(self._write(left, Path(name).parent.as_posix()))
        missing = sum(wanted.values())
        if missing:
            for name in written:
                os.remove(self.folder / name)
            raise DataError(
                f"table {self.name!r}: {missing} of {asked} rows to delete are not there; nothing was changed"
            )
        return replaced, written

    def _write(self, content: pa.Table, folder: str) -> str:
        name = f"part-{uuid4().hex}.parquet"
        # Written where nobody looks, then moved: a half-written file is never part of the table.
        hidden = self.folder / HIDDEN / name
        pq.write_table(content, hidden)
        (self.folder / folder).mkdir(parents=True, exist_ok=True)
        os.replace(hidden, self.folder / folder / name)
        return (Path(folder) / name).as_posix()

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
        metadata = pq.read_metadata(self.folder / name)
        if column in self.folders:
            value = physical(self._folder_values(name)[self.folders.index(column)], column, self.name, None)
            yield from [partition.fragment_of(value) in fragments] * metadata.num_row_groups
            return
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
            if column in self.folders:
                content = self._content(name)[column.name]
            else:
                path = self.folder / name
                original = next(f for f in pq.read_schema(path).names if f.lower() == column.name)
                content = pq.read_table(path, columns=[original])[original]
            found.extend(read_column(content.drop_null(), column, self.name))
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


def folder_columns(table: str, files: Sequence[str]) -> tuple[Column, ...]:
    """The columns that folders name, with the types that engines give them: INT, DATE or VARCHAR.

    >>> [f"{column.name} {column.type}" for column in folder_columns("r", ["k=3/w=x/1.parquet"])]
    ['k INT', 'w VARCHAR']
    """
    named = [[name for name, _ in _steps(file)] for file in files]
    if any(names != named[0] for names in named):
        raise SketchError(
            f"table {table!r}: files lie in folders of different columns: {named[0]} and others"
        )
    columns = []
    for place, name in enumerate(named[0]):
        texts = {text for file in files for _, text in [_steps(file)[place]] if text != NO_VALUE}
        columns.append(Column(name.lower(), _folder_type(table, name, texts)))
    return tuple(columns)


def _steps(file: str) -> list[tuple[str, str]]:
    """The columns and values that the folders of a file name."""
    pairs = (unquote(step).partition("=") for step in Path(file).parts[:-1])
    return [(name, value) for name, _, value in pairs]


def _folder_type(table: str, name: str, texts: set[str]) -> Type:
    if all(re.fullmatch(r"-?(0|[1-9]\d{0,8})", text) for text in texts):
        return INT
    if all(re.fullmatch(r"\d{4}-\d\d-\d\d", text) for text in texts):
        return DATE
    strange = next((text for text in texts if re.fullmatch(r"[-+.\d].*", text)), None)
    if strange is not None:  # engines disagree about which numbers and times these are
        raise SketchError(f"table {table!r}: folder {name}={strange}: use whole numbers, dates or words")
    return VARCHAR


def _folder_value(text: str, kind: Type) -> Any:
    if text == NO_VALUE:
        return None
    if kind == INT:
        return int(text)
    return date.fromisoformat(text) if kind == DATE else text


def _folder_text(value: Any) -> str:
    return NO_VALUE if value is None else quote(str(value), safe="")


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type of a column that folders name."""
    return next(arrow for arrow, known in _TYPES.items() if known == kind)


def rows_in(paths: Sequence[str]) -> int:
    """The number of rows of some files, from their footers."""
    return sum(pq.read_metadata(path).num_rows for path in paths)


def read_columns(paths: Sequence[str], names: Sequence[str]) -> pa.Table:
    """Some columns of some files, by their names in small letters and under these."""
    parts = []
    for path in paths:
        originals = {field.lower(): field for field in pq.read_schema(path).names}
        part = pq.read_table(path, columns=[originals[name] for name in names])
        parts.append(part.select([originals[name] for name in names]).rename_columns(list(names)))
    return pa.concat_tables(parts)


def _tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
