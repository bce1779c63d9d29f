"""How scalars read: ``show`` prints one, ``parse_scalar`` reads it back.

Operators are infix with SQL's precedence, everything else is ``name(arguments)``::

    price * (1i - discount) > 0.05 and not is_null(status)
    case(flag = 'R', 1, 0)      cast(day as DATE)      d < DATE '1998-09-02'

A literal shows its type: ``1`` is a BIGINT, ``1i`` an INT, ``0.05`` a DECIMAL(2,2), ``5e-1`` a DOUBLE.
A call shows its type only if it is not the usual one for its arguments: ``(a + b):DECIMAL(38,2)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import assert_never

from viewlet.core.arithmetic import arithmetic_type, literal_decimal
from viewlet.core.scalar import PREDICATES, Call, Const, Scalar, Var
from viewlet.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    Kind,
    Type,
    Value,
    decimal,
)
from viewlet.errors import CalculusError

# Higher binds tighter. Comparisons do not chain, so both their operands bind tighter.
PRECEDENCE = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "=="), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
}
COMPARING = 4
ABOVE_COMPARISONS = 5
ATOM = 7
RESERVED = frozenset({"and", "or", "not", "as", "cast", "distinct"})

SUFFIXES = {INT: "i", SMALLINT: "s", TINYINT: "y", BIGINT: ""}
USUAL_TYPES: Mapping[str, Type] = {
    **dict.fromkeys(("year", "quarter", "month", "week", "day", "dayofweek", "weekday", "dayofyear"), INT),
    **dict.fromkeys(("hour", "minute", "second", "length", "position", "days_between"), INT),
    **dict.fromkeys(("ends_with", "contains", "regexp_like"), BOOLEAN),
    **dict.fromkeys(("floor", "ceil", "nn", "unix_seconds", "unix_millis", "unix_micros"), BIGINT),
}
EPOCH = datetime(1970, 1, 1)


def show(scalar: Scalar, tightness: int = 0) -> str:
    """The text of a scalar, in parentheses if it binds less tightly than asked (see ``PRECEDENCE``).

    >>> a, b = Var("a"), Var("b")
    >>> show(Call("*", (Call("+", (a, b), BIGINT), Const(2)), BIGINT))
    '(a + b) * 2'
    """
    return _show(scalar, tightness)


def _show(scalar: Scalar, tightness: int) -> str:
    match scalar:
        case Var(name):
            return name
        case Const(value, kind):
            return show_constant(value, kind)
        case Call("cast", (arg,), kind):
            return f"cast({_show(arg, 0)} as {kind})"
        case Call(op, args, kind):
            text, strength = _show_call(op, args)
            if kind != usual_type(op, args):
                return f"({text}):{kind}" if strength < ATOM else f"{text}:{kind}"
            return f"({text})" if strength < tightness else text
        case _:
            assert_never(scalar)


def _show_call(op: str, args: tuple[Scalar, ...]) -> tuple[str, int]:
    """The text of a call without its type, and how tightly it binds."""
    strength = PRECEDENCE.get(op, ATOM)
    if strength == ATOM:
        return f"{op}({', '.join(_show(arg, 0) for arg in args)})", ATOM
    if op == "not":
        return f"not {_show(args[0], strength)}", strength
    if len(args) < 2 or (len(args) > 2 and op not in ("and", "or")):
        raise CalculusError(f"{op!r} with {len(args)} arguments has no text")
    first = _show(args[0], strength if strength > COMPARING else strength + 1)
    return f" {op} ".join([first, *(_show(arg, strength + 1) for arg in args[1:])]), strength


def usual_type(op: str, args: tuple[Scalar, ...]) -> Type:
    """The type a call has where its text does not show one."""
    if op in PREDICATES:
        return BOOLEAN
    if op in USUAL_TYPES:
        return USUAL_TYPES[op]
    if op in ("+", "-", "*", "/", "%", "div") and all(arg.type.is_numeric for arg in args):
        return arithmetic_type(op, *args)
    if op in ("case", "date_trunc") and len(args) > 1:
        return args[1].type
    return args[0].type if args else NULL


def show_constant(value: Value, kind: Type) -> str:
    """The text of a literal, from its physical value.

    >>> show_constant(5, decimal(2, 2)), show_constant(10471, DATE), show_constant(None, BIGINT)
    ('0.05', "DATE '1998-09-02'", 'NULL:BIGINT')
    """
    match kind.kind, value:
        case Kind.NULL, None:
            return "NULL"
        case _, None:
            return f"NULL:{kind}"
        case Kind.BOOLEAN, _:
            return "TRUE" if value else "FALSE"
        case Kind.VARCHAR, str(text):
            return "'" + text.replace("'", "''") + "'"
        case Kind.DATE, int(days):
            return f"DATE '{(EPOCH + timedelta(days=days)).date().isoformat()}'"
        case Kind.TIMESTAMP, int(micros):
            return f"TIMESTAMP '{(EPOCH + timedelta(microseconds=micros)).isoformat(sep=' ')}'"
        case ((Kind.DOUBLE | Kind.FLOAT), _):
            text = repr(float(value))
            text = text if "e" in text else text + "e0"
            return text if kind == DOUBLE else f"{text}:{kind}"
        case Kind.DECIMAL, int(unscaled):
            text = _point(unscaled, kind.scale)
            return text if "." in text and literal_decimal(text) == kind else f"{text}:{kind}"
        case _:
            return f"{value}{SUFFIXES[kind]}"


def _point(unscaled: int, scale: int) -> str:
    """``unscaled / 10**scale`` with all its digits."""
    sign, digits = ("-" if unscaled < 0 else ""), str(abs(unscaled)).rjust(scale + 1, "0")
    return (
        f"{sign}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}"
        if scale
        else f"{sign}{digits}"
    )


TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>-?\d+(?:\.\d*)?(?:e[+-]?\d+)?[isy]?\b)
    | (?P<string>'(?:[^']|'')*')
    | (?P<name>[@\w$]+)
    | (?P<sign><>|<=|>=|==|:=|[-+*/%=<>(),:?{}\[\];|])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One lexical unit of a text, and where it starts."""

    kind: str
    text: str
    start: int


