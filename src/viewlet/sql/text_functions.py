"""Functions of text: each node of the parser to the scalar it means."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from viewlet.core.patterns import compiled
from viewlet.core.scalar import Const, Scalar, call
from viewlet.core.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, VARCHAR, Type
from viewlet.errors import ValueRangeError
from viewlet.sql import scalars
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.signature import Builder, Reader, called, function, long, text, whole

DIGESTS = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _text(op: str, kind: Type = VARCHAR) -> Builder:
    """A function of one VARCHAR."""
    return lambda node, read: call(op, scalars.text(read(node.this)), type=kind)


def _two_texts(op: str) -> Builder:
    """A condition on two VARCHARs."""
    return lambda node, read: call(
        op, scalars.text(read(node.this)), scalars.text(read(node.expression)), type=BOOLEAN
    )


def check_text(node: exp.Expr, value: Scalar) -> None:
    """Refuse the text of a DOUBLE in dialects that do not write ``1.0E17`` as Spark does."""
    if value.type in (FLOAT, DOUBLE):
        raise unsupported(
            node, f"the text of a {value.type} outside the Spark dialect", "cast it to a DECIMAL first"
        )


def _check_part(call: exp.Expr, part: exp.Expr, value: Scalar) -> None:
    """Refuse what Spark writes otherwise: a BOOLEAN is ``t`` in PostgreSQL's concat alone."""
    dialect = call.args.get("other_text")
    if dialect:
        check_text(part, value)
    if dialect == "postgres" and value.type == BOOLEAN and not isinstance(call, exp.DPipe):
        raise unsupported(part, "a BOOLEAN in PostgreSQL's concat", "cast it to VARCHAR first")


def _concat(node: exp.Concat | exp.DPipe, read: Reader) -> Scalar:
    """``a || b || c`` is one call; in some dialects ``concat(a, b)`` takes NULL for the empty text."""
    parts = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    arguments: list[Scalar] = []
    for part in parts:
        value = read(part)
        _check_part(node, part, value)
        inner = scalars.text(value)
        if node.args.get("coalesce"):
            inner = call("coalesce", inner, Const("", VARCHAR))
        flat = isinstance(part, exp.DPipe) and getattr(inner, "op", "") == "concat"
        arguments.extend(getattr(inner, "args", ()) if flat else (inner,))
    return call("concat", *arguments, type=VARCHAR)


def _substring(node: exp.Substring, read: Reader) -> Scalar:
    if (place := node.args.get("never_text")) and read(place).type == VARCHAR:
        raise unsupported(node, "SUBSTRING of a regular expression", "use regexp_extract")
    start = scalars.whole(read(node.args["start"]), "substring") if node.args.get("start") else Const(1, INT)
    length = node.args.get("length")
    rest = (scalars.whole(read(length), "substring"),) if length else ()
    return call("substring", scalars.text(read(node.this)), start, *rest, type=VARCHAR)


def _edge(op: str) -> Builder:
    return lambda node, read: call(
        op, scalars.text(read(node.this)), scalars.whole(read(node.expression), op), type=VARCHAR
    )


def _trim(node: exp.Trim, read: Reader) -> Scalar:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get((node.args.get("position") or "").upper(), "trim")
    characters = (scalars.text(read(node.expression)),) if node.expression else ()
    return call(side, scalars.text(read(node.this)), *characters, type=VARCHAR)


def _position(node: exp.StrPosition, read: Reader) -> Scalar:
    if node.args.get("occurrence"):
        raise unsupported(node, "a search for a later occurrence", "search in a substring")
    needle, item = (scalars.text(read(part)) for part in (node.args["substr"], node.this))
    if not node.args.get("position"):
        return call("position", needle, item, type=INT)
    start = whole(read(node.args["position"]), "locate")
    found = call("position", needle, item, start, type=INT)
    return scalars.case([(call("is_null", start, type=BOOLEAN), Const(0, INT))], found)


def _replace(node: exp.Replace, read: Reader) -> Scalar:
    replacement = node.args.get("replacement")
    new = scalars.text(read(replacement)) if replacement else Const("", VARCHAR)
    return call(
        "replace", scalars.text(read(node.this)), scalars.text(read(node.expression)), new, type=VARCHAR
    )


def _pad(node: exp.Pad, read: Reader) -> Scalar:
    pattern = node.args.get("fill_pattern")
    filling = scalars.text(read(pattern)) if pattern else Const(" ", VARCHAR)
    width = scalars.whole(read(node.expression), "lpad")
    return call("lpad" if node.args["is_left"] else "rpad", scalars.text(read(node.this)), width, filling)


def _repeat(node: exp.Repeat, read: Reader) -> Scalar:
    return call("repeat", scalars.text(read(node.this)), scalars.whole(read(node.args["times"]), "repeat"))


def _concat_ws(node: exp.ConcatWs, read: Reader) -> Scalar:
    """``concat_ws(s, a, b)``: a part that is not NULL brings its separator, and the first of these goes."""
    values = [read(part) for part in node.expressions]
    for part, value in zip(node.expressions, values, strict=True):
        _check_part(node, part, value)
    separator, *parts = map(scalars.text, values)
    empty = Const("", VARCHAR)
    led = [
        call("coalesce", call("concat", separator, part, type=VARCHAR), empty, type=VARCHAR) for part in parts
    ]
    whole_text = call("concat", empty, *led, type=VARCHAR)
    behind = scalars.arithmetic("+", call("length", separator, type=INT), Const(1, INT))
    return call("substring", whole_text, behind, type=VARCHAR)


