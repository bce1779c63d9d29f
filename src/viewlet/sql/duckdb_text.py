"""The text with which DuckDB means what a query means as a view.

``read_statement`` leaves a tree that means what it says in Spark. DuckDB gives the same words other meanings,
so each rule here gets one node, its parts already rewritten, and gives an expression that DuckDB answers as a
view does. What cannot be said is refused; ``error(...)`` refuses the rows for which it cannot.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache

import sqlglot
from sqlglot import exp

from viewlet.sql.foreign import INTEGER_TYPES, Rule, refused, written_integer
from viewlet.sql.position import unsupported

FRACTIONS = "(typeof(_x) IN ('DOUBLE', 'FLOAT') OR starts_with(typeof(_x), 'DECIMAL'))"
UNFIT = "NOT regexp_full_match(CAST(_x AS VARCHAR), '\\s*[+-]?[0-9]+\\s*')"
TRUNCATED = (
    "CASE WHEN typeof(_x) IN ('DOUBLE', 'FLOAT') THEN {cast}(trunc(CAST(_x AS DOUBLE)) AS {kind}) "
    "WHEN starts_with(typeof(_x), 'DECIMAL') THEN {cast}(split_part(CAST(_x AS VARCHAR), '.', 1) AS {kind}) "
    f"WHEN typeof(_x) = 'VARCHAR' AND {UNFIT} THEN {{unfit}} ELSE {{cast}}(_x AS {{kind}}) END"
)
"""Spark's CAST to an integer cuts the fraction of a number, and reads no fraction in a text."""
JAVA_TEXT = (
    "CASE WHEN typeof(_x) IN ('DOUBLE', 'FLOAT') AND abs(TRY_CAST(_x AS DOUBLE)) <> 0 "
    "AND NOT abs(TRY_CAST(_x AS DOUBLE)) BETWEEN 0.001 AND 9999999 "
    "THEN error('the text of such a DOUBLE is a view''s alone: cast it to a DECIMAL first') ELSE _x END"
)
"""From 0.001 to 9999999, Java writes doubles as DuckDB does."""
NO_TEXT = (
    "CASE WHEN typeof(_x) IN ('DOUBLE', 'FLOAT') THEN error('cast the DOUBLE to a DECIMAL first') ELSE _x END"
)
NO_PART = (
    "CASE WHEN typeof(_x) IN ('DOUBLE', 'FLOAT', 'BOOLEAN') "
    "THEN error('cast it to VARCHAR or a DECIMAL first') ELSE _x END"
)
"""PostgreSQL's concat writes a BOOLEAN in one letter, as neither ``||`` nor a cast does."""
NO_ROUNDING = (
    f"CASE WHEN {FRACTIONS} THEN error('round or floor the number before the cast') "
    "ELSE {cast}(_x AS {kind}) END"
)
HALVES_TO_EVEN = (
    "round(_x) - CASE WHEN typeof(_x) IN ('DOUBLE', 'FLOAT') AND abs(_x - trunc(_x)) = 0.5 "
    "AND round(_x) % 2 <> 0 THEN sign(_x) ELSE 0 END"
)


def duckdb_text(query: exp.Query, spark: bool) -> str:
    """The query in DuckDB's SQL; ``spark`` says that its patterns of dates were Spark's."""
    tree = query.copy()
    # Written out before anything grows: a query that is too deep for that is refused here.
    names = [item.sql("duckdb") for item in tree.selects]
    rules = {**RULES, **(WRITTEN_IN_SPARK if spark else {})}
    for part in reversed(list(tree.walk())):
        rule = rules.get(type(part))
        if rule is not None and (new := rule(part)) is not part:
            part.replace(new)
    for item, name in zip(tree.selects, names, strict=True):
        if not isinstance(item, exp.Alias | exp.Column) and item.sql("duckdb") != name:
            item.replace(exp.alias_(item, name, quoted=True))
    return tree.sql("duckdb")


