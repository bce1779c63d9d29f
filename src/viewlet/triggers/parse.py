"""Reads maintenance programs back from their text, given the tables they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from viewlet.calculus.events import WEIGHT
from viewlet.calculus.nodes import Argument, Query, term_variables
from viewlet.calculus.parse import MapTypes, parse_query
from viewlet.core.scalar import Const, Var
from viewlet.core.text import Tokens, read_scalar, read_type
from viewlet.core.types import Type
from viewlet.errors import CalculusError
from viewlet.sql.catalog import Catalog
from viewlet.triggers.program import MapDefinition, Statement, StatementOp, Trigger

HEAD = re.compile(r"(?P<name>\w+)\[(?P<keys>.*?)\] (?P<op>\+=|:=) (?P<query>.*)", re.DOTALL)


@dataclass(slots=True)
class ProgramText:
    """The maps and triggers that a text spells out."""

    maps: dict[str, MapDefinition] = field(default_factory=dict)
    triggers: dict[str, Trigger] = field(default_factory=dict)


def parse_program(text: str, catalog: Catalog) -> ProgramText:
    """Maps and triggers of a program's text; its views are read from the maps and are left out."""
    columns = {name: {c.name: c.type for c in catalog[name].columns} for name in catalog}
    found = ProgramText()
    types: dict[str, tuple[tuple[Type, ...], Type]] = {}
    for block in re.split(r"\n\n+", text.strip()):
        head, *body = _logical_lines(block)
        if head.startswith("map "):
            for line in (head, *body):
                definition = _map(line, columns)
                found.maps[definition.name] = definition
                types[definition.name] = (tuple(key.type for key in definition.keys), definition.type)
        elif head.startswith("on "):
            table = head.removeprefix("on ").removesuffix(":")
            found.triggers[table] = _trigger(table, body, columns, types)
    return found


def _logical_lines(block: str) -> Iterator[str]:
    """Lines, with those that start with ``+`` joined to the one before."""
    lines: list[str] = []
    for line in block.splitlines():
        if line.strip().startswith("+ "):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
    return iter(lines)


def _map(line: str, columns: Mapping[str, Mapping[str, Type]]) -> MapDefinition:
    """``map M[keys]: TYPE := definition``"""
    head, _, body = line.removeprefix("map ").partition(" := ")
    name, _, rest = head.partition("[")
    keys, _, kind = rest.partition("]: ")
    definition = parse_query(body, columns)
    known = {var.name: var for var in _variables(definition)}
    own = tuple(known[key] for key in keys.split(", ") if key)
    return MapDefinition(name, own, definition, read_type(Tokens(kind)))


def _variables(query: Query) -> Iterator[Var]:
    for term in query:
        yield from term_variables(term.factors).values()


def _trigger(
    table: str, lines: list[str], columns: Mapping[str, Mapping[str, Type]], maps: MapTypes
) -> Trigger:
    parameters = {f"@{name}": kind for name, kind in columns[table].items()} | {WEIGHT.name: WEIGHT.type}
    statements = [_statement(line, columns, maps, parameters) for line in lines]
    return Trigger(
        table,
        tuple(s for s in statements if s.op == "+="),
        tuple(s for s in statements if s.op == ":="),
    )


def _statement(
    line: str, columns: Mapping[str, Mapping[str, Type]], maps: MapTypes, parameters: Mapping[str, Type]
) -> Statement:
    found = HEAD.fullmatch(line)
    if found is None:
        raise CalculusError(f"this is no statement: {line!r}")
    query = parse_query(found["query"], columns, maps, parameters)
    known = {name: Var(name, kind) for name, kind in parameters.items()}
    known |= {var.name: var for var in _variables(query)}
    op: StatementOp = "+=" if found["op"] == "+=" else ":="
    return Statement(found["name"], _keys(found["keys"], known), op, query)


def _keys(text: str, known: Mapping[str, Var]) -> tuple[Argument, ...]:
    tokens = Tokens(text)
    keys: list[Argument] = []
    while tokens.peek():
        if keys:
            tokens.expect(",")
        key = read_scalar(tokens, known)
        assert isinstance(key, Var | Const)
        keys.append(key)
    return tuple(keys)
