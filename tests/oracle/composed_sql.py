"""Write random queries that put features inside of each other: windows over groups, percentiles in HAVING.

A query is a tree of relations, each a table, a common table or a derived one: groups, grouping sets, windows,
set operations, joins. Values may be correlated nested queries, conditions may stand where values stand. Where
Spark and DuckDB say the same in other words, a text has both, ``{{ours||theirs}}``, which :func:`spellings`
takes apart. Left out is what :mod:`oracle.random_sql` leaves out, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

LITERALS = {
    "int": ("-1", "0", "1", "2", "3"),
    "dec": ("-0.75", "0.25", "1.00", "1.5", "2.125"),
    "dbl": ("CAST(0.5 AS DOUBLE)", "CAST(2 AS DOUBLE)"),
    "str": ("''", "'a'", "'ab'", "'b'"),
    "date": ("DATE '1995-12-31'", "DATE '1996-02-29'"),
    "ts": tuple(  # one with a time zone is what the parser takes Spark's TIMESTAMP for
        f"{{{{TIMESTAMP '{text}'||CAST('{text}' AS TIMESTAMP_NTZ)}}}}"
        for text in ("1995-12-31 23:59:59", "1996-02-29 12:00:00")
    ),
    "bool": ("TRUE", "FALSE"),
}
OTHERS = {"n": "int", "d": "dec", "x": "dbl", "s": "str", "e": "date", "m": "ts"}
CALLS = {
    "int": (
        "({a} + {b})", "({a} - {b})", "({a} * {b})", "(- {a})", "ABS({a})", "({a} % 3)", "SIGN({a}) * {b}",
        "NULLIF({a}, {b})", "GREATEST({a}, {b}, {n})", "LEAST({a}, {b})", "({a} & 3)", "({a} | 1)",
        "LENGTH({s})", "POSITION('a' IN {s})", "YEAR({e})", "QUARTER({e})", "MONTH({e})", "DAY({e})",
        "DATEDIFF({e}, DATE '1995-12-31')", "CAST({x} > 1 AS INT)", "CAST(ROUND({d}) AS INT)",
    ),
    "dec": (
        "({a} + {b})", "({a} - {n})", "({a} * {n})", "({a} * {b})", "(- {a})", "ABS({a})", "ROUND({a}, 1)",
        "GREATEST({a}, {b})", "NULLIF({a}, {b})", "CAST({n} AS DECIMAL(9,3))",
    ),
    "dbl": (
        "({a} + {b})", "({a} * {n})", "({n} / 2)", "ABS({a})", "CAST({n} AS DOUBLE)", "CAST({d} AS DOUBLE)",
        "FLOOR({a}) * CAST(1 AS DOUBLE)",
    ),
    "str": (
        "UPPER({a})", "CONCAT({a}, {b})", "CONCAT_WS('-', {a}, {b})", "SUBSTRING({a}, 1, 1)", "LEFT({a}, 1)",
        "TRIM({a})", "REPLACE({a}, 'a', 'xy')", "REVERSE({a})", "LPAD({a}, 3, 'z')", "REPEAT({a}, 2)",
        "NULLIF({a}, {b})", "CAST({n} AS STRING)", "CAST({e} AS STRING)",
    ),
    "date": (
        "LAST_DAY({a})", "CAST(DATE_TRUNC('MONTH', {a}) AS DATE)", "GREATEST({a}, {b})", "CAST({m} AS DATE)",
        "CAST({a} + INTERVAL 1 MONTH AS DATE)", "CAST({a} - INTERVAL 3 DAY AS DATE)",
    ),
    "ts": ("({a} + INTERVAL 90 MINUTE)", "DATE_TRUNC('HOUR', {a})", "LEAST({a}, {b})"),
}  # fmt: skip
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
SETS = ("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
SORTS = ("", " DESC", " NULLS LAST", " DESC NULLS FIRST")
_BOTH = re.compile(r"\{\{((?:(?!\{\{|\|\||\}\}).)*)\|\|((?:(?!\{\{|\|\||\}\}).)*)\}\}", re.DOTALL)


def spellings(text: str) -> tuple[str, str]:
    """Our text and DuckDB's.

    >>> spellings("SELECT {{median(x)||median({{d||e}})}} FROM r")
    ('SELECT median(x) FROM r', 'SELECT median(e) FROM r')
    """
    found = []
    for side in (1, 2):
        chosen = text
        while (shorter := _BOTH.sub(lambda match, side=side: match[side], chosen)) != chosen:
            chosen = shorter
        found.append(chosen)
    return found[0], found[1]


@dataclass(frozen=True)
class Column:
    """A column that expressions may name."""

    sql: str
    type: str


@dataclass(frozen=True)
class Relation:
    """A source of rows: its text in FROM, its columns, those that tell its rows apart if that is known."""

    sql: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class Select:
    """A SELECT, and the types of its columns c0, c1, ..; the first ``key`` of them tell its rows apart."""

    sql: str
    types: tuple[str, ...]
    key: int = 0


Scope = tuple[Column, ...]


class Composer:
    """Writes queries over tables given by their columns, types and numbers of key columns."""

    def __init__(self, rng: Random, tables: dict[str, tuple[list[tuple[str, str]], int]]) -> None:
        self._rng = rng
        self._pick = rng.choice
        self._tables = tables
        self._names = 0
        self._common: list[tuple[str, Select]] = []

    def query(self, depth: int) -> str:
        """A whole query, with so many queries inside of each other."""
        select = self._select(depth)
        sql = select.sql
        exact = [i for i, kind in enumerate(select.types) if kind != "real"]
        if exact and self._chance(15) and " WITH " not in sql:
            keys = dict.fromkeys(self._several(exact, 2))
            offset = f" OFFSET {self._pick((1, 2))}" if self._chance(30) else ""
            order = ", ".join(f"c{key}{self._pick(SORTS)}" for key in keys)
            sql += f" ORDER BY {order} LIMIT {self._pick((1, 2, 3))}{offset}"
        commons = ", ".join(f"{name} AS ({common.sql})" for name, common in self._common)
        return f"WITH {commons} {sql}" if commons else sql

    def _chance(self, percent: int) -> bool:
        return self._rng.random() * 100 < percent

    def _several(self, options: Sequence[object], most: int) -> list:
        return [self._pick(options) for _ in range(self._rng.randint(1, most))]

    def _name(self) -> str:
        self._names += 1
        return f"q{self._names}"

    # -- relations -----------------------------------------------------------------------------------------

    def _select(self, depth: int, outer: Scope = (), types: Sequence[str] = ()) -> Select:
        """A SELECT of some form; nothing beside columns of the given types if there are any."""
        if types:
            return self._plain(depth, outer, types)
        forms = [self._plain, self._plain, self._grouped, self._grouped]
        if depth > 0:
            forms += [self._sets, self._windowed, self._windowed, self._numbered, self._numbered, self._cube]
        return self._pick(forms)(depth, outer)

    def _source(self, depth: int) -> Relation:
        """One table, common table or derived table under a new name."""
        name = self._name()
        if depth > 0 and self._chance(55):
            if self._common and self._chance(30):
                common, select = self._pick(self._common)
                return self._named(common, name, select, keyed=False)
            select = self._select(depth - 1)
            if depth > 1 and self._chance(20):
                self._common.append((f"w{len(self._common)}", select))
                return self._named(self._common[-1][0], name, select, keyed=False)
            return self._named(f"({select.sql})", name, select)
        table = self._pick(list(self._tables))
        columns, keys = self._tables[table]
        return Relation(
            f"{table} AS {name}",
            tuple(Column(f"{name}.{column}", kind) for column, kind in columns),
            tuple(f"{name}.{column}" for column, _ in columns[:keys]),
        )

    def _named(self, text: str, name: str, select: Select, keyed: bool = True) -> Relation:
        columns = tuple(Column(f"{name}.c{i}", kind) for i, kind in enumerate(select.types) if kind != "real")
        key = tuple(f"{name}.c{i}" for i in range(select.key if keyed else 0))
        return Relation(f"{text} AS {name}", columns or (Column("1", "int"),), key)

    def _from(self, depth: int, outer: Scope = ()) -> tuple[str, Scope]:
        """A FROM clause and a WHERE clause, and the columns in sight."""
        first = self._source(depth)
        text, scope = first.sql, first.columns
        for _ in range(self._pick((0, 0, 1, 1, 2) if depth > 1 else (0, 0, 1))):
            again = self._chance(25)
            right = self._source(depth - 1)
            if again and first.sql.split()[0] in self._tables:  # the same table again
                name, table = self._name(), first.sql.split()[0]
                columns = tuple(Column(f"{name}.{c}", kind) for c, kind in self._tables[table][0])
                right = Relation(f"{table} AS {name}", columns)
            kind = self._pick(JOINS)
            text += f" {kind} {right.sql}"
            if kind != "CROSS JOIN":
                text += f" ON {self._on(scope, right.columns, kind)}"
            scope = scope + right.columns
        return f" FROM {text}{self._where(scope, outer, depth)}", scope

    def _on(self, left: Scope, right: Scope, kind: str) -> str:
        pairs = [(a, b) for a in left for b in right if a.type == b.type]
        if not pairs:
            return "1 = 1"
        a, b = self._pick(pairs)
        parts = [f"{a.sql} {'=' if kind == 'FULL JOIN' else self._pick(('=', '=', '=', '<', '<>'))} {b.sql}"]
        if self._chance(25):
            parts.append(self._simple(left))
        if self._chance(25):
            parts.append(self._simple(right))
        return " AND ".join(parts)

    def _where(self, scope: Scope, outer: Scope, depth: int) -> str:
        parts = []
        pairs = [(a, b) for a in scope for b in outer if a.type == b.type]
        for _ in range(self._pick((0, 1, 1, 1, 2)) if pairs else 0):
            a, b = self._pick(pairs)
            parts.append(f"{a.sql} {self._pick(('=', '=', '=', '<', '>=', '<>'))} {b.sql}")
        if self._chance(40):
            parts.append(self._condition(scope, outer, depth))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _plain(self, depth: int, outer: Scope = (), types: Sequence[str] = ()) -> Select:
        source, scope = self._from(depth, outer)
        kinds = list(types) or self._several([column.type for column in scope], 3)
        if not types and self._chance(15):
            kinds.append("bool")
        items = [self._value(kind, scope, outer, depth) for kind in kinds]
        distinct = "DISTINCT " if self._chance(25) else ""
        return Select(f"SELECT {distinct}{_items(items)}{source}", tuple(kinds))

    def _grouped(self, depth: int, outer: Scope = ()) -> Select:
        source, scope = self._from(depth, outer)
        keys = list(dict.fromkeys(self._key(scope) for _ in range(self._pick((0, 1, 1, 2)))))
        calls = [self._aggregate(scope) for _ in range(self._pick((1, 1, 2, 3)))]
        items = [key.sql for key in keys] + [self._around(call) for call in calls]
        having = f" HAVING {self._having(scope, depth)}" if self._chance(35) else ""
        plain = all(re.fullmatch(r"\w+\.\w+", key.sql) for key in keys)
        group = ", ".join(key.sql for key in keys)
        if group and self._chance(15) and not outer and all(not _nested(item) for item in items):
            group = "ALL"
        return Select(
            f"SELECT {_items(items)}{source}{f' GROUP BY {group}' if group else ''}{having}",
            tuple([key.type for key in keys] + [call.type for call in calls]),
            len(keys) if plain and group != "ALL" and " JOIN " not in source else 0,
        )

    def _key(self, scope: Scope) -> Column:
        column = self._pick(scope)
        if column.type == "int" and self._chance(20):
            return Column(f"({column.sql} % 2)", "int")
        if column.type == "str" and self._chance(20):
            return Column(f"COALESCE({column.sql}, 'a')", "str")
        return column

    def _having(self, scope: Scope, depth: int, by: bool = True) -> str:
        call = self._aggregate(scope, {"int", "dec", "dbl"}, by=by)
        if depth > 0 and self._chance(25):
            return f"{call.sql} {self._pick(COMPARISONS)} {self._scalar('int', (), depth - 1)}"
        literal = self._pick(LITERALS["int"])
        if self._chance(15):
            return f"({call.sql} > {literal}) IS NOT TRUE"
        return f"{call.sql} {self._pick(COMPARISONS)} {literal}"

    def _cube(self, depth: int, outer: Scope = ()) -> Select:
        source, scope = self._from(depth - 1, outer)
        keys = list(dict.fromkeys(self._several(scope, 3)))
        names = [key.sql for key in keys]
        form = self._pick(("ROLLUP", "CUBE", "GROUPING SETS"))
        sets = ", ".join(f"({', '.join(names[at:])})" for at in range(len(names) + 1))
        calls = [self._aggregate(scope, by=False) for _ in range(self._pick((1, 2)))]
        items = [*names, *(call.sql for call in calls)]
        kinds = [key.type for key in keys] + [call.type for call in calls]
        if self._chance(30):
            items.append(f"GROUPING({names[0]})")
            kinds.append("int")
        having = f" HAVING {self._having(scope, 0, by=False)}" if self._chance(25) else ""
        by = sets if form == "GROUPING SETS" else ", ".join(names)
        return Select(f"SELECT {_items(items)}{source} GROUP BY {form} ({by}){having}", tuple(kinds))

    def _sets(self, depth: int, outer: Scope = ()) -> Select:
        left = self._pick((self._plain, self._grouped))(depth - 1, outer)
        if "real" in left.types:
            left = self._plain(depth - 1, outer)
        right = self._plain(depth - 1, outer, left.types)
        return Select(f"{left.sql} {self._pick(SETS)} {right.sql}", left.types)

    # -- windows -------------------------------------------------------------------------------------------

    def _windowed(self, depth: int, outer: Scope = ()) -> Select:
        """Functions over windows whose rows need no order among equals."""
        source, scope = self._from(depth - 1, outer)
        kinds = self._several([column.type for column in scope], 2)
        items = [self._leaf(kind, scope) for kind in kinds]
        for _ in range(self._pick((1, 1, 2))):
            call = self._over(scope)
            items.append(call.sql)
            kinds.append(call.type)
        qualify = ""
        if self._chance(25):
            qualify = f" QUALIFY {self._rank(scope)} {self._pick(COMPARISONS)} {self._pick((1, 2, 3))}"
        distinct = "DISTINCT " if self._chance(10) and not qualify else ""
        return Select(f"SELECT {distinct}{_items(items)}{source}{qualify}", tuple(kinds))

    def _partition(self, scope: Scope) -> str:
        keys = dict.fromkeys(column.sql for column in self._several(scope, 2))
        return f"PARTITION BY {', '.join(keys)} " if self._chance(60) else ""

    def _rank(self, scope: Scope) -> str:
        order = self._pick(scope).sql + self._pick(SORTS)
        return f"{self._pick(('RANK', 'DENSE_RANK'))}() OVER ({self._partition(scope)}ORDER BY {order})"

    def _over(self, scope: Scope) -> Column:
        if self._chance(20):
            return Column(self._rank(scope), "int")
        partition, order = self._partition(scope), self._pick(scope)
        how = self._pick(SORTS)
        if self._chance(15):
            name = self._pick(("PERCENT_RANK", "CUME_DIST"))
            return Column(f"{name}() OVER ({partition}ORDER BY {order.sql}{how})", "real")
        call = self._aggregate(scope, plain=True)
        if call.type == "real" or "median" in call.sql or self._chance(35):
            return Column(f"{call.sql} OVER ({partition})", call.type)
        starts, ends = ["UNBOUNDED PRECEDING", "CURRENT ROW"], ["CURRENT ROW", "UNBOUNDED FOLLOWING"]
        if order.type in ("int", "dec", "dbl"):
            starts += ["1 PRECEDING", "2 PRECEDING", "1 FOLLOWING"]
            ends += ["1 FOLLOWING", "2 FOLLOWING", "1 PRECEDING"]
        start, end = self._pick(starts), self._pick(ends)
        if (start, end) == ("1 FOLLOWING", "1 PRECEDING") or (start[2:], end) == ("FOLLOWING", "CURRENT ROW"):
            end = "2 FOLLOWING"
        if start == "CURRENT ROW" and end == "1 PRECEDING":
            end = "CURRENT ROW"
        frame = f" RANGE BETWEEN {start} AND {end}" if self._chance(50) else ""
        return Column(f"{call.sql} OVER ({partition}ORDER BY {order.sql}{how}{frame})", call.type)

    def _numbered(self, depth: int, outer: Scope = ()) -> Select:
        """Functions over windows of rows that a key tells apart."""
        for _ in range(6):
            source = self._source(depth)
            if source.key:
                break
        else:
            return self._windowed(depth, outer)
        scope = source.columns
        where = self._where(scope, outer, depth - 1)
        kinds = [self._pick(scope).type for _ in range(self._pick((0, 1)))]
        items = [self._leaf(kind, scope) for kind in kinds]
        keys = [column for column in scope if column.sql in source.key]
        kinds = [key.type for key in keys] + kinds
        items = [key.sql for key in keys] + items
        for _ in range(self._pick((1, 1, 2))):
            call = self._along(scope, source.key)
            items.append(call.sql)
            kinds.append(call.type)
        qualify = ""
        if self._chance(30):
            over = self._window(scope, source.key)
            qualify = f" QUALIFY ROW_NUMBER() OVER ({over}) {self._pick(('<=', '='))} {self._pick((1, 2))}"
        return Select(f"SELECT {_items(items)} FROM {source.sql}{where}{qualify}", tuple(kinds), len(keys))

    def _window(self, scope: Scope, key: Sequence[str]) -> str:
        lead = self._pick(scope).sql + self._pick(SORTS) + ", " if self._chance(50) else ""
        order = ", ".join(f"{name}{self._pick(SORTS)}" for name in key)
        return f"{self._partition(scope)}ORDER BY {lead}{order}"

    def _along(self, scope: Scope, key: Sequence[str]) -> Column:
        over, value = self._window(scope, key), self._pick(scope)
        frame = ""
        if self._chance(60):
            start = self._pick(("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW"))
            end = self._pick(("CURRENT ROW", "1 FOLLOWING", "2 FOLLOWING", "UNBOUNDED FOLLOWING"))
            frame = f" ROWS BETWEEN {start} AND {end}"
        form = self._pick(("number", "shift", "ends", "nth", "tile", "sum", "sum"))
        if form in ("shift", "ends", "nth"):  # these follow one key
            *others, last = self._rng.sample(list(key), len(key))
            others += [self._pick(scope).sql] if self._chance(30) else []
            partition = f"PARTITION BY {', '.join(others)} " if others else ""
            over = f"{partition}ORDER BY {last}{self._pick(SORTS)}"
        match form:
            case "number":
                return Column(f"ROW_NUMBER() OVER ({over})", "int")
            case "tile":
                return Column(f"NTILE({self._pick((1, 2, 3, 4))}) OVER ({over})", "int")
            case "shift":
                name, by = self._pick(("LAG", "LEAD")), self._pick(("", ", 1", ", 2", ", 3"))
                by += f", {self._pick(LITERALS[value.type])}" if by and self._chance(40) else ""
                return Column(f"{name}({value.sql}{by}) OVER ({over})", value.type)
            case "ends":
                name = self._pick(("FIRST_VALUE", "LAST_VALUE"))
                return Column(f"{name}({value.sql}) OVER ({over}{frame})", value.type)
            case "nth":
                if "BETWEEN UNBOUNDED" not in frame:
                    frame = ""
                return Column(
                    f"NTH_VALUE({value.sql}, {self._pick((1, 2, 3))}) OVER ({over}{frame})", value.type
                )
        call = self._aggregate(scope, plain=True)
        if call.type == "real" or "median" in call.sql:
            call = Column("COUNT(*)", "int")
        return Column(f"{call.sql} OVER ({over}{frame})", call.type)

    # -- conditions ----------------------------------------------------------------------------------------

    def _condition(self, scope: Scope, outer: Scope, depth: int) -> str:
        form = (
            self._pick(("simple", "nested", "nested", "and", "or", "not", "case")) if depth > 0 else "simple"
        )
        if form in ("and", "or"):
            left, right = (self._condition(scope, outer, depth - 1) for _ in range(2))
            return f"({left} {form.upper()} {right})"
        if form == "not":
            return f"NOT ({self._condition(scope, outer, depth - 1)})"
        if form == "case":
            literal = self._pick(LITERALS["int"])
            return f"{self._value('int', scope, outer, depth)} {self._pick(COMPARISONS)} {literal}"
        return self._nested(scope, outer, depth) if form == "nested" else self._simple(scope)

    def _nested(self, scope: Scope, outer: Scope, depth: int) -> str:
        """A condition with a nested query in it."""
        column = self._pick(scope)
        form = self._pick(("exists", "in", "scalar", "any"))
        if form == "exists":
            return f"{self._pick(('', 'NOT '))}EXISTS ({self._select(depth - 1, scope + outer).sql})"
        if form == "scalar":
            nested = self._scalar(column.type, scope + outer, depth - 1)
            return f"{column.sql} {self._pick(COMPARISONS)} {nested}"
        if column.type == "bool":
            return self._simple(scope)
        select = self._select(depth - 1, scope + outer, (column.type,))
        if form == "in":
            return f"{column.sql} {self._pick(('IN', 'NOT IN'))} ({select.sql})"
        return f"{column.sql} {self._pick(COMPARISONS)} {self._pick(('ANY', 'ALL'))} ({select.sql})"

    def _simple(self, scope: Scope) -> str:
        column = self._pick(scope)
        literals = LITERALS[column.type]
        others = [other for other in scope if other.type == column.type]
        match self._pick(("compare", "columns", "null", "between", "in", "safe", "truth")):
            case "columns":
                return f"{column.sql} {self._pick(COMPARISONS)} {self._pick(others).sql}"
            case "null":
                return f"{column.sql} IS {self._pick(('', 'NOT '))}NULL"
            case "between":
                negation, high = self._pick(("", "NOT ")), self._pick(others).sql
                return f"{column.sql} {negation}BETWEEN {self._pick(literals)} AND {high}"
            case "in":
                members = (self._pick(literals), self._pick((*literals, "NULL")), self._pick(others).sql)
                return f"{column.sql} {self._pick(('IN', 'NOT IN'))} ({', '.join(members)})"
            case "safe":
                return f"{column.sql} <=> {self._pick((*literals, self._pick(others).sql))}"
            case "truth":
                test = f"{column.sql} {self._pick(COMPARISONS)} {self._pick(literals)}"
                return f"({test}) IS {self._pick(('', 'NOT '))}{self._pick(('TRUE', 'FALSE'))}"
        return f"{column.sql} {self._pick(COMPARISONS)} {self._pick(literals)}"

    # -- values --------------------------------------------------------------------------------------------

    def _value(self, kind: str, scope: Scope, outer: Scope, depth: int) -> str:
        if kind == "bool":
            return f"({self._condition(scope, outer, min(depth, 1))})"
        form = self._pick(("leaf", "leaf", "leaf", "call", "case", "coalesce", "scalar"))
        if form == "call":
            return self._call(kind, scope)
        if form == "case":
            test = self._condition(scope, outer, min(depth, 1))
            chosen = self._value(kind, scope, outer, depth - 1)
            ending = f" ELSE {self._leaf(kind, scope)}" if self._chance(60) else ""
            return f"CASE WHEN {test} THEN {chosen}{ending} END"
        if form == "coalesce" and depth > 0:
            return f"COALESCE({self._scalar(kind, scope + outer, depth - 1)}, {self._leaf(kind, scope)})"
        if form == "scalar" and depth > 0:
            return self._scalar(kind, scope + outer, depth - 1)
        return self._leaf(kind, scope)

    def _leaf(self, kind: str, scope: Scope) -> str:
        found = [column.sql for column in scope if column.type == kind]
        return self._pick(found) if found and not self._chance(12) else self._pick(LITERALS[kind])

    def _scalar(self, kind: str, outer: Scope, depth: int) -> str:
        """A nested query with one row."""
        source, scope = self._from(max(depth, 0), outer)
        call = self._aggregate(scope, {kind}).sql if kind != "bool" else "COUNT(*) > 0"
        return f"(SELECT {call}{source})"

    def _call(self, kind: str, scope: Scope) -> str:
        """A function of values of any types; ``a`` and ``b`` are of the type that is asked for."""
        read = {name: self._leaf(other, scope) for name, other in OTHERS.items()}
        text: str = self._pick(CALLS[kind])
        return text.format(a=self._leaf(kind, scope), b=self._leaf(kind, scope), **read)

    # -- aggregates ----------------------------------------------------------------------------------------

    def _around(self, call: Column) -> str:
        if call.type in ("int", "dec") and self._chance(20):
            return self._pick(("COALESCE({0}, 0)", "({0} + 1)", "CASE WHEN {0} > 1 THEN {0} END")).format(
                call.sql
            )
        return call.sql

    def _aggregate(
        self, scope: Scope, kinds: set[str] | None = None, plain: bool = False, by: bool = True
    ) -> Column:
        """An aggregate of a type that is wanted, over a column or an expression of this query."""
        made = [self._one_aggregate(scope, plain, by) for _ in range(40)]
        found = [call for call in made if kinds is None or call.type in kinds]
        if found:
            return self._pick(found)
        kind = self._pick(sorted(kinds or ()))
        if kind == "dbl":
            return Column("SUM(CAST(1 AS DOUBLE))", "dbl")
        named = next((column.sql for column in scope), "1")
        return Column(f"MAX(CASE WHEN {named} IS NOT NULL THEN {self._pick(LITERALS[kind])} END)", kind)

    def _one_aggregate(self, scope: Scope, plain: bool, by: bool) -> Column:
        column = self._pick(scope)
        x, kind = column.sql, column.type
        if kind == "int" and self._chance(15):
            x = f"({x} * 2 - 1)"
        second = self._pick(scope)
        forms = [(f"COUNT({x})", "int"), ("COUNT(*)", "int")]
        if kind != "bool":
            forms += [(f"MIN({x})", kind), (f"MAX({x})", kind)]
        if kind in ("int", "dec", "dbl"):
            forms += [(f"SUM({x})", kind), (f"SUM({x})", kind), (f"AVG({x})", "real")]
            forms.append((f"MEDIAN({_both(x, f'CAST({x} AS DOUBLE)')})", "dbl"))
        if not plain:
            forms.append((f"COUNT(DISTINCT {x})", "int"))
            if second.sql != x:
                tuples = (
                    f"CASE WHEN {x} IS NOT NULL AND {second.sql} IS NOT NULL THEN ({x}, {second.sql}) END"
                )
                forms.append((f"COUNT(DISTINCT {_both(f'{x}, {second.sql}', tuples)})", "int"))
            if kind in ("int", "dec"):
                share = self._pick(("0", "0.25", "0.5", "0.75", "1"))
                down = self._pick(("", " DESC"))
                forms += [
                    (f"SUM(DISTINCT {x})", kind),
                    (f"PERCENTILE_DISC({share}) WITHIN GROUP (ORDER BY {x}{down})", kind),
                    (f"STDDEV({x})", "real"),
                    (f"VAR_POP({x})", "real"),
                ]
            if kind == "int":
                share = self._pick(("0.25", "0.5", "0.75"))
                forms.append((f"PERCENTILE_CONT({share}) WITHIN GROUP (ORDER BY {x})", "dbl"))
            if by and kind != "bool" and second.type in ("int", "dec", "date", "str"):
                name, sort = self._pick((("MAX_BY", " DESC"), ("MIN_BY", "")))
                ours = f"{name}({x}, {second.sql})"
                theirs = (
                    f"first({x} ORDER BY {second.sql}{sort}, {x} DESC NULLS LAST)"
                    f" FILTER (WHERE {second.sql} IS NOT NULL)"
                )
                forms.append((_both(ours, theirs), kind))
        text, kind = self._pick(forms)
        if self._chance(12) and "FILTER" not in text:
            text += f" FILTER (WHERE {self._simple(scope)})"
        return Column(text, kind)


def _both(ours: str, theirs: str) -> str:
    return "{{" + ours + "||" + theirs + "}}"


def _nested(item: str) -> bool:
    return "(SELECT" in item


def _items(items: Sequence[str]) -> str:
    return ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))


def _columns(name: str, kinds: Sequence[str]) -> str:
    return ", ".join(f"{name}.c{i} AS c{i}" for i in range(len(kinds)))
