"""The calculus: a query is a sum of terms, a term is an integer times a flat product of factors.

============================  ==================================================  ================
factor                        meaning                                             multiplicity
============================  ==================================================  ================
``R(a: x, b: y)``             a table; binds its variables                        how often the row is there
``dR(a: x, b: y)``            the change of a table in the present batch          signed
``{e}``                       condition                                           1 if e is TRUE, else 0
``<e>``                       value: a number; NULL counts as 0                   that number
``x := e``                    let                                                 1
``x := sum<K>(Q)``            lift: the sum of Q for the present K, 0 if none     1
``x := min v<K>(Q)``          the least v that Q supports, NULL if none           1
``E<K>(Q)``, ``N<K>(Q)``      Q has, has not, a non-zero sum for the present K     0 or 1
``M[k1, k2]``                 a materialized map                                  its value
============================  ==================================================  ================

Variables of a term that are not keys are summed out. ``K`` lists *all* variables that a nested query
shares with its surroundings; every other variable in it is local. ``E`` may bind members of K that nothing
else binds; the other nested factors need K bound.

NULL is an ordinary value for variables: atoms and ``==`` match NULL with NULL. SQL's ``=`` is a condition.
Multiplicities are numbers and never NULL.

Variables whose name starts with ``@`` are the parameters of an event: bound everywhere, at every depth, and
never listed among the keys of a nested query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.core.node import field_names
from viewlet.core.scalar import Const, Scalar, Var, variables
from viewlet.core.types import BIGINT, Type

Argument: TypeAlias = Var | Const


class Shares:
    """Has a place for what :func:`factor_variables` found, and one for the hash of what may be a deep query.

    Compiling asks for both a hundred thousand times.
    """

    __slots__ = ("_hash", "_shared")
    _hash: int
    _shared: tuple[Var, ...]

    def __init_subclass__(cls) -> None:
        """A dataclass makes a hash of its own, unless it has one."""
        cls.__hash__ = Shares.__hash__  # type: ignore[method-assign]

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash(tuple([getattr(self, name) for name in field_names(type(self))]))
            object.__setattr__(self, "_hash", found)
            return found


@dataclass(frozen=True, slots=True)
class Rel(Shares):
    """A table; ``binds`` pairs the columns that matter with what they are matched against."""

    table: str
    binds: tuple[tuple[str, Argument], ...]


@dataclass(frozen=True, slots=True)
class Delta(Shares):
    """The change of a table in a batch; ``absolute`` takes |weight|, so that nothing cancels."""

    table: str
    binds: tuple[tuple[str, Argument], ...]
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Cond(Shares):
    """1 where the scalar is TRUE, 0 where it is FALSE or NULL."""

    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Value(Shares):
    """A number: DECIMALs count as integers at their scale."""

    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Let(Shares):
    """Binds a variable; if it is bound already, a condition that both are identical."""

    var: Var
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Lift(Shares):
    """Binds a variable to a sum, 0 where nothing matches."""

    var: Var
    keys: tuple[Var, ...]
    query: Query


@dataclass(frozen=True, slots=True)
class Extremum(Shares):
    """Binds a variable to the least or greatest ``of`` that has a non-zero sum, NULL without any."""

    var: Var
    op: Literal["min", "max"]
    of: Var
    keys: tuple[Var, ...]
    query: Query


@dataclass(frozen=True, slots=True)
class Exists(Shares):
    """1 where the query's sum is not zero for the present keys; with ``negated``, where it is zero."""

    keys: tuple[Var, ...]
    query: Query
    negated: bool = False


@dataclass(frozen=True, slots=True)
class MapRef(Shares):
    """A materialized map, read at its keys; unbound keys are bound by it, entry by entry."""

    name: str
    keys: tuple[Argument, ...]
    type: Type = BIGINT


Atom: TypeAlias = Rel | Delta | MapRef
Nested: TypeAlias = Lift | Extremum | Exists
Factor: TypeAlias = Rel | Delta | Cond | Value | Let | Lift | Extremum | Exists | MapRef


@dataclass(frozen=True, slots=True)
class Term:
    """``coefficient`` times the product of ``factors``; the order of factors has no meaning."""

    factors: tuple[Factor, ...]
    coefficient: int = 1


