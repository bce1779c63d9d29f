"""What an addition does to an entry once its amounts are known, in line or as a function of the record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from viewlet.backends.native.forms import CValue, Form, Writer, field_form, integer
from viewlet.backends.native.noting import note_change
from viewlet.backends.native.orders import noted_fields
from viewlet.backends.native.storage import CRecord
from viewlet.loops.nodes import Field
from viewlet.loops.ranges import I64, type_interval, within

UPPER_BITS = 15
"""Sums with many digits pass together up to 2^(64 + 15), which is less than any of their limits."""

Amounts: TypeAlias = Sequence[tuple[str, CValue]]
"""Members of an entry, and C variables with what is added to them."""


def write_additions(out: Writer, at: CRecord) -> None:
    """``r3_add(x, known, key, ..)``: add to the entry of a key, which is ``known`` or NULL.

    Where a program is large, its triggers call this: one copy of the work for each record.
    """
    amounts = every_field(at, "d{}")
    with out.block(_addition(at)):
        out.line("vl_arena *const a = &x->arena;")
        out.line("program_state *const s = x->state;")
        out.line(f"if ({' && '.join(f'!({is_set(amount)})' for _, amount in amounts)}) return;")
        out.line(f"{at.code}_record *e = known ? known : {at.code}_touch(a, {at.map}, key);")
        change_entry(out, at, "e", amounts, whole=False)


def _addition(at: CRecord) -> str:
    """The head of the function that adds to an entry."""
    amounts = "".join(f", {amount.form.value} {amount.text}" for _, amount in every_field(at, "d{}"))
    parameters = f"vl_instance *x, {at.code}_record *known, const {at.code}_key *key{amounts}"
    return f"static VL_APART void {at.name}_add({parameters})"


def adds_alike(at: CRecord) -> bool:
    """Is an addition to all fields left to the function of a record? No rest of a DOUBLE is cleared there."""
    rounds = any(field_form(field.type) is Form.PAIR for field in at.record.fields)
    return at.once and not at.again and not rounds


def declare(out: Writer, at: CRecord) -> None:
    """The functions that change entries or hear of it, for procedures that come before them."""
    if at.apart:
        out.line(f"{_addition(at)};")
    if at.fed:
        out.line(f"VL_COLD void {at.name}_before(vl_instance *x, const {at.code}_record *e);")


def every_field(at: CRecord, names: str) -> Amounts:
    """An amount for every field, under numbered names."""
    return [
        (f"f{i}", CValue(names.format(i), field_form(field.type), None, type_interval(field.type)))
        for i, field in enumerate(at.record.fields)
    ]


def change_entry(out: Writer, at: CRecord, entry: str, amounts: Amounts, *, whole: bool) -> None:
    """Add to the fields of an entry, see to what depends on them, and let go of it if it is empty."""
    tell_before(out, at, entry)
    remember(out, at, entry)
    told = {member: amount.text for member, amount in amounts}
    for i in noted_fields(at.record):
        if at.record.fields[i].type.is_floating and f"f{i}" in told:
            told[f"f{i}"] = out.fresh("o")
            out.line(f"const vl_pair {told[f'f{i}']} = {entry}->f{i};")
    for member, amount in amounts:
        out.line(added(f"{entry}->{member}", amount))
    watch(out, at, entry, [member for member, _ in amounts])
    pairs = [member for member, amount in amounts if amount.form is Form.PAIR]
    if whole and pairs and at.record.counted is not None:
        exact = [f"{entry}->{member} == 0" for member, amount in amounts if amount.form is not Form.PAIR]
        rest = " ".join(f"{entry}->{member} = (vl_pair){{0, 0}};" for member in pairs)
        out.line(f"if ({' && '.join(exact)}) {{ {rest} }}")
    note_change(out, at, entry, told)
    out.line(f"{at.code}_leave(a, {at.map}, {entry});")


def tell_before(out: Writer, at: CRecord, entry: str) -> None:
    """An entry is about to change: let followed views note how it was."""
    if at.fed:
        out.line(f"if (VL_UNLIKELY(x->feeding)) {at.name}_before(x, {entry});")


def remember(out: Writer, at: CRecord, entry: str) -> None:
    """An entry is about to change: note how it is, where the opposite change would not lead back."""
    if at.noted:
        out.line(f"vl_undo_remember(&x->undo, {at.name[1:]}, {entry}, &{entry}->stamp, sizeof *{entry});")


def added(into: str, amount: CValue) -> str:
    """The statement that adds an amount to a sum of its form.

    Sums of 64-bit numbers stay within 128 bits, as no program runs long enough to add 2^46 of them.
    """
    match amount.form:
        case Form.PAIR:
            return f"vl_sum_into(&{into}, {amount.text}, &a->errors);"
        case Form.I128 if within(amount.limits, I64):
            return f"vl_i128_plus(&{into}, (int64_t){amount.text});"
        case Form.I128:
            return f"vl_i128_into(&{into}, {amount.text}, &a->errors);"
        case _:
            return f"vl_i64_into(&{into}, {amount.text}, &a->errors);"


def is_set(amount: CValue) -> str:
    """The condition that an amount is not 0."""
    return f"!vl_pair_zero({amount.text})" if amount.form is Form.PAIR else f"{amount.text} != 0"


def watch(out: Writer, at: CRecord, entry: str, members: Iterable[str]) -> None:
    """Flag sums that have grown beyond what every view can show, given an entry by its address.

    Small sums pass together, by their bits; others are looked at one by one.
    """
    together: dict[tuple[str, str, int], list[str]] = {}
    tests: list[str] = []
    for member in members:
        sum_, field = f"({entry})->{member}", at.record.fields[int(member[1:])]
        form = field_form(field.type)
        if field.guard is None:
            continue
        if form is Form.PAIR:
            tests.append(f"(uint64_t){_is_beyond(sum_, field)}")
            continue
        bits = (10**field.guard - 1).bit_length() - 1
        raised = above = "i128" if form is Form.I128 else "i64"
        if bits > 62:
            assert form is Form.I128, "64 bits have no more than 18 digits to watch"
            raised, above, bits = "upper", "i64", UPPER_BITS
        together.setdefault((raised, above, bits), []).append(f"vl_raised_{raised}({sum_}, {bits})")
    tests += [f"vl_above_{above}({' | '.join(sums)}, {bits})" for (_, above, bits), sums in together.items()]
    if tests:
        out.line(f"if (VL_UNLIKELY({' | '.join(tests)})) {at.name}_watch(x, {entry});")


def write_watch(out: Writer, at: CRecord) -> None:
    """``r3_watch(x, entry)``: raise the flag if a sum is beyond its guard."""
    guarded = [(f"e->f{i}", field) for i, field in enumerate(at.record.fields) if field.guard is not None]
    if guarded:
        tests = " || ".join(_is_beyond(sum_, field) for sum_, field in guarded)
        with out.block(f"VL_COLD void {at.name}_watch(vl_instance *x, const {at.code}_record *e)"):
            out.line(f"if ({tests}) x->suspect = 1;")


def _is_beyond(sum_: str, field: Field) -> str:
    """The condition that a sum has more digits than its guard."""
    assert field.guard is not None
    if field_form(field.type) is Form.PAIR:
        return f"vl_beyond_pair({sum_}, 1e{field.guard})"
    return f"vl_beyond_i128({sum_}, {integer(10**field.guard - 1)})"
