"""Strict scalar functions in C, by name; a builder answers ``None`` where the host must do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from viewlet.backends.native.forms import CValue, Form, form_of, form_within, integer
from viewlet.backends.native.scalars import Builder, Scalars
from viewlet.core.calendar import SUBDAY_UNITS
from viewlet.core.scalar import Call, Const
from viewlet.core.types import INTEGER_BITS, Kind, Type, bounds
from viewlet.loops.ranges import I64, I128, Interval, result_interval, type_interval, within

_SINGLE = Kind.FLOAT
SMALL_PRODUCT = 1 << 126
"""No product of two 64-bit numbers is larger."""


def _in_doubles(scalars: Scalars, call: Call, args: list[CValue]) -> list[str]:
    return [
        scalars.converted(arg, a.type, Type(Kind.DOUBLE)).text if not a.type.is_floating else arg.text
        for arg, a in zip(args, call.args, strict=True)
    ]


def double_result(text: str, kind: Type, bit: str = "VL_E_DOUBLE") -> CValue:
    """A computed double, finite or an error."""
    rounded = f"(double)(float)({text})" if kind.kind is _SINGLE else text
    return CValue(f"vl_f64_result({rounded}, &a->errors, {bit})", Form.F64)


def arithmetic(scalars: Scalars, call: Call) -> CValue | None:
    """+ - *: exact at the natural scale, rounded to the type's, then checked; or in doubles."""

    def compute(args: list[CValue]) -> CValue:
        if call.type.is_floating or not all(arg.type.is_exact for arg in call.args):
            a, b = _in_doubles(scalars, call, args)
            return double_result(f"{a} {call.op} {b}", call.type)
        return scalars.fitted(_exact(scalars, call, args), call.type)

    return scalars.strict(call, compute)


def _exact(scalars: Scalars, call: Call, args: list[CValue]) -> CValue:
    (a, b), (left, right) = args, (arg.type.scale for arg in call.args)
    if call.op == "*":
        drop = left + right - call.type.scale
        if drop > 0:
            text = f"vl_decimal_mul({a.text}, {b.text}, {drop}, &a->errors)"
            return CValue(text, Form.I128, None, I128)
        corners = [p * q for p in a.limits for q in b.limits]
        product = combined("*", "mul", a, b, (min(corners), max(corners)), call.type)
        return scalars.scaled(product, left + right, call.type.scale)
    scale = max(left, right)
    a, b = scalars.scaled(a, left, scale), scalars.scaled(b, right, scale)
    if call.op == "+":
        limits, name = (a.limits[0] + b.limits[0], a.limits[1] + b.limits[1]), "add"
    else:
        limits, name = (a.limits[0] - b.limits[1], a.limits[1] - b.limits[0]), "sub"
    return scalars.scaled(combined(call.op, name, a, b, limits, call.type), scale, call.type.scale)


def combined(op: str, name: str, a: CValue, b: CValue, limits: Interval, kind: Type) -> CValue:
    """``a op b`` in the narrowest word that holds it; with an overflow bit where none is sure to."""
    if within(limits, I64):
        return CValue(f"({a.text} {op} {b.text})", Form.I64, None, limits)
    if form_within(result_interval(kind)) is Form.I64 and a.form is b.form is Form.I64:
        return CValue(f"vl_i64_{name}({a.text}, {b.text}, &a->errors)", Form.I64, None, I64)
    if within(limits, I128):
        return CValue(f"((vl_i128){a.text} {op} {b.text})", Form.I128, None, limits)
    low, high = result_interval(kind)
    if name == "mul" and low <= -SMALL_PRODUCT and high >= SMALL_PRODUCT:
        text = f"vl_i128_times_within({a.text}, {b.text}, {integer(low)}, {integer(high)}, &a->errors)"
        return CValue(text, Form.I128, None, (low, high))
    name = "times" if name == "mul" else name
    return CValue(f"vl_i128_{name}({a.text}, {b.text}, &a->errors)", Form.I128, None, I128)


