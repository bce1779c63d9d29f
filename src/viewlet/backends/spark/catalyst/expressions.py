"""Expressions of a plan as SQL text. What is not known here is refused by the name of its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from viewlet.backends.spark.catalyst.functions import (
    AGGREGATES,
    BINARY,
    ENDS,
    HINTS,
    NEIGHBOURS,
    PARTS,
    RANKS,
    SCALARS,
    SHARES,
)
from viewlet.backends.spark.catalyst.tree import Json, Tree, column_name, tree_of
from viewlet.backends.spark.catalyst.values import (
    interval,
    interval_days,
    literal,
    text_literal,
    type_text,
    without_widening,
)
from viewlet.backends.spark.catalyst.windows import over
from viewlet.errors import SqlError


def refused(kind: str) -> SqlError:
    """An expression that a view cannot have, with what to do instead, where that is known."""
    hint = f": {HINTS[kind]}" if kind in HINTS else ""
    return SqlError(f"a view cannot be made of a DataFrame with the expression {kind}{hint}")


@dataclass(frozen=True, slots=True)
class Expressions:
    """Expressions to text; ``relation`` translates the plans of subqueries."""

    relation: Callable[[Tree], str]

    def named(self, expression: Tree) -> str:
        """An expression of a select list under its id."""
        inner = expression.children[0] if expression.kind == "Alias" else expression
        return f"{self.scalar(inner)} AS {column_name(expression.node)}"

    def read(self, nodes: list[Json]) -> str:
        """The text of an expression that stands in a field of a node."""
        return self.scalar(tree_of(nodes))

    def scalar(self, tree: Tree) -> str:
        """The text of an expression."""
        kind = tree.kind
        if kind in BINARY:
            return f"({self._own(tree, 0)} {BINARY[kind]} {self._own(tree, 1)})"
        if kind in SCALARS:
            return self._call(SCALARS[kind], tree)
        if kind in AGGREGATES:
            raise refused(kind)  # without AggregateExpression around it
        return self._simple(tree) or self._condition(tree) or self._changed(tree) or self._of_rows(tree)

    def _own(self, tree: Tree, i: int) -> str:
        return self.scalar(tree.children[i])

    def _call(self, name: str, tree: Tree) -> str:
        return f"{name}({', '.join(map(self.scalar, tree.children))})"

    def _simple(self, tree: Tree) -> str:
        node = tree.node
        match tree.kind:
            case "AttributeReference":
                return column_name(node)
            case "OuterReference":
                return self.read(node["e"])
            case "Alias" | "KnownNullable" | "KnownNotNull":
                return self._own(tree, 0)
            case "Literal":
                return literal(node)
            case "Cast":
                value = self.scalar(without_widening(tree.children[0]))
                return f"CAST({value} AS {type_text(node['dataType'])})"
            case "UnaryMinus":
                return f"(- {self._own(tree, 0)})"
            case "Nvl" | "Nvl2":
                return self._own(tree, 0)  # what they are replaced by
            case "NaNvl":
                return self._own(tree, 0)  # tables hold no NaN
            case "CaseWhen":
                return self._case(tree)
            case "If":
                condition, then, otherwise = map(self.scalar, tree.children)
                return f"(CASE WHEN {condition} THEN {then} ELSE {otherwise} END)"
            case "NullIf":
                left, right = (self.read(node[side]) for side in ("left", "right"))
                return f"(CASE WHEN ({left} = {right}) THEN NULL ELSE {left} END)"
            case "GetArrayItem" if (place := pivoted(tree)) is not None:
                return place
        return ""

    def _condition(self, tree: Tree) -> str:
        node = tree.node
        match tree.kind:
            case "Not":
                return f"(NOT {self._own(tree, 0)})"
            case "IsNull" | "IsNotNull":
                return f"({self._own(tree, 0)} IS {'NOT ' if tree.kind == 'IsNotNull' else ''}NULL)"
            case "IsNaN":
                return "FALSE"  # tables hold no NaN
            case "In":
                return f"({self._own(tree, 0)} IN ({', '.join(map(self.scalar, tree.children[1:]))}))"
            case "Like":
                return f"({self._own(tree, 0)} LIKE {self._own(tree, 1)})"
            case "ILike":
                return f"(lower({self._own(tree, 0)}) LIKE lower({self._own(tree, 1)}))"
            case "Between":
                value, low, high = (self.read(node[part]) for part in ("input", "lower", "upper"))
                return f"({value} BETWEEN {low} AND {high})"
            case "AtLeastNNonNulls":
                known = [f"({self.scalar(child)} IS NOT NULL)" for child in tree.children]
                if node["n"] in (1, len(known)):
                    return f"({(' OR ' if node['n'] == 1 else ' AND ').join(known)})"
                return (
                    f"({' + '.join(f'CASE WHEN {each} THEN 1 ELSE 0 END' for each in known)} >= {node['n']})"
                )
        return ""

    def _changed(self, tree: Tree) -> str:
        """Functions whose arguments SQL writes in another way."""
        node, children = tree.node, tree.children
        match tree.kind:
            case "Extract":
                return f"EXTRACT({tree_of(node['field']).node['value']} FROM {self.read(node['source'])})"
            case "StringTrim" | "StringTrimLeft" | "StringTrimRight":
                side = {"StringTrimLeft": "LEADING", "StringTrimRight": "TRAILING"}.get(tree.kind, "BOTH")
                characters = self.scalar(children[1]) if len(children) > 1 else text_literal(" ")
                return f"TRIM({side} {characters} FROM {self.scalar(children[0])})"
            case "StringLocate" if children[2].node.get("value") == "1":
                return f"instr({self.scalar(children[1])}, {self.scalar(children[0])})"
            case "DateAddInterval" | "TimestampAddInterval" | "DateAddYMInterval" | "TimestampAddYMInterval":
                return f"({self.scalar(children[0])} + {interval(children[1])})"
            case "ExtractANSIIntervalDays":
                return str(interval_days(children[0]))
            case "DatetimeSub":
                return self.scalar(children[0])  # what it is replaced by
            case "ParseToDate" if len(children) == 1:
                return f"CAST({self.scalar(children[0])} AS DATE)"
            case "BitwiseAnd" if (bit := self._grouping_bit(tree)) is not None:
                return bit
        return ""

    def _grouping_bit(self, tree: Tree) -> str | None:
        """``grouping(c)`` is a bit of the number of the grouping set."""
        moved = tree.children[0]
        if moved.kind != "ShiftRight" or moved.children[0].node.get("name") != "spark_grouping_id":
            return None
        which = 1 << int(moved.children[1].node["value"])
        return f"(({self.scalar(moved.children[0])} DIV {which}) % 2)"

    def _of_rows(self, tree: Tree) -> str:
        """Expressions that read more than one row."""
        match tree.kind:
            case "AggregateExpression":
                return self._aggregated(tree)
            case "WindowExpression":
                return self._windowed(tree)
            case "ScalarSubquery":
                return f"({self._subquery(tree)})"
            case "Exists":
                return f"(EXISTS ({self._subquery(tree)}))"
            case "InSubquery":
                *values, query = tree.children
                return f"(({', '.join(map(self.scalar, values))}) IN ({self._subquery(query)}))"
        raise refused(tree.kind)

    def _subquery(self, tree: Tree) -> str:
        return self.relation(tree_of(tree.node["plan"]))

    def _case(self, tree: Tree) -> str:
        parts = [self.scalar(child) for child in tree.children]
        pairs = zip(parts[0::2], parts[1::2], strict=False)
        text = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
        otherwise = f" ELSE {parts[-1]}" if len(parts) % 2 else ""
        return f"(CASE {text}{otherwise} END)"

    def _aggregated(self, tree: Tree) -> str:
        function, *condition = tree.children
        only = f" FILTER (WHERE {self.scalar(condition[0])})" if condition else ""
        distinct = "DISTINCT " if tree.node["isDistinct"] else ""
        arguments = list(map(self.scalar, function.children))
        match function.kind:
            case "CountIf":
                return f"count({distinct}CASE WHEN {arguments[0]} THEN 1 END){only}"
            case "BoolAnd" | "BoolOr":
                return f"{'min' if function.kind == 'BoolAnd' else 'max'}({arguments[0]}){only}"
            case known if known in AGGREGATES:
                return f"{AGGREGATES[known]}({distinct}{', '.join(arguments)}){only}"
        raise refused(function.kind)

    def _windowed(self, tree: Tree) -> str:
        call, spec = tree.children
        function = call.children[0] if call.kind == "AggregateExpression" else call
        kind = function.kind
        if function.node.get("ignoreNulls") and kind != "AnyValue":
            raise SqlError(f"a view cannot be made of a DataFrame with {kind} that ignores NULL")
        if kind in RANKS:
            text = f"{RANKS[kind]}()"
        elif kind in SHARES:
            text = f"{SHARES[kind]}()"
        elif kind in PARTS:
            text = self._call(PARTS[kind], function)
        elif kind in NEIGHBOURS:
            *arguments, default = function.children
            given = [*arguments, default] if default.node.get("dataType") != "void" else arguments
            text = f"{NEIGHBOURS[kind]}({', '.join(map(self.scalar, given))})"
        elif kind in ENDS:
            text = self._call(ENDS[kind], function)
        else:
            text = self.scalar(call)
        windowed = f"{text} OVER ({over(kind, spec, self.scalar)})"
        return f"CAST({windowed} AS INT)" if kind in RANKS or kind in PARTS else windowed


def pivoted(item: Tree) -> str | None:
    """The column for one value of a pivot: an item of the array that Catalyst makes of them."""
    array, place = item.children
    is_pivot = array.kind == "AttributeReference" and str(array.node["name"]).startswith("__pivot_")
    return f"{column_name(array.node)}_{place.node['value']}" if is_pivot else None
