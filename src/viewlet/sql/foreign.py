"""What PostgreSQL and DuckDB spell as Spark does and mean otherwise, said in Spark's words.

Each rule gets one node of a statement, its parts already translated, and gives what stands in its place.
Where the meaning hangs on types, which are not known yet, the rule leaves a mark on the node: ``rounds`` on a
CAST, ``halves_to_even`` on ROUND, ``other_text`` where values become text. ``expressions.py`` and the files
of functions read the marks. tests/agree/test_dialects.py compares all of it with both engines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sqlglot import exp

from viewlet.sql.position import unsupported

INTEGER_TYPES = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
DUCKDB_DECIMAL = exp.DataType.build("DECIMAL(18, 3)")
"""What DECIMAL without digits is there."""

PERCENT_CODE = re.compile("%-?[A-Za-z]")
UNKNOWN_LETTER = re.compile("[A-Za-z]")
PLAIN_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
Rule: TypeAlias = Callable[[Any], exp.Expr]


def translated(node: exp.Expr, dialect: str) -> exp.Expr:
    """The statement with every node that the dialect's rules name replaced, inner nodes first."""
    rules = RULES.get(dialect.lower(), OTHERS)
    for part in reversed(list(node.walk())):
        rule = rules.get(type(part))
        if rule is None:
            continue
        new = rule(part)
        if new is not part:
            part.replace(new)
    return node


def spark_means(query: exp.Query) -> exp.Query:
    """The query, if Spark itself means the same: it knows nothing of the marks."""
    for part in query.walk():
        if part.args.get("rounds") or part.args.get("halves_to_even"):
            raise unsupported(part, "rounding as in this dialect in a read on Spark", "make a view of it")
    return query


def written_integer(node: exp.Expr | None) -> int | None:
    """The value of an integer that is written out, with or without a minus."""
    if isinstance(node, exp.Neg):
        value = written_integer(node.this)
        return None if value is None else -value
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def either(test: exp.Expr, yes: exp.Expr, no: exp.Expr) -> exp.Case:
    """``CASE WHEN test THEN yes ELSE no END``"""
    return exp.Case(ifs=[exp.If(this=test, true=yes)], default=no)


def below(node: exp.Expr, bound: int) -> exp.Expr:
    """``node < bound``"""
    return exp.LT(this=exp.paren(node.copy()), expression=exp.Literal.number(bound))


def plus(node: exp.Expr, other: exp.Expr | int) -> exp.Expr:
    """``node + other``"""
    added = exp.convert(other) if isinstance(other, int) else exp.paren(other.copy())
    return exp.Add(this=exp.paren(node.copy()), expression=added)


def _negated(node: exp.Is) -> exp.Expr:
    """``x IS NOT NULL``, a flag in some dialects, is ``NOT x IS NULL``."""
    if not node.args.get("negate"):
        return node
    node.set("negate", None)
    positive = exp.Not(this=node.copy())
    return exp.paren(positive, copy=False) if isinstance(node.parent, exp.Binary | exp.Unary) else positive


def _cast(node: exp.Cast, dialect: str) -> exp.Expr:
    """Fractions become integers by rounding; the text of a DOUBLE is the dialect's own."""
    if node.to.this in INTEGER_TYPES:
        node.set("rounds", True)
    elif node.to.this in exp.DataType.TEXT_TYPES:
        node.set("other_text", dialect)
    return node


def _concat(dialect: str) -> Rule:
    def mark(node: exp.Expr) -> exp.Expr:
        node.set("other_text", dialect)
        return node

    return mark


def _unsure_cast(node: exp.Cast) -> exp.Expr:
    if node.to.this in INTEGER_TYPES:
        node.set("rounds", "unknown")
    elif node.to.this in exp.DataType.TEXT_TYPES and node.to.expressions:
        raise unsupported(node, "a cast to a text of some length in this dialect", "write left(text, length)")
    return node


