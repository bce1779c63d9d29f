"""Files and folders of CSV, JSON lines and Parquet, read once or followed.

A file is taken as whole when it appears (write it elsewhere and rename it), or, with ``growing``, as one that
lines are appended to. The position of a file is the place behind the last record that is in the database.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from viewlet.changes import CHANGE_TYPE, DIRECTIONS, FEED_COLUMNS, WEIGHT
from viewlet.connectors.base import Batch, ConnectorError
from viewlet.connectors.text import arrow_types, reader
from viewlet.sql.catalog import Catalog, Table

Format: TypeAlias = Literal["csv", "json", "parquet"]

SUFFIXES: Mapping[str, Format] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
EXTRA_TYPES = {WEIGHT: pa.int64(), CHANGE_TYPE: pa.string()}


@dataclass(frozen=True, slots=True)
class _Place:
    """How much of a file has been read: bytes or row groups; ``size`` is the file's, to notice changes."""

    read: int
    size: int

    def __str__(self) -> str:
        return f"{self.read} of {self.size}"

    @classmethod
    def of(cls, text: str | None) -> _Place | None:
        if text is None:
            return None
        read, _, size = text.partition(" of ")
        return cls(int(read), int(size))


class Files:
    """Rows or changes of one table in files: the first line of CSV names the columns.

    >>> import tempfile, viewlet
    >>> from viewlet.connectors import run
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "1.csv").write_text("a,b\\n1,x\\n2,\\n")
    >>> db = viewlet.connect(backend="reference")
    >>> db.execute("CREATE TABLE r (a BIGINT, b VARCHAR)")
    >>> run(db, Files(folder, "r")), db.table("r").rows()
    (1, [(1, 'x'), (2, None)])
    >>> run(db, Files(folder, "r"))
    0
    """

    def __init__(
        self,
        path: str | Path,
        table: str,
        *,
        format: Format | None = None,
        growing: bool = False,
        batch_bytes: int = 8 << 20,
        name: str | None = None,
    ) -> None:
        self._path = Path(path)
        self._table, self._format, self._growing, self._batch_bytes = table, format, growing, batch_bytes
        self.name = name or f"files {self._path.absolute()} into {table}"
        if growing and format == "parquet":
            raise ConnectorError("a Parquet file cannot grow: leave out growing=True")

    def batches(self, catalog: Catalog, positions: Mapping[str, str]) -> Iterator[Batch]:
        """What files hold beyond their positions, file by file in the order of their names."""
        table = catalog[self._table]
        for path in self._files():
            part = path.relative_to(self._path).as_posix() if path != self._path else path.name
            place = _Place.of(positions.get(part))
            if self._is_read(path, place):
                continue
            kind = self._format or SUFFIXES[path.suffix]
            read = place.read if place else 0
            chunks = (
                self._row_groups(path, read) if kind == "parquet" else self._lines(path, read, kind, table)
            )
            for data, after in chunks:
                yield Batch({table.name: data}, {part: str(after)})

    def close(self) -> None:
        """Nothing is kept open."""

    def _files(self) -> list[Path]:
        if self._path.is_dir():
            known = {f".{self._format}"} if self._format else SUFFIXES.keys()
            found = (p for p in self._path.rglob("*") if p.suffix in known and p.is_file())
            return sorted(p for p in found if not _is_hidden(p.relative_to(self._path)))
        if not self._path.exists():
            raise ConnectorError(f"there is no file or folder {self._path}")
        if self._format is None and self._path.suffix not in SUFFIXES:
            raise ConnectorError(f"{self._path}: say format= csv, json or parquet")
        return [self._path]

    def _is_read(self, path: Path, place: _Place | None) -> bool:
        """Nothing to do for this file? Refuses one that is not any more what it was."""
        if place is None:
            return False
        size = path.stat().st_size
        if self._growing:
            if size < place.read:
                raise ConnectorError(
                    f"{path} is shorter than what was read of it: {size} bytes, {place.read}"
                )
            return size == place.read
        if size != place.size:
            raise ConnectorError(
                f"{path} had {place.size} bytes when it was read and has {size} now; "
                "growing=True follows files that grow, else give new data a new name"
            )
        return place.read == place.size

    def _row_groups(self, path: Path, start: int) -> Iterator[tuple[pa.Table, _Place]]:
        """A row group at a time; when the last is read, as many bytes as there are stand for all."""
        size = path.stat().st_size
        try:
            with pyarrow.parquet.ParquetFile(path) as file:
                groups = file.num_row_groups
                for group in range(start, groups):
                    yield file.read_row_group(group), _Place(size if group + 1 == groups else group + 1, size)
                if not groups:
                    yield file.read(), _Place(size, size)
        except (pa.ArrowException, OSError) as reason:
            raise ConnectorError(f"{path} cannot be read as Parquet: {reason}") from None

    def _lines(
        self, path: Path, start: int, kind: Literal["csv", "json"], table: Table
    ) -> Iterator[tuple[pa.Table, _Place]]:
        with path.open("rb") as file:
            size = path.stat().st_size
            header = _header(file, path) if kind == "csv" else None
            if kind == "csv" and header is None:
                return
            at = max(start, file.tell())
            file.seek(at)
            for chunk in _records(file, size - at, self._batch_bytes, kind == "csv", whole=not self._growing):
                try:
                    data = _csv(chunk, header or [], table) if kind == "csv" else _json(chunk, table)
                except (pa.ArrowException, ValueError, KeyError, InvalidOperation) as reason:
                    where = f"{path}, in the {len(chunk)} bytes from {at} on"
                    raise ConnectorError(f"{where}: not rows of {table.name!r}: {reason}") from None
                at += len(chunk)
                yield data, _Place(at, size)


