"""What every scalar function means, on physical values.

``compile_scalar`` turns a scalar into one Python function of a row; engines call it for every row.
Three laws hold for all of them:

- *strict*: NULL in, NULL out, except for the functions in ``core.scalar.NON_STRICT``, which say what they do;
- *ANSI*: a result outside its type, a division by zero, a bad cast or date raises ``ValueRangeError`` and
  names the function and its operands; nothing wraps around and no NaN or infinity is ever a value;
- *lazy where SQL is*: CASE, COALESCE, AND and OR stop at the first argument that decides.

The function is generated as Python source: arithmetic, comparisons and logic become operators, the rest
calls of ``library.FUNCTIONS``. No text of the user enters the source: strings are passed by reference.

>>> from viewlet.core.scalar import Const, Var, call
>>> from viewlet.core.types import decimal
>>> price, half = Var("price", decimal(9, 2)), Const(5, decimal(1, 1))
>>> f = compile_scalar(call("*", price, half, type=decimal(11, 3)), {"price": 0})
>>> f((1999,)), f((None,))
(9995, None)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from viewlet.core.calendar import MICROS_PER_DAY
from viewlet.core.casts import half_up, show
from viewlet.core.library import FUNCTIONS
from viewlet.core.scalar import COMPARISONS, Call, Const, Scalar, Var, variables
from viewlet.core.types import BOOLEAN, Kind, Type, Value, bounds
from viewlet.errors import CalculusError, CompileError, ValueRangeError

RowFunction = Callable[[Sequence[Value]], Value]

# Python's parser allows 200 nested parentheses; deeper scalars are cut into functions of their own.
MAX_NESTING = 16

# A chain of conditions is nested as deeply as it is long; longer ones are cut into chains of chains.
MAX_CHAIN = 64

_PYTHON_OPERATORS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def compile_scalar(scalar: Scalar, slots: Mapping[str, int]) -> RowFunction:
    """The scalar as a function of a row; ``slots`` says where in the row each variable is."""
    try:
        return _Emitter(slots).function(scalar)
    except (RecursionError, MemoryError):  # what Python's compiler says depends on where its stack ends
        raise CompileError("an expression is nested too deeply: split it over several views") from None


def evaluate(scalar: Scalar, env: Mapping[str, Value]) -> Value:
    """The value of a scalar once; use :func:`compile_scalar` for many rows.

    >>> from viewlet.core.scalar import call
    >>> evaluate(call("and", Var("p"), Var("q")), {"p": None, "q": False})
    False
    """
    names = sorted({variable.name for variable in variables(scalar)})
    row = [env[name] for name in names]
    return compile_scalar(scalar, {name: slot for slot, name in enumerate(names)})(row)


def _in_groups(call: Call) -> Call:
    """``a AND b AND c AND d -> (a AND b) AND (c AND d)``, with groups of ``MAX_CHAIN``; OR alike."""
    starts = range(0, len(call.args), MAX_CHAIN)
    return replace(call, args=tuple(replace(call, args=call.args[i : i + MAX_CHAIN]) for i in starts))


class _Emitter:
    """Writes one Python expression per scalar; ``scope`` holds the objects the text refers to."""

    def __init__(self, slots: Mapping[str, int]) -> None:
        self.slots = slots
        self.scope: dict[str, Any] = {"__builtins__": {}}
        self.temporaries = 0

    def function(self, scalar: Scalar) -> RowFunction:
        """The scalar as a function of ``row``."""
        source = f"lambda row: {self.emit(scalar, 0)}"
        return eval(source, self.scope)  # type: ignore[no-any-return]

    def emit(self, scalar: Scalar, depth: int) -> str:
        """The expression of a scalar; every value it may compute is the right one, NULL is ``None``."""
        match scalar:
            case Const(value):
                return self.constant(value)
            case Var(name):
                return f"row[{self.slot(name)}]"
            case Call() if depth == MAX_NESTING:
                return f"{self.refer(self.function(scalar))}(row)"
            case Call():
                return self.call(scalar, depth + 1)

    def call(self, call: Call, depth: int) -> str:
        """One function call: the non-strict ones by hand, the strict ones behind a test for NULL."""
        match call.op, call.args:
            case "and" | "or", args if len(args) > MAX_CHAIN:
                return self.call(_in_groups(call), depth)
            case "and" | "or", args:
                return self.connective(call.op == "and", args, depth)
            case "is_null", (arg,):
                return f"({self.emit(arg, depth)} is None)"
            case "is_true", (arg,):
                return f"({self.emit(arg, depth)} is True)"
            case "==", (left, right):
                kind = common_type(left.type, right.type)
                return f"({self.emit_as(left, kind, depth)} == {self.emit_as(right, kind, depth)})"
            case "nz", (arg,):
                value, zero = self.fresh(), "0.0" if arg.type.is_floating else "0"
                return f"({zero} if ({value} := {self.emit(arg, depth)}) is None else {value})"
            case "nn", (arg,):
                return f"(0 if {self.emit(arg, depth)} is None else 1)"
            case "case", args:
                return self.case(args, call.type, depth)
            case "coalesce", args:
                return self.coalesce(args, call.type, depth)
            case "in", (subject, *choices):
                return self.membership(subject, choices, depth)
            case "only", (count, value):
                check = self.refer(only)
                return f"{check}({self.emit(count, depth)}, {self.emit_as(value, call.type, depth)})"
            case "avg", (total, count):
                return self.average(call, total, count, depth)
            case ("greatest" | "least") as op, args:
                choose = self.refer(partial(_extreme, max if op == "greatest" else min))
                return f"{choose}({', '.join(self.emit_as(arg, call.type, depth) for arg in args)})"
        return self.strict(call, depth)

    def strict(self, call: Call, depth: int) -> str:
        """``f(a, b)``, or NULL as soon as one argument is NULL."""
        tests, operands = [], []
        for arg in call.args:
            text = self.emit(arg, depth)
            if isinstance(arg, Const):
                if arg.value is None:
                    return "None"
                operands.append(text)
            else:
                value = self.fresh()
                tests.append(f"({value} := {text}) is None")
                operands.append(value)
        body = self.body(call, operands)
        return f"(None if {' or '.join(tests)} else {body})" if tests else body

    def body(self, call: Call, operands: list[str]) -> str:
        """The call on operands that are not NULL: an operator if Python has one, else a library function."""
        kinds = [arg.type for arg in call.args]
        if call.op in COMPARISONS:
            kind = common_type(*kinds)
            left, right = (align(text, source, kind) for text, source in zip(operands, kinds, strict=True))
            return f"({left} {_PYTHON_OPERATORS[call.op]} {right})"
        if call.op == "not":
            return f"(not {operands[0]})"
        if call.op in ("+", "-", "*") and call.type.is_exact and all(kind.is_exact for kind in kinds):
            return self.exact_arithmetic(call, operands)
        try:
            build = FUNCTIONS[call.op]
        except KeyError:
            raise CompileError(f"there is no function {call.op!r} of {len(operands)} arguments") from None
        return f"{self.refer(build(call))}({', '.join(operands)})"

    def exact_arithmetic(self, call: Call, operands: list[str]) -> str:
        """Integers and decimals: exact at the natural scale, rounded to the type's, then checked."""
        left, right = (arg.type for arg in call.args)
        if call.op == "*":
            scale, text = left.scale + right.scale, f"{operands[0]} * {operands[1]}"
        else:
            scale = max(left.scale, right.scale)
            sides = [
                scaled(text, arg.type.scale, scale) for text, arg in zip(operands, call.args, strict=True)
            ]
            text = f" {call.op} ".join(sides)
        if scale < call.type.scale:
            text = f"({text}) * {10 ** (call.type.scale - scale)}"
        elif scale > call.type.scale:
            text = f"{self.refer(half_up)}({text}, {10 ** (scale - call.type.scale)})"
        low, high = bounds(call.type) or (0, 0)
        result, fail = self.fresh(), self.refer(_overflow(call))
        return f"({result} if {low} <= ({result} := {text}) <= {high} else {fail}({', '.join(operands)}))"

    def connective(self, conjunction: bool, args: tuple[Scalar, ...], depth: int) -> str:
        """AND: FALSE if one is FALSE, else NULL if one is NULL, else TRUE; OR with the roles exchanged."""
        names = [self.fresh() for _ in args]
        chain = "".join(
            f"{not conjunction} if ({name} := {self.emit(arg, depth)}) is {not conjunction} else "
            for name, arg in zip(names, args, strict=True)
        )
        unknown = " or ".join(f"{name} is None" for name in names)
        return f"({chain}None if {unknown} else {conjunction})"

    def case(self, args: tuple[Scalar, ...], kind: Type, depth: int) -> str:
        """The value behind the first condition that is TRUE, else the last argument, else NULL."""
        chain = "".join(
            f"{self.emit_as(value, kind, depth)} if {self.emit(condition, depth)} is True else "
            for condition, value in zip(args[0:-1:2], args[1::2], strict=False)
        )
        otherwise = self.emit_as(args[-1], kind, depth) if len(args) % 2 else "None"
        return f"({chain}{otherwise})"

    def coalesce(self, args: tuple[Scalar, ...], kind: Type, depth: int) -> str:
        """The first argument that is not NULL."""
        chain = ""
        for arg in args:
            value = self.fresh()
            chain += f"{value} if ({value} := {self.emit_as(arg, kind, depth)}) is not None else "
        return f"({chain}None)"

    def membership(self, subject: Scalar, choices: list[Scalar], depth: int) -> str:
        """x IN (a, b): TRUE if one is equal, else NULL if x or one of them is NULL, else FALSE."""
        kind = common_type(subject.type, *(choice.type for choice in choices))
        value = self.fresh()
        test = f"({value} := {self.emit_as(subject, kind, depth)}) is None"
        literals = [choice for choice in choices if isinstance(choice, Const)]
        if len(literals) < len(choices):
            equal = tuple(Call("=", (subject, choice), BOOLEAN) for choice in choices)
            return self.connective(False, equal, depth)
        aligned = [evaluate(Call("coalesce", (choice,), kind), {}) for choice in literals]
        found = self.refer(frozenset(item for item in aligned if item is not None))
        missing = None if None in aligned else False
        return f"(None if {test} else True if {value} in {found} else {missing})"

    def average(self, call: Call, total: Scalar, count: Scalar, depth: int) -> str:
        """avg(s, n): NULL if n is 0, else s / n, rounded HALF_UP at the result's scale or a double."""
        divide = FUNCTIONS["/"](Call("/", (total, count), call.type))
        n = self.fresh()
        ratio = f"{self.refer(divide)}({self.emit(total, depth)}, {n})"
        return f"({ratio} if ({n} := {self.emit(count, depth)}) else None)"

    def emit_as(self, scalar: Scalar, kind: Type, depth: int) -> str:
        """A scalar in the representation of ``kind``; NULL stays NULL."""
        text = self.emit(scalar, depth)
        if same_representation(scalar.type, kind) or text == "None":
            return text
        value = self.fresh()
        converted = align(value, scalar.type, kind, self.refer)
        return f"(None if ({value} := {text}) is None else {converted})"

    def constant(self, value: Value) -> str:
        """A literal; strings by reference."""
        return self.refer(value) if isinstance(value, str) else f"({value!r})"

    def slot(self, name: str) -> int:
        """Where a variable is."""
        try:
            return self.slots[name]
        except KeyError:
            known = ", ".join(sorted(self.slots)) or "none"
            raise CalculusError(f"variable {name!r} is not bound here; bound: {known}") from None

    def refer(self, thing: object) -> str:
        """A name for an object in the generated text."""
        name = f"c{len(self.scope)}"
        self.scope[name] = thing
        return name

    def fresh(self) -> str:
        """A name for a value in the generated text."""
        self.temporaries += 1
        return f"t{self.temporaries}"


