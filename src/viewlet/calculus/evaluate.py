"""What a query means: the reference semantics, slow and obvious.

``[[Q]](db, b)`` gives, for bound variables b, a finite map from keys to numbers. Sums and products are those
of the multiplicities; a nested query is evaluated for the present values of its keys. DOUBLE multiplicities
are exact rationals here, so that the order of additions and deletions never matters; they are rounded once,
when a lift hands them to a scalar.

A query is compiled into closures: each factor becomes a step that extends the environment (a list with one
slot per variable) and calls the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Protocol, TypeAlias, cast

from viewlet.calculus.nodes import (
    Argument,
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
    arguments,
    factor_variables,
    is_parameter,
)
from viewlet.calculus.schedule import schedule
from viewlet.calculus.search import compile_end, compile_range, compile_search
from viewlet.core import types
from viewlet.core.functions import compile_scalar
from viewlet.core.scalar import Const, Scalar, Var, variables
from viewlet.core.types import Type
from viewlet.errors import ValueRangeError

Number: TypeAlias = int | Fraction
Key: TypeAlias = tuple[types.Value, ...]
Env: TypeAlias = list[types.Value]
Emit: TypeAlias = Callable[[Env, Number], None]
Runner: TypeAlias = Callable[[Env, Number], None]


class Store(Protocol):
    """Where atoms find their entries."""

    def lookup(
        self, atom: Rel | Delta | MapRef, bound: tuple[int, ...]
    ) -> Callable[[Key], Iterable[tuple[Key, Number]]]:
        """A function from the values of the bound arguments to the entries that match.

        Entries come as all arguments in order with their multiplicity; ``bound`` lists argument positions.
        """


class Rounded(float):
    """A DOUBLE sum: scalars read it rounded, but as a multiplicity it is as exact as what it sums.

    So sums of sums are those of all that is summed, and what was added can be taken off again.
    """

    __slots__ = ("exact",)
    exact: Number


def number(value: types.Value, kind: Type) -> Number:
    """A value as a multiplicity; NULL counts as 0, as it does where a condition is about to drop it."""
    if value is None:
        return 0
    if kind.is_floating:
        return value.exact if isinstance(value, Rounded) else Fraction(float(value))
    return int(value)


def value_of(total: Number, kind: Type) -> types.Value:
    """A multiplicity as a value of the given type."""
    if not kind.is_floating:
        return int(total)
    try:
        value = Rounded(total)
        value.exact = total
        return value
    except OverflowError:
        raise ValueRangeError("SUM: the total is out of range for DOUBLE") from None


class Compiler:
    """Compiles queries against a store; one instance per family of queries that share an environment."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.slots: dict[str, int] = {}
        self._constants: dict[int, types.Value] = {}

    def slot(self, argument: Argument) -> int:
        """The place of a variable, or of a constant, in the environment."""
        if isinstance(argument, Var):
            return self.slots.setdefault(argument.name, len(self.slots))
        slot = self.slots.setdefault(f"={argument.value!r}:{argument.type}", len(self.slots))
        self._constants[slot] = argument.value
        return slot

    def environment(self, values: Mapping[str, types.Value]) -> Env:
        """A fresh environment with some variables set; take it after compiling."""
        env: Env = [None] * len(self.slots)
        for slot, value in self._constants.items():
            env[slot] = value
        for name, value in values.items():
            if name in self.slots:
                env[self.slots[name]] = value
        return env

    def query(self, query: Query, bound: Iterable[str], emit: Emit) -> Runner:
        """Run every term of a query, calling ``emit`` for each assignment with its multiplicity."""
        known = frozenset(bound)
        runners = [self.term(term, known, emit) for term in query]

        def run(env: Env, weight: Number) -> None:
            for runner in runners:
                runner(env, weight)

        return run

    def term(self, term: Term, bound: frozenset[str], emit: Emit) -> Runner:
        """Run one term."""
        ordered = schedule(term.factors, bound)
        known, steps = set(bound), []
        for factor in ordered:
            steps.append((factor, frozenset(known)))
            known |= {var.name for var in factor_variables(factor)}
        runner: Runner = emit
        for i, (factor, before) in reversed(list(enumerate(steps))):
            if isinstance(factor, Rel | Delta | MapRef):
                runner = self._atom(factor, before, runner, ordered[i + 1 :])
            else:
                runner = self._step(factor, before, runner)
        coefficient = term.coefficient
        if coefficient == 1:
            return runner
        return lambda env, weight: runner(env, weight * coefficient)

    def scalar(self, scalar: Scalar) -> Callable[[Env], types.Value]:
        """A scalar as a function of the environment."""
        for var in variables(scalar):
            self.slot(var)
        return compile_scalar(scalar, self.slots)

    def totals(
        self, query: Query, keys: tuple[Argument, ...], bound: frozenset[str]
    ) -> Callable[[Env], dict[Key, Number]]:
        """The query as a function from the environment to its sums by key, zeros dropped."""
        slots = tuple(self.slot(key) for key in keys)
        sums: dict[Key, Number] = {}

        def emit(env: Env, weight: Number) -> None:
            key = tuple([env[slot] for slot in slots])
            sums[key] = sums.get(key, 0) + weight

        runner = self.query(query, bound, emit)

        def run(env: Env) -> dict[Key, Number]:
            nonlocal sums
            outer, sums = sums, {}
            try:
                runner(env, 1)
                return {key: total for key, total in sums.items() if total}
            finally:
                sums = outer

        return run

    def _step(
        self, factor: Cond | Value | Let | Lift | Extremum | Exists, known: frozenset[str], following: Runner
    ) -> Runner:
        match factor:
            case Cond(scalar):
                return self._condition(scalar, following)
            case Value(scalar):
                return self._value(scalar, following)
            case Let(var, scalar):
                return self._assign(var, self.scalar(scalar), known, following)
            case Lift(var):
                return self._assign(var, self._lift(factor, known), known, following)
            case Extremum(var):
                return self._assign(var, self._extremum(factor, known), known, following)
            case Exists():
                return self._exists(factor, known, following)

    def _lift(self, lift: Lift, known: frozenset[str]) -> Callable[[Env], types.Value]:
        kind = lift.var.type
        searched = compile_search(self, lift, known)
        if searched is not None:
            return lambda env: value_of(searched(env), kind)
        total = self.totals(lift.query, (), _shared(lift.keys, known))
        return lambda env: value_of(total(env).get((), 0), kind)

    def _extremum(self, factor: Extremum, known: frozenset[str]) -> Callable[[Env], types.Value]:
        found = compile_end(self, factor, known)
        if found is not None:
            return found
        return extreme(self.totals(factor.query, (factor.of,), _shared(factor.keys, known)), factor.op)

    def _condition(self, scalar: Scalar, following: Runner) -> Runner:
        test = self.scalar(scalar)

        def run(env: Env, weight: Number) -> None:
            if test(env) is True:
                following(env, weight)

        return run

    def _value(self, scalar: Scalar, following: Runner) -> Runner:
        compute, kind = self.scalar(scalar), scalar.type

        def run(env: Env, weight: Number) -> None:
            factor = number(compute(env), kind)
            if factor:
                following(env, weight * factor)

        return run

    def _assign(
        self, var: Var, compute: Callable[[Env], types.Value], known: frozenset[str], following: Runner
    ) -> Runner:
        slot = self.slot(var)
        if var.name in known or is_parameter(var):

            def check(env: Env, weight: Number) -> None:
                if compute(env) == env[slot]:
                    following(env, weight)

            return check

        def assign(env: Env, weight: Number) -> None:
            env[slot] = compute(env)
            following(env, weight)

        return assign

    def _atom(
        self, atom: Rel | Delta | MapRef, known: frozenset[str], following: Runner, later: Sequence[Factor]
    ) -> Runner:
        args = arguments(atom)
        given: list[tuple[int, Callable[[Env], types.Value]]] = []
        binds: list[tuple[int, int]] = []
        repeats: list[tuple[int, int]] = []
        first: dict[str, int] = {}
        for position, arg in enumerate(args):
            if isinstance(arg, Const) or arg.name in known or is_parameter(arg):
                given.append((position, self.scalar(arg)))
            elif arg.name in first:
                repeats.append((position, first[arg.name]))
            else:
                first[arg.name] = position
                binds.append((position, self.slot(arg)))
        bound = tuple(position for position, _ in given)
        readers = [reader for _, reader in given]
        confined = compile_range(self, atom, bound, later, known) if isinstance(atom, MapRef) else None
        find = self.store.lookup(atom, bound) if confined is None else None

        def entries(env: Env) -> Iterable[tuple[Key, Number]]:
            values = tuple([reader(env) for reader in readers])
            if confined is not None:
                return confined(env, values)
            assert find is not None
            return find(values)

        def run(env: Env, weight: Number) -> None:
            for entry, multiplicity in entries(env):
                if repeats and any(entry[a] != entry[b] for a, b in repeats):
                    continue
                for position, slot in binds:
                    env[slot] = entry[position]
                following(env, weight * multiplicity)

        return run

    def _exists(self, factor: Exists, known: frozenset[str], following: Runner) -> Runner:
        free = tuple(key for key in factor.keys if key.name not in known and not is_parameter(key))
        totals = self.totals(factor.query, free, _shared(factor.keys, known))
        slots = tuple(self.slot(key) for key in free)
        if not free:
            negated = factor.negated

            def test(env: Env, weight: Number) -> None:
                if (not totals(env)) is negated:
                    following(env, weight)

            return test

        def bind(env: Env, weight: Number) -> None:
            for key in totals(env):
                for slot, value in zip(slots, key, strict=True):
                    env[slot] = value
                following(env, weight)

        return bind