def _postgres_cast(node: exp.Cast) -> exp.Expr:
    if isinstance(node.this, exp.IntDiv):  # how the parser reads div(a, b)
        return node.this
    if _is_bare_decimal(node.to):
        written = node.this.name if isinstance(node.this, exp.Literal) else ""
        if PLAIN_NUMBER.fullmatch(written):  # a number that is written out has the digits it shows
            number = exp.Literal.number(written.lstrip("+-"))
            return exp.paren(exp.Neg(this=number)) if written.startswith("-") else number
        if node.find(exp.Column):
            raise unsupported(node, "a cast to NUMERIC of any precision", "write NUMERIC(p, s)")
    cast = _cast(node, "postgres")
    if node.to.this not in exp.DataType.TEXT_TYPES:
        return cast
    if node.to.this not in (exp.DType.VARCHAR, exp.DType.TEXT):
        raise unsupported(node, f"a cast to {node.to.sql()}", "its blanks are no letters: write VARCHAR(n)")
    length = node.to.expressions
    if not length:
        return cast
    node.set("to", exp.DataType.build("TEXT"))
    return exp.Left(this=node.copy(), expression=length[0].this)


def _postgres_column(node: exp.ColumnDef) -> exp.Expr:
    if _is_bare_decimal(node.kind):
        raise unsupported(node, "a column of NUMERIC of any precision", "write NUMERIC(p, s)")
    return node


def _duckdb_cast(node: exp.Cast) -> exp.Expr:
    if _is_bare_decimal(node.to):
        node.set("to", DUCKDB_DECIMAL.copy())
    return _cast(node, "duckdb")


def _duckdb_column(node: exp.ColumnDef) -> exp.Expr:
    if _is_bare_decimal(node.kind):
        node.set("kind", DUCKDB_DECIMAL.copy())
    return node


def _is_bare_decimal(kind: exp.DataType | None) -> bool:
    """Is it DECIMAL without digits? Spark's has 10 and no fraction."""
    return kind is not None and kind.this == exp.DType.DECIMAL and not kind.expressions


def _edge(node: exp.Left | exp.Right) -> exp.Expr:
    """``left(s, -n)`` is all but the last n letters: ``left(s, length(s) - n)``."""
    count = node.expression
    value = written_integer(count)
    if value is None or value < 0:
        rest = plus(exp.Length(this=node.this.copy()), count)
        node.set("expression", rest if value is not None else either(below(count, 0), rest, count))
    return node


def _postgres_substring(node: exp.Substring) -> exp.Expr:
    """The letters at ``start .. start + length - 1``, of which those before the first are none.

    A text in place of the start is a regular expression, also where it comes out of a column.
    """
    start, length = node.args.get("start"), node.args.get("length")
    value = written_integer(start)
    if start is not None and value is None:
        node.set("never_text", start.copy())
    if start is None or (value is not None and value >= 1):
        return node
    if length is not None:
        shorter = exp.Sub(this=plus(length, start), expression=exp.Literal.number(1))
        node.set("length", shorter if value is not None else either(below(start, 1), shorter, length))
    first = exp.Literal.number(1)
    node.set("start", first if value is not None else either(below(start, 1), first, start))
    return node


def _duckdb_substring(node: exp.Substring) -> exp.Expr:
    """Place 0 is one before the first letter; a negative length goes to the left, and is refused."""
    start, length = node.args.get("start"), node.args.get("length")
    if start is None or length is None:
        return node
    count = written_integer(length)
    if count is None or count < 0:
        refused = "SUBSTRING of a length that may be negative"
        raise unsupported(node, refused, "write left(substring(text, start), length)")
    value = written_integer(start)
    if value is None or value == 0:
        shorter = plus(length, -1)
        at_zero = exp.EQ(this=exp.paren(start.copy()), expression=exp.Literal.number(0))
        node.set("length", shorter if value == 0 else either(at_zero, shorter, length))
    return node


