"""Loops: what a trigger does, step by step, with every decision made and nothing left to an emitter.

A block is a sequence of operations; a variable that an operation declares is visible to the rest of its block
and to everything nested in it. Scalars, types and NULL are those of ``core``.

==================================  ==========================================================================
``x = e``                           bind a scalar
``get R[k..] -> n: x, found: f``    the entry of a record at a whole key; absent: zeros, and f is FALSE
``for R[k, *y] -> n: x: ..``        each entry that agrees with the bound keys (none bound: all entries)
``if e: ..``                        where e is TRUE
``x, y = total: ..``                0 each, plus what every ``yield`` inside has for each
``x = least: ..``, ``greatest``     NULL, then the best of the values that are offered inside
``R[k..] += n: a, s: b``            add amounts to the fields of an entry; one whose fields are all 0 goes
``later R[k..] += ..``, ``flush``   the same, but only at the flush, when everything has been read
``gather R: ..``                    empty the temporary R, then fill it
``R{n} := T``                       make fields of R those of a temporary, writing only differences
``emit (e..) * a``                  a row of a view, that many times
``pending e``                       an edge of an ordered index that has not been looked for yet
``seek e along R[k, *y]: ..``       where along an ordered index conditions stop to hold; once per ``pending``
``turn e -> key: x, first: f``      the key of the entry at an edge, and whether the edge is before all
``span R[k, *e to f] -> n: x``      sums over the entries between two edges
``x = least R[k, *e to f].v``       the best value of a key column among the entries between two edges
``visit R[k, *y: e to f]: ..``      the keys between two edges in their order; ``once``: up to the first offer
==================================  ==========================================================================

An amount is a sum of products: integers times scalars that are never NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.calculus.nodes import Argument
from viewlet.core.scalar import Scalar, Var
from viewlet.core.types import Type
from viewlet.sql.catalog import Table
from viewlet.triggers.records import Place

Role: TypeAlias = Literal["map", "change", "temporary"]
Check: TypeAlias = Literal["never", "guarded", "always"]
Holds: TypeAlias = Literal["sums", "levels", "min", "max"]
Point: TypeAlias = tuple[bool, tuple[tuple[str, bool], ...], bool, bool, bool, tuple[str, ...]]
"""A kind of search along an index: see :attr:`Seek.point`."""


@dataclass(frozen=True, slots=True)
class Field:
    """A number in every entry of a record; ``map`` names the map whose value it is, if it is one's.

    ``guard`` is the number of digits beyond which a trigger flags it, since a view may then fail to be read.
    """

    name: str
    type: Type
    map: str | None = None
    guard: int | None = None


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key column of a record."""

    name: str
    type: Type
    nullable: bool


@dataclass(frozen=True, slots=True)
class Axis:
    """A key column by which entries are ordered, apart for each value of the columns ``by``.

    At each key there are ``sums`` of fields, or no more than the knowledge that there are entries
    (``levels``), or the least or greatest value of the column ``of`` among them.
    """

    position: int
    by: tuple[int, ...]
    holds: Holds = "sums"
    of: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """An ordered index of a record; ``fields`` are those that it sums.

    It may take the ``dense`` form where its keys are dense. ``points`` are the kinds of searches along it
    that begin where the last one ended; ``marked`` if edges found elsewhere divide it, which stay for long.
    ``whole`` if it could hold the entries themselves: it has all their keys and fields, and nobody looks for
    them elsewhere.
    """

    axis: Axis
    fields: tuple[str, ...] = ()
    dense: bool = False
    points: tuple[Point, ...] = ()
    marked: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """Entries by key, and how they are found.

    ``home`` are the key positions by which an entry is placed, if not all of them. They decide the others, or
    nearly, so that loops that bind just these meet few entries. ``slices`` lists the sets of key positions
    that other loops bind: one index for each. An entry is gone when all its fields are 0. ``counted`` names
    the field that is 0 exactly if the others should be. ``swept`` says that entries are removed while they
    are looped over, which needs entries that stay where they are.
    ``orders`` are its ordered indexes; of the fields ``signed`` the entries below 0 are counted.
    No event changes a record with a column ``array``, and whoever looks for its entries knows this column,
    which decides the others: they may lie in an array by it, as long as its values are dense.
    """

    name: str
    role: Role
    keys: tuple[KeyColumn, ...]
    fields: tuple[Field, ...]
    counted: str | None
    home: tuple[int, ...] = ()
    slices: tuple[tuple[int, ...], ...] = ()
    swept: bool = False
    orders: tuple[Order, ...] = ()
    signed: tuple[str, ...] = ()
    array: int | None = None