def common_type(*kinds: Type) -> Type:
    """The type in which values of several types compare.

    Exact numbers meet at the widest scale, or in DOUBLE with a floating one; a DATE is its midnight.

    >>> from viewlet.core.types import decimal, BIGINT
    >>> str(common_type(decimal(9, 2), BIGINT))
    'DECIMAL(38,2)'
    """
    known = [kind for kind in kinds if kind.kind is not Kind.NULL]
    if not known:
        return kinds[0]
    if all(kind == known[0] for kind in known):
        return known[0]
    if all(kind.is_exact for kind in known):
        scale = max(kind.scale for kind in known)
        return Type(Kind.DECIMAL, 38, scale) if scale else Type(Kind.BIGINT)
    if all(kind.is_numeric for kind in known):
        return Type(Kind.DOUBLE)
    if all(kind.kind in (Kind.DATE, Kind.TIMESTAMP) for kind in known):
        return Type(Kind.TIMESTAMP)
    raise CompileError(f"{' and '.join(map(str, known))} do not compare: cast one of them")


def in_type(scalar: Scalar, kind: Type) -> Scalar:
    """The scalar in the representation of another type, so that values of both compare by identity.

    >>> from viewlet.core.types import decimal, INT
    >>> evaluate(in_type(Var("x", INT), decimal(9, 2)), {"x": 3})
    300
    """
    return scalar if same_representation(scalar.type, kind) else Call("coalesce", (scalar,), kind)


