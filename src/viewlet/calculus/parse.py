"""Reads calculus back from its text.

The text names no types: a variable has the type of the column or key that binds it, of its let's scalar, or
of its lift's sum. So reading takes two passes: the first finds the factors and who binds what, the second
reads the scalars, which need to know the types of their variables.

>>> from viewlet.core.types import decimal
>>> types = {"r": {"a": BIGINT, "v": decimal(9, 2)}}
>>> query = parse_query("r(a: k, v: x) * {x < 5.00} * <x> + 2 * r(a: k)", types)
>>> [len(term.factors) for term in query]
[3, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

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
    Term,
    Value,
)
from viewlet.core.scalar import Const, Scalar, Var
from viewlet.core.text import ABOVE_COMPARISONS, Tokens, read_scalar
from viewlet.core.types import BIGINT, DOUBLE, Type, wide
from viewlet.errors import CalculusError

Columns: TypeAlias = Mapping[str, Mapping[str, Type]]
MapTypes: TypeAlias = Mapping[str, tuple[tuple[Type, ...], Type]]
Env: TypeAlias = dict[str, Var]
Build: TypeAlias = Callable[[Env], Factor]
Binder: TypeAlias = tuple[str, Callable[[Env], Type | None]]

MAX_ROUNDS = 20


def parse_query(
    text: str, columns: Columns, maps: MapTypes | None = None, parameters: Mapping[str, Type] | None = None
) -> Query:
    """The query a text stands for, given the column types of tables and the types of maps."""
    reader = _Reader(Tokens(text), columns, maps or {})
    build = reader.query()
    reader.tokens.end()
    env: Env = {name: Var(name, kind) for name, kind in (parameters or {}).items()}
    return build(_Known(reader.settle(env)))


class _Known(dict[str, Var]):
    """The variables by name; one that only an equality binds counts as a BIGINT."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Var:
        return Var(name, BIGINT)


