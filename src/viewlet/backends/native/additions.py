"""What an addition does to an entry once its amounts are known, in line or as a function of the record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from viewlet.backends.native.forms import Form, Writer, field_form, integer
from viewlet.backends.native.orders import note_change
from viewlet.backends.native.storage import CRecord
from viewlet.core.types import Type

Amounts: TypeAlias = Sequence[tuple[str, str, Form]]
"""Members of an entry, C variables with what is added to them, and their forms."""


def write_additions(out: Writer, at: CRecord) -> None:
    """``r3_add(x, known, key, ..)``: add to the entry of a key, which is ``known`` or NULL.

    Where a program is large, its triggers call this: one copy of the work for each record.
    """
    amounts = every_field(at, "d{}")
    parameters = "".join(f", {form.value} {name}" for _, name, form in amounts)
    head = f"vl_instance *x, {at.name}_record *known, const {at.name}_key *key{parameters}"
    with out.block(f"static VL_APART void {at.name}_add({head})"):
        out.line("vl_arena *const a = &x->arena;")
        out.line("program_state *const s = x->state;")
        out.line(f"if ({' && '.join(f'!({is_set(name, form)})' for _, name, form in amounts)}) return;")
        out.line(f"{at.name}_record *e = known ? known : {at.name}_touch(a, {at.map}, key);")
        change_entry(out, at, "e", amounts, whole=False)


def every_field(at: CRecord, names: str) -> Amounts:
    """An amount for every field, under numbered names."""
    forms = [field_form(field.type) for field in at.record.fields]
    return [(f"f{i}", names.format(i), form) for i, form in enumerate(forms)]


def change_entry(out: Writer, at: CRecord, entry: str, amounts: Amounts, *, whole: bool) -> None:
    """Add to the fields of an entry, see to what depends on them, and let go of it if it is empty."""
    tell_before(out, at, entry)
    remember(out, at, entry)
    for member, name, form in amounts:
        out.line(added(f"{entry}->{member}", form, name))
    watch(out, at, f"{entry}->", [member for member, _, _ in amounts])
    pairs = [member for member, _, form in amounts if form is Form.PAIR]
    if whole and pairs and at.record.counted is not None:
        exact = [f"{entry}->{member} == 0" for member, _, form in amounts if form is not Form.PAIR]
        rest = " ".join(f"{entry}->{member} = (vl_pair){{0, 0}};" for member in pairs)
        out.line(f"if ({' && '.join(exact)}) {{ {rest} }}")
    note_change(out, at, entry, {member: name for member, name, _ in amounts})
    out.line(f"{at.name}_leave(a, {at.map}, {entry});")


def tell_before(out: Writer, at: CRecord, entry: str) -> None:
    """An entry is about to change: let followed views note how it was."""
    if at.fed:
        out.line(f"if (VL_UNLIKELY(x->feeding)) {at.name}_before(x, {entry});")


def remember(out: Writer, at: CRecord, entry: str) -> None:
    """An entry is about to change: note how it is, where the opposite change would not lead back."""
    if at.noted:
        key = f"sizeof {entry}->key" if at.record.keys else "0"
        out.line(f"vl_undo_remember(&x->undo, {at.name[1:]}, {entry}, sizeof *{entry}, {key});")


def added(into: str, form: Form, amount: str) -> str:
    """The statement that adds an amount to a sum."""
    match form:
        case Form.PAIR:
            return f"vl_sum_into(&{into}, {amount}, &a->errors);"
        case Form.I128:
            return f"vl_i128_into(&{into}, {amount}, &a->errors);"
        case _:
            return f"vl_i64_into(&{into}, {amount}, &a->errors);"


def is_set(name: str, form: Form) -> str:
    """The condition that an amount is not 0."""
    return f"!vl_pair_zero({name})" if form is Form.PAIR else f"{name} != 0"


def watch(out: Writer, at: CRecord, entry: str, members: Iterable[str]) -> None:
    """Flag sums that have grown beyond what every view can show."""
    guarded = [(member, at.record.fields[int(member[1:])]) for member in members]
    tests = [_beyond(f"{entry}{member}", f.type, f.guard) for member, f in guarded if f.guard is not None]
    if tests:
        out.line(f"if (VL_UNLIKELY({' | '.join(tests)})) x->suspect = 1;")


def _beyond(sum_: str, kind: Type, digits: int) -> str:
    """Not 0 where a sum has more digits, or nearly so."""
    limit = 10**digits - 1
    match field_form(kind):
        case Form.PAIR:
            return f"vl_beyond_pair({sum_}, 1e{digits})"
        case form if limit < 1 << 62:
            return f"vl_far_{'i128' if form is Form.I128 else 'i64'}({sum_}, {limit.bit_length() - 1})"
        case _:
            return f"vl_beyond_i128({sum_}, {integer(limit)})"
