"""Records as C: the layout of entries, and the maps and indexes of the runtime that keep them.

A record without keys is a plain struct. Others are a hash table of the runtime: entries in the table itself
where they are small and have no further index, else in a pool with stable ids.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypeAlias

from viewlet.backends.native.flags import flag_words, masks, take_flags
from viewlet.backends.native.forms import Form, Writer, field_form, stored_form
from viewlet.backends.native.noting import write_note, write_presences
from viewlet.backends.native.orders import order_members, presences_of, write_orders
from viewlet.backends.native.whole import whole_order, write_whole
from viewlet.loops.nodes import Record

MAX_INPLACE_BYTES = 56
MOST_NESTED = 64

Member: TypeAlias = tuple[str, str, int]
"""Type and name of a member of a struct, and what its address must be a multiple of."""


@dataclass(frozen=True, slots=True)
class CRecord:
    """A record with its C name, and that of the first one laid out alike, whose types and functions it has.

    So ``r3_key``, ``r3_record``, ``r3_find`` serve ``r7`` as well, if its ``code`` is ``r3``.
    """

    name: str
    code: str
    record: Record
    apart: bool = False
    """Has it a function that adds to an entry?"""
    once: bool = False
    """Is there no other code that adds to an entry than this function, if one can do?"""
    fed: bool = False
    """Must followed views hear of an entry before it changes? See ``feeds.py``."""
    noted: bool = False
    """Is an entry noted before it changes, to be written back? See ``runtime/undo.h``."""
    again: bool = False
    """Is it gathered again and again? Then keys come in the order in which they came the last time."""

    @property
    def map(self) -> str:
        """The map of the runtime."""
        return f"&s->{self.name}.map"

    @property
    def pooled(self) -> bool:
        """Do entries need an id, because of an index, their size, or removal in a loop?"""
        record = self.record
        if record.array is not None:
            return False
        if self.indexed or record.swept or record.role != "map" or self.apart:
            return True
        sizes = [stored_form(key.type)[1] for key in record.keys]
        sizes += [8 if field_form(f.type) is Form.I64 else 16 for f in record.fields]
        return sum(sizes) > MAX_INPLACE_BYTES

    @property
    def met(self) -> bool:
        """May a loop over rows remember the entries that it met? See ``runtime/map_pooled.h``."""
        otherwise = self.apart or self.again or self.record.home or whole_order(self) is not None
        return self.pooled and not otherwise

    @property
    def count(self) -> str:
        """How many entries there are."""
        return f"({self.map})->{'index.count' if self.pooled else 'count'}"

    @property
    def indexed(self) -> bool:
        """Has something to know of entries that come or go?"""
        return bool(self.record.slices or presences_of(self))

    def field(self, name: str) -> str:
        """The C member of a field."""
        return f"f{next(i for i, f in enumerate(self.record.fields) if f.name == name)}"

    def form(self, name: str) -> Form:
        """The form of a field."""
        return field_form(next(f.type for f in self.record.fields if f.name == name))

    def slice(self, positions: tuple[int, ...]) -> str:
        """The C name of the slice index on some key positions."""
        return f"{self.code}s{self.record.slices.index(positions)}"

    @property
    def layout(self) -> Hashable:
        """What decides types and functions, but for their names."""
        record = self.record
        if record.orders or record.signed:
            return self.name
        keys = tuple((stored_form(key.type), key.nullable) for key in record.keys)
        forms = tuple(field_form(field.type) for field in record.fields)
        return keys, forms, record.home, record.slices, record.array, self.pooled, self.noted, self.again


def name_records(
    records: Mapping[str, Record],
    *,
    apart: bool = False,
    once: bool = False,
    fed: Collection[str] = (),
    crossing: bool = False,
    again: Collection[str] = (),
) -> dict[str, CRecord]:
    """C names for records; ``apart`` gives those with keys a function that adds to an entry.

    ``once`` keeps other code from doing so where it can.

    Opposite events undo neither sums that round nor visits of the rows that a threshold is ``crossing``:
    while a condition is out of range, it is not monotone, and the way back would visit others.
    """
    rounds = any(at.role == "map" and f.type.is_floating for at in records.values() for f in at.fields)
    noted = rounds or crossing
    named = {
        name: CRecord(
            f"r{i}",
            f"r{i}",
            _settled(record, noted=noted or name in fed),
            apart and bool(record.keys) and record.array is None,
            once,
            name in fed,
            noted and record.role == "map",
            name in again,
        )
        for i, (name, record) in enumerate(records.items())
    }
    first: dict[Hashable, str] = {}
    return {name: replace(at, code=first.setdefault(at.layout, at.name)) for name, at in named.items()}


def _settled(record: Record, *, noted: bool) -> Record:
    """A record with an ordered index that holds its entries, and no other way to them, or one that does not.

    Whoever notes entries before they change, or watches their sums, has to find them in a map.
    """
    if not any(order.whole for order in record.orders):
        return record
    if noted or any(field.guard is not None for field in record.fields):
        return replace(record, orders=tuple(replace(order, whole=False) for order in record.orders))
    return replace(record, slices=(), home=())


def write_record(out: Writer, at: CRecord, *, inline: bool = False) -> None:
    """The types and functions of one record."""
    if not at.record.keys:
        _struct(out, f"{at.name}_record", _packed([*_fields(at), *_stamp(at)]))
        return
    name = at.name
    columns = range(len(at.record.keys))
    _struct(out, f"{name}_key", _packed(_key_members(at, columns)))
    bookkeeping = [("uint32_t", "id", 4)] if at.pooled else []
    bookkeeping += [("uint32_t", f"{at.slice(positions)}_at", 4) for positions in at.record.slices]
    bookkeeping += _stamp(at)
    key = _key_members(at, columns)
    rest = _packed([*_fields(at), *bookkeeping], _size(key))
    _struct(out, f"{name}_record", [(f"{name}_key", "key", 0), *rest])
    _hash_and_equal(out, name, at, columns, at.record.home, met=at.met)
    out.line(f"#define VL_MAP {name}")
    out.line(f"#define VL_MAP_EMPTY(r) ({empty(at)})")
    if at.indexed:
        out.line("#define VL_MAP_INDEXED")
    if at.record.home:
        out.line("#define VL_MAP_HOME")
    if at.met:
        out.line("#define VL_MAP_MET")
    if at.record.array is not None:
        out.line(f"#define VL_MAP_COLUMN(key) ((key)->k{at.record.array})")
    out.line(f'#include "map_{"pooled" if at.pooled else "inplace"}.h"')
    for positions in at.record.slices:
        _slice(out, at, positions)
    members = [(f"vl_map_{'pooled' if at.pooled else 'inplace'}", "map", 8)]
    members += [("vl_slice_index", at.slice(positions), 8) for positions in at.record.slices]
    members += [("uint32_t", "last", 4)] * at.again
    write_orders(out, at, lambda own, positions: _write_key(out, own, at, positions))
    _struct(out, f"{name}_store", [*members, *order_members(at)])
    write_note(out, at)
    write_presences(out, at)
    if at.indexed:
        for function, call, n in (("attach", "add", 1), ("detach", "drop", -1)):
            with out.block(f"static void {name}_{function}(vl_arena *a, vl_map_pooled *m, {name}_record *r)"):
                out.line(f"{name}_store *store = ({name}_store *)m;")
                for positions in at.record.slices:
                    index = at.slice(positions)
                    out.line(f"{index}_{call}(a, m, &store->{index}, r);")
                if presences_of(at):
                    out.line(f"{name}_present(a, store, r, {n});")
    _write_calls(out, at, inline)


def _write_calls(out: Writer, at: CRecord, inline: bool) -> None:
    """Lookup and insertion; in line where they are few, else the compiler weighs size against speed."""
    if (order := whole_order(at)) is not None:
        write_whole(out, at, order)
        return
    name = at.name
    store = f"vl_map_{'pooled' if at.pooled else 'inplace'}"
    kind = "VL_INLINE" if inline else "VL_FUNCTION"
    look = f"{kind} {name}_record *{name}_look(vl_arena *a, {store} *m, const {name}_key *k)"
    out.line(f"{look} {{ return {name}_find(a, m, k); }}")
    touch = f"{kind} {name}_record *{name}_touch(vl_arena *a, {store} *m, const {name}_key *k)"
    out.line(f"{touch} {{ return {name}_upsert(a, m, k); }}")
    drop = f"VL_COLD void {name}_drop(vl_arena *a, {store} *m, {name}_record *r)"
    out.line(f"{drop} {{ if ({empty(at)}) {name}_remove(a, m, r); }}")
    leave = f"VL_INLINE void {name}_leave(vl_arena *a, {store} *m, {name}_record *r)"
    out.line(f"{leave} {{ if (VL_UNLIKELY({empty(at).split(' && ')[0]})) {name}_drop(a, m, r); }}")


def _write_key(out: Writer, name: str, at: CRecord, positions: Sequence[int]) -> None:
    """A key of some columns of a record."""
    _struct(out, f"{name}_key", _packed(_key_members(at, positions)))
    _hash_and_equal(out, name, at, positions)


def _slice(out: Writer, at: CRecord, positions: tuple[int, ...]) -> None:
    index = at.slice(positions)
    _struct(out, f"{index}_key", _packed(_key_members(at, positions)))
    parts = [f".k{i} = r->key.k{i}" for i in positions]
    parts += take_flags(at.record, positions, "r->key.")
    head = f"VL_INLINE {index}_key {index}_of(const {at.name}_record *r)"
    out.line(f"{head} {{ return ({index}_key){{{', '.join(parts)}}}; }}")
    if exact := _one_word(at, positions):
        out.line(f"VL_INLINE uint64_t {index}_hash(const {index}_key *p) {{ return vl_spread({exact}); }}")
        out.line("#define VL_SLICE_EXACT")
    else:
        _hash_and_equal(out, index, at, positions)
    out.line(f"#define VL_SLICE {index}")
    out.line(f"#define VL_SLICE_MAP {at.name}")
    out.line('#include "slice.h"')


def _one_word(at: CRecord, positions: Sequence[int]) -> str | None:
    """A word that says all of a key of one column, if there is one."""
    if len(positions) != 1 or masks(at.record, positions):
        return None
    match stored_form(at.record.keys[positions[0]].type)[0]:
        case "int32_t" | "uint32_t":
            return f"(uint32_t)p->k{positions[0]}"
        case "int64_t":
            return f"(uint64_t)p->k{positions[0]}"
        case _:
            return None


def _struct(out: Writer, name: str, members: Iterable[Member]) -> None:
    """A type with its members in the order given."""
    with out.block("typedef struct"):
        for kind, member, _ in members:
            out.line(f"{kind} {member};")
    out.lines[-1] += f" {name};"


def _packed(members: Iterable[Member], at: int = 0) -> Iterator[Member]:
    """Members in an order with few holes, from an offset on.

    Next comes the most demanding that needs no hole before it, or else the least demanding.

    >>> [name for _, name, _ in _packed([("vl_i128", "total", 16), ("int64_t", "count", 8)], 8)]
    ['count', 'total']
    """
    rest = sorted(members, key=lambda member: -member[2])
    while rest:
        chosen = next((member for member in rest if at % member[2] == 0), rest[-1])
        rest.remove(chosen)
        yield chosen
        at += -at % chosen[2] + _bytes(chosen)


def _bytes(member: Member) -> int:
    """The size of a member: its alignment, but for pairs and arrays.

    >>> _bytes(("int64_t", "k0", 8)), _bytes(("vl_pair", "f0", 8)), _bytes(("uint32_t", "nulls[3]", 4))
    (8, 16, 12)
    """
    kind, name, align = member
    count = int(name.partition("[")[2].rstrip("]") or 1)
    return count * (16 if kind == "vl_pair" else align)


def _size(members: Sequence[Member]) -> int:
    """The size of a struct whose members leave no holes between them."""
    widest = max((align for _, _, align in members), default=1)
    total = sum(map(_bytes, members))
    return total + -total % widest


def _fields(at: CRecord) -> list[Member]:
    return [
        (form.value, f"f{i}", {Form.I64: 8, Form.PAIR: 8}.get(form, 16))
        for i, field in enumerate(at.record.fields)
        for form in [field_form(field.type)]
    ]


def _stamp(at: CRecord) -> list[Member]:
    """The batch that changed an entry last, where entries are noted before they change."""
    return [("uint64_t", "stamp", 8)] if at.noted else []


def _key_members(at: CRecord, positions: Iterable[int]) -> list[Member]:
    members = [
        (kind, f"k{i}", size) for i in positions for kind, size in [stored_form(at.record.keys[i].type)]
    ]
    if masks(at.record, positions):
        words = flag_words(at.record)
        members.append(("uint32_t", "nulls" if words == 1 else f"nulls[{words}]", 4))
    return members


def _hash_and_equal(
    out: Writer,
    name: str,
    at: CRecord,
    positions: Sequence[int],
    home: Sequence[int] = (),
    *,
    met: bool = False,
) -> None:
    """``_hash``, of the columns at ``home`` if that is given; ``_equal``, and ``_alike``: equal there.

    And, for an entry that may be ``met`` again, ``_met_at``.
    """
    words: list[str] = []
    halves: list[str] = []
    for i in home or positions:
        match stored_form(at.record.keys[i].type)[0]:
            case "double":
                words.append(f"vl_f64_key(p->k{i})")
            case "vl_i128":
                words += [f"(uint64_t)p->k{i}", f"(uint64_t)(p->k{i} >> 64)"]
            case "int32_t" | "uint32_t":
                halves.append(f"(uint32_t)p->k{i}")
            case _:
                words.append(f"(uint64_t)p->k{i}")
    first, *others = [f"(p->{m} & {mask:#x})" for m, mask in masks(at.record, home or positions).items()] or [
        ""
    ]
    halves += others
    for low, high in zip_longest(halves[::2], halves[1::2]):  # two to a word: one multiplication fewer
        words.append(f"({low} | (uint64_t){high} << 32)" if high else f"(uint64_t){low}")
    if first:
        words[0] = f"({words[0]} ^ {first} * VL_SEED1)"
    _hash(out, name, words)
    if met:
        bits = " * VL_SEED0 ^ ".join(words[:3])
        head = f"VL_INLINE uint64_t {name}_met_at(const {name}_key *p)"
        out.line(f"{head} {{ return ({bits}) * VL_SEED0 >> (64 - VL_MET_BITS); }}")
    for function, compared in (("equal", positions), ("alike", home)):
        tests = [f"p->k{i} == q->k{i}" for i in compared]
        tests += [f"((p->{m} ^ q->{m}) & {mask:#x}) == 0" for m, mask in masks(at.record, compared).items()]
        head = f"VL_INLINE bool {name}_{function}(const {name}_key *p, const {name}_key *q)"
        if tests:
            out.line(f"{head} {{ return {' && '.join(tests)}; }}")


def _hash(out: Writer, name: str, words: Sequence[str]) -> None:
    """A hash of words; of many it takes a statement for each, as compilers nest parentheses so deep only."""
    text = f"vl_hash{min(len(words), 3)}({', '.join(words[:3])})"
    head = f"VL_INLINE uint64_t {name}_hash(const {name}_key *p)"
    if len(words) <= MOST_NESTED:
        for word in words[3:]:
            text = f"vl_hash2({text}, {word})"
        out.line(f"{head} {{ return {text}; }}")
        return
    with out.block(head):
        out.line(f"uint64_t h = {text};")
        for word in words[3:]:
            out.line(f"h = vl_hash2(h, {word});")
        out.line("return h;")


def empty(at: CRecord) -> str:
    """When an entry is gone; see :class:`viewlet.loops.nodes.Record`."""
    tests = []
    for i, field in enumerate(at.record.fields):
        pair = field_form(field.type) is Form.PAIR
        tests.append(f"vl_pair_zero((r)->f{i})" if pair else f"(r)->f{i} == 0")
    return " && ".join(tests)
