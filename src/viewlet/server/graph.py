"""The trigger programs of a database as a graph: from tables through records of maps to views.

An edge leads from what changes to what follows: a table to the records that its trigger keeps, a record to
those whose statements read it, a record to the views that are read from it, a view to the views on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.backends.base import MapStats
from viewlet.database import Database
from viewlet.sql.catalog import Table, TableKind
from viewlet.triggers.order import reads
from viewlet.triggers.program import Program, Statement
from viewlet.triggers.reach import part_of
from viewlet.triggers.records import Layout, Record, lay_out
from viewlet.triggers.text import show_map, show_statement
from viewlet.triggers.work import Ordered, accesses, order_of

NodeKind: TypeAlias = Literal["table", "map", "view"]

# By the place of a program, and the name of a map in it.
Sizes: TypeAlias = Mapping[tuple[int | None, str], MapStats]


@dataclass(frozen=True, slots=True)
class Step:
    """One statement that keeps a record: on a change of ``table``, at a cost."""

    table: str
    text: str
    order: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A table, a record of maps, or a view."""

    id: str
    kind: NodeKind
    name: str
    caption: str
    columns: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    records: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, and edges between them by id, each once."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[str, str], ...]


def graph_of(database: Database, sizes: Iterable[MapStats] = ()) -> Graph:
    """Draw the programs of a database; a view that is re-evaluated hangs on what it reads.

    >>> import viewlet
    >>> db = viewlet.connect(backend="reference")
    >>> db.execute("CREATE TABLE r (a BIGINT, b BIGINT)")
    >>> db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM r GROUP BY a")
    >>> graph_of(db).edges
    (('relation:r', 'map:0:v'), ('map:0:v', 'relation:v'))
    """
    known = {(size.program, size.name): size for size in sizes}
    programs = database.programs()
    parts = [_part(number, *program, known) for number, program in enumerate(programs)]
    parts += [
        _relation_part(table, database, any(table.name in program.views for program, _ in programs))
        for table in database.catalog.values()
    ]
    return Graph(
        tuple(node for part in parts for node in part.nodes),
        tuple(dict.fromkeys(edge for part in parts for edge in part.edges)),
    )


def _relation_part(table: Table, database: Database, has_program: bool) -> Graph:
    """A table or view, and the edges to a view that no program keeps."""
    columns, name = tuple(map(str, table.columns)), _relation(table.name)
    if table.kind is not TableKind.VIEW:
        return Graph((Node(name, "table", table.name, table.kind.value.lower(), columns),), ())
    sql, reads = database.definition(table.name)
    if has_program:
        return Graph((Node(name, "view", table.name, "view", columns, (sql,)),), ())
    edges = tuple((_relation(read), name) for read in sorted(reads))
    return Graph((Node(name, "view", table.name, "view, re-evaluated", columns, (sql,)),), edges)


def _relation(name: str) -> str:
    return f"relation:{name}"


def _part(number: int, program: Program, ordered: Ordered, sizes: Sizes) -> Graph:
    layout = lay_out(program.maps.values())

    def node_of(map_name: str) -> str:
        return f"map:{number}:{layout.places[map_name].record}"

    edges = [
        edge
        for table, trigger in program.triggers.items()
        for statement in trigger.statements
        for edge in [
            (_relation(table), node_of(statement.target)),
            *((node_of(name), node_of(statement.target)) for name in sorted(reads(statement.query))),
        ]
    ]
    edges += [
        (node_of(name), _relation(view.name))
        for view in program.views.values()
        for part in view.output
        for name in sorted(reads((part.term,)))
    ]
    indexes = _indexes(program, layout, ordered)
    nodes = [
        _record(
            f"map:{number}:{record.name}",
            record,
            program,
            indexes[record.name],
            ordered,
            sizes.get((number, record.name)),
        )
        for record in layout.records.values()
    ]
    return Graph(tuple(nodes), tuple((a, b) for a, b in edges if a != b))


def _record(
    identity: str,
    record: Record,
    program: Program,
    indexes: tuple[str, ...],
    ordered: Ordered,
    size: MapStats | None,
) -> Node:
    own = {field.map for field in record.fields}
    steps = tuple(
        Step(table, show_statement(statement), order_of(statement.query, ordered), _paths(statement, ordered))
        for table, trigger in program.triggers.items()
        for statement in trigger.statements
        if statement.target in own
    )
    return Node(
        identity,
        "map",
        record.name,
        f"[{', '.join(name for name, _, _ in record.keys)}]",
        (),
        tuple(show_map(program.maps[field.map]) for field in record.fields),
        indexes,
        steps,
        size.records if size else None,
        size.bytes if size else None,
    )


def _paths(statement: Statement, ordered: Ordered) -> tuple[str, ...]:
    return tuple(
        f"{access.path} {access.map}"
        + (f" by {len(access.bound)} of its keys" if access.path == "slice" else "")
        for access in accesses(statement.query, ordered)
    )


def _indexes(program: Program, layout: Layout, ordered: Ordered) -> Mapping[str, tuple[str, ...]]:
    """The indexes that the statements of all triggers ask of each record, by its name.

    Each statement is gone through once, for all records: programs of many views have hundreds of both.
    """
    keys = {record.name: [name for name, _, _ in record.keys] for record in layout.records.values()}
    found = {name: {f"unique ({', '.join(own)})": None} for name, own in keys.items()}
    statements = (s for trigger in program.triggers.values() for s in trigger.statements)
    for access in (access for s in statements for access in accesses(s.query, ordered)):
        place = layout.places[access.map]
        if access.path == "slice":
            named = zip(keys[place.record], place.order, strict=True)
            bound = [name for name, at in named if at in access.bound]
            found[place.record][f"slice ({', '.join(bound)})"] = None
        elif access.path in ("search", "edge", "turn", "range", "end"):
            found[place.record][f"ordered, for {access.path}"] = None
    return {name: tuple(indexes) for name, indexes in found.items()}


def view_bytes(programs: Sequence[tuple[Program, Ordered]], sizes: Iterable[MapStats]) -> dict[str, int]:
    """The bytes of the records that each view needs; a shared record counts for every one of them."""
    known = {(size.program, size.name): size.bytes for size in sizes}
    result = {}
    for number, (program, _) in enumerate(programs):
        places = lay_out(program.maps.values()).places
        for view in program.views:
            records = {places[name].record for name in part_of(program, view).maps}
            result[view] = sum(known.get((number, record), 0) for record in records)
    return result
