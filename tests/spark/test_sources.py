"""Sources and sinks that come with Spark: tables behind JDBC (Derby), and streams of numbers."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.pipelines import Pipeline, Progress, run
from viewlet.pipelines.definitions import PipelineError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]

DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
QUERY = (
    "SELECT customer, sum(amount) AS total, min(moment) AS since, count(*) AS n FROM orders GROUP BY customer"
)


class Derby:
    """A database in the memory of Spark's driver, asked by JDBC and not by Spark."""

    def __init__(self, spark: Any, name: str) -> None:
        self.options = {"url": f"jdbc:derby:memory:{name};create=true", "driver": DRIVER}
        self._connection = spark._jvm.java.sql.DriverManager.getConnection(self.options["url"])

    def execute(self, text: str) -> None:
        statement = self._connection.createStatement()
        statement.execute(text)
        statement.close()

    def rows(self, query: str) -> list[tuple[str | None, ...]]:
        """The rows as texts, in order."""
        statement = self._connection.createStatement()
        found, result = [], statement.executeQuery(query)
        while result.next():
            columns = range(1, result.getMetaData().getColumnCount() + 1)
            found.append(tuple(result.getString(i) for i in columns))
        statement.close()
        return sorted(found, key=str)


@pytest.fixture
def derby(spark: Any, tmp_path: Path) -> Derby:
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    return Derby(spark, tmp_path.name)


def some_orders(seed: int, n: int) -> list[str]:
    """Rows as SQL: few customers, amounts of both signs, NULLs, the same row again and again."""
    draw = random.Random(seed)
    rows = []
    for _ in range(n):
        customer = draw.choice(["'ann'", "'bob'", "'O''Hara'", "NULL"])
        amount = draw.choice([f"{draw.randint(-500, 500) / 100}", "NULL", "1.50"])
        at = draw.choice([f"'2024-01-{draw.randint(10, 28)} 10:00:0{draw.randint(0, 9)}'", "NULL"])
        rows.append(f"({draw.randint(1, 5)}, {customer}, {amount}, {at})")
    return rows


def test_a_table_by_jdbc_and_back(spark: Any, derby: Derby, tmp_path: Path) -> None:
    """Derby's own answer is what the sink holds, at first and after rows went by a stream beside it."""
    columns = "id BIGINT, customer VARCHAR(20), amount DECIMAL(9,2), moment TIMESTAMP"
    derby.execute(f"CREATE TABLE orders ({columns})")
    derby.execute(f"INSERT INTO orders VALUES {', '.join(some_orders(1, 60))}")
    derby.execute("INSERT INTO orders VALUES (NULL, 'eve', 1, NULL)")

    def pipeline() -> Pipeline:
        found = Pipeline("shop")

        @found.table(schema=columns.replace("BIGINT", "BIGINT NOT NULL").replace("(20)", ""))
        def orders() -> Any:
            return spark.read.format("jdbc").options(**derby.options, dbtable="orders").load()

        @found.append_flow(target="orders")
        def returns() -> Any:
            schema = "id bigint, customer string, amount decimal(9,2), moment timestamp_ntz, _weight int"
            return spark.readStream.schema(schema).json(str(tmp_path / "in"))

        found.materialized_view(name="spending")(lambda: QUERY)
        options = {**derby.options, "dbtable": "report"}
        found.create_sink("report", view="spending", format="jdbc", options=options)
        options = {**derby.options, "dbtable": "feed"}
        select = ["customer AS who", "n", "_change_type AS word", "_commit_version AS version"]
        found.create_sink(
            "feed", view="spending", format="jdbc", options=options, emits="changes", select=select
        )
        return found

    def agree() -> None:
        assert derby.rows('SELECT "customer", "total", "since", "n" FROM report') == derby.rows(QUERY)

    (tmp_path / "in").mkdir()
    file, options = str(tmp_path / "shop.viewlet"), {"checkpoint": str(tmp_path / "streams")}
    progress = run(pipeline(), spark, file, **options)
    assert (progress.rows["orders"], progress.quarantined["orders"]) == (60, 1)
    derby.execute("DELETE FROM orders WHERE id IS NULL")
    agree()

    gone = derby.rows("SELECT id, customer, amount, moment FROM orders WHERE id = 3 OR customer = 'bob'")
    assert gone
    lines = [
        {"id": int(id or 0), "customer": customer, "amount": amount, "moment": moment, "_weight": -1}
        for id, customer, amount, moment in gone
    ]
    (tmp_path / "in" / "gone.json").write_text("\n".join(map(json.dumps, lines)))
    derby.execute("DELETE FROM orders WHERE id = 3 OR customer = 'bob'")
    run(pipeline(), spark, file, **options)
    agree()
    net: Counter[Any] = Counter()
    for who, n, word in derby.rows('SELECT "who", "n", "word" FROM feed'):
        net[who, n] += 1 if word == "insert" else -1
    assert set(net.values()) <= {0, 1}
    assert sorted(net.elements(), key=str) == derby.rows(
        "SELECT customer, count(*) FROM orders GROUP BY customer"
    )


