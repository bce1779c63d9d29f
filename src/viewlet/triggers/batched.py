"""What one changed row does, done for all rows of a batch.

Where a definition reads the changed table once, the change is linear in the row, and the statement for a
batch is the statement for one row with the row's columns bound by the batch::

    M[@a] += <@W> * N[@b, y] * {3 == @c}    ->    M[x] += dR(a: x, b: z, c: 3) * N[z, y]
                                                  M[x] =   R(a: x, b: z, c: 3) * ..

Both read the same maps, so nothing is differentiated, simplified or materialized a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from viewlet.calculus.events import WEIGHT
from viewlet.calculus.nodes import (
    Argument,
    Cond,
    Delta,
    Factor,
    Nested,
    Rel,
    Term,
    Value,
    factor_variables,
    tables,
    term_variables,
)
from viewlet.calculus.substitute import substitute_factor
from viewlet.core.scalar import Call, Const, Var, call
from viewlet.sql.catalog import Table
from viewlet.triggers.program import MapDefinition, Statement

Binds = tuple[tuple[str, Argument], ...]


def batched(
    target: MapDefinition, table: Table, statements: Iterable[Statement]
) -> tuple[Statement, ...] | None:
    """The statements for a batch, from those for one row; ``None`` where they are not found this way.

    That is where the definition has several terms, reads the table more than once or below a nested query, or
    matches two columns with one variable; and where a statement has nested queries, whose keys would have to
    name what parameters need not, or equalities, which a batch would rather use up.
    """
    binds = _only_occurrence(target, table)
    if binds is None:
        return None
    found = [_over_batch(statement, Delta(table.name, binds)) for statement in statements]
    return tuple(s for s in found if s is not None) if None not in found else None


def _only_occurrence(target: MapDefinition, table: Table) -> Binds | None:
    """What the one atom of a table binds, variables as its columns hold them, each another."""
    if len(target.definition) != 1:
        return None
    factors = target.definition[0].factors
    atoms = [f for f in factors if isinstance(f, Rel) and f.table == table.name]
    if len(atoms) != 1 or any(isinstance(f, Nested) and table.name in tables(f.query) for f in factors):
        return None
    held = {column.name: column for column in table.columns}
    binds = tuple(
        (column, Var(x.name, held[column].type, held[column].nullable) if isinstance(x, Var) else x)
        for column, x in atoms[0].binds
    )
    names = [x.name for _, x in binds if isinstance(x, Var)]
    return binds if len(set(names)) == len(names) else None


def _over_batch(statement: Statement, change: Delta) -> Statement | None:
    by = {f"@{column}": x for column, x in change.binds if isinstance(x, Var)}
    matched = [Cond(call("==", x, Var(f"@{c}"))) for c, x in change.binds if isinstance(x, Const)]
    keys = tuple(by.get(key.name, key) if isinstance(key, Var) else key for key in statement.keys)
    terms: list[Term] = []
    for term in statement.query:
        rest = [f for f in term.factors if f not in matched]
        if len(rest) + len(matched) != len(term.factors) or not _is_linear(rest):
            return None
        factors = tuple(change if f == Value(WEIGHT) else substitute_factor(f, by) for f in rest)
        terms.append(Term(factors, term.coefficient))
    read = {key.name for key in keys if isinstance(key, Var)}
    read.update(name for term in terms for name in term_variables(f for f in term.factors if f is not change))
    kept = tuple((column, x) for column, x in change.binds if isinstance(x, Const) or x.name in read)
    narrow = replace(change, binds=kept)
    query = tuple(
        replace(term, factors=tuple(narrow if f is change else f for f in term.factors)) for term in terms
    )
    return replace(statement, keys=keys, query=query)


def _is_linear(factors: list[Factor]) -> bool:
    """Are they flat, without an equality, and the weight one of them and in no other?"""
    if any(
        isinstance(f, Nested) or (isinstance(f, Cond) and isinstance(f.scalar, Call) and f.scalar.op == "==")
        for f in factors
    ):
        return False
    return [f for f in factors if WEIGHT in factor_variables(f)] == [Value(WEIGHT)]
