"""What variables hold: the type and nullability of what binds them.

While a query is one product, a condition in it can promise that a variable is not NULL, and the earlier
stages make use of that. Materialization tears products apart: a map over one table holds rows that a
condition elsewhere would have dropped. So before anything is stored or run, every variable gets the
nullability of what binds it: the columns of tables, the keys of maps, the scalars of lets. The type is that
of the first binder: a variable that joins an INT with a BIGINT column has had either on its way here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from viewlet.calculus.nodes import (
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    MapRef,
    Query,
    Rel,
    Value,
    product,
)
from viewlet.calculus.substitute import substitute_factor
from viewlet.core.scalar import Call, Const, Scalar, Var, nullable, substitute
from viewlet.core.types import Type

Held = tuple[Type, bool]
"""The type of what is stored somewhere, and whether it may be NULL."""

Columns = Callable[[Rel | Delta | MapRef], Iterable[Held]]
"""For an atom, what is stored in the place of each of its arguments."""


class Settled:
    """The type and nullability of every variable of one query, by what binds it."""

    def __init__(self, query: Query, columns: Columns, parameters: Iterable[Var] = ()) -> None:
        self._known: dict[str, Var] = {var.name: var for var in parameters}
        for _ in range(3):  # lets of lets: each round settles one more level
            told = [self._note(var.name, *held) for var, held in [*_binders(query, columns, self)]]
            if not any(told):
                break

    def _note(self, name: str, kind: Type, may_be_null: bool) -> bool:
        """Take note of a binder; did it tell anything new?"""
        old = self._known.get(name)
        if name.startswith("@") or (old is not None and (old.nullable or not may_be_null)):
            return False
        self._known[name] = Var(name, old.type if old is not None else kind, may_be_null)
        return True

    def scalar(self, scalar: Scalar) -> Scalar:
        """The scalar over settled variables."""
        return substitute(scalar, self._known)

    def variable(self, var: Var) -> Var:
        """The settled variable."""
        return self._known.get(var.name, var)

    def query(self, query: Query) -> Query:
        """The query over settled variables, at every depth."""
        return tuple(
            new
            for term in query
            for new in product(*(self.factor(f) for f in term.factors), coefficient=term.coefficient)
        )

    def factor(self, factor: Factor) -> Factor:
        """The factor over settled variables, at every depth."""
        match factor:
            case Lift(var, keys, query):
                return Lift(self.variable(var), self._keys(keys), self.query(query))
            case Extremum(var, op, of, keys, query):
                return Extremum(
                    self.variable(var), op, self.variable(of), self._keys(keys), self.query(query)
                )
            case Exists(keys, query, negated):
                return Exists(self._keys(keys), self.query(query), negated)
            case _:
                return substitute_factor(factor, self._known)

    def _keys(self, keys: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(self.variable(key) for key in keys)


def _binders(query: Query, columns: Columns, settled: Settled) -> Iterator[tuple[Var, Held]]:
    """Every variable with what its binder holds; a variable with several binders comes often."""
    for term in query:
        for factor in term.factors:
            match factor:
                case Rel(_, binds) | Delta(_, binds):
                    yield from _arguments((argument for _, argument in binds), columns(factor))
                case MapRef(_, keys):
                    yield from _arguments(keys, columns(factor))
                case Let(var, scalar):
                    yield var, (var.type, nullable(settled.scalar(scalar)))
                case Cond(Call("==", (left, right))):
                    yield from _equated(left, right, settled)
                case Lift(var, _, inner):
                    yield var, (var.type, False)
                    yield from _binders(inner, columns, settled)
                case Extremum(var, query=inner):
                    yield var, (var.type, True)
                    yield from _binders(inner, columns, settled)
                case Exists(query=inner):
                    yield from _binders(inner, columns, settled)
                case Cond() | Value():
                    pass


def _arguments(arguments: Iterable[Var | Const], held: Iterable[Held]) -> Iterator[tuple[Var, Held]]:
    for argument, column in zip(arguments, held, strict=True):
        if isinstance(argument, Var):
            yield argument, column


def _equated(left: Scalar, right: Scalar, settled: Settled) -> Iterator[tuple[Var, Held]]:
    """``{x == e}`` binds x where nothing else does."""
    for x, e in ((left, right), (right, left)):
        if isinstance(x, Var):
            yield x, (x.type, nullable(settled.scalar(e)))