class _Reader:
    """The first pass: structure, and a binder for each variable that something gives a type."""

    def __init__(self, tokens: Tokens, columns: Columns, maps: MapTypes) -> None:
        self.tokens = tokens
        self.columns = columns
        self.maps = maps
        self.binders: list[Binder] = []

    def settle(self, env: Env) -> Env:
        """The type of every variable: ask the binders until none has anything new to say."""
        for _ in range(MAX_ROUNDS):
            before = len(env)
            for name, type_of in self.binders:
                if name not in env and (kind := type_of(env)) is not None:
                    env[name] = Var(name, kind)
            if len(env) == before:
                break
        return env

    def query(self) -> Callable[[Env], Query]:
        if self.tokens.accept("0"):
            return lambda env: ()
        terms = [self.term()]
        while self.tokens.accept("+"):
            terms.append(self.term())
        return lambda env: tuple(term(env) for term in terms)

    def term(self) -> Callable[[Env], Term]:
        coefficient, factors = 1, []
        if self.tokens.peek_kind() == "number":
            coefficient = int(self.tokens.next())
        else:
            factors.append(self.factor())
        while self.tokens.accept("*"):
            factors.append(self.factor())
        return lambda env: Term(tuple(factor(env) for factor in factors), coefficient)

    def factor(self) -> Build:
        tokens = self.tokens
        if tokens.accept("{"):
            scalar = self._scalar("}", 1)
            return lambda env: Cond(scalar(env))
        if tokens.accept("<"):
            scalar = self._scalar(">", ABOVE_COMPARISONS)
            return lambda env: Value(scalar(env))
        if tokens.accept("("):
            return self._binding()
        if tokens.accept("|"):
            table = tokens.next()[1:]
            tokens.expect("|")
            return self._change(table, absolute=True)
        name = tokens.next()
        if name in ("E", "N") and tokens.peek() in ("<", "<>"):
            keys = self._keys()
            inner = self._inner()
            negated = name == "N"
            return lambda env: Exists(_variables(keys, env), inner(env), negated)
        if tokens.accept("["):
            return self._map(name)
        if name.startswith("d") and name not in self.columns:
            return self._change(name[1:], absolute=False)
        binds = self._binds(name)
        return lambda env: Rel(name, binds(env))

    def _binding(self) -> Build:
        """``x := scalar``, ``x := sum<K>(Q)`` or ``x := min v<K>(Q)``, up to the closing parenthesis."""
        tokens = self.tokens
        name = tokens.next()
        tokens.expect(":=")
        word, following = tokens.peek(), tokens.peek(1)
        if word == "sum" and following in ("<", "<>"):
            return self._lift(name)
        if word in ("min", "max") and tokens.peek(2) in ("<", "<>") and following not in ("<", ")"):
            return self._extremum(name)
        scalar = self._scalar(")", 1)
        self.binders.append((name, lambda env: _type_if_known(scalar, env)))
        return lambda env: Let(_variable(name, env), scalar(env))

    def _lift(self, name: str) -> Build:
        self.tokens.next()
        keys, inner = self._keys(), self._inner()
        self.tokens.expect(")")
        self.binders.append((name, lambda env: _sum_type(inner, env)))
        return lambda env: Lift(_variable(name, env), _variables(keys, env), inner(env))

    def _extremum(self, name: str) -> Build:
        op: Literal["min", "max"] = "min" if self.tokens.next() == "min" else "max"
        of = self.tokens.next()
        keys, inner = self._keys(), self._inner()
        self.tokens.expect(")")
        self.binders.append((name, lambda env: env[of].type if of in env else None))
        return lambda env: Extremum(
            _variable(name, env), op, _variable(of, env), _variables(keys, env), inner(env)
        )

    def _inner(self) -> Callable[[Env], Query]:
        self.tokens.expect("(")
        inner = self.query()
        self.tokens.expect(")")
        return inner

    def _keys(self) -> list[str]:
        if self.tokens.accept("<>"):
            return []
        self.tokens.expect("<")
        keys: list[str] = []
        while not self.tokens.accept(">"):
            if keys:
                self.tokens.expect(",")
            keys.append(self.tokens.next())
        return keys

    def _change(self, table: str, *, absolute: bool) -> Build:
        binds = self._binds(table)
        return lambda env: Delta(table, binds(env), absolute)

    def _binds(self, table: str) -> Callable[[Env], tuple[tuple[str, Var | Const], ...]]:
        if table not in self.columns:
            raise self.tokens.error(f"there is no table {table!r}")
        self.tokens.expect("(")
        binds: list[tuple[str, Callable[[Env], Var | Const]]] = []
        while not self.tokens.accept(")"):
            if binds:
                self.tokens.expect(",")
            column = self.tokens.next()
            self.tokens.expect(":")
            binds.append((column, self._argument(self.columns[table][column])))
        return lambda env: tuple((column, argument(env)) for column, argument in binds)

    def _map(self, name: str) -> Build:
        if name not in self.maps:
            raise self.tokens.error(f"there is no map {name!r}")
        kinds, kind = self.maps[name]
        keys: list[Callable[[Env], Var | Const]] = []
        while not self.tokens.accept("]"):
            if keys:
                self.tokens.expect(",")
            keys.append(self._argument(kinds[len(keys)]))
        return lambda env: MapRef(name, tuple(key(env) for key in keys), kind)

    def _argument(self, kind: Type) -> Callable[[Env], Var | Const]:
        """A variable, which gets the type of its place, or a constant."""
        if self.tokens.peek_kind() == "name" and self.tokens.peek(1) in (",", ")", "]"):
            name = self.tokens.peek()
            if name not in ("TRUE", "FALSE"):
                self.tokens.next()
                self.binders.append((name, lambda env: kind))
                return lambda env: _variable(name, env)
        constant = read_scalar(self.tokens, {})
        if not isinstance(constant, Const):
            raise self.tokens.error("an argument is a variable or a constant")
        return lambda env: constant

    def _scalar(self, closing: str, tightness: int) -> Callable[[Env], Scalar]:
        """Step over a scalar now, read it when the types are known."""
        start = self.tokens.index
        depth = 0
        while depth or self.tokens.peek() != closing:
            token = self.tokens.next()
            depth += (token == "(") - (token == ")")
        self.tokens.next()

        def read(env: Env) -> Scalar:
            here, self.tokens.index = self.tokens.index, start
            scalar = read_scalar(self.tokens, env, tightness)
            self.tokens.index = here
            return scalar

        return read


def _variable(name: str, env: Env) -> Var:
    return env[name]


def _variables(names: list[str], env: Env) -> tuple[Var, ...]:
    return tuple(_variable(name, env) for name in names)


def _type_if_known(scalar: Callable[[Env], Scalar], env: Env) -> Type | None:
    try:
        return scalar(env).type
    except CalculusError:
        return None


def _sum_type(inner: Callable[[Env], Query], env: Env) -> Type | None:
    """BIGINT for counts, exact at the scale of the values and maps that are summed, or DOUBLE."""
    try:
        query = inner(env)
    except CalculusError:
        return None
    kinds = [
        [
            f.scalar.type if isinstance(f, Value) else f.type
            for f in term.factors
            if isinstance(f, Value | MapRef)
        ]
        for term in query
    ]
    if any(kind.is_floating for row in kinds for kind in row):
        return DOUBLE
    scales = [sum(kind.scale for kind in row) for row in kinds]
    if all(kind == BIGINT for row in kinds for kind in row):
        return BIGINT
    return wide(min(38, max(scales, default=0)))
