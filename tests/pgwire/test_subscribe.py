"""SUBSCRIBE: the changes that a client receives add up to the view."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from decimal import Decimal

import pytest

from pgwire.served import Served

psycopg = pytest.importorskip("psycopg", reason="needs psycopg")


def _until(condition: object, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


def _watched(served: Served) -> bool:
    return "brokers" in served.db._subscriptions.watched()


def test_changes_add_up_to_the_view(served: Served) -> None:
    draw = random.Random(7)
    commits = 60

    def write() -> None:
        _until(lambda: _watched(served))
        for number in range(commits):
            row = (100 + number, draw.choice(["a", "b", None]), Decimal(draw.randint(-5, 5)), None)
            served.db.insert("bids", [row])
            if number % 3 == 0:
                served.db.delete("bids", [row])
        served.db.insert("bids", [(9999, "the end", Decimal(0), None)])

    writer = threading.Thread(target=write)
    writer.start()
    state: Counter[tuple[object, ...]] = Counter()
    with psycopg.connect(served.dsn, autocommit=True) as connection, connection.cursor() as cursor:
        for *row, weight in cursor.stream("SUBSCRIBE TO brokers WITH (SNAPSHOT, WEIGHTS)"):
            version = row.pop() if len(row) > 3 else None
            del version
            state[tuple(row)] += weight
            if row[0] == "the end":
                break
    writer.join()
    kept = Counter({row: weight for row, weight in state.items() if weight})
    assert kept == Counter(served.db.view("brokers").rows())
    _until(lambda: served.server.sessions == 0)
    assert not _watched(served)


def test_default_columns_are_those_of_a_change_feed(served: Served) -> None:
    with psycopg.connect(served.dsn, autocommit=True) as connection, connection.cursor() as cursor:
        first = next(iter(cursor.stream("SUBSCRIBE brokers WITH (SNAPSHOT)")))
        assert cursor.description is not None
        names = [column.name for column in cursor.description]
        assert names == ["broker", "total", "n", "_change_type", "_commit_version"]
        assert first == (None, Decimal("-1.25"), 1, "insert", 1)


def test_cancel_ends_a_subscription_and_the_connection_lives(served: Served) -> None:
    with psycopg.connect(served.dsn, autocommit=True) as connection:
        timer = threading.Timer(0.3, connection.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SUBSCRIBE brokers")
        timer.join()
        assert not _watched(served)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_copy_form_and_a_client_that_leaves(served: Served) -> None:
    connection = psycopg.connect(served.dsn, autocommit=True)
    with connection.cursor().copy("COPY (SUBSCRIBE brokers WITH (SNAPSHOT)) TO STDOUT") as copy:
        assert next(copy.rows())[-2:] == ("insert", "1")
        connection.pgconn.finish()  # no goodbye
        _until(lambda: served.server.sessions == 0)
    assert not _watched(served)


def test_a_dropped_view_ends_its_subscription(served: Served) -> None:
    def drop() -> None:
        _until(lambda: _watched(served))
        served.db.execute("DROP MATERIALIZED VIEW brokers")

    writer = threading.Thread(target=drop)
    writer.start()
    with (
        psycopg.connect(served.dsn, autocommit=True) as connection,
        pytest.raises(psycopg.errors.UndefinedTable, match="no longer there"),
    ):
        connection.execute("SUBSCRIBE brokers")
    writer.join()


def test_a_slow_reader_is_dropped_and_the_writer_is_not_held_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewlet.pgwire.rows.MAX_WAITING", 50)
    served.db.execute("CREATE MATERIALIZED VIEW copy AS SELECT id, broker FROM bids")
    with psycopg.connect(served.dsn, autocommit=True) as connection:
        failure: list[str] = []

        def read() -> None:
            try:
                connection.execute("SUBSCRIBE copy")
            except psycopg.Error as reason:
                failure.append(str(reason.sqlstate))

        reader = threading.Thread(target=read)
        reader.start()
        _until(lambda: "copy" in served.db._subscriptions.watched())
        served.db.insert("bids", [(1000 + n, "x", Decimal(1), None) for n in range(100)])
        reader.join(10)
        assert failure == ["53400"]
