"""PostgreSQL's wire protocol: psql, psycopg, BI tools read views that a Python process keeps fresh.

``SELECT`` over tables and views, the system catalog, ``SUBSCRIBE`` for the changes of a view as they come. A
message runs through ``wire`` (bytes), ``messages`` (their meaning), ``session`` (what to do), ``statements``
and ``to_duckdb`` (the SQL in it), and its rows come back through ``reading``, ``rows`` and ``types``.
"""

from viewlet.pgwire.server import PgServer, in_background, start

__all__ = ["PgServer", "in_background", "start"]
