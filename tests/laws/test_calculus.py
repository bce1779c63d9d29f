"""Laws of the calculus, on the map definitions of random queries.

delta:     f(db + d) == f(db) + delta(f)(db, d), for one row and for a batch
simplify:  evaluate(simplify(f), db) == evaluate(f, db)
text:      parse(show(f)) == f
canonical: renaming variables and reordering factors does not change the canonical text
"""

from __future__ import annotations

from random import Random

import pytest

from laws.maintenance import compiled, contents_of, program, steps
from viewlet.calculus.canonical import canonical_form
from viewlet.calculus.delta import delta
from viewlet.calculus.evaluate import Key, Number, Tables, evaluate_query
from viewlet.calculus.events import WEIGHT, BatchEvent, TupleEvent
from viewlet.calculus.nodes import Query, Term, tables
from viewlet.calculus.parse import parse_query
from viewlet.calculus.simplify import simplify_query
from viewlet.calculus.substitute import freshen
from viewlet.calculus.text import show_query
from viewlet.core.names import Names
from viewlet.core.scalar import Var
from viewlet.plan.bags import consolidate
from viewlet.triggers.program import MapDefinition

SEEDS = [*range(16), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(16, 400))]
MOST_MAPS = 6


def definitions(seed: int) -> list[MapDefinition]:
    compiled_program = program(seed)
    return list(compiled_program.maps.values())[:MOST_MAPS] if compiled_program else []


def added(left: dict[Key, Number], right: dict[Key, Number]) -> dict[Key, Number]:
    total = {key: left.get(key, 0) + right.get(key, 0) for key in left.keys() | right.keys()}
    return {key: value for key, value in total.items() if value}


def names_of(query: Query) -> Names:
    """Fresh names that stay clear of everything in a query's text."""
    words = show_query(query).replace("(", " ").replace(",", " ").replace(":", " ").split()
    return Names(frozenset(word.strip("<>[]{}()") for word in words))


@pytest.mark.parametrize("seed", SEEDS)
def test_delta_of_one_row_and_of_a_batch(seed: int) -> None:
    found = compiled(seed)
    if found is None:
        pytest.skip("the front end refuses this query")
    case, catalog, _ = found
    columns = {name: catalog[name].column_names for name in catalog}
    before = contents_of(case, catalog, 0.6)
    rest = list(steps(case, catalog))[int(len(case.changes) * 0.6) :]
    for definition in definitions(seed):
        old = evaluate_query(definition.definition, definition.keys, Tables(columns, before))
        for table in sorted(tables(definition.definition)):
            rows = consolidate((change.row, change.weight) for name, change in rest if name == table)
            if not rows:
                continue
            after = {**before, table: consolidate([*before[table].items(), *rows.items()])}
            new = evaluate_query(definition.definition, definition.keys, Tables(columns, after))
            change = delta(definition.definition, BatchEvent(catalog[table]), names_of(definition.definition))
            store = Tables(columns, before, {table: rows})
            assert added(old, evaluate_query(change, definition.keys, store)) == new

            row, weight = next(iter(rows.items()))
            after = {**before, table: consolidate([*before[table].items(), (row, weight)])}
            new = evaluate_query(definition.definition, definition.keys, Tables(columns, after))
            event = TupleEvent(catalog[table])
            change = delta(definition.definition, event, names_of(definition.definition))
            bound = dict(zip((var.name for var in event.parameters), row, strict=True))
            single = evaluate_query(
                change, definition.keys, Tables(columns, before), {**bound, WEIGHT.name: weight}
            )
            assert added(old, single) == new


@pytest.mark.parametrize("seed", SEEDS)
def test_simplify_keeps_the_meaning(seed: int) -> None:
    found = compiled(seed)
    if found is None:
        pytest.skip("the front end refuses this query")
    case, catalog, _ = found
    store = Tables({name: catalog[name].column_names for name in catalog}, contents_of(case, catalog))
    for definition in definitions(seed):
        query, keys = definition.definition, definition.keys
        simplified = simplify_query(query, (key.name for key in keys), names_of(query))
        assert evaluate_query(simplified, keys, store) == evaluate_query(query, keys, store)


@pytest.mark.parametrize("seed", SEEDS)
def test_text_reads_back(seed: int) -> None:
    found = compiled(seed)
    if found is None:
        pytest.skip("the front end refuses this query")
    columns = {name: {c.name: c.type for c in found[1][name].columns} for name in found[1]}
    for definition in definitions(seed):
        assert parse_query(show_query(definition.definition), columns) == definition.definition


@pytest.mark.parametrize("seed", SEEDS)
def test_canonical_text_ignores_names_and_order(seed: int) -> None:
    random = Random(seed)
    for definition in definitions(seed):
        query, keys = definition.definition, list(definition.keys)
        renamed = freshen(query, keys, names_of(query))
        shuffled = tuple(
            Term(tuple(random.sample(term.factors, len(term.factors))), term.coefficient) for term in renamed
        )
        random.shuffle(keys)
        other = canonical_form(shuffled, tuple(keys))
        own = canonical_form(query, definition.keys)
        assert other.text == own.text
        assert {Var(key.name) for key in other.keys} == {Var(key.name) for key in own.keys}
