"""Which views tell what changes in them, and the C that notes it; see ``runtime/feed.h``.

A view that loops over one record shows, under each of its keys, rows that depend on the entries of that key
alone: its own, and those of other records that are read under the whole key. Then

    change of the view = rows under the touched keys afterwards - rows under them before

and nothing else need be read. A view that compares with a total may change under keys that no trigger
touches: it has no feed, and whoever follows it compares all its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from viewlet.backends.native.flags import flag, set_flags
from viewlet.backends.native.forms import Writer, stored_form
from viewlet.backends.native.operations import Operations
from viewlet.backends.native.scalars import Registry
from viewlet.backends.native.storage import CRecord, empty
from viewlet.calculus.nodes import Argument
from viewlet.core.scalar import Var
from viewlet.loops.nodes import (
    Best,
    Bind,
    Emit,
    Get,
    If,
    Loop,
    LoopProgram,
    Offer,
    Peak,
    Pending,
    Record,
    Seek,
    Span,
    Total,
    Turn,
    ViewLoops,
    Visit,
    Yield,
    operations,
)

MOST = 64
"""A program can note the changes of so many views: one bit of a word for each."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A view that shows the entries of ``loop``'s record.

    ``keys`` says, for every record that it reads, where in that record's key the columns of the shown key
    are, in their order.
    """

    view: int
    loop: Loop
    keys: Mapping[str, tuple[int, ...]]


def feeds_of(program: LoopProgram) -> dict[str, Feed]:
    """The views that tell their changes, by name."""
    found = {}
    for number, (name, view) in enumerate(program.views.items()):
        feed = _feed(number, view, program.records)
        if feed is not None and number < MOST:
            found[name] = feed
    return found


def fed_records(feeds: Iterable[Feed]) -> frozenset[str]:
    """The records whose changes some view must hear of."""
    return frozenset(record for feed in feeds for record in feed.keys)


def _feed(number: int, view: ViewLoops, records: Mapping[str, Record]) -> Feed | None:
    match view.body:
        case (Loop(record, (), binds) as loop,) if len(binds) == len(records[record].keys):
            columns = {var.name: i for i, var in binds}
        case _:
            return None
    keys = {record: tuple(range(len(columns)))}
    for op in operations(loop.body):
        match op:
            case Get(other, arguments):
                where = _where(enumerate(arguments), columns)
            case Loop(other, bound):
                where = _where(bound, columns)
            case Seek(along=along) | Span(along=along) | Peak(along=along) | Visit(along=along):
                other, where = along.record, _where(along.bound, columns)
            case Bind() | If() | Total() | Yield() | Best() | Offer() | Emit() | Pending() | Turn():
                continue
            case _:
                return None
        if where is None or keys.setdefault(other, where) != where:
            return None
        if not _fits(records[record], records[other], where):
            return None
    return Feed(number, loop, keys)


def _where(bound: Iterable[tuple[int, Argument]], columns: Mapping[str, int]) -> tuple[int, ...] | None:
    """The place of every column of the shown key among the bound ones; nothing if one is not bound."""
    places = {columns[a.name]: i for i, a in bound if isinstance(a, Var) and a.name in columns}
    return tuple(places[i] for i in range(len(columns))) if len(places) == len(columns) else None


def _fits(shown: Record, other: Record, where: tuple[int, ...]) -> bool:
    """Are the columns of both keys stored alike?"""
    return all(
        stored_form(key.type) == stored_form(other.keys[i].type)
        for key, i in zip(shown.keys, where, strict=True)
    )


# In C


def write_feeds(
    out: Writer, feeds: Iterable[Feed], records: Mapping[str, CRecord], registry: Registry
) -> None:
    """``v2_at`` shows an entry, ``v2_before`` and ``v2_after`` note rows; ``r3_before`` tells the views."""
    feeds = list(feeds)
    for feed in feeds:
        at, view = records[feed.loop.record], f"v{feed.view}"
        with out.block(
            f"VL_COLD void {view}_at(vl_instance *x, const {at.code}_record *e, void *sink, vl_emit emit)"
        ):
            _state(out)
            Operations(out, records, registry, {}).entry(at, feed.loop, "e")
        head = f"VL_COLD void {view}_show(vl_instance *x, const {at.code}_key *key, vl_feed *f)"
        with out.block(head):
            _state(out)
            out.line(f"const {at.code}_record *r = {at.code}_look(a, {at.map}, key);")
            out.line(f"if (r && !({empty(at)})) {view}_at(x, r, f, vl_feed_row);")
        same = f"static bool {view}_same(const void *p, const void *q)"
        out.line(f"{same} {{ return {at.code}_equal(p, q); }}")
        with out.block(f"VL_COLD void {view}_before(vl_instance *x, const {at.code}_key *key)"):
            out.line(f"vl_feed *f = &x->feeds[{feed.view}];")
            first = f"vl_feed_first(f, key, sizeof *key, {at.code}_hash(key), {view}_same)"
            out.line(f"if (!{first}) return;")
            out.line("f->sign = -1;")
            out.line(f"{view}_show(x, key, f);")
        with out.block(f"VL_COLD void {view}_after(vl_instance *x)"):
            out.line(f"vl_feed *f = &x->feeds[{feed.view}];")
            out.line(f"const {at.code}_key *keys = (const void *)f->keys;")
            out.line(f"for (uint64_t i = 0; i < f->count; i++) {view}_show(x, &keys[i], f);")
    for name in sorted(fed_records(feeds)):
        _tell(out, records[name], [feed for feed in feeds if name in feed.keys], records)


def _tell(out: Writer, at: CRecord, feeds: Iterable[Feed], records: Mapping[str, CRecord]) -> None:
    """An entry is about to change: tell the views that are followed."""
    with out.block(f"VL_COLD void {at.name}_before(vl_instance *x, const {at.code}_record *e)"):
        for feed in feeds:
            shown = records[feed.loop.record]
            places = list(enumerate(feed.keys[at.record.name]))
            flagged = [(i, own) for i, own in places if at.record.keys[own].nullable]
            taken = [(i, own) for i, own in flagged if shown.record.keys[i].nullable]
            known = {own: flag(at.record, own, "e->key.") for _, own in flagged}
            never = [f"!({known[own]})" for i, own in flagged if (i, own) not in taken]
            with out.block(f"if ({' && '.join([f'(x->feeding >> {feed.view} & 1)', *never])})"):
                parts = [f".k{i} = e->key.k{own}" for i, own in places]
                parts += set_flags(shown.record, [(i, known[own]) for i, own in taken])
                out.line(f"const {shown.code}_key key = {{{', '.join(parts)}}};")
                out.line(f"v{feed.view}_before(x, &key);")


def _state(out: Writer) -> None:
    out.line("vl_arena *const a = &x->arena;")
    out.line("program_state *const s = x->state;")
    out.line("(void)a, (void)s;")
