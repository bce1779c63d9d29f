"""Searches to edges and spans: a sum along an ordered key without a look at every entry.

The conditions of a search (``calculus/monotone.py``) hold from one key on, or up to one. So each group of
them has an *edge* in the order of the key, and the sum is that of the *span* between two edges. An edge is
found

between entries
    if the conditions read nothing but sums up to the key, or from it on, of one ordered index. These are the
    running sums of a walk down that index, so one walk finds the edge::

        {0.25 * total > sum(M[q] * {q > p})}        seek along M[*q] until 0.25 * total > s

through another index
    if they read a sum along it whose extent the key decides in another way, or a minimum or maximum along it
    (``turns.py``): two walks

at keys
    otherwise: the walk asks the conditions at keys that it meets, whatever they compute.

The index of the edge need not be that of the sum: the edge is a key then, or the point behind a key.

NULL has no place in the order: what entries with NULL for their key add is told in ``null_entries.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from viewlet.calculus.monotone import Search, as_search
from viewlet.calculus.nodes import Argument, Cond, Extremum, Let, Lift, MapRef, Term
from viewlet.calculus.running import as_prefix, needed
from viewlet.core.node import transform
from viewlet.core.scalar import Call, Const, Scalar, Var, call, substitute, variables
from viewlet.core.types import wide
from viewlet.loops.builder import BlockBuilder, SpanBuilder, nonzero
from viewlet.loops.nodes import (
    Along,
    Axis,
    Block,
    Gather,
    Limit,
    Loop,
    Product,
    Running,
    Seek,
    Span,
    Yield,
    body_of,
    operations,
)
from viewlet.loops.null_entries import at_null
from viewlet.loops.ranges import can_fail
from viewlet.loops.served import best_axis, is_ordered
from viewlet.loops.storage import AtomPlace
from viewlet.loops.turns import seek_through

if TYPE_CHECKING:
    from viewlet.loops.lower import Env, Lowering

LAZY = frozenset({"and", "or", "case", "coalesce", "in"})
"""Functions that do not always compute all of their arguments."""


def search_sum(lowering: Lowering, term: Term, block: BlockBuilder, env: Env) -> bool:
    """Yield the sum of a term from an ordered index; FALSE, and nothing done, where that cannot be."""
    search = as_search(term, frozenset(env))
    if search is None:
        return False
    if not lowering.storage.ordered or not _is_served(lowering, search, env):
        lowering.storage.scanned.add(search.atom.name)
        return False

    def finish(at: BlockBuilder, found: Env, product: Product) -> None:
        axis = _axis(lowering.storage.place(search.atom), search.key)
        total = Searching(lowering, search, axis, at, found).total()
        at.yields(Product(product.coefficient, (total,)))
        nothing = at_null(lowering, search)
        if nothing is not None:
            term = Term(nothing, product.coefficient)
            lowering.term(term, at, found, lambda inner, _, own: inner.yields(own))

    lowering.term(Term(search.flat, term.coefficient), block, env, finish)
    return True


def keep_sums(block: Block) -> Block:
    """Have every edge keep the sums that spans along its own index read, and no others."""
    kept: dict[str, set[str]] = {}
    for op in operations(block):
        if isinstance(op, Span):
            for limit in (op.start, op.stop):
                if limit is not None and limit.own:
                    kept.setdefault(limit.edge.name, set()).update(name for name, _ in op.reads)

    def keep(node: object) -> object:
        if isinstance(node, Seek):
            return replace(node, keeps=tuple(sorted(kept.get(node.edge.name, ()))))
        return node

    return tuple(transform(op, keep) for op in block)


def _axis(place: AtomPlace, key: Var) -> Axis:
    """Sums along a key, for each value of all other keys."""
    position = place.arguments.index(key)
    return Axis(position, tuple(i for i in range(len(place.arguments)) if i != position))


def _is_served(lowering: Lowering, search: Search, env: Env) -> bool:
    """Has the key an order? A value of it that is given already would be a condition besides."""
    if any(isinstance(f, Let | Lift | Extremum) and f.var.name in env for f in search.dependents):
        return False
    return _has_order(lowering, search.atom, search.key)


def _has_order(lowering: Lowering, atom: MapRef, key: Var) -> bool:
    place = lowering.storage.place(atom)
    return is_ordered(place.record.keys[place.arguments.index(key)].type)


def _goes_through(block: Block) -> bool:
    """Does a block go through entries, apart from what stands aside of its searches?"""
    return any(
        isinstance(op, Loop | Gather) or (not isinstance(op, Span) and _goes_through(body_of(op)))
        for op in block
    )


@dataclass(slots=True)
class Searching:
    """One search along an index, in the block where its edges are needed."""

    lowering: Lowering
    search: Search
    axis: Axis
    block: BlockBuilder
    env: Env
    nested: set[str] = field(default_factory=set)
    """The maps that searches inside the conditions need besides."""
    adds: bool = False
    """Does a walk add up, where it asks, what no index tells?"""

    @property
    def place(self) -> AtomPlace:
        """Where the map of the search is."""
        return self.lowering.storage.place(self.search.atom)

    @property
    def along(self) -> Along:
        """The index at what is known here."""
        return _along(self.place, self.axis, self.env)

    @property
    def needs(self) -> tuple[tuple[str, str], ...]:
        """The fields that must not be negative anywhere for the edges to mean something."""
        places = self.lowering.storage.layout.places
        needs = self.search.needs | self.nested
        return tuple(sorted({(places[name].record, places[name].field) for name in needs}))

    def edges(self) -> tuple[Limit | None, Limit | None]:
        """Where the conditions begin to hold, and where they end."""
        return self._edge(self.search.rising, holds=False), self._edge(self.search.falling, holds=True)

    def rounds(self) -> bool:
        """Would conditions compare DOUBLE sums that are added up on the way? Rounding makes these waver, so
        that no edge is sure. What an index tells is exact (``runtime/grid.h``)."""
        records = self.lowering.storage.records
        rounded = {(name, f.name) for name in records for f in records[name].fields if f.type.is_floating}
        if not rounded:
            return False
        block = BlockBuilder(self.block.variables, self.block, trial=True)
        trial = replace(self, block=block, nested=set())
        trial.edges()
        return trial.adds and not rounded.isdisjoint(trial.needs)

    def total(self) -> Var:
        """The sum of all entries with a key between the edges."""
        place = self.place
        kind = next(f.type for f in place.record.fields if f.name == place.field)
        if self.rounds():
            self.lowering.storage.scanned.add(self.search.atom.name)
            return self.block.total(self._scan(), kind, place.field)
        start, stop = self.edges()
        rounds, variables = kind.is_floating, self.block.variables
        span = SpanBuilder(place.record, self.along, start, stop, self.needs, rounds, variables)
        return self.block.span(span).read_or(place.field, self._scan)

    def _scan(self) -> Block:
        """The same sum by asking every entry."""
        search = self.search
        own = (search.atom, *search.dependents, *map(Cond, (*search.rising, *search.falling)))
        inner = BlockBuilder(self.block.variables, self.block)
        self.lowering.term(Term(own), inner, self.env, lambda at, _, product: at.yields(product))
        return inner.freeze()

    def _edge(self, conditions: tuple[Scalar, ...], *, holds: bool) -> Limit | None:
        if not conditions:
            return None
        cut = self._between(conditions) if self.axis.holds == "sums" else None
        if cut is not None:
            return self._seek_between(cut, conditions, holds)
        through = seek_through(self, conditions, holds) if self.axis.holds == "sums" else None
        return self.seek_at_keys(conditions, holds) if through is None else through

    def fixed(self, conditions: Sequence[Scalar], moving: frozenset[str]) -> tuple[Block, tuple[Scalar, ...]]:
        """What can be computed before a walk, and the conditions with that computed.

        A later condition is asked only where those before it hold; so what can fail in it has to stay.
        """
        first = BlockBuilder(self.block.variables, self.block)
        asked = tuple(_fixed(c, moving, first, sure=i == 0) for i, c in enumerate(conditions))
        return first.freeze(), asked

    # Between entries

    def _between(self, conditions: Sequence[Scalar]) -> _Cut | None:
        """The one index whose running sums are all that the conditions read of the key."""
        sums: dict[str, Running] = {}
        moving: Env = {}
        kinds: set[tuple[Along, bool]] = set()
        for factor in needed(self.search.dependents, conditions):
            match factor:
                case Lift():
                    prefix = self._prefix(factor)
                    if prefix is None:
                        return None
                    along, closed, running, value = prefix
                    kinds.add((along, closed))
                    sums[factor.var.name] = running
                    moving[factor.var.name] = value
                case Let(var, scalar):
                    moving[var.name] = substitute(scalar, self.env | moving)
                case _:
                    return None
        asked = [substitute(condition, self.env | moving) for condition in conditions]
        if len(kinds) != 1 or any(v.name == self.search.key.name for c in asked for v in variables(c)):
            return None
        ((along, closed),) = kinds
        return _Cut(along, closed, tuple(dict.fromkeys(sums.values())), moving)

    def _prefix(self, lift: Lift) -> tuple[Along, bool, Running, Scalar] | None:
        """``sum<p>(M[q] * {q < p})``: a running sum of M by q, if p is the key of this search; and its value
        with what further conditions on q leave of it."""
        prefix = as_prefix(lift, self.search.key, frozenset(self.env))
        if prefix is None:
            return None
        found = self.running(lift, prefix.atom, prefix.key, behind=prefix.behind)
        if found is None:
            return None
        along, running = found
        key = self.lowering.storage.records[along.record].keys[along.axis.position]
        if key.type != self.place.record.keys[self.axis.position].type:
            return None
        value = running.var if prefix.within is None else self._within(lift, prefix.within, running.var)
        return None if value is None else (along, prefix.closed, running, value)

    def running(self, lift: Lift, atom: MapRef, key: Var, *, behind: bool) -> tuple[Along, Running] | None:
        """What a nested sum over a map is on a walk along a key of it, if an index tells that."""
        if not _has_order(self.lowering, atom, key):
            return None
        place = self.lowering.storage.place(atom)
        along = _along(place, _axis(place, key), self.env)
        kind = next(f.type for f in place.record.fields if f.name == place.field)
        if kind != lift.var.type:
            return None
        what = ("running", along, place.field, behind)
        var = self.block.variables.of(what, lift.var.name, kind, False)
        return along, Running(place.field, behind, var)

    def running_best(self, factor: Extremum, interval: Search) -> tuple[Along, Running] | None:
        """What a nested minimum or maximum is on a walk along a key of its map, if an index tells that."""
        place = self.lowering.storage.place(interval.atom)
        axis = best_axis(place, interval, factor)
        if axis is None:
            return None
        along, behind = _along(place, axis, self.env), bool(interval.rising)
        what = ("running", along, behind)
        var = self.block.variables.of(what, factor.var.name, factor.var.type, True)
        return along, Running(None, behind, var)

    def _within(self, lift: Lift, search: Search, running: Var) -> Scalar | None:
        """What is left of a running sum without the entries that ``search`` does not find; ``None``, and
        nothing done, where no index tells their sum."""
        names = {key.name for key in lift.keys}
        env = {name: s for name, s in self.env.items() if name in names or name.startswith("@")}
        if running.type.is_floating or not _is_served(self.lowering, search, env):
            return None  # a difference of two sums that are rounded is not the sum
        self.nested |= search.needs
        kind, inner = running.type, self.block.inner()
        flat = Term(search.flat)
        if not (search.rising or search.falling):
            holds = self.lowering.total((flat,), self.block, env, wide(0), "n")
            return Call("case", (nonzero(holds), running, Const(0, kind)), kind)
        self.lowering.term(flat, inner, env, lambda at, found, _: self._outside(search, at, found))
        match inner.freeze():
            case (Yield(((Product(1, (Var() as out,)),),)),):
                some = call(">", running, out)
            case body:
                out = self.block.total(body, kind, "out")
                holds = self.lowering.total((flat,), self.block, env, wide(0), "n")
                some = call("and", nonzero(holds), call(">", running, out))
        return Call("case", (some, Call("-", (running, out), kind), Const(0, kind)), kind)

    def _outside(self, search: Search, at: BlockBuilder, env: Env) -> None:
        """Yield the sum of all entries before the conditions of a search begin to hold, or after they end."""
        place = self.lowering.storage.place(search.atom)
        other = Searching(self.lowering, search, _axis(place, search.key), at, env)
        start, stop = other.edges()
        self.nested |= other.nested
        self.adds |= other.adds
        first, last = (None, start) if stop is None else (stop, None)
        span = SpanBuilder(place.record, other.along, first, last, (), False, at.variables)
        at.yields(Product(1, (at.span(span).read_or(place.field, tuple),)))

    def _seek_between(self, cut: _Cut, conditions: Iterable[Scalar], holds: bool) -> Limit:
        own = cut.along == self.along
        moving = frozenset(running.var.name for running in cut.sums)
        before, asked = self.fixed([substitute(c, self.env | cut.moving) for c in conditions], moving)

        def make(edge: Var) -> Seek:
            return Seek(edge, cut.along, None, cut.sums, cut.closed, not own, before, (), asked, holds)

        return Limit(self.block.seek(make, (cut.along, cut.sums, cut.closed, own, before, asked, holds)), own)

    # At keys

    def _key(self) -> Var:
        column = self.place.record.keys[self.axis.position]
        what = ("key", self.along, self.block.depth())
        return self.block.variables.of(what, column.name, column.type, False)

    def seek_at_keys(self, conditions: Sequence[Scalar], holds: bool) -> Limit:
        """Where conditions change their mind, asked at the keys that a walk meets."""
        key = self._key()
        body = BlockBuilder(self.block.variables, self.block, given=frozenset({key.name}))
        env = self.env | {self.search.key.name: key}
        asked_first = Term(tuple(needed(self.search.dependents, conditions)))
        self.lowering.term(asked_first, body, env, lambda _, found, __: env.update(found))
        along, during = self.along, body.freeze()
        self.adds |= _goes_through(during)
        moving = frozenset(
            {key.name} | {v.name for s in env.values() for v in variables(s)} - _names(self.env)
        )
        before, asked = self.fixed([substitute(condition, env) for condition in conditions], moving)

        def make(edge: Var) -> Seek:
            return Seek(edge, along, key, (), True, False, before, during, asked, holds)

        return Limit(self.block.seek(make, (along, key, before, during, asked, holds)), True)


@dataclass(frozen=True, slots=True)
class _Cut:
    """An index, whether an entry at the key is passed, and the running sums that variables stand for."""

    along: Along
    closed: bool
    sums: tuple[Running, ...]
    moving: Env


def _along(place: AtomPlace, axis: Axis, env: Mapping[str, Scalar]) -> Along:
    bound: list[tuple[int, Argument]] = []
    for i in axis.by:
        argument = place.arguments[i]
        known = argument if isinstance(argument, Const) else env[argument.name]
        assert isinstance(known, Var | Const), "bound variables are variables or constants"
        bound.append((i, known))
    return Along(place.record.name, axis, tuple(bound))


def _names(env: Mapping[str, Scalar]) -> set[str]:
    return {var.name for scalar in env.values() for var in variables(scalar)}


def _fixed(scalar: Scalar, moving: frozenset[str], first: BlockBuilder, *, sure: bool) -> Scalar:
    if not isinstance(scalar, Call):
        return scalar
    if not any(var.name in moving for var in variables(scalar)):
        return first.bind(scalar, "x") if sure or not can_fail(scalar) else scalar
    inside = sure and scalar.op not in LAZY
    return Call(scalar.op, tuple(_fixed(arg, moving, first, sure=inside) for arg in scalar.args), scalar.type)
