"""Scalars as C: the same meaning as ``core/functions.py``, bit for bit.

Integers carry their interval, so machine words are as narrow as the types allow and a range is tested only
where it can be left. What can fail is computed only where its operands are not NULL and only where SQL would
compute it; then an error is a bit in the arena, and the value goes on modulo its ring.

Functions of one string are computed once per distinct string and remembered under its id. Those that have no
counterpart in C are computed by the host, with the reference meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from viewlet.backends.native.forms import CValue, Form, Writer, either, form_of, form_within, integer, number
from viewlet.core.functions import common_type, same_representation
from viewlet.core.scalar import COMPARISONS, Call, Const, Scalar, Var, nullable, substitute, variables
from viewlet.core.types import BOOLEAN, VARCHAR, Kind, Type
from viewlet.errors import CompileError
from viewlet.loops.ranges import (
    I64,
    I128,
    Interval,
    can_fail,
    rescaled,
    result_interval,
    type_interval,
    within,
)

C_OPERATORS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
MEMO_BIAS = 1 << 30

_SIMPLE = re.compile(r"\w+|INT64_C\(-?\d+\)|s->constants\[\d+\]")


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A scalar over variables ``x0, x1, ..`` that the host computes; ``memo`` numbers its memory, if any."""

    scalar: Scalar
    arguments: tuple[Var, ...]
    memo: int | None


@dataclass(slots=True)
class Registry:
    """What the scalars of a program need beside themselves: string constants and functions of the host.

    ``procedures`` are functions in C, from their text to their name, each after those that it calls.
    """

    constants: dict[str, int] = field(default_factory=dict)
    procedures: dict[str, str] = field(default_factory=dict)
    functions: list[HostFunction] = field(default_factory=list)
    memos: int = 0
    _known: dict[tuple[Scalar, tuple[Type, ...]], int] = field(default_factory=dict)

    def constant(self, value: str) -> int:
        """The number of a string constant."""
        return self.constants.setdefault(value, len(self.constants))

    def function(self, scalar: Scalar, arguments: tuple[Var, ...], *, memo: bool) -> int:
        """The number of a function of the host.

        Variables are equal whatever their types, so these are part of what tells functions apart.

        >>> from viewlet.core.types import DATE, INT, VARCHAR
        >>> registry, variables = Registry(), (Var("x0", INT), Var("x0", DATE), Var("x0", INT))
        >>> [registry.function(Call("cast", (x,), VARCHAR), (x,), memo=False) for x in variables]
        [0, 1, 0]
        """
        meaning = scalar, tuple(var.type for var in arguments)
        if meaning not in self._known:
            self._known[meaning] = len(self.functions)
            self.functions.append(HostFunction(scalar, arguments, self.memos if memo else None))
            self.memos += memo
        return self._known[meaning]


