"""What a program does, in words: strategy, records, work per change, and why anything is recomputed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from viewlet.calculus.delta import affected_by
from viewlet.calculus.events import TupleEvent
from viewlet.calculus.nodes import Exists, Extremum, Nested, tables
from viewlet.calculus.text import show_factor
from viewlet.core.names import Names
from viewlet.core.types import Kind
from viewlet.sql.catalog import Catalog
from viewlet.triggers.caches import cached_domain
from viewlet.triggers.order import reads
from viewlet.triggers.program import Program, Statement
from viewlet.triggers.reach import part_of
from viewlet.triggers.records import Record, lay_out
from viewlet.triggers.text import show_statement
from viewlet.triggers.work import AllBut, Ordered, accesses, order_of, ordered_paths, scans


def explain(program: Program, view: str, searches: Ordered) -> str:
    """The story of one view; ``searches`` tells whether the engine keeps ordered indexes."""
    part = part_of(program, view)
    return "\n".join(_lines(part, view, searches))


def _lines(program: Program, view: str, searches: Ordered) -> Iterator[str]:
    layout = lay_out(program.maps.values())
    records, names = layout.records, {name: place.record for name, place in layout.places.items()}
    yield f"view {view}: {_verdict(program, searches)}, {len(records)} record{'s' * (len(records) != 1)}"
    yield ""
    for record in records.values():
        yield f"  {_show_record(record, program)}"
    for table, trigger in program.triggers.items():
        yield ""
        kept = len({statement.target for statement in trigger.statements})
        maps = f"{kept} map{'s' * (kept != 1)}"
        yield f"  one change of {table}: {maps}, {_total(trigger.statements, searches, names)}"
        yield from (f"    {line}" for line in _unreferred(program, table))
        for statement in trigger.statements:
            yield f"    {show_statement(statement)}"
            paths = ordered_paths(statement.query, searches, names)
            order = order_of(statement.query, searches, names)
            yield f"      {order}{': ' if paths else ''}{', '.join(paths)}"
    reasons = obstacles(program, view, searches)
    if reasons:
        yield ""
        yield "  not incremental:"
        yield from (f"    {reason}" for reason in reasons)


def _unreferred(program: Program, parent: str) -> Iterator[str]:
    """What need not be done, as an enforced foreign key says that there is nothing to join."""
    for name, key in Catalog(program.tables.values()).children(parent):
        columns, target = ", ".join(key.columns), ", ".join(key.target_columns)
        yield f"nothing for {name}: ({columns}) REFERENCES {parent} ({target}) ON DELETE RESTRICT"


def _verdict(program: Program, searches: Ordered) -> str:
    recomputed = [
        table for table, trigger in program.triggers.items() if _scanning(trigger.recomputations, searches)
    ]
    if not recomputed:
        return "incremental on every change"
    return f"recomputed from its maps on changes of {', '.join(recomputed)}"


def _total(statements: tuple[Statement, ...], searches: Ordered, names: Mapping[str, str]) -> str:
    orders = sorted({order_of(statement.query, searches, names) for statement in statements} - {"O(1)"})
    return " + ".join(orders) or "O(1)"


def _show_record(record: Record, program: Program) -> str:
    keys = ", ".join(name for name, _, _ in record.keys)
    fields = ", ".join(f"{field.name} {field.type}" for field in record.fields)
    definition = program.maps[record.fields[0].map]
    sources = ", ".join(sorted(tables(definition.definition)))
    domain = cached_domain(definition)
    cache = f", a view cache for {show_factor(domain)}" if domain else ""
    return f"{record.name}[{keys}] {{{fields}}} over {sources}{cache}"


def _scanning(statements: tuple[Statement, ...], searches: Ordered) -> list[Statement]:
    return [s for s in statements if scans(s.query, searches)]


def obstacles(program: Program, view: str, searches: Ordered) -> tuple[str, ...]:
    """Why a view is not incremental: one reason per table and recomputed map; none if every change is.

    A map that is recomputed from lookups and searches, and the rows that match, is no obstacle.
    """
    part = part_of(program, view)
    names = {name: place.record for name, place in lay_out(part.maps.values()).places.items()}
    return tuple(
        f"{table}: {statement.target} is recomputed in {order_of(statement.query, searches, names)}, because "
        f"{_cause(part, statement, table)}{_remedy(part, statement, searches)}"
        for table, trigger in part.triggers.items()
        for statement in _scanning(trigger.recomputations, searches)
    )


def _remedy(program: Program, statement: Statement, searches: Ordered) -> str:
    """The access path that would remove the loop: one that another engine has, or one that there is not."""
    caches = [name for name in sorted(reads(statement.query)) if cached_domain(program.maps[name])]
    if caches:
        return f"; {' and '.join(caches)} hold it for the values asked for, and these are gone through"
    own, order = ordered_paths(statement.query, searches), order_of(statement.query)
    missing = [path for path in ordered_paths(statement.query) if path not in own]
    if searches is not True and missing and scans(statement.query, searches) and not scans(statement.query):
        reasons = _unordered(program, sorted(reads(statement.query)), searches)
        return (
            f"; {', '.join(missing)} makes it {order}: backend='reference' has ordered indexes for that"
            f"{reasons}"
        )
    loops = {loop for access in accesses(statement.query, searches) for loop in access.loops}
    if any(loop.startswith("groups of ") for loop in loops):
        return "; the groups are gone through with a search each: only a crossing per group would do less"
    if ordered_paths(statement.query, searches):
        return (
            "; the levels are gone through with a search each (the general algorithm): "
            "its condition is not monotone in any one key, so no threshold search replaces them"
        )
    return "; no key has conditions that are monotone in it, so no ordered access path serves"


def _unordered(program: Program, maps: Iterable[str], searches: Ordered) -> str:
    """Why compiled programs have no ordered index along some maps."""
    found = [program.maps[name] for name in maps if isinstance(searches, AllBut) and name in searches.maps]
    rounded = [definition.name for definition in found if definition.type.is_floating]
    text = [d.name for d in found if any(key.type.kind is Kind.VARCHAR for key in d.keys)]
    reasons = [f"{' and '.join(rounded)} sums DOUBLE, which is added up on the way"] * bool(rounded)
    reasons += [f"{' and '.join(text)} is by text, of which they keep no best"] * bool(text)
    return f" (compiled programs have none: {'; '.join(reasons)})" if reasons else ""


def _cause(program: Program, statement: Statement, table: str) -> str:
    """The nested factor of a recomputed map that a change of the table affects for every key."""
    event = TupleEvent(program.tables[table])
    for term in program.maps[statement.target].definition:
        for factor in term.factors:
            affected = affected_by(factor, event, Names())
            if affected is not None and affected.domain is None:
                return (
                    f"a row of {table} can change {_kind(affected.old)} for every key: {show_factor(factor)}"
                )
    return "re-evaluation was asked for, or the deltas are too large to compile"


def _kind(factor: Nested) -> str:
    match factor:
        case Exists():
            return "whether something exists"
        case Extremum():
            return f"the {factor.op}imum"
        case _:
            return "a sum"