def divide(scalars: Scalars, call: Call) -> CValue | None:
    """a / b to the scale of the result, HALF_UP; a double if the result is one."""
    left, right = (arg.type for arg in call.args)

    def compute(args: list[CValue]) -> CValue:
        a, b = args
        if not call.type.is_exact:
            p, q = _in_doubles(scalars, call, args)
            scalars.out.line(f"a->errors |= vl_bit_if({q} == 0, VL_E_DIVIDE);")
            return double_result(f"{p} / ({q} == 0 ? 1 : {q})", call.type)
        shift = call.type.scale - left.scale + right.scale
        divisor = b.text if shift >= 0 else f"vl_i128_mul({b.text}, {integer(10**-shift)}, &a->errors)"
        text = f"vl_decimal_div({a.text}, {divisor}, {max(shift, 0)}, &a->errors)"
        return scalars.fitted(CValue(text, Form.I128, None, I128), call.type)

    if call.type.is_exact and (left.is_floating or right.is_floating):
        return None
    return scalars.strict(call, compute)


def remainder(scalars: Scalars, call: Call) -> CValue | None:
    """a % b, whose sign is a's, and a div b without its fraction."""
    left, right = (arg.type for arg in call.args)
    if left.is_floating or right.is_floating:
        return None
    scale = max(left.scale, right.scale)

    def compute(args: list[CValue]) -> CValue:
        a, b = (
            scalars.named(scalars.scaled(arg, kind.scale, scale))
            for arg, kind in zip(args, (left, right), strict=True)
        )
        narrow = a.form is b.form is Form.I64
        if call.op == "%":
            name = "vl_i64_mod" if narrow else "vl_decimal_mod"
            form, limits = (Form.I64, a.limits) if narrow else (Form.I128, I128)
            value = CValue(f"{name}({a.text}, {b.text}, &a->errors)", form, None, limits)
            return scalars.fitted(scalars.scaled(value, scale, call.type.scale), call.type)
        name = "vl_i64_div" if narrow else "vl_i128_quotient"
        form, limits = (Form.I64, I64) if narrow else (Form.I128, I128)
        return scalars.fitted(
            CValue(f"{name}({a.text}, {b.text}, &a->errors)", form, None, limits), call.type
        )

    return scalars.strict(call, compute)


def unary(scalars: Scalars, call: Call) -> CValue | None:
    """-a and |a|, at the scale of the result."""

    def compute(args: list[CValue]) -> CValue:
        (a,) = args
        if call.type.is_floating:
            (p,) = _in_doubles(scalars, call, args)
            return double_result(f"-{p}" if call.op == "neg" else f"__builtin_fabs({p})", call.type)
        low, high = a.limits
        limits = (-high, -low) if call.op == "neg" else (0, max(abs(low), abs(high)))
        zero = CValue("0", a.form, None, (0, 0))
        minus = combined("-", "sub", zero, a, (-high, -low), call.type)
        text = minus.text if call.op == "neg" else f"({a.text} < 0 ? {minus.text} : {a.text})"
        value = CValue(text, minus.form, None, limits if within(limits, minus.limits) else minus.limits)
        return scalars.fitted(scalars.scaled(value, call.args[0].type.scale, call.type.scale), call.type)

    return scalars.strict(call, compute)


def sign(scalars: Scalars, call: Call) -> CValue | None:
    """-1, 0 or 1."""
    unit = "1.0" if call.type.is_floating else integer(10**call.type.scale)

    def compute(args: list[CValue]) -> CValue:
        text = f"({unit} * (({args[0].text} > 0) - ({args[0].text} < 0)))"
        return CValue(text, form_of(call.type), None, type_interval(call.type))

    return scalars.strict(call, compute)


def round_half_up(scalars: Scalars, call: Call) -> CValue | None:
    """round(x, n) of an exact number with a literal n."""
    source = call.args[0].type
    digits = call.args[1] if len(call.args) > 1 else Const(0)
    if not source.is_exact or not isinstance(digits, Const) or not isinstance(digits.value, int):
        return None
    n = digits.value
    if not -30 <= n <= 38:
        return None

    def compute(args: list[CValue]) -> CValue:
        kept = scalars.scaled(args[0], source.scale, n)
        return scalars.fitted(scalars.scaled(kept, n, call.type.scale), call.type)

    return scalars.strict(Call(call.op, call.args[:1], call.type), compute)


def whole(scalars: Scalars, call: Call) -> CValue | None:
    """floor and ceil of an exact number."""
    source = call.args[0].type
    if not source.is_exact:
        return None

    def compute(args: list[CValue]) -> CValue:
        text = f"vl_decimal_{call.op}({args[0].text}, {source.scale})"
        value = CValue(text, Form.I128, None, I128)
        return scalars.fitted(scalars.scaled(value, 0, call.type.scale), call.type)

    return scalars.strict(call, compute)