def _is_hidden(path: Path) -> bool:
    """Is it a file that is not finished, or not data, by the custom of Hadoop, rsync and others?

    >>> _is_hidden(Path("day=1/0.csv")), _is_hidden(Path("_temporary/0.csv")), _is_hidden(Path(".1.csv"))
    (False, True, True)
    """
    return any(part.startswith((".", "_")) for part in path.parts)


def _header(file: io.BufferedIOBase, path: Path) -> list[str] | None:
    """The names in the first line, or nothing while there is no whole line."""
    line = file.readline()
    if not line.endswith(b"\n"):
        return None
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as reason:
        raise ConnectorError(f"{path}: the first line is not UTF-8: {reason}") from None
    return next(csv.reader([text.rstrip("\r\n")]))


def _records(
    file: io.BufferedIOBase, left: int, batch_bytes: int, quoted: bool, whole: bool
) -> Iterator[bytes]:
    """The next ``left`` bytes in chunks of whole records; a last line without its end counts if ``whole``."""
    rest = b""
    while left:
        piece = file.read(min(left, batch_bytes))
        left -= len(piece)
        if not piece:
            break
        rest += piece
        end = _last_record_end(rest, quoted)
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest and whole:
        yield rest


def _last_record_end(text: bytes, quoted: bool) -> int:
    r"""Behind the last line end that is not inside quotes; 0 if there is none.

    >>> _last_record_end(b'1,"a\nb"\n2,"c\n', quoted=True)
    8
    """
    end = len(text)
    quotes = text.count(b'"') if quoted else 0
    while (newline := text.rfind(b"\n", 0, end)) >= 0:
        quotes -= text.count(b'"', newline, end) if quoted else 0
        if quotes % 2 == 0:
            return newline + 1
        end = newline
    return 0


def _csv(chunk: bytes, header: list[str], table: Table) -> pa.Table:
    """An empty field is NULL, and "" the empty text."""
    names = [name.strip().lower() for name in header]
    types = {**arrow_types(table), **EXTRA_TYPES}
    if not chunk.strip():
        return pa.table({name: pa.array([], types.get(name, pa.string())) for name in names})
    return pyarrow.csv.read_csv(
        io.BytesIO(chunk),
        read_options=pyarrow.csv.ReadOptions(
            column_names=names, use_threads=False, block_size=len(chunk) + 1
        ),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: kind for name, kind in types.items() if name in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _json(chunk: bytes, table: Table) -> pa.Table:
    """One object per line; numbers are read exactly, and a key that is missing is NULL."""
    rows = [json.loads(line, parse_float=Decimal) for line in chunk.splitlines() if line.strip()]
    for row in rows:
        if not isinstance(row, dict):
            raise ValueError(f"{json.dumps(row, default=str)[:60]} is not an object: one object per line")
    lower = [{key.lower(): value for key, value in row.items()} for row in rows]
    seen = {key for row in lower for key in row}
    readers = {column.name: reader(column.type) for column in table.columns}
    for key in sorted(seen - readers.keys() - DIRECTIONS - FEED_COLUMNS):
        raise ValueError(f"there is no column {key!r}")
    types = {**arrow_types(table), **EXTRA_TYPES}
    names = [*readers, *sorted(seen & DIRECTIONS)]
    return pa.table(
        {
            name: pa.array([_value(row.get(name), readers.get(name)) for row in lower], types[name])
            for name in names
        }
    )


def _value(value: Any, read: Any) -> Any:
    """A JSON value as the column wants it: text is read, and no number is rounded or taken for a date."""
    match value:
        case None:
            return None
        case str():
            return value if read is None else read(value)
        case bool() if read not in (int, float, Decimal, str):
            return value
        case int() if read in (None, int, float, Decimal) and not isinstance(value, bool):
            return value if read in (None, int) else read(value)
        case Decimal() if read in (float, Decimal):
            return read(value)
    raise ValueError(f"{value} does not fit its column")
