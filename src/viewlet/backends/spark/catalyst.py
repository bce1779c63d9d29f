"""A view given as a DataFrame: its analyzed Catalyst plan as SQL text, which then goes the usual way.

The plan comes as JSON: a tree is a list of nodes in pre-order, each with its number of children; trees that
are no children (conditions, lists of expressions, subqueries) are lists of their own. Attributes have ids
that are unique in a plan, so ``c<id>`` as the name of a column leaves no name to resolve. Spark has made all
casts explicit, so the text has the plan's types. What is not known here is refused by the name of its class:
the plans of Spark are not a promised interface, and a wrong translation is worse than none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from viewlet.errors import SqlError

Json: TypeAlias = dict[str, Any]

MARK = "viewlet$"
"""An alias that begins like this names a table of the database."""

BINARY = {
    "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%", "EqualTo": "=",
    "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "And": "AND",
    "Or": "OR", "IntegralDivide": "DIV",
}  # fmt: skip
CALLS = {
    "Sum": "sum", "Count": "count", "Average": "avg", "Min": "min", "Max": "max", "Coalesce": "coalesce",
    "Substring": "substring", "Year": "year", "Month": "month", "Upper": "upper", "Lower": "lower",
    "Abs": "abs", "Length": "length", "Concat": "concat",
}  # fmt: skip
JOINS = {
    "Inner": "JOIN", "Cross": "CROSS JOIN", "LeftOuter": "LEFT JOIN", "RightOuter": "RIGHT JOIN",
    "FullOuter": "FULL JOIN", "LeftSemi": "LEFT SEMI JOIN", "LeftAnti": "LEFT ANTI JOIN",
}  # fmt: skip


def dataframe_to_sql(frame: Any) -> str:
    """The SQL text of a DataFrame over tables of a database."""
    execution = frame._jdf.queryExecution()
    tried = execution.analyzed().treeString()
    if "try_" in tried:
        raise SqlError("a DataFrame with a try_ function cannot be a view: its plan does not tell it apart")
    return plan_to_sql(json.loads(execution.analyzed().toJSON()), frame.columns)


def plan_to_sql(plan: list[Json], names: list[str]) -> str:
    """The SQL text of an analyzed plan, with its columns under their names."""
    body, translation = _Translation({}).entered(_tree(plan))
    order = ""
    if _class(body.node) in ("Sort", "GlobalLimit"):
        body, order = translation.top(body)
    columns = translation.columns(body)
    chosen = ", ".join(f"{c} AS {_quoted(name)}" for c, name in zip(columns, names, strict=True))
    return f"SELECT {chosen} FROM ({translation.relation(body)}) AS result{order}"


@dataclass(frozen=True, slots=True)
class _Tree:
    node: Json
    children: tuple[_Tree, ...]


def _tree(nodes: list[Json]) -> _Tree:
    """The tree that a list in pre-order stands for."""

    def take(at: int) -> tuple[_Tree, int]:
        node, children, at = nodes[at], [], at + 1
        for _ in range(node["num-children"]):
            child, at = take(at)
            children.append(child)
        return _Tree(node, tuple(children)), at

    return take(0)[0]


def _class(node: Json) -> str:
    return str(node["class"]).rsplit(".", 1)[-1].removesuffix("$")


def _name(node: Json) -> str:
    """The column name of an attribute or alias."""
    return f"c{node['exprId']['id']}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class _Translation:
    """Plans and expressions to text; ``shared`` has the definitions of common table expressions by id."""

    shared: Mapping[int, _Tree]

    # Relations

    def columns(self, plan: _Tree) -> list[str]:
        """The output columns of a plan."""
        node = plan.node
        match _class(node):
            case "Project":
                return [_name(_tree(e).node) for e in node["projectList"]]
            case "Aggregate":
                return [_name(_tree(e).node) for e in node["aggregateExpressions"]]
            case "LogicalRelation" | "LogicalRDD" | "LocalRelation":
                return [_name(_tree(e).node) for e in node["output"]]
            case "Join" if self._join_type(node) in ("LeftSemi", "LeftAnti"):
                return self.columns(plan.children[0])
            case "Join":
                return [c for child in plan.children for c in self.columns(child)]
            case "CTERelationRef":
                return [_name(_tree(e).node) for e in node["output"]]
            case "WithCTE":
                return self.columns(plan.children[-1])
            case _:
                return self.columns(plan.children[0])

    def relation(self, plan: _Tree) -> str:
        """A query whose columns are named by their ids."""
        node = plan.node
        match _class(node):
            case "SubqueryAlias" if (name := _marked(node)) is not None:
                return self._table(name, plan)
            case "SubqueryAlias" | "View":
                return self.relation(plan.children[0])
            case "Project":
                chosen = ", ".join(self.named(_tree(e)) for e in node["projectList"])
                return f"SELECT {chosen} FROM {self._source(plan.children[0])}"
            case "Filter":
                return (
                    f"SELECT * FROM {self._source(plan.children[0])} WHERE {self._scalar(node['condition'])}"
                )
            case "Aggregate":
                return self._aggregate(plan)
            case "Join":
                return self._join(plan)
            case "Union":
                return self._union(plan)
            case "Distinct":
                return f"SELECT DISTINCT * FROM {self._source(plan.children[0])}"
            case "Deduplicate":
                return self._deduplicate(plan)
            case "WithCTE":
                body, translation = self.entered(plan)
                return translation.relation(body)
            case "CTERelationRef":
                return self._reference(plan)
            case "LogicalRelation" | "LogicalRDD" | "LocalRelation":
                raise SqlError(
                    "the DataFrame reads data that is no table of the database: begin with db.frame(name)"
                )
            case other:
                raise SqlError(f"a view cannot be made of a DataFrame with {other}")

    def _source(self, plan: _Tree, alias: str = "q") -> str:
        return f"({self.relation(plan)}) AS {alias}"

    def _table(self, name: str, plan: _Tree) -> str:
        inner = plan
        while inner.children:
            inner = inner.children[0]
        chosen = ", ".join(
            f"{_quoted(_tree(e).node['name'])} AS {_name(_tree(e).node)}" for e in inner.node["output"]
        )
        return f"SELECT {chosen} FROM {_quoted(name)}"

    def _aggregate(self, plan: _Tree) -> str:
        node = plan.node
        chosen = ", ".join(self.named(_tree(e)) for e in node["aggregateExpressions"])
        keys = [self._scalar(e) for e in node["groupingExpressions"]]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {chosen} FROM {self._source(plan.children[0])}{by}"

    @staticmethod
    def _join_type(node: Json) -> str:
        found = node["joinType"]
        return str(found["object"] if isinstance(found, dict) else found).rsplit(".", 1)[-1].removesuffix("$")

    def _join(self, plan: _Tree) -> str:
        kind = self._join_type(plan.node)
        if kind not in JOINS:
            raise SqlError(f"a view cannot be made of a DataFrame with a {kind} join")
        left, right = (self._source(child, side) for child, side in zip(plan.children, "lr", strict=True))
        condition = plan.node.get("condition")
        word = "CROSS JOIN" if condition is None and kind == "Inner" else JOINS[kind]
        on = f" ON {self._scalar(condition)}" if condition is not None else ""
        return f"SELECT {', '.join(self.columns(plan))} FROM {left} {word} {right}{on}"

    def _union(self, plan: _Tree) -> str:
        names = self.columns(plan)
        parts = []
        for child in plan.children:
            chosen = ", ".join(f"{c} AS {name}" for c, name in zip(self.columns(child), names, strict=True))
            parts.append(f"SELECT {chosen} FROM {self._source(child)}")
        return " UNION ALL ".join(parts)

    def _deduplicate(self, plan: _Tree) -> str:
        keys = {_name(_tree(e).node) for e in plan.node["keys"]}
        if keys != set(self.columns(plan.children[0])):
            raise SqlError("dropDuplicates of some columns leaves open which rows stay: use distinct()")
        return f"SELECT DISTINCT * FROM {self._source(plan.children[0])}"

    def entered(self, plan: _Tree) -> tuple[_Tree, _Translation]:
        """What is below WITH, and a translation that knows its definitions."""
        if _class(plan.node) != "WithCTE":
            return plan, self
        *definitions, body = plan.children
        own = {definition.node["id"]: definition.children[0] for definition in definitions}
        return body, _Translation({**self.shared, **own})

    def _reference(self, plan: _Tree) -> str:
        """A common table expression where it is read: its columns have other ids there."""
        definition = self.shared[plan.node["cteId"]]
        chosen = ", ".join(
            f"{c} AS {name}" for c, name in zip(self.columns(definition), self.columns(plan), strict=True)
        )
        return f"SELECT {chosen} FROM {self._source(definition)}"

    def top(self, plan: _Tree) -> tuple[_Tree, str]:
        """What ORDER BY and LIMIT at the top are about, and their text."""
        limit = ""
        if _class(plan.node) == "GlobalLimit":
            limit = f" LIMIT {self._scalar(plan.node['limitExpr'])}"
            plan = plan.children[0].children[0]
        if _class(plan.node) != "Sort":
            return plan, limit
        keys = [_tree(e) for e in plan.node["order"]]
        return plan.children[0], f" ORDER BY {', '.join(map(self._sort_key, keys))}{limit}"

    def _sort_key(self, key: _Tree) -> str:
        def last(value: object) -> str:
            return (
                str(value["object"] if isinstance(value, dict) else value)
                .rsplit(".", 1)[-1]
                .removesuffix("$")
            )

        direction = "DESC" if last(key.node["direction"]) == "Descending" else "ASC"
        nulls = "LAST" if last(key.node["nullOrdering"]) == "NullsLast" else "FIRST"
        return f"{self.scalar(key.children[0])} {direction} NULLS {nulls}"

    # Expressions

    def named(self, expression: _Tree) -> str:
        """An expression of a select list under its id."""
        if _class(expression.node) == "Alias":
            return f"{self.scalar(expression.children[0])} AS {_name(expression.node)}"
        return f"{self.scalar(expression)} AS {_name(expression.node)}"

    def _scalar(self, nodes: list[Json]) -> str:
        return self.scalar(_tree(nodes))

    def scalar(self, tree: _Tree) -> str:
        """The text of an expression."""
        node, kind = tree.node, _class(tree.node)
        own: Callable[[int], str] = lambda i: self.scalar(tree.children[i])  # noqa: E731
        if kind in BINARY:
            return f"({own(0)} {BINARY[kind]} {own(1)})"
        if kind in CALLS:
            return f"{CALLS[kind]}({', '.join(map(self.scalar, tree.children))})"
        match kind:
            case "AttributeReference":
                return _name(node)
            case "OuterReference":
                return self._scalar(node["e"])
            case "Alias":
                return own(0)
            case "Literal":
                return _literal(node)
            case "Cast":
                return (
                    f"CAST({self.scalar(_without_widening(tree.children[0]))} AS {_type(node['dataType'])})"
                )
            case "Extract":
                field = _tree(node["field"]).node["value"]
                return f"EXTRACT({field} FROM {self._scalar(node['source'])})"
            case "Not":
                return f"(NOT {own(0)})"
            case "IsNull" | "IsNotNull":
                return f"({own(0)} IS {'NOT ' if kind == 'IsNotNull' else ''}NULL)"
            case "UnaryMinus":
                return f"(- {own(0)})"
            case "EqualNullSafe":
                return f"({own(0)} IS NOT DISTINCT FROM {own(1)})"
            case "In":
                return f"({own(0)} IN ({', '.join(map(self.scalar, tree.children[1:]))}))"
            case "Like":
                return f"({own(0)} LIKE {own(1)})"
            case "StartsWith" | "EndsWith" | "Contains":
                return self._matches(kind, tree)
            case "Between":
                value, low, high = (self._scalar(node[part]) for part in ("input", "lower", "upper"))
                return f"({value} BETWEEN {low} AND {high})"
            case "CaseWhen":
                return self._case(tree)
            case "If":
                return f"(CASE WHEN {own(0)} THEN {own(1)} ELSE {own(2)} END)"
            case "AggregateExpression":
                return self._aggregated(tree)
            case "ScalarSubquery":
                return f"({self._subquery(node['plan'])})"
            case "Exists":
                return f"(EXISTS ({self._subquery(node['plan'])}))"
            case "InSubquery":
                *values, query = tree.children
                left = ", ".join(map(self.scalar, values))
                return f"(({left}) IN ({self._subquery(query.node['plan'])}))"
            case _:
                raise SqlError(f"a view cannot be made of a DataFrame with the expression {kind}")

    def _subquery(self, plan: list[Json]) -> str:
        return self.relation(_tree(plan))

    def _matches(self, kind: str, tree: _Tree) -> str:
        pattern = tree.children[1].node
        text = str(pattern.get("value", ""))
        if _class(pattern) != "Literal" or any(mark in text for mark in "%_\\"):
            raise SqlError(f"{kind} of a DataFrame needs a plain text, without %, _ and \\")
        before, after = "" if kind == "StartsWith" else "%", "" if kind == "EndsWith" else "%"
        return f"({self.scalar(tree.children[0])} LIKE {_text(before + text + after)})"

    def _case(self, tree: _Tree) -> str:
        parts = [self.scalar(child) for child in tree.children]
        pairs = zip(parts[0::2], parts[1::2], strict=False)
        text = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
        otherwise = f" ELSE {parts[-1]}" if len(parts) % 2 else ""
        return f"(CASE {text}{otherwise} END)"

    def _aggregated(self, tree: _Tree) -> str:
        function = tree.children[0]
        if len(tree.children) > 1:
            raise SqlError("an aggregate with FILTER cannot be in a view: use CASE WHEN inside it")
        if not tree.node["isDistinct"]:
            return self.scalar(function)
        kind = _class(function.node)
        if kind not in CALLS:
            raise SqlError(f"a view cannot be made of a DataFrame with the aggregate {kind}")
        return f"{CALLS[kind]}(DISTINCT {', '.join(map(self.scalar, function.children))})"


def _marked(node: Json) -> str | None:
    """The table that an alias stands for."""
    identifier = node.get("identifier")
    name = identifier.get("name") if isinstance(identifier, dict) else identifier
    return name.removeprefix(MARK) if isinstance(name, str) and name.startswith(MARK) else None


def _type(kind: object) -> str:
    if not isinstance(kind, str):
        raise SqlError(f"a view has no columns of type {kind}")
    return {
        "long": "BIGINT",
        "integer": "INT",
        "string": "STRING",
        "short": "SMALLINT",
        "byte": "TINYINT",
    }.get(kind, kind.upper())


def _without_widening(tree: _Tree) -> _Tree:
    """``CAST(CAST(x AS t) AS u) -> CAST(x AS u)``, where t holds every value of x exactly."""
    while _class(tree.node) == "Cast":
        inner = tree.children[0]
        held, holding = _digits(inner), _digits(tree)
        if held is None or holding is None or any(a > b for a, b in zip(held, holding, strict=True)):
            break
        tree = inner
    return tree


def _digits(tree: _Tree) -> tuple[int, int] | None:
    """The digits before and after the point that a value of an exact type has at most."""
    node = tree.node
    kind = node.get("dataType")
    if _class(node) == "Literal" and kind == "integer":
        return len(str(abs(int(node["value"])))), 0
    if isinstance(kind, str) and kind.startswith("decimal("):
        precision, scale = map(int, kind[8:-1].split(","))
        return precision - scale, scale
    return {"byte": (3, 0), "short": (5, 0), "integer": (10, 0), "long": (20, 0)}.get(str(kind))


def _is_own_type(text: str, kind: str) -> bool:
    """Is this the type that the text of a decimal literal has by itself?"""
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    return bool(fraction) and kind == f"decimal({max(digits, len(fraction))},{len(fraction)})"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _literal(node: Json) -> str:
    """A literal of its very type."""
    value, kind = node.get("value"), node["dataType"]
    if value is None:
        return f"CAST(NULL AS {_type(kind)})" if kind not in ("void", "null") else "NULL"
    match kind:
        case "string":
            return _text(str(value))
        case "boolean":
            return str(value).upper()
        case "integer":
            return str(value)
        case "date":
            return f"DATE '{value}'"
        case "double":
            return f"CAST({float(value)!r} AS DOUBLE)"
        case _ if isinstance(kind, str) and kind.startswith("decimal"):
            return str(value) if _is_own_type(str(value), kind) else f"CAST({value} AS {_type(kind)})"
        case "long" | "short" | "byte":
            return f"CAST({value} AS {_type(kind)})"
        case _:
            raise SqlError(f"a view cannot be made of a DataFrame with a literal of type {kind}")
