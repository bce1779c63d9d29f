"""What a shell does with a line: SQL goes to the database, commands that start with a dot stay here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewlet.cli.files import read_text
from viewlet.cli.output import Output
from viewlet.cli.panel import Face, Panel
from viewlet.database import Database
from viewlet.errors import SqlError, choices
from viewlet.handles import View
from viewlet.sql.catalog import Table, TableKind
from viewlet.sql.script import split
from viewlet.subscriptions import Subscription

IN_ORDER = 2_000
"""Views of more rows are watched in whatever order they come."""


class Leave(Exception):  # noqa: N818  a wish, not an error
    """The user wants to leave."""


class Session:
    """A conversation with one database; ``output`` receives what is to be shown, ``panel`` watched views."""

    def __init__(
        self, db: Database, output: Output, dialect: str = "spark", panel: Panel | None = None
    ) -> None:
        self.db, self.dialect = db, dialect
        self._output, self._panel = output, panel
        self._watched: dict[str, Subscription] = {}
        self.commands: dict[str, tuple[str, Callable[[str], None]]] = {
            ".tables": ("the tables and their columns", self._tables),
            ".views": ("the views, their columns and sizes", self._views),
            ".explain": ("NAME or SQL: how a view is kept, or a query would be", self._explain),
            ".watch": ("NAME: show the view now, and again after every commit", self._watch),
            ".unwatch": ("NAME: stop that", self._unwatch),
            ".stats": ("rows, maps, bytes, time", self._stats),
            ".read": ("FILE: run the statements of a file", self._read),
            ".help": ("this list", self._help),
            ".quit": ("leave", self._quit),
        }

    def run(self, text: str) -> None:
        """Run one command, or SQL statements, and show what they give."""
        if text.lstrip().startswith("."):
            name, _, argument = text.strip().partition(" ")
            if name not in self.commands:
                raise SqlError(f"there is no command {name}; {choices(name, self.commands)}")
            self.commands[name][1](argument.strip().rstrip(";"))
            return
        for statement in split(text, self.dialect):
            self._show(self.db.execute(statement.placed))

    def read(self, path: Path) -> None:
        """Run the statements of a file."""
        self.run(read_text(path))

    def _read(self, name: str) -> None:
        if not name:
            raise SqlError(".read needs the name of a file")
        self.read(Path(name))

    def _show(self, result: Any) -> None:
        match result:
            case None:
                self._output.note("ok")
            case int(version):
                self._output.commit(version)
            case pa.Table():
                self._output.rows(result.column_names, _tuples(result))
            case text:
                self._output.note(str(text))

    def _tables(self, _: str) -> None:
        self._relations(t for t in self.db.catalog.values() if t.kind is not TableKind.VIEW)

    def _views(self, _: str) -> None:
        self._relations(t for t in self.db.catalog.values() if t.kind is TableKind.VIEW)

    def _relations(self, relations: Iterable[Table]) -> None:
        rows = [
            (t.name, t.kind.value.lower(), self._size(t), ", ".join(map(str, t.columns))) for t in relations
        ]
        if rows:
            self._output.rows(["name", "kind", "rows", "columns"], rows)
        else:
            self._output.note("none")

    def _size(self, table: Table) -> int | None:
        if table.kind is TableKind.STREAM:
            return None  # keeps no rows
        return len(self.db.view(table.name) if table.kind is TableKind.VIEW else self.db.table(table.name))

    def _explain(self, target: str) -> None:
        if not target:
            raise SqlError(".explain needs the name of a view or a query")
        self._output.note(self.db.explain(target))

    def _watch(self, name: str) -> None:
        if not name:
            self._output.note(f"watching {', '.join(self._watched) or 'nothing'}")
            return
        view = self.db.view(name)
        if self._panel is None:
            self._output.rows([c.name for c in view.columns], view.rows())
        if view.name in self._watched:
            return
        if self._panel is not None:
            self._panel.pin(view.name, lambda: self._face(view))
        self._watched[view.name] = view.subscribe(lambda change: self._announce(view.name, change))

    def _face(self, view: View) -> Face:
        """How a view looks now; of a large one some rows, in no order."""
        table = view.to_arrow()
        rows = view.rows() if table.num_rows <= IN_ORDER else _tuples(table.slice(0, IN_ORDER))
        return Face([c.name for c in view.columns], rows, table.num_rows, self.db.version)

    def _announce(self, name: str, change: pa.Table) -> None:
        if self._panel is not None:
            self._panel.draw()
            return
        (version,) = set(change["_commit_version"].to_pylist())
        columns = [c for c in change.column_names if c not in ("_change_type", "_commit_version")]
        signs = ["+" if kind == "insert" else "-" for kind in change["_change_type"].to_pylist()]
        rows = zip(signs, *(change[column].to_pylist() for column in columns), strict=True)
        self._output.rows(["", *columns], list(rows), f"{name} at commit {version}:")

    def _unwatch(self, name: str) -> None:
        if name not in self._watched:
            raise SqlError(f"{name!r} is not watched; watched: {', '.join(self._watched) or 'nothing'}")
        self._watched.pop(name).close()
        if self._panel is not None:
            self._panel.unpin(name)

    def _stats(self, _: str) -> None:
        self._output.note(str(self.db.stats()))

    def _help(self, _: str) -> None:
        self._output.note("\n".join(f"{name:<9} {about}" for name, (about, _) in self.commands.items()))

    def _quit(self, _: str) -> None:
        raise Leave


def _tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
