"""A view given as a DataFrame: its analyzed Catalyst plan as SQL text, which then goes the usual way.

The plan comes as JSON (``tree.py``). Attributes have ids that are unique in a plan, so ``c<id>`` as the name
of a column leaves no name to resolve. Spark has made all casts explicit, so the text has the plan's types.
What is not known here is refused by the name of its class: the plans of Spark are not a promised interface,
and a wrong translation is worse than none.

``relations.py`` translates plans, ``expressions.py`` what stands in them, ``functions.py`` has the functions
that have the same arguments in SQL.
"""

from __future__ import annotations

import json
import re
from typing import Any

from viewlet.backends.spark.catalyst.pivots import pivot_values, refuse_open_pivot
from viewlet.backends.spark.catalyst.relations import MARK, Relations
from viewlet.backends.spark.catalyst.tree import Json, quoted, tree_of
from viewlet.errors import SqlError

UNTOLD = (
    (re.compile(r"(?<!\w)try_\w+\("), "a try_ function"),
    (re.compile(r" ESCAPE '"), "LIKE .. ESCAPE"),
)
"""What the text of a plan shows and its JSON does not tell apart from something else."""

ALL = 2**31 - 1


def dataframe_to_sql(frame: Any) -> str:
    """The SQL text of a DataFrame over tables of a database."""
    refuse_open_pivot(frame._jdf.queryExecution().logical())
    plan = frame._jdf.queryExecution().analyzed()
    shown = plan.treeString(True, False, ALL, False, False)
    for mark, what in UNTOLD:
        if mark.search(shown):
            raise SqlError(f"a DataFrame with {what} cannot be a view: its plan does not tell it apart")
    pivots = pivot_values(plan) if "pivotfirst(" in shown else {}
    return plan_to_sql(json.loads(plan.toJSON()), frame.columns, pivots)


def plan_to_sql(plan: list[Json], names: list[str], pivots: dict[int, list[str | None]] | None = None) -> str:
    """The SQL text of an analyzed plan, with its columns under their names."""
    body, relations = Relations(pivots or {}).entered(tree_of(plan))
    body, order = relations.top(body)
    columns = relations.columns(body)[: len(names)]
    chosen = ", ".join(f"{c} AS {quoted(name)}" for c, name in zip(columns, names, strict=True))
    return f"SELECT {chosen} FROM ({relations.relation(body)}) AS result{order}"


__all__ = ["MARK", "dataframe_to_sql", "plan_to_sql"]