def spelled(template: str, **parts: exp.Expr) -> exp.Expr:
    """DuckDB's expression with each name in it that is one of ``parts`` replaced.

    A part that is more than a column stands in it once, bound by a lambda: rewritten casts inside of
    rewritten casts would double in length with every level otherwise.

    >>> spelled("_x + _x", _x=exp.column("a")).sql("duckdb")
    '((a) + (a))'
    >>> spelled("_x + _x", _x=exp.column("a") * 2).sql("duckdb")
    "(LIST_EXTRACT(LIST_TRANSFORM([{'_x': a * 2}], LAMBDA _p : (_p._x) + (_p._x)), 1))"
    """
    tree = exp.paren(_parsed(template))
    places = [column for column in tree.find_all(exp.Column) if column.name in parts]
    often = Counter(column.name for column in places)
    bound = {
        name: part
        for name, part in parts.items()
        if often[name] > 1 and not isinstance(part, exp.Column | exp.Literal)
    }
    for column in places:
        part = exp.column(column.name, table="_p") if column.name in bound else parts[column.name]
        column.replace(exp.paren(part, copy=often[column.name] > 1))
    return _bound(tree, bound) if bound else tree


@cache
def _parsed(template: str) -> exp.Expr:
    return sqlglot.parse_one(template, read="duckdb")


def _bound(tree: exp.Paren, parts: Mapping[str, exp.Expr]) -> exp.Expr:
    """An expression whose names in ``_p`` are values, each worked out once."""
    values = [exp.PropertyEQ(this=exp.to_identifier(name), expression=part) for name, part in parts.items()]
    body = exp.Lambda(this=tree.this, expressions=[exp.to_identifier("_p")])
    rows = exp.Transform(this=exp.Array(expressions=[exp.Struct(expressions=values)]), expression=body)
    return exp.Paren(this=exp.Anonymous(this="LIST_EXTRACT", expressions=[rows, exp.Literal.number(1)]))


def _cast(node: exp.Cast) -> exp.Expr:
    strict = not isinstance(node, exp.TryCast)
    cast, kind = "CAST" if strict else "TRY_CAST", node.to.sql("duckdb")
    if node.to.this in INTEGER_TYPES:
        rounds = node.args.get("rounds")
        if rounds is True or (isinstance(node.this, exp.Literal) and node.this.is_int):
            return node
        unfit = f"error('a text is not a {kind}')" if strict else "NULL"
        template = NO_ROUNDING if rounds else TRUNCATED
        return spelled(template.format(cast=cast, kind=kind, unfit=unfit), _x=node.this)
    if node.to.this in exp.DataType.TEXT_TYPES and not isinstance(node.this, exp.Literal):
        node.set("this", _writable(node, node.this))
    return node


def _writable(node: exp.Expr, part: exp.Expr) -> exp.Expr:
    """A part that becomes text at ``node``, where DuckDB writes doubles as the dialect does."""
    dialect = node.args.get("other_text")
    if dialect == "duckdb" or isinstance(part, exp.Literal | exp.Concat | exp.DPipe):
        return part
    if dialect == "postgres" and isinstance(node, exp.Concat | exp.ConcatWs):
        return spelled(NO_PART, _x=part)
    return spelled(NO_TEXT if dialect else JAVA_TEXT, _x=part)


def _concat(node: exp.Concat | exp.ConcatWs | exp.DPipe) -> exp.Expr:
    if isinstance(node, exp.Concat | exp.ConcatWs):
        node.set("expressions", [_writable(node, part) for part in node.expressions])
    else:
        node.set("this", _writable(node, node.this))
        node.set("expression", _writable(node, node.expression))
    return node


def _round(node: exp.Round) -> exp.Expr:
    return spelled(HALVES_TO_EVEN, _x=node.this) if node.args.get("halves_to_even") else node


def _at_least(node: exp.Expr, least: int) -> exp.Expr:
    """``node``, or ``least`` where it is below; NULL stays NULL."""
    value = written_integer(node)
    if value is not None:
        return exp.convert(max(value, least))
    return spelled(f"CASE WHEN _x < {least} THEN {least} ELSE _x END", _x=node)


def _edge(node: exp.Left | exp.Right) -> exp.Expr:
    node.set("expression", _at_least(node.expression, 0))
    return node