Query: TypeAlias = tuple[Term, ...]

ZERO: Query = ()
ONE: Query = (Term(()),)


def product(*factors: Factor, coefficient: int = 1) -> Query:
    """The query of one term, or of none where a factor is plainly zero.

    ``{TRUE} -> 1``, ``{FALSE} -> 0``, ``{NULL} -> 0``, ``<c> -> c``

    >>> product(Cond(Const(False))), product(Value(Const(3)), Cond(Const(True)))[0].coefficient
    ((), 3)
    """
    kept: list[Factor] = []
    met: set[Factor] = set()
    for factor in factors:
        match factor:
            case Rel() | MapRef() | Let() | Lift():
                kept.append(factor)
            case Cond(Const(value)):
                if value is not True:
                    return ZERO
            case Value(Const(int(number))):
                coefficient *= number
            case Exists(query=inner, negated=negated) if not inner:
                if not negated:
                    return ZERO
            case Cond() | Exists():  # 0/1 factors are idempotent
                if factor not in met:
                    met.add(factor)
                    kept.append(factor)
            case _:
                kept.append(factor)
    return (Term(tuple(kept), coefficient),) if coefficient else ZERO


def add(*queries: Query) -> Query:
    """The sum, with equal products collected and zeros dropped.

    >>> x = product(Value(Var("x")))
    >>> add(x, times(x, product(coefficient=-1)))
    ()
    """
    found = [query for query in queries if query]
    if len(found) <= 1 and all(len(query) == 1 and query[0].coefficient for query in found):
        return found[0] if found else ZERO
    coefficients: dict[tuple[Factor, ...], int] = {}
    for query in found:
        for term in query:
            coefficients[term.factors] = coefficients.get(term.factors, 0) + term.coefficient
    return tuple(Term(factors, c) for factors, c in coefficients.items() if c)


def times(*queries: Query) -> Query:
    """The product, multiplied out into a sum of products."""
    result: Query = ONE
    for query in queries:
        result = tuple(
            term
            for left in result
            for right in query
            for term in product(
                *left.factors, *right.factors, coefficient=left.coefficient * right.coefficient
            )
        )
    return result


def is_parameter(var: Var) -> bool:
    """Is it bound by the event itself?"""
    return var.name.startswith("@")


def arguments(factor: Factor) -> tuple[Argument, ...]:
    """What an atom is matched against, in column or key order; nothing for other factors."""
    match factor:
        case Rel(_, binds) | Delta(_, binds):
            return tuple(argument for _, argument in binds)
        case MapRef(_, keys):
            return keys
        case _:
            return ()


def factor_variables(factor: Factor) -> tuple[Var, ...]:
    """The variables a factor shares with the rest of its term (its locals are its own affair)."""
    try:
        return factor._shared
    except AttributeError:
        shared = _factor_variables(factor)
        object.__setattr__(factor, "_shared", shared)
        return shared


def _factor_variables(factor: Factor) -> tuple[Var, ...]:
    match factor:
        case Rel() | Delta():
            return tuple([argument for _, argument in factor.binds if isinstance(argument, Var)])
        case MapRef():
            return tuple([argument for argument in factor.keys if isinstance(argument, Var)])
        case Cond() | Value():
            return tuple(variables(factor.scalar))
        case Let():
            return (factor.var, *variables(factor.scalar))
        case Lift() | Extremum():
            return (factor.var, *factor.keys)
        case Exists():
            return factor.keys


def term_variables(factors: Iterable[Factor]) -> dict[str, Var]:
    """The variables of a product by name, in order of first occurrence."""
    return {var.name: var for factor in factors for var in factor_variables(factor)}


def tables(query: Query) -> frozenset[str]:
    """The tables a query reads, nested ones included."""
    found: set[str] = set()
    for term in query:
        for factor in term.factors:
            match factor:
                case Rel(table):
                    found.add(table)
                case Lift() | Extremum() | Exists():
                    found |= tables(factor.query)
    return frozenset(found)


def nested_factors(query: Query) -> Iterator[Nested]:
    """The nested factors at the top level of a query's terms."""
    for term in query:
        for factor in term.factors:
            if isinstance(factor, Lift | Extremum | Exists):
                yield factor
