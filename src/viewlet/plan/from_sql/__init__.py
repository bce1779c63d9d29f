"""A parsed query to relational algebra: names become variables, clauses become plan nodes.

``relations`` reads FROM, ``clauses`` the expressions of one clause, ``blocks`` one SELECT, ``queries`` whole
queries with WITH, set operations, ORDER BY and LIMIT.
"""

from viewlet.plan.from_sql.queries import resolve, resolve_by_place

__all__ = ["resolve", "resolve_by_place"]
