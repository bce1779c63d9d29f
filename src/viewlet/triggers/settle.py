"""Which variables may be NULL where they are bound.

While a query is one product, a condition in it can promise that a variable is not NULL, and the earlier
stages make use of that. Materialization tears products apart: a map over one table holds rows that a
condition elsewhere would have dropped. So before anything is stored or run, every variable gets the
nullability of what binds it: the columns of tables, the keys of maps, the scalars of lets.
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

ColumnFlags = Callable[[Rel | Delta | MapRef], Iterable[bool]]
"""For an atom, whether each of its arguments may be NULL in what is stored there."""


class Settled:
    """The nullability of every variable of one query, by what binds it."""

    def __init__(self, query: Query, flags: ColumnFlags, parameters: Iterable[Var] = ()) -> None:
        self._known: dict[str, Var] = {var.name: var for var in parameters}
        for _ in range(3):  # lets of lets: each round settles one more level
            for var, may_be_null in list(_binders(query, flags, self)):
                self._note(var, may_be_null)

    def _note(self, var: Var, may_be_null: bool) -> None:
        old = self._known.get(var.name)
        if not var.name.startswith("@"):
            self._known[var.name] = Var(var.name, var.type, may_be_null or (old is not None and old.nullable))

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


def _binders(query: Query, flags: ColumnFlags, settled: Settled) -> Iterator[tuple[Var, bool]]:
    """Every variable with whether what binds it may be NULL; a variable with several binders comes often."""
    for term in query:
        for factor in term.factors:
            match factor:
                case Rel(_, binds) | Delta(_, binds):
                    yield from _arguments((argument for _, argument in binds), flags(factor))
                case MapRef(_, keys):
                    yield from _arguments(keys, flags(factor))
                case Let(var, scalar):
                    yield var, nullable(settled.scalar(scalar))
                case Cond(Call("==", (left, right))):
                    yield from _equated(left, right, settled)
                case Lift(var, _, inner):
                    yield var, False
                    yield from _binders(inner, flags, settled)
                case Extremum(var, query=inner):
                    yield var, True
                    yield from _binders(inner, flags, settled)
                case Exists(query=inner):
                    yield from _binders(inner, flags, settled)
                case Cond() | Value():
                    pass


def _arguments(arguments: Iterable[Var | Const], flags: Iterable[bool]) -> Iterator[tuple[Var, bool]]:
    for argument, may_be_null in zip(arguments, flags, strict=True):
        if isinstance(argument, Var):
            yield argument, may_be_null


def _equated(left: Scalar, right: Scalar, settled: Settled) -> Iterator[tuple[Var, bool]]:
    """``{x == e}`` binds x where nothing else does."""
    for x, e in ((left, right), (right, left)):
        if isinstance(x, Var):
            yield x, nullable(settled.scalar(e))