def numbers(spark: Any, kind: str, **options: int) -> Pipeline:
    found = Pipeline("numbers")

    @found.table(schema="timestamp TIMESTAMP, value BIGINT NOT NULL")
    def ticks() -> Any:
        return spark.readStream.format(kind).options(**options).load()

    found.materialized_view(name="seen")(
        lambda: "SELECT count(*) AS n, count(DISTINCT value) AS distinct_n, sum(value) AS total FROM ticks"
    )
    return found


def seen(file: str) -> tuple[Any, ...]:
    with viewlet.connect(file) as db:
        (row,) = db.view("seen").rows()
        return row


def test_numbers_by_the_batch(spark: Any, tmp_path: Path) -> None:
    """Each run takes one batch; the last, taken twice, counts once."""
    file, checkpoint = str(tmp_path / "n.viewlet"), tmp_path / "streams"
    pipeline = numbers(spark, "rate-micro-batch", rowsPerBatch=5, startTimestamp=0)
    for batch in (1, 2):
        progress = run(pipeline, spark, file, checkpoint=str(checkpoint))
        assert progress.batches == {"ticks": 1}
        n = 5 * batch
        assert seen(file) == (n, n, n * (n - 1) // 2)
    for note in (checkpoint / "ticks" / "commits").glob("*1*"):
        note.unlink()
    progress = run(pipeline, spark, file, checkpoint=str(checkpoint))
    n, distinct, total = seen(file)
    assert (distinct, total) == (n, n * (n - 1) // 2)
    assert n in (10, 15)
    assert sum(progress.rows.values()) == n - 10  # what came again is not counted again


def test_a_clock_that_is_stopped_and_goes_on(spark: Any, tmp_path: Path) -> None:
    """Every number once, whenever the stream is stopped."""
    file, options = str(tmp_path / "n.viewlet"), {"checkpoint": str(tmp_path / "streams")}
    pipeline = numbers(spark, "rate", rowsPerSecond=50)
    latest = 0
    for _ in range(2):
        run_until(
            spark, lambda told: run(pipeline, spark, file, every="100 milliseconds", told=told, **options), 50
        )
        n, distinct, total = seen(file)
        assert (distinct, total) == (n, n * (n - 1) // 2)
        assert n >= latest + 50
        latest = n


def run_until(spark: Any, running: Callable[[Callable[[Progress], None]], object], rows: int) -> None:
    """Stop the streams of a run once it has taken so many rows."""
    enough = threading.Event()

    def told(progress: Progress) -> None:
        if sum(progress.rows.values()) >= rows:
            enough.set()

    thread = threading.Thread(target=running, args=(told,))
    thread.start()
    try:
        assert enough.wait(200)
    finally:
        while thread.is_alive():
            for query in spark.streams.active:
                query.stop()
            time.sleep(0.05)
        thread.join()


def test_columns_of_a_sink_are_checked_before_anything_is_committed(spark: Any, tmp_path: Path) -> None:
    found = numbers(spark, "rate-micro-batch", rowsPerBatch=5, startTimestamp=0)
    found.create_sink("feed", view="seen", format="json", emits="changes", select=["amount"])
    with pytest.raises(PipelineError, match=r"sink 'feed': .*amount"):
        run(found, spark, str(tmp_path / "n.viewlet"))
    with viewlet.connect(str(tmp_path / "n.viewlet")) as db:
        assert db.view("seen").rows() == [(0, 0, None)]
    with pytest.raises(PipelineError, match="a topic cannot be written anew"):
        found.create_sink("topic", view="seen", format="kafka")
    with pytest.raises(PipelineError, match="not one text"):
        found.create_sink("one", view="seen", format="json", select="amount")
