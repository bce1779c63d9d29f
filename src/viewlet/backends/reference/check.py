"""Can the rows of a view still be published? Only rows in which touched entries of maps take part are tried.

A view's rows are those of the assignments of its terms: after some entries of a map have changed, the rows
that may be new are those of assignments through these entries, the term with the map's keys bound to each. A
map inside a nested sum has no such assignments of its own: if it was touched, the term is computed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from viewlet.calculus.evaluate import Compiler, Env, Key, Number, Runner, Store
from viewlet.calculus.nodes import MapRef
from viewlet.core.node import walk
from viewlet.core.scalar import Const, Var
from viewlet.core.types import Value
from viewlet.triggers.program import OutputTerm, View

TouchedKeys: TypeAlias = Mapping[str, set[Key]]


def compile_check(view: View, store: Store) -> Callable[[TouchedKeys], None]:
    """A function that raises if a row of the view that touched entries take part in cannot be computed."""
    checks = [_compile_term(part, store) for part in view.output]

    def check(touched: TouchedKeys) -> None:
        for run in checks:
            run(touched)

    return check


def _compile_term(part: OutputTerm, store: Store) -> Callable[[TouchedKeys], None]:
    atoms = [factor for factor in part.term.factors if isinstance(factor, MapRef)]
    others = (factor for factor in part.term.factors if not isinstance(factor, MapRef))
    nested = {node.name for factor in others for node in walk(factor) if isinstance(node, MapRef)}
    whole = _compile_row(part, store, ())
    through = [(atom, _compile_row(part, store, atom.keys)) for atom in atoms]

    def run(touched: TouchedKeys) -> None:
        if not nested.isdisjoint(touched):
            compute(whole, {})
            return
        for atom, row in through:
            for key in touched.get(atom.name, ()):
                bound = _bind(atom, key)
                if bound is not None:
                    compute(row, bound)

    def compute(row: tuple[Compiler, Runner], bound: Mapping[str, Value]) -> None:
        compiler, runner = row
        runner(compiler.environment(bound), 1)

    return run


def _compile_row(part: OutputTerm, store: Store, keys: tuple[Var | Const, ...]) -> tuple[Compiler, Runner]:
    """The rows of a term, computed and forgotten, for given values of some keys."""
    compiler = Compiler(store)
    readers = [compiler.scalar(scalar) for scalar in part.row]

    def emit(env: Env, weight: Number) -> None:
        if weight:
            for reader in readers:
                reader(env)

    bound = frozenset(key.name for key in keys if isinstance(key, Var))
    return compiler, compiler.term(part.term, bound, emit)


def _bind(atom: MapRef, key: Key) -> dict[str, Value] | None:
    """The variables of a map's keys at one entry; ``None`` if the entry does not match them."""
    bound: dict[str, Value] = {}
    for argument, value in zip(atom.keys, key, strict=True):
        if isinstance(argument, Var):
            if bound.setdefault(argument.name, value) != value:
                return None
        elif argument.value != value:
            return None
    return bound