def extreme(supported: Callable[[Env], dict[Key, Number]], op: str) -> Callable[[Env], types.Value]:
    """The least or greatest of the values that a query supports, NULL without any."""
    best: Callable[..., types.Value] = min if op == "min" else max
    return lambda env: best((key[0] for key in supported(env)), default=None)


def _shared(keys: Iterable[Var], known: frozenset[str]) -> frozenset[str]:
    """What a nested query may take as given: its keys, as far as they are bound."""
    return frozenset(key.name for key in keys if key.name in known)


class Tables:
    """A store of plain tables: column names and rows with multiplicities, indexed on demand."""

    def __init__(
        self,
        columns: Mapping[str, tuple[str, ...]],
        rows: Mapping[str, Mapping[Key, int]],
        changes: Mapping[str, Mapping[Key, Number]] | None = None,
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.changes = changes or {}
        self._indexes: dict[tuple[object, ...], dict[Key, list[tuple[Key, Number]]]] = {}

    def is_empty(self, term: Term) -> bool:
        """Has a table of the product no rows? Then so has the product, and need not be compiled."""
        return any(isinstance(factor, Rel) and not self.rows.get(factor.table) for factor in term.factors)

    def lookup(
        self, atom: Rel | Delta | MapRef, bound: tuple[int, ...]
    ) -> Callable[[Key], Iterable[tuple[Key, Number]]]:
        """See :class:`Store`."""
        assert not isinstance(atom, MapRef), "tables hold no maps"
        absolute = isinstance(atom, Delta) and atom.absolute
        columns = tuple(column for column, _ in atom.binds)
        name = (type(atom), atom.table, columns, bound, absolute)
        index = self._indexes.get(name)
        if index is None:
            source = self.rows if isinstance(atom, Rel) else self.changes
            index = self._indexes[name] = self._index(atom.table, source, columns, bound, absolute)
        return lambda values: index.get(values, ())

    def _index(
        self,
        table: str,
        source: Mapping[str, Mapping[Key, Number]],
        columns: tuple[str, ...],
        bound: tuple[int, ...],
        absolute: bool,
    ) -> dict[Key, list[tuple[Key, Number]]]:
        places = [self.columns[table].index(column) for column in columns]
        index: dict[Key, list[tuple[Key, Number]]] = {}
        for row, count in source.get(table, {}).items():
            entry = tuple([row[place] for place in places])
            number = cast(Number, abs(count)) if absolute else count
            index.setdefault(tuple([entry[i] for i in bound]), []).append((entry, number))
        return index


def evaluate_query(
    query: Query, keys: tuple[Var, ...], store: Store, bound: Mapping[str, types.Value] | None = None
) -> dict[Key, Number]:
    """The sums of a query by key, zeros dropped.

    >>> from viewlet.calculus.nodes import product
    >>> a, b = Var("a"), Var("b")
    >>> db = Tables({"r": ("a", "b")}, {"r": {(1, 10): 1, (1, 5): 2, (2, 7): 1}})
    >>> evaluate_query(product(Rel("r", (("a", a), ("b", b))), Value(b)), (a,), db)
    {(1,): 20, (2,): 7}
    """
    bound = bound or {}
    compiler = Compiler(store)
    if isinstance(store, Tables):
        query = tuple(term for term in query if not store.is_empty(term))
    run = compiler.totals(query, keys, frozenset(bound))
    return run(compiler.environment(bound))
