"""Plans as SQL text: every node becomes a query whose columns are named by their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from viewlet.backends.spark.catalyst.expressions import Expressions
from viewlet.backends.spark.catalyst.pivots import pivot_columns
from viewlet.backends.spark.catalyst.tree import Json, Tree, column_name, last_name, quoted, tree_of
from viewlet.backends.spark.catalyst.windows import sort_key
from viewlet.errors import SqlError

MARK = "viewlet$"
"""An alias that begins like this names a table of the database."""

JOINS = {
    "Inner": "JOIN", "Cross": "CROSS JOIN", "LeftOuter": "LEFT JOIN", "RightOuter": "RIGHT JOIN",
    "FullOuter": "FULL JOIN", "LeftSemi": "LEFT SEMI JOIN", "LeftAnti": "LEFT ANTI JOIN",
}  # fmt: skip

SAME_ROWS = (
    "SubqueryAlias",
    "View",
    "Repartition",
    "RepartitionByExpression",
    "RebalancePartitions",
    "ResolvedHint",
)
"""Nodes that say where rows are or what they are called: their own rows are those below."""

SAME_COLUMNS = (*SAME_ROWS, "Filter", "Distinct", "Deduplicate", "Union", "Intersect", "Except", "Sort")

DATA = ("LogicalRelation", "LogicalRDD", "LocalRelation", "Range", "OneRowRelation", "DataSourceV2Relation")

HINTS = {
    "Sample": "it takes other rows every time",
    "Expand": "for unpivot take the union of a select for each column",
    "Generate": "explode has no inverse here: unnest before the rows arrive",
    "GlobalLimit": "LIMIT stands at the end only; for the first rows of groups filter by row_number()",
    "Offset": "OFFSET stands at the end only, before LIMIT",
    "LocalLimit": "LIMIT stands at the end only",
}
"""What to do instead of what a view cannot have."""


@dataclass(frozen=True, slots=True)
class Relations:
    """Plans to text; it knows what pivots make, and common table expressions by id."""

    pivots: Mapping[int, list[str | None]]
    shared: Mapping[int, Tree] = field(default_factory=dict)

    @property
    def expressions(self) -> Expressions:
        """Expressions to text, with these relations in their subqueries."""
        return Expressions(self.relation)

    def columns(self, plan: Tree) -> list[str]:
        """The output columns of a plan."""
        node = plan.node
        match plan.kind:
            case "Project":
                return _names(node["projectList"])
            case "Aggregate":
                return _names(node["aggregateExpressions"])
            case "Window":
                return [*self.columns(plan.children[0]), *_names(node["windowExpressions"])]
            case "Expand" | "CTERelationRef":
                return _names(node["output"])
            case kind if kind in DATA:
                return _names(node["output"])
            case "Join" if last_name(node["joinType"]) in ("LeftSemi", "LeftAnti"):
                return self.columns(plan.children[0])
            case "Join":
                return [c for child in plan.children for c in self.columns(child)]
            case "WithCTE":
                return self.columns(plan.children[-1])
            case kind if kind in SAME_COLUMNS:
                return self.columns(plan.children[0])
        raise _refused(plan.kind)

    def relation(self, plan: Tree) -> str:
        """A query whose columns are named by their ids."""
        node = plan.node
        match plan.kind:
            case "SubqueryAlias" if (name := _marked(node)) is not None:
                return self._table(name, plan)
            case "Sort":
                return self.relation(plan.children[0])  # rows inside of a query have no order
            case kind if kind in SAME_ROWS:
                return self.relation(plan.children[0])
            case "Project":
                items = {column_name(item.node): item for item in map(tree_of, node["projectList"])}
                chosen = ", ".join(map(self.expressions.named, items.values()))  # Catalyst may repeat some
                return f"SELECT {chosen} FROM {self._source(plan.children[0])}"
            case "Filter":
                condition = self.expressions.read(node["condition"])
                return f"SELECT * FROM {self._source(plan.children[0])} WHERE {condition}"
            case "Aggregate":
                return self._aggregate(plan)
            case "Expand":
                return self._expand(plan)
            case "Window":
                return self._window(plan)
            case "Join":
                return self._join(plan)
            case "Union":
                return self._united(plan, "UNION ALL")
            case "Intersect" | "Except":
                return self._united(plan, f"{plan.kind.upper()}{' ALL' if node['isAll'] else ''}")
            case "Distinct":
                return f"SELECT DISTINCT * FROM {self._source(plan.children[0])}"
            case "Deduplicate":
                return self._deduplicate(plan)
            case "WithCTE":
                body, inside = self.entered(plan)
                return inside.relation(body)
            case "CTERelationRef":
                return self._reference(plan)
        raise _refused(plan.kind)

    def _source(self, plan: Tree, alias: str = "q") -> str:
        return f"({self.relation(plan)}) AS {alias}"

    def _table(self, name: str, plan: Tree) -> str:
        inner = plan
        while inner.children:
            inner = inner.children[0]
        attributes = [tree_of(e).node for e in inner.node["output"]]
        chosen = ", ".join(f"{quoted(each['name'])} AS {column_name(each)}" for each in attributes)
        return f"SELECT {chosen} FROM {quoted(name)}"

    def _aggregate(self, plan: Tree) -> str:
        node = plan.node
        chosen = ", ".join(self._aggregated(tree_of(e)) for e in node["aggregateExpressions"])
        keys = [self.expressions.read(e) for e in node["groupingExpressions"]]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {chosen} FROM {self._source(plan.children[0])}{by}"

    def _aggregated(self, item: Tree) -> str:
        function = next((part for part in item.walk() if part.kind == "PivotFirst"), None)
        if function is None:
            return self.expressions.named(item)
        key, result = map(self.expressions.scalar, function.children)
        return pivot_columns(item, key, result, self.pivots[item.node["exprId"]["id"]])

    def _expand(self, plan: Tree) -> str:
        """Rows once for each grouping set: a UNION ALL of projections."""
        if plan.node.get("projections") is None:
            raise _refused(plan.kind)
        names, source = self.columns(plan), self._source(plan.children[0])
        parts = []
        for projection in plan.node["projections"]:
            values = map(self.expressions.read, projection)
            chosen = dict(zip(names, values, strict=True))
            parts.append(f"SELECT {', '.join(f'{v} AS {n}' for n, v in chosen.items())} FROM {source}")
        return " UNION ALL ".join(parts)

    def _window(self, plan: Tree) -> str:
        child = plan.children[0]
        found = (self.expressions.named(tree_of(e)) for e in plan.node["windowExpressions"])
        chosen = ", ".join([*dict.fromkeys(self.columns(child)), *found])
        return f"SELECT {chosen} FROM {self._source(child)}"

    def _join(self, plan: Tree) -> str:
        kind = last_name(plan.node["joinType"])
        if kind not in JOINS:
            raise SqlError(f"a view cannot be made of a DataFrame with a {kind} join")
        left, right = (self._source(child, side) for child, side in zip(plan.children, "lr", strict=True))
        condition = plan.node.get("condition")
        word = "CROSS JOIN" if condition is None and kind == "Inner" else JOINS[kind]
        on = f" ON {self.expressions.read(condition)}" if condition is not None else ""
        return f"SELECT {', '.join(dict.fromkeys(self.columns(plan)))} FROM {left} {word} {right}{on}"

    def _united(self, plan: Tree, word: str) -> str:
        """A set operation: columns are those of the first part, by their places."""
        names = self.columns(plan)
        parts = []
        for child in plan.children:
            chosen = ", ".join(f"{c} AS {name}" for c, name in zip(self.columns(child), names, strict=True))
            parts.append(f"SELECT {chosen} FROM {self._source(child)}")
        return f" {word} ".join(parts)

    def _deduplicate(self, plan: Tree) -> str:
        keys = set(_names(plan.node["keys"]))
        if keys != set(self.columns(plan.children[0])):
            raise SqlError(
                "dropDuplicates of some columns leaves open which rows stay: use distinct(), or filter by "
                "row_number() over an order that decides"
            )
        return f"SELECT DISTINCT * FROM {self._source(plan.children[0])}"

    def entered(self, plan: Tree) -> tuple[Tree, Relations]:
        """What is below WITH, and a translation that knows its definitions."""
        if plan.kind != "WithCTE":
            return plan, self
        *definitions, body = plan.children
        own = {definition.node["id"]: definition.children[0] for definition in definitions}
        return body, Relations(self.pivots, {**self.shared, **own})

    def _reference(self, plan: Tree) -> str:
        """A common table expression where it is read: its columns have other ids there."""
        definition = self.shared[plan.node["cteId"]]
        chosen = ", ".join(
            f"{c} AS {name}" for c, name in zip(self.columns(definition), self.columns(plan), strict=True)
        )
        return f"SELECT {chosen} FROM {self._source(definition)}"

    def top(self, plan: Tree) -> tuple[Tree, str]:
        """What ORDER BY, LIMIT and OFFSET at the top are about, and their text."""
        limit = offset = order = ""
        plan = lifted(plan)
        if plan.kind == "GlobalLimit":
            limit = f" LIMIT {self.expressions.read(plan.node['limitExpr'])}"
            plan = plan.children[0].children[0]
        if plan.kind == "Offset":
            offset = f" OFFSET {self.expressions.read(plan.node['offsetExpr'])}"
            plan = plan.children[0]
        if plan.kind == "Sort":
            keys = (sort_key(tree_of(e), self.expressions.scalar) for e in plan.node["order"])
            order = f" ORDER BY {', '.join(keys)}"
            plan = plan.children[0]
        return plan, f"{order}{limit}{offset}"


def lifted(plan: Tree) -> Tree:
    """``Project(Sort(x)) -> Sort(Project(x))``, and the same for LIMIT and OFFSET.

    A projection changes rows one by one, so it may come first, if it keeps what the order is by.
    """
    if plan.kind in SAME_ROWS and _marked(plan.node) is None:
        return lifted(plan.children[0])
    if plan.kind != "Project":
        return plan
    below = lifted(plan.children[0])
    if below.kind not in ("GlobalLimit", "LocalLimit", "Offset", "Sort"):
        return plan
    items = list(plan.node["projectList"])
    if below.kind == "Sort":
        there = {column_name(tree_of(item).node) for item in items}
        read = {
            column_name(part.node): [part.node]
            for key in below.node["order"]
            for part in tree_of(key).walk()
            if part.kind == "AttributeReference"
        }
        items += [item for name, item in read.items() if name not in there]
    moved = Tree({**plan.node, "projectList": items}, below.children)
    return Tree(below.node, (lifted(moved),))


def _names(items: list[list[Json]]) -> list[str]:
    return [column_name(tree_of(item).node) for item in items]


def _marked(node: Json) -> str | None:
    """The table that an alias stands for."""
    identifier = node.get("identifier")
    name = identifier.get("name") if isinstance(identifier, dict) else identifier
    return name.removeprefix(MARK) if isinstance(name, str) and name.startswith(MARK) else None


def _refused(kind: str) -> SqlError:
    if kind in DATA:
        return SqlError(
            "the DataFrame reads data that is no table of the database: begin with db.frame(name), and keep "
            "fixed rows in a table too"
        )
    hint = f": {HINTS[kind]}" if kind in HINTS else ""
    return SqlError(f"a view cannot be made of a DataFrame with {kind}{hint}")