def _chr(node: exp.Chr, read: Reader) -> Scalar:
    if len(node.expressions) != 1:
        raise unsupported(node, "chr of several codes", "concatenate")
    return call("chr", long(read(node.expressions[0]), "chr"), type=VARCHAR)


def _initcap(node: exp.Initcap, read: Reader) -> Scalar:
    between = node.expression
    if between is not None and between.name != " ":
        raise unsupported(node, "initcap with such separators", "the Spark dialect has blanks alone")
    return call("initcap", scalars.text(read(node.this)), type=VARCHAR)


def _sha2(node: exp.SHA2, read: Reader) -> Scalar:
    bits = read(node.args["length"]) if node.args.get("length") else Const(256, INT)
    if not isinstance(bits, Const) or bits.value not in DIGESTS:
        raise unsupported(node, "sha2 of such a length", f"there are {', '.join(map(str, DIGESTS))}")
    return call(DIGESTS[int(bits.value)], scalars.text(read(node.this)), type=VARCHAR)


def _hex(node: exp.Hex, read: Reader) -> Scalar:
    argument = read(node.this)
    shown = long(argument, "hex") if argument.type.is_integer else scalars.text(argument)
    return call("hex", shown, type=VARCHAR)


def _levenshtein(node: exp.Levenshtein, read: Reader) -> Scalar:
    if any(value for name, value in node.args.items() if name not in ("this", "expression")):
        raise unsupported(node, "levenshtein with costs or a limit", "leave them out")
    return call("levenshtein", *(scalars.text(read(part)) for part in (node.this, node.expression)), type=INT)


def _checked_pattern(node: exp.Expr, pattern: Scalar) -> Scalar:
    """A regular expression; one that is written out is read at once."""
    if isinstance(pattern, Const) and isinstance(pattern.value, str):
        try:
            compiled(pattern.value)
        except ValueRangeError as reason:
            raise invalid(node, str(reason)) from None
    return pattern


def _regexp_like(node: exp.RegexpLike, read: Reader) -> Scalar:
    if node.args.get("flag"):
        raise unsupported(node, "flags of regexp_like", "write (?i) in front of the expression")
    pattern = _checked_pattern(node, scalars.text(read(node.expression)))
    found = call("regexp_like", scalars.text(read(node.this)), pattern, type=BOOLEAN)
    return call("not", found) if node.args.get("negate") else found


def _regexp(op: str, kind: Type, *names: str) -> Builder:
    """A function of a text, a regular expression and what ``names`` lists."""

    def build(node: exp.Expr, read: Reader) -> Scalar:
        known = {"this", "expression", *names, "null_if_pos_overflow"}
        other = [name for name, value in node.args.items() if value and name not in known]
        if other:
            raise unsupported(node, f"{op} with {other[0]}", "leave it out")
        rest = [
            (whole(read(part), op) if name == "group" else scalars.text(read(part)))
            for name in names
            if (part := node.args.get(name))
        ]
        pattern = _checked_pattern(node, scalars.text(read(node.args["expression"])))
        return call(op, scalars.text(read(node.this)), pattern, *rest, type=kind)

    return build


def _space(node: exp.Space, read: Reader) -> Scalar:
    return call("repeat", Const(" ", VARCHAR), scalars.whole(read(node.this), "space"), type=VARCHAR)


def _btrim(node: exp.Anonymous, read: Reader) -> Scalar:
    if not 1 <= len(node.expressions) <= 2:
        raise invalid(node, "btrim takes one or two arguments")
    return call("trim", *(scalars.text(read(part)) for part in node.expressions), type=VARCHAR)


TEXT_FUNCTIONS: Mapping[type[exp.Expr], Builder] = {
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Substring: _substring,
    exp.SplitPart: function("split_part", VARCHAR, this=text, delimiter=text, part_index=whole),
    exp.SubstringIndex: function("substring_index", VARCHAR, this=text, delimiter=text, count=whole),
    exp.Overlay: function("overlay", VARCHAR, this=text, expression=text, from_=whole, for_=whole),
    exp.Translate: function("translate", VARCHAR, this=text, from_=text, to=text),
    exp.Left: _edge("left"),
    exp.Right: _edge("right"),
    exp.Upper: _text("upper"),
    exp.Lower: _text("lower"),
    exp.Initcap: _initcap,
    exp.Reverse: _text("reverse"),
    exp.Length: _text("length", INT),
    exp.Trim: _trim,
    exp.Replace: _replace,
    exp.StrPosition: _position,
    exp.StartsWith: _two_texts("starts_with"),
    exp.EndsWith: _two_texts("ends_with"),
    exp.Contains: _two_texts("contains"),
    exp.Pad: _pad,
    exp.Repeat: _repeat,
    exp.Space: _space,
    exp.Ascii: _text("ascii", INT),
    exp.Chr: _chr,
    exp.MD5: _text("md5"),
    exp.SHA: _text("sha1"),
    exp.SHA2: _sha2,
    exp.Hex: _hex,
    exp.Levenshtein: _levenshtein,
    exp.Soundex: _text("soundex"),
    exp.BitLength: _text("bit_length", INT),
    exp.RegexpLike: _regexp_like,
    exp.RegexpExtract: _regexp("regexp_extract", VARCHAR, "group"),
    exp.RegexpReplace: _regexp("regexp_replace", VARCHAR, "replacement"),
    exp.RegexpCount: _regexp("regexp_count", INT),
}
NAMED_TEXT_FUNCTIONS: Mapping[str, Builder] = {
    "crc32": called("crc32", BIGINT, text),
    "bin": called("bin", VARCHAR, long),
    "octet_length": called("octet_length", INT, text),
    "btrim": _btrim,
}
