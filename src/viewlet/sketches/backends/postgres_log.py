"""The log of changes beside a PostgreSQL table: what writes it, and which entries a version has not seen.

An entry is a changed row with its weight, the transaction that changed it and its number. A version is a
snapshot, and of the own transaction the number of the last entry. ``E - V`` are the entries that a version
``V`` does not contain::

    E - V = { e : e.transaction is not visible in V.snapshot, unless it is V's own and e.entry <= V.last }

Entries that every sketch has seen are deleted, but their transactions are remembered: a sketch that comes
later and has not seen one of them must not take the silence for no change.

Statements are made here as text; whoever runs them decides in which transaction.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from viewlet.sketches.backends.base import Version
from viewlet.sketches.scans import WEIGHT

SCHEMA = "viewlet_sketches"
MAX_FORGOTTEN = 2000
"""Of more transactions than this the older half is remembered by its last one only."""
VERSION = "pg_current_snapshot()::text, coalesce(pg_current_xact_id_if_assigned()::text, '0'), last_value"
"""What :func:`version` takes, to be selected from the sequence of entries."""
TABLES = (
    f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
    f"CREATE SEQUENCE IF NOT EXISTS {SCHEMA}.entries",
    f"CREATE TABLE IF NOT EXISTS {SCHEMA}.forgotten (transaction xid8, is_floor boolean)",
    f"CREATE TABLE IF NOT EXISTS {SCHEMA}.saved (name text PRIMARY KEY, content bytea)",
)
LOGS = (
    f"SELECT c.relname FROM pg_class c WHERE c.relnamespace = '{SCHEMA}'::regnamespace "
    "AND c.relkind = 'r' AND c.relname LIKE 'changes\\_%'"
)
"""The names of all logs."""
TRIGGERS = (
    ("insert", "REFERENCING NEW TABLE AS appeared", "appeared", None),
    ("delete", "REFERENCING OLD TABLE AS disappeared", None, "disappeared"),
    ("update", "REFERENCING OLD TABLE AS disappeared NEW TABLE AS appeared", "appeared", "disappeared"),
)


def log_of(name: str) -> str:
    """The log of a table."""
    return f'{SCHEMA}."changes_{name}"'


def copy_of(name: str) -> str:
    """The copy of what a sketch has not seen of a table's log."""
    return f'pg_temp."{SCHEMA}_unseen_{name}"'


def version(snapshot: str, own: str, last: int) -> Version:
    """A version from what ``VERSION`` selects.

    >>> version("10:10:", "0", 7)
    ('10:10:', 0, 0)
    """
    return snapshot, int(own), last if int(own) else 0


# Writing.


def tracking(name: str, columns: str) -> Iterator[str]:
    """The statements that give a table its log and triggers."""
    log = log_of(name)
    yield (
        f"CREATE TABLE {log} AS SELECT {columns}, 0::bigint AS {WEIGHT}, "
        f"pg_current_xact_id() AS _transaction, "
        f'0::bigint AS _entry FROM "{name}" LIMIT 0'
    )
    for event, referencing, appeared, disappeared in TRIGGERS:
        inserts = "".join(
            f"INSERT INTO {log} SELECT {columns}, {weight}, pg_current_xact_id(), "
            f"nextval('{SCHEMA}.entries') FROM {rows};"
            for rows, weight in ((appeared, 1), (disappeared, -1))
            if rows is not None
        )
        yield from _trigger(name, event, f"AFTER {event.upper()}", referencing, inserts)
    emptied = (
        f"INSERT INTO {log} SELECT {columns}, -1, pg_current_xact_id(), nextval('{SCHEMA}.entries') "
        f'FROM "{name}";'
    )
    yield from _trigger(name, "truncate", "BEFORE TRUNCATE", "", emptied)


def _trigger(name: str, event: str, when: str, referencing: str, body: str) -> Iterator[str]:
    function = f'{SCHEMA}."on_{event}_{name}"'
    yield (
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "
        f"AS $viewlet$ BEGIN {body} RETURN NULL; END $viewlet$"
    )
    yield (
        f'CREATE TRIGGER "viewlet_sketches_{event}" {when} ON "{name}" {referencing} '
        f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
    )


# Reading.


def unseen(table: str, since: Version) -> str:
    """The entries of a log that a version does not contain, as the end of a query."""
    snapshot, own, last = since
    return (
        f"FROM {log_of(table)} "
        f"WHERE NOT pg_visible_in_snapshot(_transaction, {_quoted(snapshot)}::pg_snapshot) "
        f"AND NOT (_transaction = '{int(own)}'::xid8 AND _entry <= {int(last)})"
    )


def lost(since: Version) -> str:
    """Are there changes that a version does not contain, and neither do the logs?"""
    snapshot, own, _ = since
    return (
        f"SELECT count(*) > 0 FROM {SCHEMA}.forgotten WHERE transaction <> '{int(own)}'::xid8 AND CASE "
        f"WHEN is_floor THEN transaction >= pg_snapshot_xmin({_quoted(snapshot)}::pg_snapshot) "
        f"ELSE NOT pg_visible_in_snapshot(transaction, {_quoted(snapshot)}::pg_snapshot) END"
    )


def _quoted(text: str) -> str:
    return exp.Literal.string(text).sql("postgres")


# Forgetting.


def forgetting(log: str, versions: int) -> str:
    """Delete what so many versions contain, whose snapshots are its values; remember the transactions."""
    seen = "pg_visible_in_snapshot(_transaction, %s::pg_snapshot)"
    where = f" WHERE {' AND '.join([seen] * versions)}" if versions else ""
    return (
        f'WITH gone AS (DELETE FROM {SCHEMA}."{log}"{where} RETURNING _transaction) '
        f"INSERT INTO {SCHEMA}.forgotten SELECT DISTINCT _transaction, FALSE FROM gone"
    )


def shortening(transactions: int) -> str:
    """Remember so many of the oldest forgotten transactions by a floor below which all are."""
    return (
        f"WITH old AS (SELECT transaction FROM {SCHEMA}.forgotten "
        f"ORDER BY transaction LIMIT {transactions}), "
        f"gone AS (DELETE FROM {SCHEMA}.forgotten "
        f"WHERE transaction <= (SELECT max(transaction) FROM old)) "
        f"INSERT INTO {SCHEMA}.forgotten SELECT max(transaction), TRUE FROM old"
    )