def _substring(node: exp.Substring) -> exp.Expr:
    """Place 0 counts as 1, and a negative length as 0."""
    if node.args.get("length"):
        node.set("length", _at_least(node.args["length"], 0))
        start = node.args.get("start")
        if start is not None and (written_integer(start) or 0) == 0:
            node.set("start", spelled("CASE WHEN _x = 0 THEN 1 ELSE _x END", _x=start))
    return node


def _day_of_week(node: exp.DayOfWeek) -> exp.Expr:
    return spelled("dayofweek(CAST(_x AS TIMESTAMP)) + 1", _x=node.this)


def _extract(node: exp.Extract) -> exp.Expr:
    match node.name.upper():
        case "DOW" | "DAYOFWEEK":
            return spelled("dayofweek(_x) + 1", _x=node.expression)
        case "DOW_ISO" | "DAYOFWEEK_ISO":
            return spelled("isodow(_x)", _x=node.expression)
        case "SECOND" | "SECONDS" | "S":
            exact = "CAST(microsecond(CAST(_x AS TIMESTAMP)) * 0.000001 AS DECIMAL(8, 6))"
            return spelled(exact, _x=node.expression)
    return node


def _named(node: exp.Anonymous) -> exp.Expr:
    match node.name.lower(), node.expressions:
        case "weekday", [moment]:
            return spelled("isodow(_x) - 1", _x=moment)
        case (("date_part" | "datepart"), [exp.Literal() as part, moment]):
            return _extract(exp.Extract(this=exp.var(part.name), expression=moment))
        case ((("tinyint" | "smallint" | "int" | "bigint" | "string") as kind), [number]):
            return _cast(exp.Cast(this=number, to=exp.DataType.build(kind, dialect="spark")))
    return node


def _like(node: exp.Like | exp.ILike) -> exp.Expr:
    """A backslash takes the meaning of what follows; in DuckDB ESCAPE says so."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or (isinstance(pattern, exp.Literal) and "\\" not in pattern.this):
        return node
    if isinstance(pattern, exp.Any | exp.All):
        if any("\\" in part.this if isinstance(part, exp.Literal) else True for part in _patterns(pattern)):
            raise unsupported(node, "a backslash in LIKE ANY or ALL", "write each LIKE")
        return node
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _patterns(node: exp.Any | exp.All) -> list[exp.Expr]:
    return node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this.unnest()]


def _short_name(form: str) -> Rule:
    return lambda node: spelled(f"strftime(CAST(_x AS TIMESTAMP), '{form}')", _x=node.this)


def _whole_units(node: exp.TimestampDiff | exp.DateDiff) -> exp.Expr:
    """Whole units between two moments, where DuckDB counts the boundaries."""
    unit = node.args.get("unit")
    if unit is None or node.args.get("date_part_boundary"):
        return node
    name = unit.name.lower().removesuffix("s")
    if name in ("month", "quarter", "year"):
        raise unsupported(node, f"a count of {name}s in a read", "DuckDB has another: make a view of it")
    later, earlier = (
        part.this if isinstance(part, exp.TsOrDsToDate) else part for part in (node.this, node.expression)
    )
    text = f"datesub('{name}', CAST(_a AS TIMESTAMP), CAST(_b AS TIMESTAMP))"
    return spelled(text, _a=earlier, _b=later)


def _add_months(node: exp.AddMonths) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build("DATE"))


def _since_1970(size: int) -> Rule:
    """Microseconds by ``size``, rounded down; ``//`` cuts."""
    text = f"(epoch_us(_x) - (epoch_us(_x) % {size} + {size}) % {size}) // {size}"
    return lambda node: spelled(text, _x=node.this)


def _sha2(node: exp.SHA2) -> exp.Expr:
    bits = node.args.get("length")
    if bits is not None and written_integer(bits) not in (0, 256):
        raise unsupported(node, "sha2 of such a length in a read", "DuckDB has 256 bits alone")
    return node