def cast(scalars: Scalars, call: Call) -> CValue | None:
    """CAST between numbers, booleans and dates; text goes to the host."""
    source, target = call.args[0].type, call.type
    compute: Callable[[CValue], CValue]
    exact = source.is_exact or source.kind is Kind.BOOLEAN
    if source.kind is target.kind and source.kind is not Kind.DECIMAL:
        return scalars.value(call.args[0])
    if source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP:
        return scalars.converted(scalars.value(call.args[0]), source, target)
    if source.kind is Kind.TIMESTAMP and target.kind is Kind.DATE:

        def compute(a: CValue) -> CValue:
            return CValue(f"vl_floor_div({a.text}, VL_DAY)", Form.I64, None, type_interval(target))
    elif source.is_numeric and target.kind is Kind.BOOLEAN:

        def compute(a: CValue) -> CValue:
            return CValue(f"({a.text} != 0)", Form.I64, None, (0, 1))
    elif exact and target.kind is Kind.DOUBLE:

        def compute(a: CValue) -> CValue:
            return CValue(f"vl_f64_of_decimal({a.text}, {source.scale})", Form.F64)
    elif exact and target.is_integer and source.scale:

        def compute(a: CValue) -> CValue:
            unit = 10**source.scale
            limits = -(abs(a.limits[0]) // unit), a.limits[1] // unit
            return scalars.fitted(CValue(f"({a.text} / {integer(unit)})", a.form, None, limits), target)
    elif exact and target.is_exact:

        def compute(a: CValue) -> CValue:
            return scalars.fitted(scalars.scaled(a, source.scale, target.scale), target)
    elif source.kind is Kind.DOUBLE and target.is_integer:

        def compute(a: CValue) -> CValue:
            return scalars.fitted(CValue(f"vl_i64_of_f64({a.text}, &a->errors)", Form.I64), target)
    else:
        return None
    return scalars.strict(call, lambda args: compute(args[0]))


# Calendar


def _date_part(text: str) -> Builder:
    """A part of the day: of a DATE, or of the day that holds a TIMESTAMP; ``text`` is C over ``{}``."""

    def build(scalars: Scalars, call: Call) -> CValue:
        def compute(args: list[CValue]) -> CValue:
            day = args[0].text
            if call.args[0].type.kind is Kind.TIMESTAMP:
                day = f"vl_floor_div({day}, VL_DAY)"
            return CValue(f"((int64_t){text.format(f'(int32_t)({day})')})", Form.I64, None, (-9999, 9999))

        return scalars.strict(call, compute)

    return build


def _clock_part(unit: str, count: int) -> Builder:
    def build(scalars: Scalars, call: Call) -> CValue | None:
        if call.type.kind is Kind.DECIMAL or call.args[0].type.kind is not Kind.TIMESTAMP:
            return None
        size = SUBDAY_UNITS[unit]

        def compute(args: list[CValue]) -> CValue:
            text = f"vl_floor_mod(vl_floor_div({args[0].text}, INT64_C({size})), {count})"
            return CValue(text, Form.I64, None, (0, count - 1))

        return scalars.strict(call, compute)

    return build


def _since_1970(unit: int) -> Builder:
    def build(scalars: Scalars, call: Call) -> CValue:
        text = "{}" if unit == 1 else f"vl_floor_div({{}}, {unit})"
        return scalars.strict(call, lambda args: CValue(text.format(args[0].text), Form.I64))

    return build


def date_trunc(scalars: Scalars, call: Call) -> CValue | None:
    """The start of the unit that holds a date or a moment; the unit is a literal."""
    unit = call.args[0]
    if not isinstance(unit, Const) or not isinstance(unit.value, str):
        return None
    word, moment = unit.value.lower(), call.args[1].type.kind is Kind.TIMESTAMP

    def compute(args: list[CValue]) -> CValue:
        value = args[0].text
        if moment and word in SUBDAY_UNITS:
            return CValue(f"vl_timestamp_trunc({value}, INT64_C({SUBDAY_UNITS[word]}))", Form.I64)
        day = f"(int32_t)vl_floor_div({value}, VL_DAY)" if moment else f"(int32_t)({value})"
        start = day if word == "day" else f"vl_date_trunc_{word}({day})"
        text = f"((int64_t){start} * VL_DAY)" if moment else f"((int64_t){start})"
        return CValue(text, Form.I64, None, type_interval(call.type))

    if word not in ("year", "quarter", "month", "week", "day") and not (moment and word in SUBDAY_UNITS):
        return None
    return scalars.strict(Call(call.op, call.args[1:], call.type), compute)


def _of_date(text: str) -> Builder:
    """A function of a DATE and further integers that gives a DATE; ``text`` is C over ``{0}``, ``{1}``."""

    def build(scalars: Scalars, call: Call) -> CValue | None:
        if call.args[0].type.kind is not Kind.DATE:
            return None

        def compute(args: list[CValue]) -> CValue:
            filled = text.format(f"(int32_t)({args[0].text})", *(arg.text for arg in args[1:]))
            return CValue(f"((int64_t){filled})", Form.I64, None, type_interval(call.type))

        return scalars.strict(call, compute)

    return build


def days_between(scalars: Scalars, call: Call) -> CValue | None:
    """later - earlier."""
    if any(arg.type.kind is not Kind.DATE for arg in call.args):
        return None

    def compute(args: list[CValue]) -> CValue:
        limits = bounds(call.type) or I64
        return CValue(f"({args[0].text} - {args[1].text})", Form.I64, None, limits)

    return scalars.strict(call, compute)


# Bits


def _bits(text: str) -> Builder:
    """``& | ^ ~`` of integers of one type, which stay in it; ``text`` is C over ``{0}``, ``{1}``."""

    def build(scalars: Scalars, call: Call) -> CValue | None:
        def compute(args: list[CValue]) -> CValue:
            return CValue(
                f"({text.format(*(arg.text for arg in args))})", Form.I64, None, type_interval(call.type)
            )

        return scalars.strict(call, compute)

    return build


def _shift(text: str) -> Builder:
    """Shifts by a distance modulo the bits of an INT or BIGINT: C over ``{0}``, ``{1}`` and these bits."""

    def build(scalars: Scalars, call: Call) -> CValue | None:
        bits = INTEGER_BITS[call.type.kind]

        def compute(args: list[CValue]) -> CValue:
            number, distance = (arg.text for arg in args)
            filled = text.format(number, f"(unsigned)(({distance}) & {bits - 1})", bits)
            return CValue(f"((int64_t){filled})", Form.I64, None, type_interval(call.type))

        return scalars.strict(call, compute)

    return build


def interpolate(scalars: Scalars, call: Call) -> CValue | None:
    """Between two doubles, by the digits of a place behind the point."""
    unit = 10 ** call.args[2].type.scale

    def compute(args: list[CValue]) -> CValue:
        low, high, place = args
        return CValue(f"vl_f64_between({low.text}, {high.text}, {place.text}, {integer(unit)})", Form.F64)

    return scalars.strict(call, compute)


STRICT: Mapping[str, Builder] = {
    "bit_and": _bits("{0} & {1}"),
    "bit_or": _bits("{0} | {1}"),
    "bit_xor": _bits("{0} ^ {1}"),
    "bit_not": _bits("~{0}"),
    "shift_left": _shift("(int{2}_t)((uint{2}_t){0} << {1})"),
    "shift_right": _shift("(int{2}_t){0} >> {1}"),
    "shift_right_unsigned": _shift("(int{2}_t)((uint{2}_t){0} >> {1})"),
    "+": arithmetic,
    "-": arithmetic,
    "*": arithmetic,
    "/": divide,
    "%": remainder,
    "div": remainder,
    "neg": unary,
    "abs": unary,
    "sign": sign,
    "interpolate": interpolate,
    "round": round_half_up,
    "floor": whole,
    "ceil": whole,
    "cast": cast,
    "year": _date_part("vl_date_year({})"),
    "quarter": _date_part("vl_date_quarter({})"),
    "month": _date_part("vl_date_month({})"),
    "week": _date_part("vl_date_week({})"),
    "day": _date_part("vl_date_day({})"),
    "dayofweek": _date_part("(vl_floor_mod({} + INT64_C(4), 7) + 1)"),
    "weekday": _date_part("vl_floor_mod({} + INT64_C(3), 7)"),
    "dayofyear": _date_part("vl_date_day_of_year({})"),
    "hour": _clock_part("hour", 24),
    "minute": _clock_part("minute", 60),
    "second": _clock_part("second", 60),
    "unix_seconds": _since_1970(1_000_000),
    "unix_millis": _since_1970(1_000),
    "unix_micros": _since_1970(1),
    "date_trunc": date_trunc,
    "add_days": _of_date("vl_date_add_days({0}, {1}, &a->errors)"),
    "add_months": _of_date("vl_date_add_months({0}, {1}, &a->errors)"),
    "last_day": _of_date("vl_date_last_day({0})"),
    "days_between": days_between,
}