class Tokens:
    """A cursor over the tokens of a text; the parsers of scalars, plans and the calculus share it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokenize(text)
        self.index = 0

    def peek(self, ahead: int = 0) -> str:
        """The text of the next token, or the empty string at the end."""
        place = self.index + ahead
        return self.tokens[place].text if place < len(self.tokens) else ""

    def peek_kind(self) -> str:
        """The kind of the next token: number, string, name, sign, or the empty string at the end."""
        return self.tokens[self.index].kind if self.index < len(self.tokens) else ""

    def next(self) -> str:
        """Take one token."""
        if self.index == len(self.tokens):
            raise self.error("the text ends too early")
        self.index += 1
        return self.tokens[self.index - 1].text

    def accept(self, *texts: str) -> bool:
        """Take these tokens if they come next."""
        if all(self.peek(i) == text for i, text in enumerate(texts)):
            self.index += len(texts)
            return True
        return False

    def expect(self, text: str) -> None:
        """Take this token, which must come next."""
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.peek() or 'the end'!r}")

    def end(self) -> None:
        """Nothing may be left."""
        if self.index < len(self.tokens):
            raise self.error(f"nothing may follow, found {self.peek()!r}")

    def error(self, message: str) -> CalculusError:
        """An error at the present place."""
        place = self.tokens[self.index].start if self.index < len(self.tokens) else len(self.text)
        return CalculusError(f"{message}, at character {place + 1} of {self.text!r}")

    def separated(self, closing: str, read: Callable[[], Scalar]) -> list[Scalar]:
        """A comma-separated list up to ``closing``, which is taken too."""
        items: list[Scalar] = []
        while not self.accept(closing):
            if items:
                self.expect(",")
            items.append(read())
        return items


def _tokenize(text: str) -> list[Token]:
    tokens: list[Token] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        found = TOKEN.match(text, place)
        if not found or not found.lastgroup:
            raise CalculusError(f"unreadable at character {place + 1} of {text!r}")
        kind, piece = found.lastgroup, found[found.lastgroup]
        start = found.start(kind)
        if kind == "number" and piece.startswith("-") and tokens and _ends_operand(tokens[-1]):
            tokens.append(Token("sign", "-", start))
            place = start + 1
            continue
        tokens.append(Token(kind, piece, start))
        place = found.end()
    return tokens


def _ends_operand(token: Token) -> bool:
    """Is a minus after this token an operator rather than the sign of a number?"""
    if token.kind == "name":
        return token.text not in ("and", "or", "not", "distinct")
    return token.kind in ("number", "string") or token.text in (")", "]", "}")


def parse_scalar(text: str, types: Mapping[str, Var]) -> Scalar:
    """Read a scalar; ``types`` gives the variables that may occur.

    >>> show(parse_scalar("a + 2 * b >= 0.5", {"a": Var("a"), "b": Var("b")}))
    'a + 2 * b >= 0.5'
    """
    tokens = Tokens(text)
    scalar = read_scalar(tokens, types)
    tokens.end()
    return scalar


def read_scalar(tokens: Tokens, types: Mapping[str, Var], tightness: int = 1) -> Scalar:
    """Read the longest scalar at the cursor whose operators bind at least that tightly."""
    if tokens.accept("not"):
        left: Scalar = Call("not", (read_scalar(tokens, types, PRECEDENCE["not"]),), BOOLEAN)
    else:
        left = _read_typed(tokens, types)
    while (strength := PRECEDENCE.get(tokens.peek(), 0)) >= tightness and tokens.peek() != "not":
        op = tokens.next()
        args = [left, read_scalar(tokens, types, strength + 1)]
        while op in ("and", "or") and tokens.accept(op):
            args.append(read_scalar(tokens, types, strength + 1))
        left = Call(op, tuple(args), usual_type(op, tuple(args)))
    return left


def _read_typed(tokens: Tokens, types: Mapping[str, Var]) -> Scalar:
    """An operand and the type that may follow it."""
    scalar = _read_operand(tokens, types)
    if not tokens.accept(":"):
        return scalar
    kind = read_type(tokens)
    match scalar:
        case Call(op, args):
            return Call(op, args, kind)
        case Const(value, shown):
            if kind.kind is Kind.DECIMAL and value is not None and shown.is_exact:
                if shown.scale > kind.scale:
                    raise tokens.error(f"a literal with {shown.scale} digits after the point is no {kind}")
                return Const(int(value) * 10 ** (kind.scale - shown.scale), kind)
            return Const(value, kind)
        case Var():
            return Var(scalar.name, kind, scalar.nullable)
        case _:
            assert_never(scalar)


def _read_operand(tokens: Tokens, types: Mapping[str, Var]) -> Scalar:
    kind, following = tokens.peek_kind(), tokens.peek(1)
    token = tokens.next()
    if token == "(":
        inner = read_scalar(tokens, types)
        tokens.expect(")")
        return inner
    if kind == "number":
        return _number(token)
    if kind == "string":
        return Const(_unquote(token), VARCHAR)
    if token in _WORDS:
        return _WORDS[token]
    if token in ("DATE", "TIMESTAMP") and following.startswith("'"):
        return _moment(token, _unquote(tokens.next()))
    if following == "(" and kind == "name":
        return _read_call(token, tokens, types)
    if token in types:
        return types[token]
    tokens.index -= 1
    raise tokens.error(f"unknown variable {token!r}; known: {', '.join(sorted(types)) or 'none'}")


def _read_call(op: str, tokens: Tokens, types: Mapping[str, Var]) -> Scalar:
    tokens.expect("(")
    if op == "cast":
        arg = read_scalar(tokens, types)
        tokens.expect("as")
        kind = read_type(tokens)
        tokens.expect(")")
        return Call("cast", (arg,), kind)
    args = tuple(tokens.separated(")", lambda: read_scalar(tokens, types)))
    return Call(op, args, usual_type(op, args))


def read_type(tokens: Tokens) -> Type:
    """Read a type: ``BIGINT``, ``DECIMAL(15,2)``."""
    name = tokens.next()
    if name == "DECIMAL":
        tokens.expect("(")
        precision = tokens.next()
        tokens.expect(",")
        scale = tokens.next()
        tokens.expect(")")
        return decimal(int(precision), int(scale))
    try:
        return Type(Kind(name))
    except ValueError:
        tokens.index -= 1
        raise tokens.error(f"there is no type {name!r}") from None


_WORDS = {"TRUE": Const(True, BOOLEAN), "FALSE": Const(False, BOOLEAN), "NULL": Const(None, NULL)}


def _number(token: str) -> Const:
    if "e" in token:
        return Const(float(token), DOUBLE)
    if "." in token:
        kind = literal_decimal(token)
        return Const(int(token.replace(".", "")), kind)
    for kind, suffix in SUFFIXES.items():
        if suffix and token.endswith(suffix):
            return Const(int(token[:-1]), kind)
    return Const(int(token), BIGINT)


def _moment(kind: str, text: str) -> Const:
    if kind == "DATE":
        return Const((date.fromisoformat(text) - EPOCH.date()).days, DATE)
    return Const((datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1), TIMESTAMP)


def _unquote(token: str) -> str:
    return token[1:-1].replace("''", "'")