class Scalars:
    """Writes scalars; temporaries go to ``out``, variables are found in ``names``.

    ``functions`` builds strict functions; one that is not there, or answers ``None``, is left to the host.
    """

    def __init__(
        self, out: Writer, names: Mapping[str, CValue], registry: Registry, functions: Mapping[str, Builder]
    ) -> None:
        self.out = out
        self.names = names
        self.registry = registry
        self.functions = functions
        self.known: dict[Call, CValue] = {}
        self._depth = out.depth

    def value(self, scalar: Scalar) -> CValue:
        """The C value of a scalar."""
        match scalar:
            case Const(value, kind):
                return self.constant(value, kind)
            case Var(name):
                return _as_double(self.names[name])
            case Call():
                return self.known.get(scalar) or self._once(scalar)

    def _once(self, call: Call) -> CValue:
        """A call; one that can fail is remembered where it is computed in any case: C cannot share it."""
        value = self.call(call)
        if can_fail(call) and self.out.depth == self._depth and not self.out.capturing:
            value = self.known[call] = self.named(value)
        return value

    def condition(self, scalar: Scalar) -> str:
        """A C condition that holds where the scalar is TRUE."""
        value = self.value(scalar)
        return value.text if value.null is None else f"(!{value.null} && {value.text})"

    def constant(self, value: object, kind: Type) -> CValue:
        """A literal."""
        form = form_of(kind)
        match value:
            case None:
                return CValue("0", form, "true", (0, 0))
            case str():
                return CValue(f"s->constants[{self.registry.constant(value)}]", Form.TEXT)
            case float():
                return CValue(number(value), Form.F64)
            case bool() | int():
                if form is Form.F64:
                    return CValue(number(float(value)), Form.F64)
                return CValue(
                    integer(int(value)), form_within((value, value)), None, (int(value), int(value))
                )
        raise CompileError(f"there is no C literal for {value!r}")

    def call(self, call: Call) -> CValue:
        """One call: logic and choice by hand, functions of text by memory, the rest strictly."""
        match call.op, call.args:
            case "and" | "or", args:
                return self.connective(call.op == "and", args)
            case "is_null", (arg,):
                return CValue(self.value(arg).null or "false", Form.I64, None, (0, 1))
            case "is_true", (arg,):
                return CValue(self.condition(arg), Form.I64, None, (0, 1))
            case "==", (left, right):
                return self.identical(left, right)
            case "nz", (arg,):
                return self.zero_if_null(arg)
            case "nn", (arg,):
                null = self.value(arg).null
                return CValue(f"(!{null})" if null else "INT64_C(1)", Form.I64, None, (0, 1))
            case "case", args:
                return self.case(args, call.type)
            case "coalesce", args:
                return self.coalesce(args, call.type)
            case "in", (subject, *choices):
                return self.membership(subject, choices)
            case "only", (count, value):
                return self.only(count, value, call.type)
            case "avg", (total, count):
                return self.average(call, total, count)
            case "greatest" | "least", args:
                return self.extreme(call.op == "greatest", args, call.type)
            case op, args if op in COMPARISONS:
                return self.comparison(op, *args)
            case "not", (arg,):
                inner = self.value(arg)
                return CValue(f"(!{inner.text})", Form.I64, inner.null, (0, 1))
        strict = self.functions.get(call.op)
        made = strict(self, call) if strict is not None else None
        return made if made is not None else self.host(call)

    # Logic

    def connective(self, conjunction: bool, args: tuple[Scalar, ...]) -> CValue:
        """AND: FALSE if one is FALSE, else NULL if one is NULL, else TRUE; OR with the roles exchanged."""
        parts: list[tuple[list[str], CValue]] = []
        for arg in args:
            with self.out.captured() as lines:
                value = self.value(arg)
            parts.append((lines, value))
        if not any(lines for lines, _ in parts):
            values = [value for _, value in parts]
            deciding = [_and_not(v.null, f"{'!' if conjunction else ''}{v.text}") for v in values]
            sure = [_and_not(v.null, v.text) for v in values]
            null = either(*(v.null for v in values))
            text = f"({(' && ' if conjunction else ' || ').join(sure)})"
            if null is None:
                return CValue(text, Form.I64, None, (0, 1))
            return CValue(text, Form.I64, f"({null} && !({' || '.join(deciding)}))", (0, 1))
        truth, null = self.out.fresh("b"), self.out.fresh("b")
        self.out.line(f"bool {truth} = {'true' if conjunction else 'false'}, {null} = false;")
        with self.out.block("do"):
            for lines, value in parts:
                self.out.lines += lines
                decided = _and_not(value.null, f"{'!' if conjunction else ''}{value.text}")
                with self.out.block(f"if ({decided})"):
                    self.out.line(f"{truth} = {'false' if conjunction else 'true'};")
                    self.out.line(f"{null} = false;")
                    self.out.line("break;")
                if value.null is not None:
                    self.out.line(f"{null} |= {value.null};")
        self.out.line("while (0);")
        return CValue(f"({truth} && !{null})", Form.I64, null, (0, 1))

    def identical(self, left: Scalar, right: Scalar) -> CValue:
        """``left == right``: NULL is identical to NULL."""
        kind = common_type(left.type, right.type)
        a, b = self.value_as(left, kind), self.value_as(right, kind)
        same = f"({a.text} == {b.text})"
        if a.null is None and b.null is None:
            return CValue(same, Form.I64, None, (0, 1))
        if a.null is None or b.null is None:
            return CValue(f"(!{a.null or b.null} && {same})", Form.I64, None, (0, 1))
        return CValue(f"({a.null} == {b.null} && ({a.null} || {same}))", Form.I64, None, (0, 1))

    def comparison(self, op: str, left: Scalar, right: Scalar) -> CValue:
        """SQL's comparisons: NULL if a side is NULL."""
        kind = common_type(left.type, right.type)
        known = zip(self.operands((left, right)), (left, right), strict=True)
        a, b = (self.converted(value, side.type, kind) for value, side in known)
        null = either(a.null, b.null)
        if kind.kind is Kind.VARCHAR and op not in ("=", "<>"):
            text = f"(vl_string_compare(a, x->strings, {a.text}, {b.text}) {op} 0)"
        else:
            text = f"({a.text} {C_OPERATORS[op]} {b.text})"
        return CValue(text, Form.I64, null, (0, 1))

    def membership(self, subject: Scalar, choices: Sequence[Scalar]) -> CValue:
        """x IN (a, b): TRUE if one is equal, else NULL if x or one of them is NULL, else FALSE."""
        if not all(isinstance(choice, Const) for choice in choices):
            return self.connective(False, tuple(Call("=", (subject, c), BOOLEAN) for c in choices))
        kind = common_type(subject.type, *(choice.type for choice in choices))
        value = self.named(self.value_as(subject, kind))
        known = [self.value_as(choice, kind) for choice in choices]
        tests = [f"{value.text} == {c.text}" for c in known if c.null is None]
        found = f"({' || '.join(tests)})" if tests else "false"
        if any(c.null for c in known):
            unknown = f"!{found}" if value.null is None else f"({value.null} || !{found})"
            return CValue(found, Form.I64, unknown, (0, 1))
        return CValue(found, Form.I64, value.null, (0, 1))

    # Choice

    def zero_if_null(self, arg: Scalar) -> CValue:
        """nz(x): x, or 0 for NULL."""
        value = self.value(arg)
        if value.null is None:
            return value
        limits = (min(value.limits[0], 0), max(value.limits[1], 0))
        return CValue(f"({value.null} ? 0 : {value.text})", value.form, None, limits)

    def case(self, args: tuple[Scalar, ...], kind: Type) -> CValue:
        """The value behind the first condition that is TRUE, else the last argument, else NULL."""
        otherwise = args[-1] if len(args) % 2 else Const(None, kind)
        pairs = list(zip(args[0:-1:2], args[1::2], strict=False))
        result = self.declared(kind, nullable(Call("case", args, kind)))

        def write(rest: Sequence[tuple[Scalar, Scalar]]) -> None:
            if not rest:
                self.assign(result, self.value_as(otherwise, kind))
                return
            (condition, value), *others = rest
            with self.out.block(f"if ({self.condition(condition)})"):
                self.assign(result, self.value_as(value, kind))
            with self.out.block("else"):
                write(others)

        write(pairs)
        return result

    def coalesce(self, args: tuple[Scalar, ...], kind: Type) -> CValue:
        """The first argument that is not NULL."""
        first, *others = args
        value = self.value_as(first, kind)
        if value.null is None or not others:
            return value
        result = self.declared(kind, all(nullable(arg) for arg in args))
        self.assign(result, value)
        with self.out.block(f"if ({value.null})"):
            self.assign(result, self.coalesce(tuple(others), kind))
        return result

    def only(self, count: Scalar, value: Scalar, kind: Type) -> CValue:
        """The value of a scalar subquery with ``count`` rows: NULL of none, an error of several."""
        rows, chosen = self.named(self.value(count)), self.value_as(value, kind)
        self.out.line(f"a->errors |= vl_bit_if({rows.text} != 0 && {rows.text} != 1, VL_E_ROWS);")
        return replace(chosen, null=either(f"({rows.text} == 0)", chosen.null))

    def average(self, call: Call, total: Scalar, count: Scalar) -> CValue:
        """avg(s, n): NULL if n is 0, else s / n."""
        n = self.named(self.value(count))
        result = self.declared(call.type, True)
        self.out.line(f"{result.null} = {n.text} == 0;")
        with self.out.block(f"if ({n.text} != 0)"):
            ratio = self.call(Call("/", (total, count), call.type))
            self.out.line(f"{result.text} = {ratio.text};")
        return result

    def extreme(self, greatest: bool, args: tuple[Scalar, ...], kind: Type) -> CValue:
        """The greatest or least argument that is not NULL."""
        result = self.declared(kind, True)
        for arg in args:
            value = self.named(self.value_as(arg, kind))
            sign = ">" if greatest else "<"
            if form_of(kind) is Form.TEXT:
                better = f"vl_string_compare(a, x->strings, {value.text}, {result.text}) {sign} 0"
            else:
                better = f"{value.text} {sign} {result.text}"
            known = "true" if value.null is None else f"!{value.null}"
            with self.out.block(f"if ({known} && ({result.null} || {better}))"):
                self.out.line(f"{result.text} = {value.text};")
                self.out.line(f"{result.null} = false;")
        return result

    # Conversions

    def value_as(self, scalar: Scalar, kind: Type) -> CValue:
        """A scalar in the representation of another type."""
        return self.converted(self.value(scalar), scalar.type, kind)

    def converted(self, value: CValue, source: Type, kind: Type) -> CValue:
        """A value of type ``source`` in the representation of ``kind``."""
        if same_representation(source, kind):
            return value
        if source.is_exact and kind.is_exact:
            return self.scaled(value, source.scale, kind.scale)
        if source.is_exact and kind.is_floating:
            return CValue(f"vl_f64_of_decimal({value.text}, {source.scale})", Form.F64, value.null)
        if source.kind is Kind.DATE and kind.kind is Kind.TIMESTAMP:
            return CValue(f"({value.text} * VL_DAY)", Form.I64, value.null)
        raise CompileError(f"a value of type {source} stands where {kind} is needed: cast it")

    def scaled(self, value: CValue, source: int, target: int) -> CValue:
        """An unscaled decimal at another scale, HALF_UP where digits are lost; saturated where it is huge."""
        limits = rescaled(value.limits, source, target)
        if target < source:
            text = f"vl_round_div({value.text}, vl_pow10({source - target}))"
            return CValue(_narrow(text, limits), form_within(limits), value.null, limits)
        if target == source:
            return value
        if not within(limits, I128):
            text = f"vl_i128_saturated({value.text}, {integer(10 ** (target - source))})"
            return CValue(text, Form.I128, value.null, I128)
        form = form_within(limits)
        cast = "" if form is value.form else f"({form.value})"
        return CValue(f"({cast}{value.text} * {integer(10 ** (target - source))})", form, value.null, limits)

    def fitted(self, value: CValue, kind: Type) -> CValue:
        """A computed value, tested against the range of its type where it can leave it."""
        allowed = result_interval(kind)
        if within(value.limits, allowed):
            return value
        bit = "VL_E_DECIMAL" if kind.kind is Kind.DECIMAL else "VL_E_INTEGER"
        form = form_within(allowed)
        name = "vl_i64_fit" if value.form is Form.I64 else "vl_i128_fit"
        checked = f"{name}({value.text}, {integer(allowed[0])}, {integer(allowed[1])}, {bit}, &a->errors)"
        return CValue(f"(({form.value}){checked})", form, value.null, allowed)

    def strict(self, call: Call, compute: Callable[[list[CValue]], CValue]) -> CValue:
        """``compute`` on arguments that are not NULL; what can fail is left alone where one is NULL."""
        args = [self.named(arg) for arg in self.operands(call.args)]
        null = either(*(arg.null for arg in args))
        known = [replace(arg, null=None) for arg in args]
        if null == "true":
            return CValue("0", form_of(call.type), "true", (0, 0))
        if null is None or not can_fail(Call(call.op, tuple(map(_stand_in, call.args)), call.type)):
            return replace(self.kept(compute(known), call), null=null)
        result = self.declared(call.type, False)
        with self.out.block(f"if (!{null})"):
            self.assign(result, compute(known))
        return replace(result, null=null)

    def operands(self, args: Sequence[Scalar]) -> list[CValue]:
        """The arguments of a strict function; behind one that is NULL nothing is computed that can fail."""
        values: list[CValue] = []
        for arg in args:
            null = either(*(value.null for value in values))
            if null is None or not can_fail(arg):
                values.append(self.value(arg))
                continue
            value = self.declared(arg.type, True)
            with self.out.block(f"if (!{null})"):
                self.assign(value, self.value(arg))
            values.append(value)
        return values

    def kept(self, value: CValue, call: Call) -> CValue:
        """What can fail is computed here and once."""
        return self.named(value) if can_fail(call) else value

    def named(self, value: CValue) -> CValue:
        """A value whose text may be repeated."""
        if _is_simple(value.text) and (value.null is None or _is_simple(value.null)):
            return value
        name = self.out.fresh()
        self.out.line(f"const {value.form.value} {name} = {value.text};")
        null = value.null
        if null is not None and not _is_simple(null):
            null = self.out.fresh("b")
            self.out.line(f"const bool {null} = {value.null};")
        return replace(value, text=name, null=null)

    def declared(self, kind: Type, may_be_null: bool) -> CValue:
        """A temporary of a type, NULL (or 0) at first."""
        name, form = self.out.fresh(), form_of(kind)
        self.out.line(f"{form.value} {name} = 0;")
        null = None
        if may_be_null:
            null = self.out.fresh("b")
            self.out.line(f"bool {null} = true;")
        return CValue(name, form, null, type_interval(kind))

    def assign(self, target: CValue, value: CValue) -> None:
        """``target = value``"""
        self.out.line(f"{target.text} = ({target.form.value}){value.text};")
        if target.null is not None:
            self.out.line(f"{target.null} = {value.null or 'false'};")

    # The host

    def host(self, call: Call) -> CValue:
        """A function that the host computes; of one string, once per distinct string."""
        own = tuple(dict.fromkeys(variables(call)))
        formal = tuple(Var(f"x{i}", var.type, var.nullable) for i, var in enumerate(own))
        scalar = substitute(call, {var.name: x for var, x in zip(own, formal, strict=True)})
        memo = len(own) == 1 and own[0].type == VARCHAR and _fits_memo(call)
        number_ = self.registry.function(scalar, formal, memo=memo)
        result = self.declared(call.type, True)
        args = [self.value(var) for var in own]
        if memo:
            (arg,) = args
            key = arg.text if arg.null is None else f"({arg.null} ? 0 : {arg.text})"
            answer = self.out.fresh()
            self.out.line(f"const uint32_t {answer} = f{number_}(x, {key});")
            self.out.line(f"{result.null} = {answer} == VL_NULL_ANSWER;")
            bias = 0 if call.type.kind in (Kind.VARCHAR, Kind.BOOLEAN) else MEMO_BIAS
            self.out.line(f"{result.text} = ({result.form.value}){answer} - {bias};")
            return result
        cells, answer = self.out.fresh("c"), self.out.fresh("c")
        self.out.line(f"vl_cell {cells}[{max(len(args), 1)}] = {{0}}, {answer} = {{0}};")
        for i, (var, arg) in enumerate(zip(own, args, strict=True)):
            self.out.line(to_cell(f"{cells}[{i}]", arg, var.type))
        self.out.line(f"x->call(x, {number_}, {cells}, &{answer});")
        self.out.line(f"{result.null} = {answer}.null;")
        self.out.line(f"{result.text} = ({result.form.value}){cell_member(answer, call.type)};")
        return result