def _split_part(node: exp.SplitPart) -> exp.Expr:
    """An empty delimiter separates nothing."""
    delimiter = node.args["delimiter"]
    if isinstance(delimiter, exp.Literal) and delimiter.this:
        return node
    whole = "CASE WHEN _d <> '' THEN split_part(_s, _d, _n) WHEN abs(_n) = 1 AND _d = '' THEN _s "
    text = whole + "WHEN _n IS NOT NULL AND _d = '' AND _s IS NOT NULL THEN '' END"
    return spelled(text, _s=node.this, _d=delimiter, _n=node.args["part_index"])


def _shift(node: exp.Binary) -> exp.Expr:
    distance = node.expression
    value = written_integer(distance)
    if value is None or not 0 <= value <= 31:
        text = "CASE WHEN _n < 0 OR _n > 31 THEN error('a shift by less than 0 or more than 31') ELSE _n END"
        node.set("expression", spelled(text, _n=distance))
    return node


def _overlay(node: exp.Overlay) -> exp.Expr:
    start = node.args["from_"]
    if (written_integer(start) or 0) < 1:
        text = "CASE WHEN _n < 1 THEN error('OVERLAY from before the first letter') ELSE _n END"
        node.set("from_", spelled(text, _n=start))
    return node


def _position(node: exp.StrPosition) -> exp.Expr:
    """From NULL and from before the first letter nothing is found."""
    start = node.args.get("position")
    if start is None or written_integer(start) is not None:
        return node
    return spelled(
        "CASE WHEN _n IS NULL THEN 0 WHEN _n < 1 THEN 0 * _p ELSE _p END", _n=start, _p=node.copy()
    )


def _regexp_replace(node: exp.RegexpReplace) -> exp.Expr:
    """Groups are ``$1`` in a view and ``\\1`` in DuckDB."""
    new = node.args.get("replacement")
    if node.args.get("single_replace") or node.args.get("modifiers") or new is None:
        return node
    if not isinstance(new, exp.Literal) or "\\" in new.this:
        raise unsupported(node, "such a replacement of regexp_replace in a read", "write out a plain text")
    new.set("this", re.sub(r"\$(\d)", r"\\\1", new.this))
    return node


def _pattern(node: exp.TimeToStr) -> exp.Expr:
    """Fractions of a second; the parser has put the rest into C's letters, with its mark ``strict``."""
    form = node.args.get("format")
    if not isinstance(form, exp.Literal):
        return node
    text = form.this.replace("SSSSSS", "%f").replace("SSS", "%g")
    if re.search(r"[A-Za-z']", re.sub(r"%-?[A-Za-z](strict)?", "", text)):
        raise unsupported(node, "such a pattern of dates in a read", "concatenate the parts")
    form.set("this", text)
    return node


RULES: Mapping[type[exp.Expr], Rule] = {
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Concat: _concat,
    exp.ConcatWs: _concat,
    exp.DPipe: _concat,
    exp.Round: _round,
    exp.Left: _edge,
    exp.Right: _edge,
    exp.Substring: _substring,
    exp.DayOfWeek: _day_of_week,
    exp.Extract: _extract,
    exp.Anonymous: _named,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Dayname: _short_name("%a"),
    exp.Monthname: _short_name("%b"),
    exp.Levenshtein: refused("levenshtein in a read", "DuckDB counts bytes: make a view of it"),
    exp.TimestampDiff: _whole_units,
    exp.DateDiff: _whole_units,
    exp.AddMonths: _add_months,
    exp.UnixSeconds: _since_1970(1_000_000),
    exp.UnixMillis: _since_1970(1_000),
    exp.MonthsBetween: refused("months_between in a read", "DuckDB has another: make a view of it"),
    exp.SHA2: _sha2,
    exp.SplitPart: _split_part,
    exp.BitwiseLeftShift: _shift,
    exp.BitwiseRightShift: _shift,
    exp.Overlay: _overlay,
    exp.StrPosition: _position,
    exp.RegexpReplace: _regexp_replace,
}
WRITTEN_IN_SPARK: Mapping[type[exp.Expr], Rule] = {exp.TimeToStr: _pattern}