def _unsure_substring(node: exp.Substring) -> exp.Expr:
    start = node.args.get("start")
    if start is not None and (written_integer(start) or 0) < 1:
        raise unsupported(
            node, "SUBSTRING from anywhere but a written place", "dialects count apart from 0 and below"
        )
    return node


def _letter(node: exp.Chr) -> exp.Expr:
    """The letter with a number; Spark's ``chr`` has the first 256 alone, and counts round and round."""
    code = written_integer(node.expressions[0])
    if code is None or not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        raise unsupported(node, "chr of anything but a written letter's number", "write the letter")
    return exp.Literal.string(chr(code))


def _day_of_week(node: exp.Expr) -> exp.Expr:
    """0 is Sunday; in Spark 1 is."""
    return exp.paren(plus(exp.DayOfWeek(this=node), -1))


def _counted_from_zero(node: exp.DayOfWeek) -> exp.Expr:
    return _day_of_week(node.this)


def _extract(node: exp.Extract) -> exp.Expr:
    match node.name.upper():
        case "DOW" | "DAYOFWEEK" | "WEEKDAY":
            return _day_of_week(node.expression)
        case "ISODOW":
            return exp.DayOfWeekIso(this=node.expression)
    return node


def _duckdb_extract(node: exp.Extract) -> exp.Expr:
    """A second has no fraction."""
    return exp.Second(this=node.expression) if node.name.upper().startswith("SEC") else _extract(node)


def _duckdb_named(node: exp.Anonymous) -> exp.Expr:
    match node.name.lower(), node.expressions:
        case "weekday", [moment]:
            return _day_of_week(moment)
        case (("date_part" | "datepart"), [exp.Literal() as part, moment]):
            return _duckdb_extract(exp.Extract(this=exp.var(part.name), expression=moment))
    return node


def _unsure_day(node: exp.Expr) -> exp.Expr:
    raise unsupported(node, "the day of the week outside the Spark dialect", "dialects count it apart")


def _unsure_extract(node: exp.Extract) -> exp.Expr:
    return _unsure_day(node) if node.name.upper() in ("DOW", "DAYOFWEEK", "ISODOW", "WEEKDAY") else node


def _plain_like(node: exp.Like | exp.ILike) -> exp.Expr:
    """Without ESCAPE a backslash is itself: in Spark it is written twice."""
    if not isinstance(node.parent, exp.Escape):
        inner = node.expression.this if isinstance(node.expression, exp.Any | exp.All) else node.expression
        patterns = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
        for pattern in patterns:
            if isinstance(pattern, exp.Literal):
                pattern.set("this", pattern.this.replace("\\", "\\\\"))
            else:
                twice = {"expression": exp.Literal.string("\\"), "replacement": exp.Literal.string("\\\\")}
                pattern.replace(exp.Replace(this=pattern.copy(), **twice))
    return node


def _round(node: exp.Round) -> exp.Expr:
    """Halves of a DOUBLE go to the even number, those of a DECIMAL away from zero."""
    if node.args.get("decimals") is None:
        node.set("halves_to_even", True)
    return node


FRACTIONAL = (exp.Floor, exp.Ceil, exp.Round, exp.Sign, exp.Extract, exp.DayOfWeek, exp.DayOfWeekIso)
"""Integers in Spark, but numeric or double precision in PostgreSQL."""


def _divide(node: exp.Div) -> exp.Expr:
    """``floor(x) / 2`` has a fraction in PostgreSQL, as the quotient of two integers has not."""

    def hidden(part: exp.Expr) -> bool:
        return isinstance(part, exp.Cast | exp.Query)

    operands = (node.this, node.expression)
    if any(
        isinstance(part, FRACTIONAL) and not hidden(operand)
        for operand in operands
        for part in operand.walk(prune=hidden)
    ):
        node.set("this", exp.Cast(this=node.this.copy(), to=exp.DataType.build("DOUBLE")))
    return node