@dataclass(frozen=True, slots=True)
class Product:
    """``coefficient`` times scalars."""

    coefficient: int
    factors: tuple[Scalar, ...]


Amount: TypeAlias = tuple[Product, ...]
Read: TypeAlias = tuple[str, Var]


@dataclass(frozen=True, slots=True)
class Bind:
    """``var = scalar``."""

    var: Var
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Get:
    """One entry, or zeros."""

    record: str
    keys: tuple[Argument, ...]
    reads: tuple[Read, ...]
    found: Var


@dataclass(frozen=True, slots=True)
class Loop:
    """The entries that agree with ``bound``; ``binds`` names their other key columns."""

    record: str
    bound: tuple[tuple[int, Argument], ...]
    binds: tuple[tuple[int, Var], ...]
    reads: tuple[Read, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class If:
    """Where the condition is TRUE, not FALSE or NULL."""

    condition: Scalar
    body: Block


@dataclass(frozen=True, slots=True)
class Total:
    """Each of the variables is the sum of what the body yields for it."""

    vars: tuple[Var, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Yield:
    """Add to the nearest enclosing :class:`Total`, an amount for each of its variables."""

    amounts: tuple[Amount, ...]


@dataclass(frozen=True, slots=True)
class Best:
    """``var`` is the least or greatest of what the body offers, NULL if it offers nothing."""

    var: Var
    op: Literal["min", "max"]
    body: Block


@dataclass(frozen=True, slots=True)
class Offer:
    """A candidate for the nearest enclosing :class:`Best`; NULL is none."""

    scalar: Scalar


@dataclass(frozen=True, slots=True)
class Add:
    """Add to the fields of one entry; ``later`` puts it off until the :class:`Flush`.

    ``found`` names the lookup of the same entry before, if there was one and the entry is still where it was.
    ``whole`` says that the trigger adds to no other field of the entry: if the exact fields are 0 then, the
    group is gone, and what rounding left of its DOUBLE sums goes with it.
    """

    record: str
    keys: tuple[Argument, ...]
    amounts: tuple[tuple[str, Amount], ...]
    later: bool = False
    found: Var | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Flush:
    """Do every addition that was put off."""


@dataclass(frozen=True, slots=True)
class Gather:
    """Empty a temporary, or a record, then run a body that adds to it.

    Of one that is gathered ``again`` and again, entries stay as zeros, for most of their keys come back; the
    :class:`Assign` that follows removes the others.
    """

    record: str
    body: Block
    again: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """The ``fields`` of a record become those of a temporary of the same keys and field names."""

    record: str
    fields: tuple[str, ...]
    temporary: str


@dataclass(frozen=True, slots=True)
class Emit:
    """One row of a view, with its multiplicity."""

    row: tuple[Scalar, ...]
    amount: Amount


@dataclass(frozen=True, slots=True)
class Along:
    """An ordered index of a record, at values of the columns by which it is apart."""

    record: str
    axis: Axis
    bound: tuple[tuple[int, Argument], ...]


@dataclass(frozen=True, slots=True)
class Running:
    """``var`` is the sum of a field over the entries up to a point of the order, or behind it.

    Without a field it is the best value that the index holds of them, NULL if there are none.
    """

    field: str | None
    behind: bool
    var: Var


@dataclass(frozen=True, slots=True)
class Pending:
    """An edge that is not known yet. Where it is sought first in this block or below, it becomes known."""

    edge: Var
    record: str
    axis: Axis


@dataclass(frozen=True, slots=True)
class Seek:
    """The edge along an order before which the conditions hold (or, with ``holds`` FALSE, do not).

    They are monotone: what they say changes once at most. By ``key`` they are asked at keys, of which any
    value may come. By ``sums`` they are asked between entries: at the point behind an entry if the entry
    itself counts as passed (``closed``), else at the point before it. ``beyond`` says that keys which are not
    in this index will be compared with the edge. ``first`` runs once, if the index has entries; ``body``
    each time before the conditions. ``keeps`` are the fields whose sums before the edge somebody reads.
    """

    edge: Var
    along: Along
    key: Var | None
    sums: tuple[Running, ...]
    closed: bool
    beyond: bool
    first: Block
    body: Block
    conditions: tuple[Scalar, ...]
    holds: bool
    keeps: tuple[str, ...] = ()

    @property
    def point(self) -> Point:
        """What tells it from other searches along its index: how it asks, and the sums that it keeps."""
        asked = tuple((r.field, r.behind) for r in self.sums if r.field is not None)
        return (self.key is None, asked, self.closed, self.beyond, self.holds, self.keeps)


@dataclass(frozen=True, slots=True)
class Turn:
    """The entry at an edge that was sought between entries, ``beyond``: the one behind it if the search was
    ``closed``, else the one before it.

    ``key`` is NULL where there is none. ``always`` says that the edge lies before all entries; behind them,
    if the search was not closed.
    """

    edge: Var
    along: Along
    key: Var
    always: Var
    closed: bool


@dataclass(frozen=True, slots=True)
class Limit:
    """An end of a span: an edge that was found along the same index (``own``), or along another one."""

    edge: Var
    own: bool


@dataclass(frozen=True, slots=True)
class Span:
    """Sums over the entries from one edge to another; entries with NULL in the ordered column are in none.

    While a field in ``needs`` (of a record) is negative anywhere, the edges mean nothing: the ``scans`` then
    compute the same variables as ``reads``. So they do while a field of DOUBLE that is needed or read has an
    amount that the index cannot add up exactly.
    """

    along: Along
    start: Limit | None
    stop: Limit | None
    reads: tuple[Read, ...]
    needs: tuple[tuple[str, str], ...]
    scans: tuple[Total, ...]


@dataclass(frozen=True, slots=True)
class Peak:
    """``var`` is the best value that an index holds from one edge to another, NULL if there is none.

    While a field in ``needs`` is negative anywhere, ``scan`` binds the same variable.
    """

    var: Var
    along: Along
    start: Limit | None
    stop: Limit | None
    needs: tuple[tuple[str, str], ...]
    scan: Block


@dataclass(frozen=True, slots=True)
class Visit:
    """The keys from one edge to another in their order, from the last one down if ``down``.

    Along an index of sums these are the keys with a sum, also of the field ``present``.
    With ``once`` it ends when something has been offered to the nearest enclosing :class:`Best`. While a
    field in ``needs`` is negative anywhere, the edges mean nothing: ``scan`` then offers the same.
    """

    along: Along
    start: Limit | None
    stop: Limit | None
    key: Var
    down: bool
    once: bool
    body: Block
    present: str | None = None
    needs: tuple[tuple[str, str], ...] = ()
    scan: Block = ()


Op: TypeAlias = (
    Bind
    | Get
    | Loop
    | If
    | Total
    | Yield
    | Best
    | Offer
    | Add
    | Flush
    | Gather
    | Assign
    | Emit
    | Pending
    | Seek
    | Turn
    | Span
    | Peak
    | Visit
)
Block: TypeAlias = tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class TableLoops:
    """What the changes of one table do.

    ``on_tuple`` runs once per row, with the row in ``parameters``. For a batch, ``on_change`` runs per row
    and fills the records ``changes``; then ``on_batch`` runs once, and ``changes`` are cleared. ``batched``
    says whether there are such loops: without, a batch runs row by row, and no row costs more for it.
    """

    table: Table
    parameters: tuple[Var, ...]
    weight: Var
    on_tuple: Block
    on_change: Block
    on_batch: Block
    changes: tuple[str, ...]
    batched: bool


@dataclass(frozen=True, slots=True)
class ViewLoops:
    """How the rows of a view are read, and when a batch must be followed by a check that they can be."""

    name: str
    columns: tuple[tuple[str, Type], ...]
    body: Block
    check: Check = "always"


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """A maintenance program as loops; ``places`` says where each map's value is.

    ``scanned`` names maps along which a sum could be searched, but is not.
    """

    records: Mapping[str, Record]
    places: Mapping[str, Place]
    tables: Mapping[str, TableLoops]
    views: Mapping[str, ViewLoops]
    scanned: tuple[str, ...] = ()


def body_of(op: Op) -> Block:
    """The nested block of an operation; empty if it has none."""
    match op:
        case Loop() | If() | Total() | Best() | Gather():
            return op.body
        case Visit():
            return (*op.body, *op.scan)
        case Seek():
            return (*op.first, *op.body)
        case Span():
            return op.scans
        case Peak():
            return op.scan
        case _:
            return ()


def operations(block: Block) -> Iterator[Op]:
    """Every operation of a block and below, in order."""
    for op in block:
        yield op
        yield from operations(body_of(op))


def blocks(program: LoopProgram) -> Iterator[Block]:
    """Every block that a program runs."""
    for table in program.tables.values():
        yield from (table.on_tuple, table.on_change, table.on_batch)
    for view in program.views.values():
        yield view.body
