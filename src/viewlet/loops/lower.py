"""Terms to loops: each factor of a product becomes a condition, a lookup, a loop or a sum.

Factors are taken in the order of ``calculus/schedule.py``, which is also the order of the reference meaning:
so what is skipped there (a condition that is not TRUE, an entry that is absent, a value that is 0) is skipped
here before anything that can fail. A loop over one entry at most comes before nested sums that cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from viewlet.calculus.events import WEIGHT
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
    is_parameter,
)
from viewlet.calculus.schedule import schedule
from viewlet.core.node import transform
from viewlet.core.scalar import Const, Scalar, Var, call, conjunction, substitute
from viewlet.core.types import DOUBLE, Type, wide
from viewlet.errors import CompileError
from viewlet.loops.builder import BlockBuilder, nonzero
from viewlet.loops.ends import confined_level, ordered_end
from viewlet.loops.nodes import Add, Best, Block, Offer, Product, Yield
from viewlet.loops.ranges import can_fail
from viewlet.loops.searches import search_sum
from viewlet.loops.storage import Storage

Env: TypeAlias = dict[str, Scalar]
Finish: TypeAlias = Callable[[BlockBuilder, Env, Product], None]


@dataclass(slots=True)
class Lowering:
    """Lowers the terms of one program into blocks."""

    storage: Storage

    def query(self, query: Query, block: BlockBuilder, env: Env, finish: Finish) -> None:
        """Every term of a query; ``finish`` says what becomes of an assignment and its multiplicity."""
        for term in query:
            self.term(term, block, env, finish)

    def term(self, term: Term, block: BlockBuilder, env: Env, finish: Finish) -> None:
        """One term: a chain of steps, each in the block that the one before has opened."""
        env = dict(env)
        amount: list[Scalar] = []
        fails = any(_may_fail(f) for f in term.factors if isinstance(f, Lift | Extremum | Exists))
        single = None if fails else self.storage.is_single
        steps = schedule(term.factors, env, single, self.storage.is_brief)
        for index, step in enumerate(steps):
            rest = steps[index + 1 :]
            match step:
                case Cond(scalar):
                    block = block.when(substitute(scalar, env))
                case Value(scalar):
                    value = substitute(scalar, env)
                    amount.append(block.bind(value, "x") if can_fail(value) else value)
                    if scalar != WEIGHT and any(_may_fail(following) for following in rest):
                        block = block.when(nonzero(amount[-1]))
                case Let(var, scalar):
                    block = self._let(var, substitute(scalar, env), block, env)
                case MapRef() | Delta():
                    block = self._atom(step, block, env, amount, rest)
                case Lift(var, keys, query):
                    total = self.total(query, block, _visible(env, keys), var.type, var.name)
                    block = self._let(var, total, block, env)
                case Extremum(var):
                    block = self._let(var, self._extremum(step, block, env), block, env)
                case Exists():
                    block = self._exists(step, block, env)
                case Rel(table):
                    raise CompileError(f"a statement reads table {table!r} itself instead of a map")
                case _:
                    assert_never(step)
        finish(block, env, Product(term.coefficient, _settled(amount, block)))

    def total(self, query: Query, block: BlockBuilder, env: Env, kind: Type, hint: str) -> Var:
        """A variable with the sum of a query for the present environment."""
        inner = block.inner()
        for term in query:
            if self._is_of_one_entry(term, env) or not search_sum(self, term, inner, env):
                self.term(term, inner, env, lambda at, _, product: at.yields(product))
        body = inner.freeze()
        match body:
            case (Yield(((Product(1, (Var() as only,)),),)),) if only.type == kind:
                return only
        return block.total(body, kind, hint)

    def _is_of_one_entry(self, term: Term, env: Env) -> bool:
        """Do primary keys leave one entry at most of each map? Then there is nothing to search along."""
        atoms = [f for f in term.factors if isinstance(f, MapRef)]
        return bool(atoms) and all(self.storage.is_single(atom, set(env)) for atom in atoms)

    def _let(self, var: Var, scalar: Scalar, block: BlockBuilder, env: Env) -> BlockBuilder:
        """Bind a variable; one that is bound already must be identical."""
        known = env.get(var.name)
        if known is not None:
            return block if known == scalar else block.when(call("==", known, scalar))
        env[var.name] = block.bind(scalar, var.name)
        return block

    def _atom(
        self,
        atom: MapRef | Delta,
        block: BlockBuilder,
        env: Env,
        amount: list[Scalar],
        rest: Sequence[Factor],
    ) -> BlockBuilder:
        place = self.storage.place(atom)
        bound = tuple(
            (i, argument)
            for i, arg in enumerate(place.arguments)
            if (argument := _known_argument(arg, env)) is not None
        )
        if len(bound) == len(place.arguments):
            entry = block.get(place.record, tuple(argument for _, argument in bound))
            amount.append(entry.read(place.field))
            return block.when(entry.found) if any(_is_heavy(step, env) for step in rest) else block
        amount[:] = _settled(amount, block)
        if not bound and isinstance(atom, MapRef):
            level = confined_level(self, atom, rest, block, env)
            if level is not None:
                return self._atom(atom, level, env, amount, rest)
        loop = block.loop(place.record, bound)
        amount.append(loop.read(place.field))
        block = loop.body
        for i, var in loop.binds.items():
            arg = place.arguments[i]
            assert isinstance(arg, Var)
            block = self._let(arg, var, block, env)
        return block

    def _extremum(self, factor: Extremum, block: BlockBuilder, env: Env) -> Var:
        given = _visible(env, factor.keys)
        found = ordered_end(self, factor, block, given)
        return self.scanned_extremum(factor, block, given) if found is None else found

    def scanned_extremum(self, factor: Extremum, block: BlockBuilder, given: Env) -> Var:
        """The best entry of one loop where each candidate comes once, else of the gathered candidates."""
        inner = block.inner()

        def offer(at: BlockBuilder, found: Env, product: Product) -> None:
            at.when(conjunction(*map(nonzero, product.factors))).last(Offer(found[factor.of.name]))

        if _enumerates(factor.query, (factor.of,), given):
            self.query(factor.query, inner, given, offer)
        else:
            name = self.gather(factor.query, (factor.of,), block, given)
            loop = inner.loop(self.storage.records[name], ())
            loop.body.last(Offer(loop.keys[0]))
        return block.best(inner.freeze(), Best(factor.var, factor.op, ()))

    def _exists(self, factor: Exists, block: BlockBuilder, env: Env) -> BlockBuilder:
        given = _visible(env, factor.keys)
        free = tuple(key for key in factor.keys if key.name not in env)
        if not free:
            kind = DOUBLE if self._is_floating(factor.query) else wide(0)
            total = self.total(factor.query, block, given, kind, "n")
            return block.when(call("not", nonzero(total)) if factor.negated else nonzero(total))
        if _enumerates(factor.query, free, given):
            reached: list[tuple[BlockBuilder, Env]] = []

            def remember(at: BlockBuilder, found: Env, product: Product) -> None:
                reached.append((at.when(conjunction(*map(nonzero, product.factors))), found))

            self.query(factor.query, block, given, remember)
            ((block, found),) = reached
            env |= {key.name: found[key.name] for key in free}
            return block
        name = self.gather(factor.query, free, block, given)
        loop = block.loop(self.storage.records[name], ())
        env |= {key.name: loop.keys[i] for i, key in enumerate(free)}
        return loop.body

    def gather(self, query: Query, keys: tuple[Var, ...], block: BlockBuilder, env: Env) -> str:
        """A temporary with the sums of a query by key."""
        inner = BlockBuilder(block.variables, block)

        def put(at: BlockBuilder, found: Env, product: Product) -> None:
            at.add("", tuple(_argument(found[key.name]) for key in keys), "n", product)

        self.query(query, inner, env, put)
        body = inner.freeze()
        kind = DOUBLE if self._is_floating(query) else wide(0)
        name = self.storage.temporary(body, keys, (("n", kind),))
        block.gather(name, named(body, name))
        return name

    def _is_floating(self, query: Query) -> bool:
        return any(
            f.scalar.type.is_floating
            if isinstance(f, Value)
            else isinstance(f, MapRef) and f.type.is_floating
            for term in query
            for f in term.factors
        )


def named(body: Block, record: str) -> Block:
    """A body whose additions without a target go to ``record``."""

    def name(node: object) -> object:
        return replace(node, record=record) if isinstance(node, Add) and not node.record else node

    return tuple(transform(op, name) for op in body)


def _settled(amount: list[Scalar], block: BlockBuilder) -> tuple[Scalar, ...]:
    """Factors as variables, computed in this block; in one order, so that equal products are equal."""
    return tuple(sorted((block.bind(scalar, "x") for scalar in amount), key=repr))


def _visible(env: Env, keys: Sequence[Var]) -> Env:
    """What a nested query sees: its keys as far as they are bound, and the event."""
    names = {key.name for key in keys}
    return {name: scalar for name, scalar in env.items() if name in names or name.startswith("@")}


def _known_argument(arg: Argument, env: Mapping[str, Scalar]) -> Argument | None:
    if isinstance(arg, Const):
        return arg
    found = env.get(arg.name)
    return None if found is None else _argument(found)


def _argument(scalar: Scalar) -> Argument:
    assert isinstance(scalar, Var | Const), "bound variables are variables or constants"
    return scalar


def _enumerates(query: Query, keys: tuple[Var, ...], env: Env) -> bool:
    """Is the query one loop whose entries differ in exactly these keys, so that no grouping is needed?"""
    if len(query) != 1:
        return False
    known = set(env)
    loops: list[set[str]] = []
    for step in schedule(query[0].factors, env):
        match step:
            case Cond() | Value():
                pass
            case Let(var) | Lift(var) | Extremum(var):
                known.add(var.name)
            case MapRef() | Delta():
                free = {a.name for a in _arguments(step) if isinstance(a, Var)} - known
                free = {name for name in free if not name.startswith("@")}
                if free:
                    loops.append(free)
                known |= free
            case _:
                return False
    return loops == [{key.name for key in keys}]


def _arguments(atom: MapRef | Delta) -> tuple[Argument, ...]:
    return atom.keys if isinstance(atom, MapRef) else tuple(argument for _, argument in atom.binds)


def _may_fail(step: Factor) -> bool:
    match step:
        case Cond(scalar) | Value(scalar) | Let(_, scalar):
            return can_fail(scalar)
        case Lift() | Extremum() | Exists():
            return any(_may_fail(factor) for term in step.query for factor in term.factors)
        case _:
            return False


def _is_heavy(step: Factor, env: Env) -> bool:
    """Does it loop, sum or possibly fail, so that it is worth a test to leave it out?"""
    match step:
        case Lift() | Extremum() | Exists():
            return True
        case MapRef() | Delta():
            return any(
                isinstance(a, Var) and a.name not in env and not is_parameter(a) for a in _arguments(step)
            )
        case _:
            return _may_fail(step)