Builder: TypeAlias = Callable[[Scalars, Call], CValue | None]


def to_cell(cell: str, value: CValue, kind: Type) -> str:
    """The statement that puts a value into a cell."""
    member = cell_member(cell, kind)
    null = f" {cell}.null = {value.null};" if value.null is not None else ""
    return f"{member} = {value.text};{null}"


def cell_member(cell: str, kind: Type) -> str:
    """The member of a cell that holds a type."""
    if kind.kind is Kind.VARCHAR:
        return f"{cell}.as.text"
    if kind.is_floating:
        return f"{cell}.as.number"
    return f"{cell}.as.wide" if kind.kind is Kind.DECIMAL else f"{cell}.as.i"


def _as_double(value: CValue) -> CValue:
    return (
        replace(value, text=f"vl_sum_value({value.text}, &a->errors)", form=Form.F64)
        if value.form is Form.PAIR
        else value
    )


def _and_not(null: str | None, text: str) -> str:
    return text if null is None else f"(!{null} && {text})"


def _is_simple(text: str) -> bool:
    return bool(_SIMPLE.fullmatch(text))


def _narrow(text: str, limits: Interval) -> str:
    return f"((int64_t){text})" if within(limits, I64) else text


def _stand_in(arg: Scalar) -> Scalar:
    """A variable of the same range, so that only the outermost call is asked whether it can fail."""
    return arg if isinstance(arg, Const) or not can_fail(arg) else Var("x", arg.type)


def _fits_memo(call: Call) -> bool:
    """Can its answers be kept in 32 bits?"""
    small = (Kind.VARCHAR, Kind.BOOLEAN, Kind.DATE, Kind.TINYINT, Kind.SMALLINT)
    return call.type.kind in small or call.op in ("length", "position")