def _written_pattern(node: exp.Expr) -> exp.Expr:
    """A pattern of dates whose letters the parser all knows: the rest would be letters of Spark's patterns.

    >>> _written_pattern(exp.TimeToStr(this=exp.column("d"), format=exp.Literal.string("%dth")))
    Traceback (most recent call last):
    ...
    viewlet.errors.UnsupportedError: a pattern of dates with 't', 'h' is not supported; join its parts
    """
    form = node.args.get("format")
    if isinstance(form, exp.Literal) and (rest := UNKNOWN_LETTER.findall(PERCENT_CODE.sub("", form.name))):
        letters = ", ".join(map(repr, rest))
        raise unsupported(node, f"a pattern of dates with {letters}", "join its parts")
    return node


def _postgres_pattern(node: exp.Expr) -> exp.Expr:
    """The parser knows HH24 and HH12 in capitals alone, HH is HH12; US and MS are fractions of a second."""
    form = node.args.get("format")
    if isinstance(form, exp.Literal):
        text = re.sub("HH|hh12", "%I", form.name.replace("hh24", "%H")).replace("hh", "%I")
        if isinstance(node, exp.TimeToStr):
            text = re.sub("US|us", "%f", re.sub("MS|ms", "%g", text))
        form.set("this", text)
    return _written_pattern(node)


def _whole_name(form: str) -> Rule:
    return lambda node: exp.TimeToStr(this=node.this, format=exp.Literal.string(form))


def refused(construct: str, instead: str) -> Rule:
    """The rule of a construct that has no counterpart here."""

    def refuse(node: exp.Expr) -> exp.Expr:
        raise unsupported(node, construct, instead)

    return refuse


PATTERNED = (exp.TimeToStr, exp.StrToTime, exp.StrToDate, exp.StrToUnix, exp.UnixToStr, exp.TsOrDsToDate)
SHARED: Mapping[type[exp.Expr], Rule] = {
    exp.Is: _negated,
    exp.Left: _edge,
    exp.Right: _edge,
    exp.Chr: _letter,
    exp.DayOfWeek: _counted_from_zero,
}
RULES: Mapping[str, Mapping[type[exp.Expr], Rule]] = {
    "postgres": {
        **SHARED,
        **dict.fromkeys(PATTERNED, _postgres_pattern),
        exp.Cast: _postgres_cast,
        exp.TryCast: _postgres_cast,
        exp.ColumnDef: _postgres_column,
        exp.Concat: _concat("postgres"),
        exp.ConcatWs: _concat("postgres"),
        exp.DPipe: _concat("postgres"),
        exp.Substring: _postgres_substring,
        exp.Extract: _extract,
        exp.Round: _round,
        exp.Div: _divide,
        exp.Hex: refused("to_hex in PostgreSQL", "its digits hang on the type of the number"),
    },
    "duckdb": {
        **SHARED,
        **dict.fromkeys(PATTERNED, _written_pattern),
        exp.Cast: _duckdb_cast,
        exp.TryCast: _duckdb_cast,
        exp.ColumnDef: _duckdb_column,
        exp.Concat: _concat("duckdb"),
        exp.ConcatWs: _concat("duckdb"),
        exp.DPipe: _concat("duckdb"),
        exp.Substring: _duckdb_substring,
        exp.Extract: _duckdb_extract,
        exp.Anonymous: _duckdb_named,
        exp.Like: _plain_like,
        exp.ILike: _plain_like,
        exp.Dayname: _whole_name("%A"),
        exp.Monthname: _whole_name("%B"),
        exp.Levenshtein: refused("levenshtein in DuckDB", "it counts bytes, and a view counts letters"),
    },
}
OTHERS: Mapping[type[exp.Expr], Rule] = {
    **dict.fromkeys(PATTERNED, _written_pattern),
    exp.Is: _negated,
    exp.Cast: _unsure_cast,
    exp.TryCast: _unsure_cast,
    exp.Substring: _unsure_substring,
    exp.DayOfWeek: _unsure_day,
    exp.Extract: _unsure_extract,
}
"""For dialects that no test compares with their engine: what is known to differ among them is refused."""
