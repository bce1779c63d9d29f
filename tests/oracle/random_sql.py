"""Write random SQL queries that mean the same to Spark and to DuckDB.

Left out, because the two differ or the answer depends on an order of evaluation: integer division, division
by anything but 2, casts of fractions to integers or text, implicit casts of text, subqueries in ON,
aggregates over columns of an outer query, LIMIT without ORDER BY. Columns whose value is rounded (``real``:
AVG, STDDEV) only appear in the outermost SELECT list, where the comparison knows about rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# Picks one of several options: by a seeded generator, or by hypothesis, which then can shrink the query.
Pick = Callable[[Sequence[Any]], Any]

# In ascending order, so that BETWEEN finds something.
LITERALS = {
    "int": ["(-1)", "0", "1", "2", "3"],
    "dec": ["(-0.75)", "0.25", "1.00", "1.5"],
    "dbl": ["CAST(0.5 AS DOUBLE)", "CAST(1 AS DOUBLE)"],
    "str": ["''", "'a'", "'ab'", "'b'"],
    "date": ["DATE '1995-12-31'", "DATE '1996-02-29'"],
}
NUMBERS = ("int", "dec", "dbl")
# What gives back the type that it takes; COUNT counts as an integer, whatever it takes.
AGGREGATES = {
    "int": ["SUM", "COUNT", "MIN", "MAX"],
    "dec": ["SUM", "MIN", "MAX"],
    "dbl": ["SUM", "MIN", "MAX"],
    "str": ["MIN", "MAX"],
    "date": ["MIN", "MAX"],
}
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
PATTERNS = ("'a%'", "'%b'", "'_'", "'%a%b%'", "'ab'")


@dataclass(frozen=True)
class Ref:
    """A column that an expression may name."""

    sql: str
    type: str


Scope = list[Ref]


class Writer:
    """Writes one query over tables given by their columns and types; the first option is the simplest one."""

    def __init__(self, pick: Pick, tables: dict[str, list[tuple[str, str]]]) -> None:
        self._pick = pick
        self._tables = dict(tables)
        self._aliases = 0
        self._wide = False

    # -- choices -------------------------------------------------------------------------------------------

    def _several(self, options: Sequence[Any], most: int) -> list[Any]:
        return [self._pick(options) for _ in range(self._pick(range(1, most + 1)))]

    def _chance(self, percent: int) -> bool:
        return bool(self._pick(range(100)) >= 100 - percent)

    def _alias(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"

    # -- statements ----------------------------------------------------------------------------------------

    def statement(self) -> str:
        """A whole query: perhaps a CTE, a SELECT or a set operation, perhaps ORDER BY and LIMIT."""
        prefix = self._common_table() if self._chance(15) else ""
        if self._chance(15):
            body, types = self._set_operation(depth=2)
        else:
            body, types = self._select([], depth=3, root=True)
        return prefix + body + (self._order_limit(types) if self._chance(20) else "")

    def cascade(self) -> tuple[str, str]:
        """A view ``lower_view``, and a query over it and one of the tables, both with wider FROM clauses.

        These join three sources, mostly by outer joins, and take set operations as derived tables.
        """
        self._wide = True
        body, types = self._set_operation(depth=2) if self._chance(30) else self._select([], depth=2)
        table = self._pick(list(self._tables))
        self._tables = {
            "lower_view": [(f"c{i}", kind) for i, kind in enumerate(types)],
            table: self._tables[table],
        }
        upper, kinds = self._select([], depth=3, root=True)
        return body, upper + (self._order_limit(kinds) if self._chance(20) else "")

    def windowed(self) -> str:
        """A SELECT of columns and of what windows tell of them, perhaps of groups, perhaps with QUALIFY."""
        source, scope = self._from(2)
        where, grouping = self._where(scope, [], 2), ""
        if self._chance(30):
            keys = dict.fromkeys(ref for ref in self._several(scope, 2) if "(" not in ref.sql)
            totals = [
                Ref(self._aggregate(op, "int", scope), "int") for op in self._several(["SUM", "COUNT"], 2)
            ]
            grouping = f" GROUP BY {', '.join(ref.sql for ref in keys)}" if keys else ""
            scope = [*keys, *totals]
        items = [ref.sql for ref in self._several(scope, 2)]
        items += [self._over(scope) for _ in range(self._pick([1, 1, 2]))]
        qualify = ""
        if self._chance(25):
            qualify = (
                f" QUALIFY {self._over(scope, ranks=True)} {self._pick(COMPARISONS)} {self._pick([1, 2, 3])}"
            )
        return f"SELECT {_named(items)}{source}{where}{grouping}{qualify}"

    def _over(self, scope: Scope, ranks: bool = False) -> str:
        """A window function: a rank, or an aggregate over partitions, up to the row, or within a distance."""
        keys = [ref.sql for ref in scope]
        partition = self._several(keys, 2) if self._chance(60) else []
        parts = [f"PARTITION BY {', '.join(dict.fromkeys(partition))}"] if partition else []
        order = self._pick(scope)
        how = self._pick(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])
        if ranks or self._chance(30):
            more = f", {self._pick(keys)}" if self._chance(30) else ""
            over = " ".join([*parts, f"ORDER BY {order.sql}{how}{more}"])
            return f"{self._pick(['RANK', 'DENSE_RANK'])}() OVER ({over})"
        if self._chance(60):
            parts.append(f"ORDER BY {order.sql}{how}{self._frame(order)}")
        of = self._pick(scope)
        op = self._pick(AGGREGATES[of.type])
        return f"{op}({of.sql}) OVER ({' '.join(parts)})"

    def _frame(self, order: Ref) -> str:
        starts = ["UNBOUNDED PRECEDING", "CURRENT ROW"]
        ends = ["CURRENT ROW", "UNBOUNDED FOLLOWING"]
        if order.type == "int":
            starts += ["1 PRECEDING", "2 PRECEDING"]
            ends += ["1 FOLLOWING", "2 FOLLOWING"]
        if self._chance(50):
            return ""
        return f" RANGE BETWEEN {self._pick(starts)} AND {self._pick(ends)}"

    def cube(self) -> str:
        """A SELECT over several groupings of its rows."""
        source, scope = self._from(2)
        where = self._where(scope, [], 2)
        keys = list(dict.fromkeys(ref.sql for ref in self._several(scope, 3)))
        form = self._pick(["ROLLUP", "CUBE", "GROUPING SETS"])
        sets = ", ".join([f"({', '.join(keys[place:])})" for place in range(len(keys) + 1)])
        items, _ = self._aggregates(self._several([ref.type for ref in scope], 2), scope, root=True)
        having = f" HAVING {self._having(scope, [], [], 1)}" if self._chance(25) else ""
        grouped = sets if form == "GROUPING SETS" else ", ".join(keys)
        return f"SELECT {_named([*keys, *items])}{source}{where} GROUP BY {form} ({grouped}){having}"

    def _common_table(self) -> str:
        body, types = self._select([], depth=1)
        name = f"common_{self._alias()}"
        self._tables[name] = [(f"c{i}", kind) for i, kind in enumerate(types)]
        return f"WITH {name} AS ({body}) "

    def _set_operation(self, depth: int) -> tuple[str, list[str]]:
        left, types = self._select([], depth - 1)
        right, _ = self._select([], depth - 1, types=types)
        kind = self._pick(["UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
        return f"{left} {kind} {right}", types

    def _order_limit(self, types: list[str]) -> str:
        exact = [i for i, kind in enumerate(types) if kind != "real"]
        if not exact:
            return ""
        keys = dict.fromkeys(self._several(exact, 2))
        items = [f"c{i}{self._pick(['', ' DESC', ' NULLS LAST', ' DESC NULLS FIRST'])}" for i in keys]
        offset = f" OFFSET {self._pick([1, 2])}" if self._chance(15) else ""
        return f" ORDER BY {', '.join(items)} LIMIT {self._pick([1, 2, 3, 5])}{offset}"

    # -- SELECT --------------------------------------------------------------------------------------------

    def _select(
        self, outer: Scope, depth: int, types: list[str] | None = None, root: bool = False
    ) -> tuple[str, list[str]]:
        """A SELECT with output columns c0, c1, .. of the given types, or of its own choice."""
        source, scope = self._from(depth)
        where = self._where(scope, outer, depth)
        wanted = types or self._several([ref.type for ref in scope], 3)
        form = self._pick(["plain", "grouped", "global", "distinct"])
        if form == "grouped":
            return self._grouped(source, where, scope, outer, wanted, depth, root)
        if form == "global":
            items, kinds = self._aggregates(wanted, scope, root)
            having = f" HAVING {self._having(scope, [], outer, depth)}" if self._chance(15) else ""
            return f"SELECT {_named(items)}{source}{where}{having}", kinds
        items = [self._value(kind, scope, outer, depth) for kind in wanted]
        return f"SELECT {'DISTINCT ' if form == 'distinct' else ''}{_named(items)}{source}{where}", wanted

    def _grouped(
        self, source: str, where: str, scope: Scope, outer: Scope, wanted: list[str], depth: int, root: bool
    ) -> tuple[str, list[str]]:
        groups = [self._group_key(scope) for _ in range(self._pick([1, 1, 2]))]
        columns = [group for group in groups if "." in group.sql and "(" not in group.sql]
        items, kinds = [], []
        for kind in wanted:
            keys = [group for group in groups if group.type == kind]
            if keys and self._chance(60):
                items.append(keys[0].sql)
                kinds.append(kind)
            else:
                (item,), (actual,) = self._aggregates([kind], scope, root)
                items.append(item)
                kinds.append(actual)
        having = f" HAVING {self._having(scope, columns, outer, depth)}" if self._chance(35) else ""
        keys_sql = ", ".join(dict.fromkeys(group.sql for group in groups))
        return f"SELECT {_named(items)}{source}{where} GROUP BY {keys_sql}{having}", kinds

    def _group_key(self, scope: Scope) -> Ref:
        column = self._pick(scope)
        if self._chance(15) and column.type == "int":
            return Ref(f"({column.sql} + 1)", "int")
        if self._chance(15) and column.type == "date":
            return Ref(f"EXTRACT(YEAR FROM {column.sql})", "int")
        return column

    def _having(self, scope: Scope, keys: Scope, outer: Scope, depth: int) -> str:
        left = self._aggregate(self._pick([*AGGREGATES["int"], "AVG"]), "int", scope)
        op = self._pick(COMPARISONS)
        if keys and depth > 1 and self._chance(20):
            return f"{left} {op} {self._scalar_query('int', keys, depth - 1)}"
        if depth > 1 and self._chance(20):
            return f"{left} {op} {self._scalar_query('int', [], depth - 1)}"
        return f"{left} {op} {self._pick(LITERALS['int'])}"

    # -- FROM ----------------------------------------------------------------------------------------------

    def _from(self, depth: int) -> tuple[str, Scope]:
        text, scope = self._source(depth)
        several = [0, 1, 2, 2] if self._wide else [0, 0, 1, 1, 2]
        kinds = ["JOIN", ",", "LEFT JOIN", "CROSS JOIN", "RIGHT JOIN", "FULL JOIN"]
        outer = ["LEFT JOIN", "FULL JOIN", "RIGHT JOIN", "JOIN"]
        for _ in range(self._pick(several if depth > 1 else [0, 0, 0, 1])):
            right, fresh = self._source(depth)
            kind = self._pick(outer if self._wide else kinds)
            if kind in (",", "CROSS JOIN"):
                text = f"{text} CROSS JOIN {right}" if kind != "," else self._comma(text, right)
            else:
                text = f"{text} {kind} {right} ON {self._on(scope, fresh, kind)}"
            scope = scope + fresh
        return f" FROM {text}", scope

    def _comma(self, left: str, right: str) -> str:
        # A comma binds weaker than JOIN: beside one, say CROSS JOIN.
        return f"{left} CROSS JOIN {right}" if " JOIN " in left else f"{left}, {right}"

    def _source(self, depth: int) -> tuple[str, Scope]:
        alias = self._alias()
        if self._wide and depth > 1 and self._chance(25):
            body, types = self._set_operation(depth - 1)
            return f"({body}) AS {alias}", [Ref(f"{alias}.c{i}", kind) for i, kind in enumerate(types)]
        if depth > 1 and self._chance(15):
            body, types = self._select([], depth - 2)
            return f"({body}) AS {alias}", [Ref(f"{alias}.c{i}", kind) for i, kind in enumerate(types)]
        name = self._pick(list(self._tables))
        return f"{name} AS {alias}", [Ref(f"{alias}.{column}", kind) for column, kind in self._tables[name]]

    def _on(self, left: Scope, right: Scope, kind: str) -> str:
        pairs = [(a, b) for a in left for b in right if a.type == b.type]
        if not pairs:
            return "1 = 1"
        a, b = self._pick(pairs)
        op = "=" if kind == "FULL JOIN" else self._pick(["=", "=", "=", "<", ">="])
        condition = f"{a.sql} {op} {b.sql}"
        if self._chance(25) and kind != "FULL JOIN":
            condition += f" AND {self._simple_condition(left + right)}"
        return condition

    # -- conditions ----------------------------------------------------------------------------------------

    def _where(self, scope: Scope, outer: Scope, depth: int) -> str:
        parts = []
        if outer:
            parts += [self._correlation(scope, outer) for _ in range(self._pick([0, 1, 1, 1, 2]))]
        if self._chance(45):
            parts.append(self._condition(scope, outer, depth))
        parts = [part for part in parts if part]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _correlation(self, scope: Scope, outer: Scope) -> str:
        pairs = [(a, b) for a in scope for b in outer if a.type == b.type]
        if not pairs:
            return ""
        a, b = self._pick(pairs)
        return f"{a.sql} {self._pick(['=', '=', '=', '<', '<=', '>', '>=', '<>'])} {b.sql}"

    def _condition(self, scope: Scope, outer: Scope, depth: int) -> str:
        nested = ["simple", "scalar", "exists", "in", "quantified", "and", "or", "not"]
        form = self._pick(nested) if depth > 0 else "simple"
        if form == "simple":
            return self._simple_condition(scope)
        if form in ("and", "or"):
            left, right = (self._condition(scope, outer, depth - 1) for _ in range(2))
            return f"({left} {form.upper()} {right})"
        if form == "not":
            return f"NOT ({self._condition(scope, outer, depth - 1)})"
        return self._subquery_condition(form, scope, outer, depth)

    def _subquery_condition(self, form: str, scope: Scope, outer: Scope, depth: int) -> str:
        visible = scope + outer
        column = self._pick(scope)
        if form == "exists":
            body, _ = self._select(visible, depth - 1)
            return f"{self._pick(['', 'NOT '])}EXISTS ({body})"
        if form == "scalar":
            number = self._value("int", scope, [], 0)
            return f"{number} {self._pick(COMPARISONS)} {self._scalar_query('int', visible, depth - 1)}"
        body, _ = self._select(visible, depth - 1, types=[column.type])
        if form == "in":
            return f"{column.sql} {self._pick(['IN', 'NOT IN'])} ({body})"
        return f"{column.sql} {self._pick(COMPARISONS)} {self._pick(['ANY', 'ALL'])} ({body})"

    def _simple_condition(self, scope: Scope) -> str:
        column = self._pick(scope)
        forms = ["compare", "compare", "columns", "null", "between", "in", "safe"]
        form = self._pick([*forms, "like", "like", "like", "like"] if column.type == "str" else forms)
        literals = LITERALS[column.type]
        if form == "columns":
            others = [other for other in scope if other.type == column.type and other != column]
            return f"{column.sql} {self._pick(COMPARISONS)} {self._pick(others or [column]).sql}"
        if form == "null":
            return f"{column.sql} IS {self._pick(['', 'NOT '])}NULL"
        if form == "between":
            low, high = sorted(self._pick(range(len(literals))) for _ in range(2))
            return f"{column.sql} BETWEEN {literals[low]} AND {literals[high]}"
        if form == "in":
            members = [self._pick(literals), self._pick([*literals, "NULL"])]
            return f"{column.sql} {self._pick(['IN', 'NOT IN'])} ({', '.join(members)})"
        if form == "safe":
            return f"{column.sql} <=> {self._pick([*literals, 'NULL'])}"
        if form == "like":
            return f"{column.sql} {self._pick(['LIKE', 'NOT LIKE'])} {self._pick(PATTERNS)}"
        return f"{self._value(column.type, scope, [], 0)} {self._pick(COMPARISONS)} {self._pick(literals)}"

    # -- values --------------------------------------------------------------------------------------------

    def _value(self, kind: str, scope: Scope, outer: Scope, depth: int) -> str:
        """An expression of the given type; with ``depth`` it may hold a nested query."""
        form = self._pick(["column", "column", "column", "operation", "case", "coalesce", "nested"])
        if form == "operation":
            return self._operation(kind, scope)
        if form == "case":
            condition, otherwise = self._simple_condition(scope), self._leaf(kind, scope)
            ending = f" ELSE {otherwise}" if self._chance(70) else ""
            return f"CASE WHEN {condition} THEN {self._leaf(kind, scope)}{ending} END"
        if form == "coalesce":
            return f"COALESCE({self._leaf(kind, scope)}, {self._pick(LITERALS[kind])})"
        if form == "nested" and depth > 1 and kind in ("int", "dec"):
            return self._scalar_query(kind, scope + outer, depth - 2)
        return self._leaf(kind, scope)

    def _leaf(self, kind: str, scope: Scope) -> str:
        columns = [ref.sql for ref in scope if ref.type == kind]
        if columns and not self._chance(15):
            return str(self._pick(columns))
        return str(self._pick(LITERALS[kind]))

    def _operation(self, kind: str, scope: Scope) -> str:
        a, b = self._leaf(kind, scope), self._leaf(kind, scope)
        integer = self._leaf("int", scope)
        forms = {
            "int": [f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"(-{a})", f"ABS({a})", f"({a} % 2)"],
            "dec": [f"({a} + {b})", f"({a} * {b})", f"({a} - {integer})", f"({a} * {integer})"],
            "dbl": [f"({a} + {b})", f"({a} * {integer})", f"({integer} / 2)", f"CAST({integer} AS DOUBLE)"],
            "str": [
                f"UPPER({a})",
                f"({a} || {b})",
                f"SUBSTRING({a}, 1, 1)",
                f"CAST({integer} AS VARCHAR(20))",
            ],
            "date": [a],
        }
        if kind == "int":
            text = self._leaf("str", scope)
            forms["int"] += [f"LENGTH({text})", f"NULLIF({a}, {b})"]
        return str(self._pick(forms[kind]))

    # -- aggregates ----------------------------------------------------------------------------------------

    def _aggregates(self, wanted: list[str], scope: Scope, root: bool) -> tuple[list[str], list[str]]:
        """An aggregate per wanted type; in the outermost query also rounded ones, of type ``real``."""
        items, kinds = [], []
        for kind in wanted:
            if root and kind in NUMBERS and self._chance(30):
                op = self._pick(["AVG", "STDDEV", "VAR_POP", "VARIANCE", "STDDEV_POP"])
                items.append(f"{op}({self._argument(kind, scope)})")
                kinds.append("real")
                continue
            op = self._pick(AGGREGATES[kind])
            items.append(self._aggregate(op, kind, scope))
            kinds.append(kind)
        return items, kinds

    def _aggregate(self, op: str, kind: str, scope: Scope) -> str:
        if op == "COUNT" and self._chance(40):
            call = "COUNT(*)"
        else:
            distinct = "DISTINCT " if op in ("COUNT", "SUM") and self._chance(25) else ""
            call = f"{op}({distinct}{self._argument(kind, scope)})"
        return f"{call} FILTER (WHERE {self._simple_condition(scope)})" if self._chance(10) else call

    def _argument(self, kind: str, scope: Scope) -> str:
        """What is aggregated: it names a column of this query, or it would belong to an outer one."""
        columns = [ref.sql for ref in scope if ref.type == kind]
        if columns and self._chance(70):
            return str(self._pick(columns))
        integers = [ref.sql for ref in scope if ref.type == "int"]
        if kind in NUMBERS and integers:
            convert = {"int": "({} * 2)", "dec": "({} * 0.25)", "dbl": "({} / 2)"}
            return convert[kind].format(self._pick(integers))
        return str(self._pick(columns or LITERALS[kind]))

    def _scalar_query(self, kind: str, outer: Scope, depth: int) -> str:
        """A nested query with exactly one row: an aggregate without GROUP BY."""
        source, scope = self._from(depth)
        where = self._where(scope, outer, depth)
        call = self._aggregate(self._pick(AGGREGATES[kind]), kind, scope)
        if self._chance(25):
            call = f"COALESCE({call}, {self._pick(LITERALS[kind])})"
        return f"(SELECT {call}{source}{where})"


def _named(items: list[str]) -> str:
    return ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
