"""Functions of one string that C can do itself, once per distinct string; the host does the others.

C takes valid UTF-8 only. A Python string may hold lone surrogates, and what they mean is the host's affair.
"""

from __future__ import annotations

from viewlet.backends.native.forms import integer
from viewlet.core.scalar import Call, Const, Scalar, Var


def native_answer(scalar: Scalar, constant: dict[str, int]) -> str | None:
    """A C expression for the answer about the string ``t``, or ``None``; ``constant`` numbers literals.

    >>> from viewlet.core.types import BOOLEAN, VARCHAR
    >>> pattern, escape = Const("a%", VARCHAR), Const("!", VARCHAR)
    >>> native_answer(Call("like", (Var("x", VARCHAR), pattern, escape), BOOLEAN), {"a%": 0})
    "vl_like(t, vl_string_at(a, &s->strings, s->constants[0]), '!')"
    """
    match scalar:
        case Call("like", (Var(), Const(str(pattern)), *rest)):
            escape = rest[0].value if rest and isinstance(rest[0], Const) else "\\"
            if not isinstance(escape, str) or not _is_plain(pattern, escape):
                return None
            number = constant.setdefault(pattern, len(constant))
            shown = "\\\\" if escape == "\\" else escape
            return f"vl_like(t, vl_string_at(a, &s->strings, s->constants[{number}]), '{shown}')"
        case Call("substring", (Var(), Const(int(start)), *rest)):
            length = rest[0].value if rest and isinstance(rest[0], Const) else (1 << 63) - 1
            if (rest and not isinstance(rest[0], Const)) or not isinstance(length, int):
                return None
            part = f"vl_text_substring(t, {integer(start)}, {integer(length)})"
            return f"vl_intern(a, &s->strings, {part})"
        case _:
            return None


def _is_plain(pattern: str, escape: str) -> bool:
    """Is the escape one harmless character, and does it only stand before what it may stand before?"""
    if len(escape) != 1 or not escape.isascii() or not (escape.isalnum() or escape in "\\!#$|~^/"):
        return False
    characters = iter(pattern)
    return all(c != escape or next(characters, "") in ("_", "%", escape) for c in characters)
