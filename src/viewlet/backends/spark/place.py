"""Where each map lives.

The rule of the thesis (section 5.5): a map is partitioned by the primary key of a base table that is among
its keys, by the one of the largest table if there are several; a map without such a key is assumed to be
small and stays on the driver. Foreign keys count as the primary key they refer to, so maps that join on them
are partitioned alike. Maps over static tables alone are replicated: they never change.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.backends.spark.nodes import Dist, Local, Location, Replicated
from viewlet.calculus.nodes import Query, Rel, nested_factors
from viewlet.core.scalar import Var
from viewlet.errors import CompileError
from viewlet.sql.catalog import Table, TableKind
from viewlet.triggers.program import MapDefinition, Program

FIRST, DECLARED = 1e100, 1e200  # larger than any table


def place(
    program: Program,
    rows: Mapping[str, int] | None = None,
    partition_by: Mapping[str, str] | None = None,
    first: str | None = None,
) -> dict[str, Location]:
    """The location of every map of a program.

    ``rows`` gives the sizes of tables as far as they are known; a table that refers to another is taken to be
    larger than it. ``partition_by`` declares, per table, a column whose values partition whatever maps have
    it among their keys, before any primary key. The key of the table ``first`` comes before that of any
    other table, whatever its size.
    """
    declared = dict(partition_by or {})
    for table, column in declared.items():
        if table in program.tables and column not in program.tables[table].column_names:
            known = ", ".join(program.tables[table].column_names)
            raise CompileError(f"partition_by: table {table!r} has no column {column!r}; there are {known}")
    sizes = _sizes(program.tables, rows or {})
    if first is not None:
        sizes[first] = FIRST
    return {
        name: Replicated()
        if program.is_constant(name)
        else _location(definition, program.tables, sizes, declared)
        for name, definition in program.maps.items()
    }


def entities(program: Program) -> list[str]:
    """The tables by whose primary keys some map could be partitioned."""
    found = {
        _entity(program.tables[table], column)
        for definition in program.maps.values()
        for table, column, _ in _columns(definition.definition, frozenset(k.name for k in definition.keys))
    }
    return sorted(name for name in found if name is not None)


def _location(
    definition: MapDefinition,
    known: Mapping[str, Table],
    sizes: Mapping[str, float],
    declared: Mapping[str, str],
) -> Location:
    positions = {key.name: i for i, key in reversed(list(enumerate(definition.keys)))}
    best: tuple[float, int] | None = None
    for table, column, name in _columns(definition.definition, frozenset(positions)):
        if declared.get(table) == column:
            size = DECLARED
        else:
            entity = _entity(known[table], column)
            if entity is None or (entity in known and known[entity].kind is TableKind.STATIC):
                continue
            size = sizes.get(entity, 0.0)
        candidate = (size, -positions[name])
        best = candidate if best is None else max(best, candidate)
    return Local() if best is None else Dist(-best[1])


def _columns(query: Query, wanted: frozenset[str]) -> list[tuple[str, str, str]]:
    """Which columns of which tables the wanted variables are, nested queries included."""
    found = [
        (factor.table, column, argument.name)
        for term in query
        for factor in term.factors
        if isinstance(factor, Rel)
        for column, argument in factor.binds
        if isinstance(argument, Var) and argument.name in wanted
    ]
    for nested in nested_factors(query):
        found += _columns(nested.query, wanted & {key.name for key in nested.keys})
    return found


def _entity(table: Table, column: str) -> str | None:
    """The table whose whole primary key a column holds: its own, or that of a table it refers to."""
    if table.key == (column,):
        return table.name
    for reference in table.references:
        if reference.columns == (column,):
            return reference.target
    return None


def _sizes(known: Mapping[str, Table], rows: Mapping[str, int]) -> dict[str, float]:
    """Known row counts, else below 1 and growing with the length of the longest chain of references."""
    depths: dict[str, int] = {}

    def depth(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above or name not in known:
            return 0
        if name not in depths:
            targets = {reference.target for reference in known[name].references}
            depths[name] = 1 + max((depth(target, (*above, name)) for target in targets), default=0)
        return depths[name]

    names = {*known, *(r.target for table in known.values() for r in table.references)}
    return {name: float(rows[name]) if rows.get(name) else 1 - 1 / (1 + depth(name)) for name in names}