def same_representation(source: Type, target: Type) -> bool:
    """Do both types stand for the same value by the same physical value?"""
    if source.kind is Kind.NULL or source == target:
        return True
    if source.is_exact and target.is_exact:
        return source.scale == target.scale
    return source.is_floating and target.is_floating


def align(text: str, source: Type, target: Type, refer: Callable[[object], str] | None = None) -> str:
    """The expression ``text``, not NULL, of type ``source``, in the representation of ``target``."""
    if same_representation(source, target):
        return text
    if source.is_exact and target.is_exact:
        if source.scale <= target.scale:
            return scaled(text, source.scale, target.scale)
        if refer is not None:
            return f"{refer(half_up)}({text}, {10 ** (source.scale - target.scale)})"
    if source.is_exact and target.is_floating:
        return f"({text} / {10**source.scale})"
    if source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP:
        return f"({text} * {MICROS_PER_DAY})"
    raise CompileError(f"a value of type {source} stands where {target} is needed: cast it")


def scaled(text: str, source: int, target: int) -> str:
    """An expression times the power of ten between two scales."""
    return text if source == target else f"({text} * {10 ** (target - source)})"


def _overflow(call: Call) -> Callable[..., NoReturn]:
    """The error of one arithmetic call, with its operands."""

    def fail(left: Value, right: Value) -> NoReturn:
        shown = f"{show(left, call.args[0].type)} {call.op} {show(right, call.args[1].type)}"
        raise ValueRangeError(f"{shown} is out of range for {call.type}")

    return fail


def _extreme(choose: Callable[[list[Any]], Value], *values: Value) -> Value:
    """The greatest or least of the values that are not NULL; NULL if none is left."""
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def only(count: Value, value: Value) -> Value:
    """The value of a scalar subquery that has ``count`` rows: NULL without rows, an error with several."""
    if not count:
        return None
    if count == 1:
        return value
    raise ValueRangeError(
        f"more than one row returned by a subquery: {count} where one is needed; aggregate, or use IN"
    )
