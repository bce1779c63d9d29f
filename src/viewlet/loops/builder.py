"""Building blocks so that equal work is done once.

Terms are laid into a block one after the other. What a term needs and the block (or one around it) already
has, is shared: a lookup, a binding, a loop, a condition, a sum. This is safe because everything in a block
reads the same state. Variables are named after what they are bound to, so equal operations are equal nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from viewlet.calculus.nodes import Argument
from viewlet.core.names import Names
from viewlet.core.node import walk
from viewlet.core.scalar import TRUE, Call, Const, Scalar, Var, nullable
from viewlet.core.types import BOOLEAN, Type
from viewlet.loops.nodes import (
    Add,
    Along,
    Amount,
    Best,
    Bind,
    Block,
    Emit,
    Gather,
    Get,
    If,
    KeyColumn,
    Limit,
    Loop,
    Offer,
    Op,
    Peak,
    Pending,
    Product,
    Record,
    Seek,
    Span,
    Total,
    Turn,
    Visit,
    Yield,
)

VisitKind: TypeAlias = tuple[Along, Limit | None, Limit | None, bool, bool]
"""What is visited from where to where, whether downwards, and whether once."""
Sums: TypeAlias = tuple[str | None, tuple[tuple[str, str], ...], Block]
"""Of a visit along an index of sums: its field, what must not be negative, and how to scan if it is."""

_SUFFIX = re.compile(r"(_\d+)+$")


@dataclass(slots=True)
class Variables:
    """One variable per thing that can be bound."""

    names: Names = field(default_factory=Names)
    phase: int = 0
    _known: dict[Hashable, Var] = field(default_factory=dict)

    def of(self, what: Hashable, hint: str, kind: Type, nullable: bool) -> Var:
        """The variable that stands for ``what`` in the present phase, within which no state changes."""
        key = (self.phase, what)
        if key not in self._known:
            name = self.names.fresh(_SUFFIX.sub("", hint.lstrip("@")) or "x")
            self._known[key] = Var(name, kind, nullable)
        return self._known[key]


@dataclass(slots=True)
class GetBuilder:
    """A lookup to which readers may add fields."""

    record: Record
    keys: tuple[Argument, ...]
    variables: Variables
    reads: dict[str, Var] = field(default_factory=dict)

    @property
    def found(self) -> Var:
        """Is there an entry?"""
        return self.variables.of(("found", self.record.name, self.keys), "found", BOOLEAN, False)

    def read(self, name: str) -> Var:
        """The value of a field."""
        if name not in self.reads:
            kind = next(f.type for f in self.record.fields if f.name == name)
            what = ("get", self.record.name, self.keys, name)
            self.reads[name] = self.variables.of(what, f"{self.record.name}_{name}", kind, False)
        return self.reads[name]

    def freeze(self) -> Op:
        """The finished operation."""
        return Get(self.record.name, self.keys, tuple(self.reads.items()), self.found)


@dataclass(slots=True)
class SpanBuilder:
    """Sums between two edges, to which readers may add fields: those of DOUBLE to spans of their own."""

    record: Record
    along: Along
    start: Limit | None
    stop: Limit | None
    needs: tuple[tuple[str, str], ...]
    rounds: bool
    variables: Variables
    reads: dict[str, Var] = field(default_factory=dict)
    scans: dict[str, Block] = field(default_factory=dict)

    def read_or(self, name: str, scan: Callable[[], Block]) -> Var:
        """The sum of a field; ``scan`` gives what yields it where ``needs`` are not met."""
        if name not in self.reads:
            kind = next(f.type for f in self.record.fields if f.name == name)
            what = ("span", self.along, self.start, self.stop, self.needs, name)
            self.reads[name] = self.variables.of(what, f"{self.record.name}_{name}", kind, False)
            self.scans[name] = scan() if self.needs or self.rounds else ()
        return self.reads[name]

    def take_over(self, other: SpanBuilder) -> None:
        """Read what another one does."""
        self.reads |= other.reads
        self.scans |= other.scans

    def freeze(self) -> Op:
        """The finished operation."""
        aside = self.scans.items() if self.needs or self.rounds else ()
        scans = tuple(Total((self.reads[name],), body) for name, body in aside)
        return Span(self.along, self.start, self.stop, tuple(self.reads.items()), self.needs, scans)


class LoopBuilder:
    """A loop to which readers may add fields and whose body grows."""

    def __init__(self, record: Record, bound: tuple[tuple[int, Argument], ...], parent: BlockBuilder) -> None:
        self.record = record
        self.bound = bound
        same = [at for at in parent.loops() if (at.record.name, at.bound) == (record.name, bound)]
        self.what = ("loop", record.name, bound, len(same))
        self.variables = parent.variables
        given = dict(bound)
        self.binds = {
            i: self.variables.of((*self.what, i), key.name, key.type, key.nullable)
            for i, key in enumerate(record.keys)
            if i not in given
        }
        self.keys: tuple[Argument, ...] = tuple(
            given[i] if i in given else self.binds[i] for i in range(len(record.keys))
        )
        self.reads: dict[str, Var] = {}
        self.body = BlockBuilder(self.variables, parent, loop=self)

    @property
    def found(self) -> Scalar:
        """Inside the loop there is an entry."""
        return TRUE

    def read(self, name: str) -> Var:
        """The value of a field."""
        if name not in self.reads:
            kind = next(f.type for f in self.record.fields if f.name == name)
            hint = f"{self.record.name}_{name}"
            self.reads[name] = self.variables.of((*self.what, name), hint, kind, False)
        return self.reads[name]

    def freeze(self) -> Op:
        """The finished operation."""
        binds, reads = tuple(self.binds.items()), tuple(self.reads.items())
        return Loop(self.record.name, self.bound, binds, reads, self.body.freeze())


class VisitBuilder:
    """A visit of the keys between two edges, whose body grows."""

    def __init__(self, what: VisitKind, sums: Sums, key: Var, parent: BlockBuilder) -> None:
        self.what = what
        self.sums = sums
        self.key = key
        self.body = BlockBuilder(parent.variables, parent, given=frozenset({key.name}))

    def freeze(self) -> Op:
        """The finished operation."""
        along, start, stop, down, once = self.what
        return Visit(along, start, stop, self.key, down, once, self.body.freeze(), *self.sums)


class BlockBuilder:
    """A block that grows: bindings first, then conditions and loops, then what is written.

    Bindings only read, so they may all come first. ``sums`` marks the body of a total or the like: it runs
    exactly when the block around it runs, so its bindings are made there and shared further. ``given`` names
    variables that whoever runs the block sets beforehand. A ``trial`` is thrown away: it may share what is
    around it, and leaves nothing there.
    """

    def __init__(
        self,
        variables: Variables,
        parent: BlockBuilder | None = None,
        *,
        loop: LoopBuilder | None = None,
        condition: Scalar | None = None,
        sums: bool = False,
        given: frozenset[str] = frozenset(),
        trial: bool = False,
    ) -> None:
        self.variables = variables
        self.parent = parent
        self.trial = trial
        self.loop_here = loop
        self.condition = condition
        self.given = given
        self.home: BlockBuilder = parent.home if sums and parent is not None else self
        self._bindings: dict[Hashable, GetBuilder | SpanBuilder | Op] = {}
        self._conditions: dict[Scalar, BlockBuilder] = {}
        self._loops: dict[Hashable, LoopBuilder] = {}
        self._visits: dict[VisitKind, VisitBuilder] = {}
        self._nested: list[BlockBuilder | LoopBuilder | VisitBuilder] = []
        self._added: dict[tuple[str, tuple[Argument, ...]], dict[str, list[Product]]] = {}
        self._yielded: list[Product] = []
        self._last: list[Op] = []

    def loops(self) -> list[LoopBuilder]:
        """The loops around this block, innermost first."""
        own = [self.loop_here] if self.loop_here is not None else []
        return own + (self.parent.loops() if self.parent is not None else [])

    def depth(self) -> int:
        """How many of the blocks around this one are given variables."""
        return bool(self.given) + (self.parent.depth() if self.parent is not None else 0)

    def _shared(self, what: Hashable) -> GetBuilder | SpanBuilder | Op | None:
        found = self._bindings.get(what)
        return found if found is not None or self.parent is None else self.parent._shared(what)

    def _bind_once(
        self, what: Hashable, make: Callable[[], GetBuilder | SpanBuilder | Op]
    ) -> GetBuilder | SpanBuilder | Op:
        found = self._shared(what)
        if found is None:
            found = self.home._bindings[what] = make()
        return found

    def get(self, record: Record, keys: tuple[Argument, ...]) -> GetBuilder | LoopBuilder:
        """The entry at a key; inside a loop over it, the loop's own. One without a key is read but once."""
        for loop in self.loops():
            if loop.record.name == record.name and loop.keys == keys:
                return loop
        block = self if keys else self._outermost(set())
        found = block._bind_once(("get", record.name, keys), lambda: GetBuilder(record, keys, self.variables))
        assert isinstance(found, GetBuilder)
        return found

    def bind(self, scalar: Scalar, hint: str) -> Var | Const:
        """A variable with the value of a scalar."""
        if isinstance(scalar, Var | Const):
            return scalar
        var = self.variables.of(("bind", scalar), hint, scalar.type, nullable(scalar))
        self._bind_once(("bind", scalar), lambda: Bind(var, scalar))
        return var

    def total(self, body: Block, kind: Type, hint: str) -> Var:
        """A variable with the sum that a body yields."""
        var = self.variables.of(("total", body, kind), hint, kind, False)
        self._bind_once(("total", body, kind), lambda: Total((var,), body))
        return var

    def best(self, body: Block, best: Best) -> Var:
        """A variable with the best that a body offers; ``best`` gives operation, type and hint."""
        var = self.variables.of(("best", best.op, body), best.var.name, best.var.type, True)
        self._bind_once(("best", best.op, body), lambda: Best(var, best.op, body))
        return var

    def gather(self, record: str, body: Block) -> None:
        """Fill a temporary here, unless that is done already."""
        self._bind_once(("gather", record), lambda: Gather(record, body))

    def seek(self, make: Callable[[Var], Seek], what: Hashable) -> Var:
        """The edge that a search finds. It is noted as far outside as what it reads is known, so that it is
        sought once, wherever the first need for it is."""
        edge = self.variables.of(("edge", what), "edge", BOOLEAN, False)
        op = make(edge)
        names = {node.name for node in walk(op) if isinstance(node, Var)} - {edge.name}
        pending = Pending(edge, op.along.record, op.along.axis)
        self._outermost(names)._bind_once(("pending", edge), lambda: pending)
        self._bind_once(("seek", edge), lambda: op)
        return edge

    def turn(self, edge: Var, along: Along, column: KeyColumn, *, closed: bool) -> tuple[Var, Var]:
        """The key of the entry at an edge, and whether there is none as conditions turn without entries."""
        key = self.variables.of(("turn", edge), column.name, column.type, True)
        always = self.variables.of(("always", edge), "first" if closed else "last", BOOLEAN, False)
        self._bind_once(("turn", edge), lambda: Turn(edge, along, key, always, closed))
        return key, always

    def span(self, new: SpanBuilder) -> SpanBuilder:
        """The sums between two edges."""
        found = self._bind_once(("span", new.along, new.start, new.stop, new.needs, new.rounds), lambda: new)
        assert isinstance(found, SpanBuilder)
        return found

    def peak(self, peak: Peak) -> Var:
        """The best value between two edges."""
        self._bind_once(("peak", peak), lambda: peak)
        return peak.var

    def visit(self, what: VisitKind, record: Record, sums: Sums = (None, (), ())) -> VisitBuilder:
        """The visit of the keys between two edges."""
        if what not in self._visits:
            column = record.keys[what[0].axis.position]
            named = ("visit", what, self.depth())
            key = self.variables.of(named, column.name, column.type, False)
            self._visits[what] = VisitBuilder(what, sums, key, self)
            self._nested.append(self._visits[what])
        return self._visits[what]

    def _outermost(self, names: set[str]) -> BlockBuilder:
        """The block farthest outside in which none of the names is missing, inside a trial."""
        block = self.home
        while block.parent is not None and not block.trial and not names & block._declared():
            block = block.parent.home
        return block

    def _declared(self) -> set[str]:
        """The variables that this block sets, or that whoever runs it does."""
        loop = self.loop_here
        found = set(self.given)
        if loop is not None:
            found |= {var.name for var in (*loop.binds.values(), *loop.reads.values())}
        for bound in self._bindings.values():
            match bound:
                case GetBuilder() | SpanBuilder():
                    found |= {var.name for var in bound.reads.values()}
                    found |= {bound.found.name} if isinstance(bound, GetBuilder) else set()
                case Bind(var) | Total((var,)) | Best(var) | Pending(var) | Seek(var) | Peak(var):
                    found.add(var.name)
                case Turn(_, _, key, always):
                    found |= {key.name, always.name}
        return found

    def inner(self) -> BlockBuilder:
        """The body of a total, best or gather of this block."""
        return BlockBuilder(self.variables, self, sums=True)

    def when(self, condition: Scalar) -> BlockBuilder:
        """The block that runs where a condition is TRUE."""
        block: BlockBuilder | None = self
        while block is not None:
            if condition == TRUE or block.condition == condition:
                return self
            block = block.parent
        if condition not in self._conditions:
            self._conditions[condition] = BlockBuilder(self.variables, self, condition=condition)
            self._nested.append(self._conditions[condition])
        return self._conditions[condition]

    def has_condition(self, condition: Scalar) -> bool:
        """Is there a block for this condition already?"""
        return condition in self._conditions

    def loop(self, record: Record, bound: tuple[tuple[int, Argument], ...]) -> LoopBuilder:
        """The loop over the entries that agree with the bound keys."""
        what = (record.name, bound)
        if what not in self._loops:
            self._loops[what] = LoopBuilder(record, bound, self)
            self._nested.append(self._loops[what])
        return self._loops[what]

    def add(self, record: str, keys: tuple[Argument, ...], name: str, product: Product) -> None:
        """Add a product to a field of an entry."""
        self._added.setdefault((record, keys), {}).setdefault(name, []).append(product)

    def yields(self, product: Product) -> None:
        """Add a product to the total around this block."""
        self._yielded.append(product)

    def last(self, op: Offer | Emit) -> None:
        """Something to do at the end of the block."""
        self._last.append(op)

    def _lookup(self, what: Hashable) -> GetBuilder | None:
        """A lookup that this block or a condition in it makes."""
        found = self._bindings.get(what)
        inner = (block._lookup(what) for block in self._conditions.values())
        return found if isinstance(found, GetBuilder) else next((f for f in inner if f is not None), None)

    def _share(self) -> None:
        """Leave to the blocks around this one what they bind anyway.

        An entry that this block adds to is looked up here, if a condition in it looks it up at all: the
        addition has to find it in any case.
        """
        for record, keys in self._added:
            lookup = self._lookup(("get", record, keys))
            if lookup is not None:
                self._bindings[("get", record, keys)] = lookup
        for what, own in list(self._bindings.items()):
            outer = self.parent._shared(what) if self.parent is not None else None
            if outer is not None:
                if isinstance(own, GetBuilder) and isinstance(outer, GetBuilder):
                    for name in own.reads:
                        outer.read(name)
                if isinstance(own, SpanBuilder) and isinstance(outer, SpanBuilder):
                    outer.take_over(own)
                del self._bindings[what]
        for nested in self._nested:
            (nested if isinstance(nested, BlockBuilder) else nested.body)._share()

    def freeze(self) -> Block:
        """The finished block."""
        self._share()
        bindings = self._bindings.values()
        ops = _before_scans([b.freeze() if isinstance(b, GetBuilder | SpanBuilder) else b for b in bindings])
        for nested in self._nested:
            if isinstance(nested, BlockBuilder):
                assert nested.condition is not None
                ops.append(If(nested.condition, nested.freeze()))
            else:
                ops.append(nested.freeze())
        for (record, keys), fields in self._added.items():
            amounts = tuple((name, collect(products)) for name, products in fields.items())
            if kept := tuple((name, amount) for name, amount in amounts if amount):
                ops.append(Add(record, keys, kept))
        if amount := collect(self._yielded):
            ops.append(Yield((amount,)))
        return tuple(op for op in [*ops, *self._last] if not _is_idle(op))


