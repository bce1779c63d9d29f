"""Operations of loops as C statements; nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import assert_never

from viewlet.backends.native.additions import (
    Amounts,
    added,
    adds_alike,
    change_entry,
    every_field,
    is_set,
    remember,
    tell_before,
    watch,
)
from viewlet.backends.native.columns import load, needed_here
from viewlet.backends.native.flags import flag, flag_words_of, set_flags
from viewlet.backends.native.forms import (
    CValue,
    Form,
    Writer,
    field_form,
    form_of,
    form_within,
    integer,
    stored_form,
)
from viewlet.backends.native.functions import STRICT
from viewlet.backends.native.noting import note_seen, see
from viewlet.backends.native.orders import is_noted, order_at
from viewlet.backends.native.scalars import Registry, Scalars, to_cell
from viewlet.backends.native.searches import CEdge, Searches
from viewlet.backends.native.storage import CRecord, empty
from viewlet.backends.native.whole import whole_order
from viewlet.calculus.nodes import Argument
from viewlet.core.scalar import COMPARISONS, Call, Const, Scalar, Var, variables
from viewlet.core.types import Kind, Type
from viewlet.loops.nodes import (
    Add,
    Amount,
    Assign,
    Best,
    Bind,
    Block,
    Emit,
    Flush,
    Gather,
    Get,
    If,
    Loop,
    Offer,
    Op,
    Peak,
    Pending,
    Product,
    Read,
    Seek,
    Span,
    Total,
    Turn,
    Visit,
    Yield,
)
from viewlet.loops.ranges import I64, I128, Interval, type_interval, within


@dataclass(frozen=True, slots=True)
class Target:
    """Where yields and offers go: to each sum its own, or to one best by the comparison ``better``."""

    values: tuple[CValue, ...]
    better: str = ""


class Operations:
    """Writes the operations of one block; names declared in it end with it."""

    def __init__(
        self,
        out: Writer,
        records: Mapping[str, CRecord],
        registry: Registry,
        names: Mapping[str, CValue],
        weight: str = "",
        target: Target | None = None,
    ) -> None:
        self.out = out
        self.records = records
        self.registry = registry
        self.names = dict(names)
        self.entries: dict[str, str] = {}
        self.weight = weight
        self.target = target
        self.waiting: dict[str, tuple[int, Var]] = {}
        self.met: Mapping[str, str] = {}
        self.scalars = Scalars(out, self.names, registry, STRICT)

    def nested(self, block: Block, target: Target | None = None) -> None:
        """A block inside this one."""
        self.child(target).block(block)

    def child(self, target: Target | None = None) -> Operations:
        """For a block inside this one."""
        inner = Operations(
            self.out, self.records, self.registry, self.names, self.weight, target or self.target
        )
        inner.entries = dict(self.entries)
        inner.waiting = dict(self.waiting)
        inner.met = self.met
        inner.scalars.known |= self.scalars.known
        return inner

    def elsewhere(self, out: Writer, names: Mapping[str, CValue]) -> Operations:
        """For a function of its own, which knows these variables."""
        return Operations(out, self.records, self.registry, names)

    def block(self, block: Block) -> None:
        """Every operation in order, after the columns that they read."""
        for name in needed_here(block, self.waiting):
            self.names[name] = load(self.out, *self.waiting.pop(name))
        for op in block:
            self.operation(op)

    def operation(self, op: Op) -> None:
        """One operation."""
        match op:
            case Bind(var, scalar):
                self._declare(var, self.scalars.value(scalar))
            case Get():
                self._get(op)
            case Loop():
                self._loop(op)
            case If():
                self._if(op)
            case Total():
                self._total(op)
            case Yield(amounts):
                self._yield(amounts)
            case Best(var, kind, body):
                self._best(var, kind == "max", body)
            case Offer(scalar):
                self._offer(self.scalars.named(self.scalars.value(scalar)))
            case Add():
                self._add(op)
            case Flush():
                self.out.line("flush_later(x);")
            case Gather(record, body, again):
                at = self.records[record]
                if again:
                    self._reset(at)
                else:
                    self._empty(at)
                with self.out.block():
                    self.nested(body)
            case Assign():
                self._assign(op)
            case Emit(row, amount):
                self._emit(row, amount)
            case Pending():
                self._pending(op)
            case Seek():
                Searches(self).seek(op)
            case Turn():
                Searches(self).turn(op)
            case Span():
                Searches(self).span(op)
            case Peak():
                Searches(self).peak(op)
            case Visit():
                Searches(self).visit(op)
            case _:
                assert_never(op)

    def _pending(self, op: Pending) -> None:
        order, edge = order_at(self.records[op.record], op.axis), self.out.fresh("y")
        self.out.line(f"{order.name}_edge {edge} = {{0}};")
        self.names[op.edge.name] = CEdge(edge, Form.I64, kind=f"{order.name}_edge")

    def test(self, condition: Scalar) -> str:
        """A condition in C, after the columns that it reads."""
        self.load_columns(((0, condition),))
        return self.scalars.condition(condition)

    def load_columns(self, scalars: Iterable[tuple[int, Scalar]]) -> None:
        """Load the columns that some scalars read and nothing has read before."""
        for var in (var for _, scalar in scalars for var in variables(scalar)):
            if var.name in self.waiting:
                self.names[var.name] = load(self.out, *self.waiting.pop(var.name))

    def _if(self, op: If) -> None:
        """A condition; those nested in it alone are tested with it, without a jump for each.

        Rows pass all conditions together rarely or mostly, one alone now and then: a processor foresees the
        conjunction far better than its parts.
        """
        tests = [self.test(op.condition)]
        body = op.body
        while len(body) == 1 and isinstance(body[0], If) and is_plain(body[0].condition):
            tests.append(self.test(body[0].condition))
            body = body[0].body
        with self.out.block(f"if ({' & '.join(tests)})"):
            self.nested(body)

    # Variables

    def _declare(self, var: Var, value: CValue) -> None:
        form = form_of(var.type)
        name = self.out.fresh("v")
        self.out.line(f"const {form.value} {name} = {value.text};")
        null = None
        if value.null is not None and var.nullable:
            null = f"{name}_null"
            self.out.line(f"const bool {null} = {value.null};")
        limits = value.limits if within(value.limits, type_interval(var.type)) else type_interval(var.type)
        self.names[var.name] = CValue(name, form, null, limits)

    def _read(self, at: CRecord, reads: Iterable[Read], entry: str, guard: str) -> None:
        """Fields of an entry as variables; zero where ``guard`` says that there is none."""
        for field, var in reads:
            form, name = at.form(field), self.out.fresh("v")
            member = f"{entry}{at.field(field)}"
            if guard:
                zero = "(vl_pair){0, 0}" if form is Form.PAIR else "0"
                member = f"{guard} ? {member} : {zero}"
            self.out.line(f"const {form.value} {name} = {member};")
            self.names[var.name] = CValue(name, form, None, type_interval(var.type))

    def _get(self, op: Get) -> None:
        at = self.records[op.record]
        entry, found = self.out.fresh("e"), self.out.fresh("v")
        if not op.keys:
            self._read(at, op.reads, f"s->{at.name}.", "")
            nonzero = [
                is_set(CValue(f"s->{at.name}.f{i}", field_form(f.type)))
                for i, f in enumerate(at.record.fields)
            ]
            self.out.line(f"const bool {found} = {' || '.join(nonzero)};")
        else:
            key, absent = self.key(at, f"{at.code}_key", list(enumerate(op.keys)))
            find = f"{at.code}_look(a, {at.map}, &{key})"
            find = find if absent is None else f"{absent} ? NULL : {find}"
            self.out.line(f"{at.code}_record *const {entry} = {find};")
            self._read(at, op.reads, f"{entry}->", entry)
            self.out.line(f"const bool {found} = {entry} != NULL;")
            self.entries[op.found.name] = entry
        self.names[op.found.name] = CValue(found, Form.I64, None, (0, 1))
        self.out.line(f"(void){found};")

    def _loop(self, op: Loop) -> None:
        at = self.records[op.record]
        entry = self.out.fresh("e")
        record = f"{at.code}_record"
        if whole_order(at) is not None:
            self._scan(at, op, entry)
            return
        if not op.bound:
            head = (
                f"for (const {record} *{entry} = {at.code}_next(a, {at.map}, NULL); {entry}; "
                f"{entry} = {at.code}_next(a, {at.map}, ({record} *){entry}))"
            )
            with self.out.block(head):
                self.entry(at, op, entry)
            return
        positions = tuple(i for i, _ in op.bound)
        if positions == at.record.home:
            self._walk(at, op, entry)
            return
        index = at.slice(positions)
        with self.out.block():
            key, absent = self.key(at, f"{index}_key", op.bound)
            rows = self.out.fresh("q")
            find = f"{index}_find(a, {at.map}, &s->{at.name}.{index}, &{key})"
            find = find if absent is None else f"{absent} ? (vl_slice){{0}} : {find}"
            with self.out.block(f"for (vl_slice {rows} = {find}; {rows}.n-- > 0;)"):
                self.out.line(f"const {record} *{entry} = {at.code}_at(a, {at.map}, {rows}.ids[{rows}.n]);")
                self.entry(at, op, entry)

    def _scan(self, at: CRecord, op: Loop, entry: str) -> None:
        """A loop along the index that holds the entries."""
        with self.out.block():
            key, absent = self.key(at, f"{at.code}_key", op.bound)
            own = self.out.fresh("q")
            self.out.line(f"{at.code}_record {own} = {{.key = {key}}};")
            first, following = (f"{at.code}_in(a, &s->{at.name}, {e}, &{own})" for e in ("NULL", entry))
            first = first if absent is None else f"{absent} ? NULL : {first}"
            head = f"const {at.code}_record *{entry} = {first}; {entry}; {entry} = {following}"
            with self.out.block(f"for ({head})"):
                self.entry(at, op, entry)

    def _walk(self, at: CRecord, op: Loop, entry: str) -> None:
        """A loop along the places of one home."""
        with self.out.block():
            key, absent = self.key(at, f"{at.code}_key", op.bound)
            place = self.out.fresh("q")
            with self.out.block("" if absent is None else f"if (!{absent})"):
                self.out.line(f"{at.code}_place {place} = {at.code}_home(a, {at.map}, &{key});")
                step = f"{at.code}_along(a, {at.map}, &{place}, &{key})"
                with self.out.block(f"for (const {at.code}_record *{entry}; ({entry} = {step}) != NULL;)"):
                    self.entry(at, op, entry)

    def entry(self, at: CRecord, op: Loop, entry: str) -> None:
        """The variables of one entry, then the body."""
        inner = Operations(self.out, self.records, self.registry, self.names, self.weight, self.target)
        inner.scalars.known |= self.scalars.known
        for i, var in op.binds:
            name, form = self.out.fresh("v"), form_of(var.type)
            self.out.line(f"const {form.value} {name} = {entry}->key.k{i};")
            null = None
            if at.record.keys[i].nullable:
                null = f"{name}_null"
                self.out.line(f"const bool {null} = {flag(at.record, i, f'{entry}->key.')};")
                self.out.line(f"(void){null};")
            self.out.line(f"(void){name};")
            inner.names[var.name] = CValue(name, form, null, type_interval(var.type))
        inner._read(at, op.reads, f"{entry}->", "")
        inner.block(op.body)

    def key(self, at: CRecord, kind: str, keys: Sequence[tuple[int, Argument]]) -> tuple[str, str | None]:
        """A key as a C variable, and when no entry can have it, because it is NULL or out of range there."""
        parts: list[str] = []
        nulls: list[tuple[int, str]] = []
        absent: list[str] = []
        for i, argument in keys:
            column, value = at.record.keys[i], self.scalars.value(argument)
            stored = stored_form(column.type)[0]
            text = value.text
            if value.null is not None:
                text = f"{value.null} ? 0 : {value.text}"
                if column.nullable:
                    nulls.append((i, value.null))
                else:
                    absent.append(value.null)
            if stored in ("int32_t", "int64_t") and not within(value.limits, _room(column.type)):
                low, high = _room(column.type)
                absent.append(f"{value.text} < {integer(low)} || {value.text} > {integer(high)}")
            parts.append(f".k{i} = ({stored})({text})")
        parts += set_flags(at.record, nulls)
        name = self.out.fresh("k")
        self.out.line(f"const {kind} {name} = {{{', '.join(parts)}}};")
        return name, f"({' || '.join(absent)})" if absent else None

    # Sums

    def _total(self, op: Total) -> None:
        values: dict[str, CValue] = {}
        for var in op.vars:
            form, name = field_form(var.type), self.out.fresh("v")
            self.out.line(f"{form.value} {name} = {'{0, 0}' if form is Form.PAIR else '0'};")
            values[var.name] = CValue(name, form, None, type_interval(var.type))
        self.add_up(op.body, tuple(values.values()))
        self.names.update(values)

    def add_up(self, body: Block, into: tuple[CValue, ...]) -> None:
        """Add what a body yields to variables."""
        with self.out.block():
            self.nested(body, Target(into))

    def _yield(self, amounts: tuple[Amount, ...]) -> None:
        assert self.target is not None, "a yield is inside a total"
        for into, amount in zip(self.target.values, amounts, strict=True):
            self.out.line(added(into.text, self.amount(amount, into.form)))

    def _best(self, var: Var, greatest: bool, body: Block) -> None:
        form, name = form_of(var.type), self.out.fresh("v")
        self.out.line(f"{form.value} {name} = 0;")
        self.out.line(f"bool {name}_null = true;")
        value = CValue(name, form, f"{name}_null", type_interval(var.type))
        with self.out.block():
            self.nested(body, Target((value,), ">" if greatest else "<"))
        self.names[var.name] = value

    def _offer(self, value: CValue) -> None:
        assert self.target is not None, "an offer is inside a best"
        (best,), sign = self.target.values, self.target.better
        if best.form is Form.TEXT:
            better = f"vl_string_compare(a, x->strings, {value.text}, {best.text}) {sign} 0"
        else:
            better = f"{value.text} {sign} {best.text}"
        known = "" if value.null is None else f"!{value.null} && "
        with self.out.block(f"if ({known}({best.null} || {better}))"):
            self.out.line(f"{best.text} = {value.text};")
            self.out.line(f"{best.null} = false;")

    def amount(self, amount: Amount, form: Form) -> CValue:
        """A sum of products in the form of what it is added to."""
        values = [self._product(product, form) for product in amount]
        return replace(reduce(lambda a, b: _sum(a, b, form), values), form=form)

    def _product(self, product: Product, form: Form) -> CValue:
        factors = [
            self.names[f.name] if isinstance(f, Var) else self.scalars.value(f) for f in product.factors
        ]
        weight = [f for f in factors if f.text == self.weight]
        is_unit = bool(weight) and within(weight[0].limits, (-1, 1))
        weight = weight[: len(weight) % 2] if is_unit else weight  # w * w = 1
        others = [f for f in factors if f.text != self.weight]
        if product.coefficient != 1 or not (others or weight):
            c = product.coefficient
            others.insert(0, CValue(integer(c), form_within((c, c)), None, (c, c)))
        if form is Form.PAIR:
            return CValue(reduce(lambda a, b: f"vl_pair_mul({a}, {b})", map(_pair, [*others, *weight])), form)
        if is_unit and (len(others) != 1 or others[0].form is not Form.I128):
            others, weight = [*weight, *others], []  # a small factor like any other
        others.sort(key=lambda f: max(map(abs, f.limits)))
        if form is Form.I128 and others and weight:
            value = reduce(lambda a, b: _multiply(a, b, form), [*others, *weight[1:]])
            if is_unit:
                return CValue(f"vl_turned({value.text}, {self.weight}, &a->errors)", Form.I128, None, I128)
            if not within(_corners(value.limits, weight[0].limits), I128):
                return CValue(f"vl_weighted({value.text}, {self.weight}, &a->errors)", Form.I128, None, I128)
            return _multiply(value, weight[0], form)
        value = reduce(lambda a, b: _multiply(a, b, form), [*others, *weight])
        if form is Form.I64 and value.form is Form.I128:
            return CValue(f"vl_i64_of_i128({value.text}, &a->errors)", Form.I64, None, I64)
        return value

    # Writes

    def _add(self, op: Add) -> None:
        at = self.records[op.record]
        with self.out.block():
            amounts = []
            for field, amount in op.amounts:
                name, value = self.out.fresh("d"), self.amount(amount, at.form(field))
                self.out.line(f"const {value.form.value} {name} = {value.text};")
                amounts.append((at.field(field), replace(value, text=name)))
            if not op.keys:
                remember(self.out, at, f"(&s->{at.name})")
                for member, value in amounts:
                    self.out.line(added(f"s->{at.name}.{member}", value))
                watch(self.out, at, f"&s->{at.name}", [member for member, _ in amounts])
                return
            seen = self.entries[op.found.name] if op.found is not None else ""
            apart = at.apart and not op.later and (not op.whole or adds_alike(at))
            test = " || ".join(is_set(value) for _, value in amounts)
            with self.out.block("" if apart or self._is_sure(op) else f"if ({test})"):
                key, absent = self.key(at, f"{at.code}_key", list(enumerate(op.keys)))
                assert absent is None, f"a key of {op.record} does not fit its column"
                if op.later:
                    self._note(at, key, amounts)
                elif apart:
                    self._add_apart(at, key, seen, amounts)
                else:
                    entry = self.out.fresh("e")
                    known = f"VL_LIKELY({seen} != NULL) ? {seen} : " if seen else ""
                    self.out.line(f"{at.code}_record *{entry} = {known}{self._touch(op.record, key)};")
                    if at.again:
                        self.out.line(f"s->{at.name}.last = {entry}->id;")
                    change_entry(self.out, at, entry, amounts, whole=op.whole)

    def _touch(self, record: str, key: str) -> str:
        """The entry of a key: one that a row met, or the one after the last if keys come as before."""
        at = self.records[record]
        if record in self.met:
            return f"{at.code}_meet(a, {at.map}, {self.met[record]}, &{key})"
        if at.again:
            return f"{at.code}_guess(a, {at.map}, s->{at.name}.last + 1, &{key})"
        return f"{at.code}_touch(a, {at.map}, &{key})"

    def _add_apart(self, at: CRecord, key: str, seen: str, amounts: Amounts) -> None:
        """Leave the addition to the function of its record."""
        given = {member: value.text for member, value in amounts}
        zeros = ("(vl_pair){0, 0}" if zero.form is Form.PAIR else "0" for _, zero in every_field(at, ""))
        passed = ", ".join(given.get(f"f{i}", zero) for i, zero in enumerate(zeros))
        self.out.line(f"{at.name}_add(x, {seen or 'NULL'}, &{key}, {passed});")

    def _is_sure(self, op: Add) -> bool:
        """Is one amount the weight itself, and not 0?"""
        return any(
            amount[0].coefficient and all(self._is_unit(factor) for factor in amount[0].factors)
            for _, amount in op.amounts
            if len(amount) == 1
        )

    def _is_unit(self, factor: Scalar) -> bool:
        value = self.names.get(factor.name) if isinstance(factor, Var) else None
        return value is not None and value.text == self.weight and within(value.limits, (-1, 1))

    def _note(self, at: CRecord, key: str, amounts: Amounts) -> None:
        note = self.out.fresh("n")
        self.out.line(f"{at.name}_note *{note} = vl_later(x, sizeof *{note});")
        with self.out.block(f"if ({note})"):
            self.out.line(f"memset({note}, 0, sizeof *{note});")
            self.out.line(f"{note}->record = {at.name[1:]};")
            self.out.line(f"{note}->key = {key};")
            for member, value in amounts:
                self.out.line(f"{note}->{member} = {value.text};")

    def _empty(self, at: CRecord) -> None:
        """All at once, unless somebody wants to know of every entry that goes."""
        if not (at.fed or at.noted or is_noted(at.record)):
            self.out.line(f"{at.code}_clear(a, {at.map});")
            return
        with self.out.block(f"for ({at.code}_record *e = {at.code}_from(a, {at.map}, 1); e;)"):
            self.out.line("const uint32_t id = e->id;")
            self._clear_entry([field.name for field in at.record.fields], at)
            self.out.line(f"e = {at.code}_from(a, {at.map}, id + 1);")

    def _reset(self, at: CRecord) -> None:
        """Every entry stays where it is, with zeros."""
        self.out.line(f"s->{at.name}.last = 0;")
        head = f"for ({at.code}_record *t = {at.code}_next(a, {at.map}, NULL); t; "
        with self.out.block(f"{head}t = {at.code}_next(a, {at.map}, t))"):
            self._zero(at, "t", [field.name for field in at.record.fields])

    def _zero(self, at: CRecord, entry: str, fields: Sequence[str]) -> None:
        for name in fields:
            zero = "(vl_pair){0, 0}" if at.form(name) is Form.PAIR else "0"
            self.out.line(f"{entry}->{at.field(name)} = {zero};")

    def _assign(self, op: Assign) -> None:
        """Entries of the temporary that are zeros still were gathered last time and not now."""
        at, new = self.records[op.record], self.records[op.temporary]
        pairs = [(at.field(name), new.field(name)) for name in op.fields]
        members = [*(f"k{i}" for i in range(len(at.record.keys))), *flag_words_of(at.record)]
        keys = ", ".join(f".{member} = {{0}}->key.{member}" for member in members)
        there = self.out.fresh("n")
        self.out.line(f"uint64_t {there} = 0;")
        with self.out.block(f"for ({new.code}_record *t = {new.code}_from(a, {new.map}, 1); t;)"):
            self.out.line("const uint32_t id = t->id;")
            self.out.line(f"const {at.code}_key key = {{{keys.format('t')}}};")
            with self.out.block(f"if (VL_UNLIKELY({empty(new).replace('(r)', 't')}))"):
                self.out.line(f"{at.code}_record *e = {at.code}_look(a, {at.map}, &key);")
                with self.out.block("if (e)"):
                    self._clear_entry(op.fields, at)
                self.out.line(f"{new.code}_leave(a, {new.map}, t);")
            with self.out.block("else"):
                self.out.line(f"{at.code}_record *e = {at.code}_guess(a, {at.map}, id, &key);")
                tell_before(self.out, at, "e")
                remember(self.out, at, "e")
                see(self.out, at, "e")
                for own, other in pairs:
                    self.out.line(f"e->{own} = t->{other};")
                watch(self.out, at, "e", [own for own, _ in pairs])
                note_seen(self.out, at, "e")
                self.out.line(f"{there} += !({empty(at).replace('(r)', 'e')});")
                self.out.line(f"{at.code}_leave(a, {at.map}, e);")
            self.out.line(f"t = {new.code}_from(a, {new.map}, id + 1);")
        with self.out.block(f"if ({at.count} != {there})"):  # there are others
            self._clear_others(op, at, new, keys)

    def _clear_entry(self, fields: Sequence[str], at: CRecord) -> None:
        """The fields of the entry ``e`` become 0."""
        tell_before(self.out, at, "e")
        remember(self.out, at, "e")
        see(self.out, at, "e")
        self._zero(at, "e", fields)
        note_seen(self.out, at, "e")
        self.out.line(f"{at.code}_leave(a, {at.map}, e);")

    def _clear_others(self, op: Assign, at: CRecord, new: CRecord, keys: str) -> None:
        """The fields of entries whose key is not in the temporary become 0."""
        head = f"for ({at.code}_record *e = {at.code}_from(a, {at.map}, 1); e;)"
        with self.out.block(head):
            self.out.line("const uint32_t id = e->id;")
            self.out.line(f"const {new.code}_key key = {{{keys.format('e')}}};")
            with self.out.block(f"if (!{new.code}_look(a, {new.map}, &key))"):
                self._clear_entry(op.fields, at)
            self.out.line(f"e = {at.code}_from(a, {at.map}, id + 1);")

    def _emit(self, row: Sequence[Scalar], amount: Amount) -> None:
        cells, weight = self.out.fresh("c"), self.out.fresh("d")
        with self.out.block():
            self.out.line(f"const int64_t {weight} = {self.amount(amount, Form.I64).text};")
            with self.out.block(f"if ({weight} != 0)"):
                self.out.line(f"vl_cell {cells}[{max(len(row), 1)}] = {{0}};")
                for i, scalar in enumerate(row):
                    value = self.scalars.value(scalar)
                    self.out.line(to_cell(f"{cells}[{i}]", value, scalar.type))
                self.out.line(f"emit(sink, {cells}, {weight});")


def is_plain(condition: Scalar, *, text: bool = False) -> bool:
    """Comparisons of numbers: quicker to do than to leave out, and they cannot fail; ``text`` allows text."""
    match condition:
        case Call(op, args) if op in (*COMPARISONS, "==", "not", "is_null"):
            return all(is_plain(arg, text=text) for arg in args)
        case Var(_, kind) | Const(_, kind):
            return text or kind.kind is not Kind.VARCHAR
        case _:
            return False


def _room(kind: Type) -> Interval:
    """What the stored form of a key column holds."""
    return (-(1 << 31), (1 << 31) - 1) if stored_form(kind)[0] == "int32_t" else I64


def _pair(value: CValue) -> str:
    match value.form:
        case Form.PAIR:
            return value.text
        case Form.F64:
            return f"vl_pair_of({value.text})"
        case Form.I128:
            return f"vl_pair_of_i128({value.text})"
        case _:
            return f"vl_pair_of_i64({value.text})"


def _corners(a: Interval, b: Interval) -> Interval:
    corners = [p * q for p in a for q in b]
    return min(corners), max(corners)


def _multiply(a: CValue, b: CValue, form: Form) -> CValue:
    """Exact, in the narrowest word that holds the product; checked where none is sure to."""
    limits = _corners(a.limits, b.limits)
    if within(limits, I64):
        return CValue(f"({a.text} * {b.text})", Form.I64, None, limits)
    if form is Form.I64 and a.form is b.form is Form.I64:
        return CValue(f"vl_i64_mul({a.text}, {b.text}, &a->errors)", Form.I64, None, I64)
    if within(limits, I128):
        return CValue(f"((vl_i128){a.text} * {b.text})", Form.I128, None, limits)
    return CValue(f"vl_i128_times({a.text}, {b.text}, &a->errors)", Form.I128, None, I128)


def _sum(a: CValue, b: CValue, form: Form) -> CValue:
    if form is Form.PAIR:
        return CValue(f"vl_pair_add({a.text}, {b.text})", form)
    limits = (a.limits[0] + b.limits[0], a.limits[1] + b.limits[1])
    if within(limits, I64):
        return CValue(f"({a.text} + {b.text})", Form.I64, None, limits)
    if form is Form.I64:
        return CValue(f"vl_i64_add({a.text}, {b.text}, &a->errors)", Form.I64, None, I64)
    if within(limits, I128):
        return CValue(f"((vl_i128){a.text} + {b.text})", Form.I128, None, limits)
    return CValue(f"vl_i128_add({a.text}, {b.text}, &a->errors)", Form.I128, None, I128)