def _before_scans(ops: list[Op]) -> list[Op]:
    """What scans of spans need comes before them. A scan is written when its span is there already, and notes
    edges, and lookups without a key, as far outside as it can."""
    scans = [scan for op in ops if isinstance(op, Span) for scan in op.scans]
    read = {node.name for scan in scans for node in walk(scan) if isinstance(node, Var)}

    def is_needed(op: Op) -> bool:
        match op:
            case Pending(edge):
                return edge.name in read
            case Get(_, (), reads, found):
                return not read.isdisjoint({found.name, *(var.name for _, var in reads)})
            case _:
                return False

    return sorted(ops, key=lambda op: not is_needed(op)) if scans else ops


def nonzero(scalar: Scalar) -> Scalar:
    """``scalar <> 0``"""
    zero = Const(0.0 if scalar.type.is_floating else 0, scalar.type)
    return Call("<>", (scalar, zero), BOOLEAN)


def collect(products: list[Product]) -> Amount:
    """Equal products together, zeros dropped."""
    coefficients: dict[tuple[Scalar, ...], int] = {}
    for product in products:
        coefficients[product.factors] = coefficients.get(product.factors, 0) + product.coefficient
    return tuple(Product(c, factors) for factors, c in coefficients.items() if c)


def _is_idle(op: Op) -> bool:
    """A condition or loop around nothing."""
    return isinstance(op, If | Loop | Visit) and not op.body
