"""Pipelines: rows from files to views and sinks, each batch once, malformed rows in quarantine."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import socket
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.pipelines import Pipeline, load, run
from viewlet.pipelines.definitions import PipelineError
from viewlet.pipelines.lateness import read_delay
from viewlet.pipelines.normalize import REASON, ROW, normalize
from viewlet.sql.catalog import Table
from viewlet.sql.parse import parse

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]


STRINGS = "id string, customer string, amount string, day string"


def orders(columns: str = "id BIGINT NOT NULL, customer VARCHAR, amount DECIMAL(9,2), day DATE") -> Table:
    (statement,) = parse(f"CREATE TABLE orders ({columns})")
    return statement.table  # type: ignore[union-attr]


def normalized(frame: Any, unique: tuple[str, ...] = ()) -> tuple[list[Any], list[tuple[str, str]]]:
    rows = normalize(frame, orders(), unique).toArrow().to_pylist()
    good = [tuple(row.values())[:5] for row in rows if row[REASON] is None]
    return sorted(good, key=str), sorted((row[REASON], row[ROW]) for row in rows if row[REASON] is not None)


def test_texts_become_values_or_go_to_quarantine(spark: Any) -> None:
    rows = [
        ("1", "a", "2.50", "2024-01-31"),
        ("2", None, None, None),
        (None, "b", "1", None),
        ("x", "b", "1", "2024-02-31"),
        ("3", "c", "1234567890.00", None),
    ]
    good, bad = normalized(spark.createDataFrame(rows, STRINGS))
    assert good == [
        (1, "a", Decimal("2.50"), datetime.date(2024, 1, 31), 1),
        (2, None, None, None, 1),
    ]
    assert [reason for reason, _ in bad] == [
        "amount: cannot be read as DECIMAL(9,2)",
        "id: NULL in a NOT NULL column",
        "id: cannot be read as BIGINT; day: cannot be read as DATE",
    ]
    assert json.loads(bad[2][1]) == {"id": "x", "customer": "b", "amount": "1", "day": "2024-02-31"}


def test_nothing_is_rounded(spark: Any) -> None:
    frame = spark.createDataFrame(
        [(1.0, "a", Decimal("2.500")), (1.5, "b", Decimal("2.500")), (2.0, "c", Decimal("2.505"))],
        "id double, customer string, amount decimal(10,3)",
    ).selectExpr("*", "CAST(NULL AS date) AS day")
    good, bad = normalized(frame)
    assert good == [(1, "a", Decimal("2.50"), None, 1)]
    assert [reason for reason, _ in bad] == ["amount: does not fit DECIMAL(9,2)", "id: does not fit BIGINT"]


def test_texts_are_not_rounded_either(spark: Any) -> None:
    texts = ["2.50", "2.500", " 2.5e0 ", "-2.505", "0.000000000000000000000000000000000000001", "1.23456e2"]
    frame = spark.createDataFrame([("1", "a", text, "2024-01-31 00:00:00") for text in texts], STRINGS)
    good, bad = normalized(frame)
    assert [amount for _, _, amount, *_ in good] == [Decimal("2.50")] * 3
    assert [reason for reason, _ in bad] == ["amount: does not fit DECIMAL(9,2)"] * 3
    _, bad = normalized(spark.createDataFrame([("1", "a", "1", "2024-01-31 10:00:00")], STRINGS))
    assert [reason for reason, _ in bad] == ["day: does not fit DATE"]


def test_texts_with_a_time_zone_are_moments(spark_with: Any) -> None:
    """As values of Spark's own type are: what a clock of the session's zone shows then."""
    spark = spark_with({"spark.sql.session.timeZone": "Europe/Berlin"})
    texts = [
        "2024-01-31T10:00:00+05:00",
        "2024-01-31 10:00:00Z",
        "2024-01-31 10:00:00.5 UTC",
        "2024-01-31 10:00:00",
    ]
    frame = spark.createDataFrame([(text,) for text in texts], "at string")
    rows = normalize(frame, orders("at TIMESTAMP")).toArrow().to_pylist()
    assert [row[REASON] for row in rows] == [None] * 4
    hours = [(row["at"].hour, row["at"].microsecond) for row in rows]
    assert hours == [(6, 0), (11, 0), (11, 500_000), (10, 0)]


def test_envelopes_of_change_data_capture(spark: Any) -> None:
    row = "struct<id: long, customer: string, amount: decimal(9,2), day: date>"
    old, new = (1, "a", Decimal(1), None), (1, "a", Decimal(2), None)
    frame = spark.createDataFrame(
        [("c", None, old), ("u", old, new), ("d", new, None), ("u", None, new), ("z", None, new)],
        f"op string, before {row}, after {row}",
    )
    good, bad = normalized(frame)
    weights = sorted((int(amount), weight) for _, _, amount, _, weight in good)
    assert weights == [(1, -1), (1, 1), (2, -1), (2, 1)]
    assert [reason for reason, _ in bad] == [
        "no usable direction: op u, no before",
        "no usable direction: op z, no before",
    ]
    assert json.loads(bad[1][1])["op"] == "z", "all of the envelope is kept"


def test_envelopes_that_were_sent_twice_or_cannot_be_parsed(spark: Any, tmp_path: Path) -> None:
    """A row that comes and changes in one batch is no row that was sent twice."""
    row = "struct<id: string, customer: string, amount: string, day: string>"
    old, new = ({"id": "1", "customer": "a", "amount": amount} for amount in ("1", "2"))
    events = [
        {"op": "c", "before": None, "after": old, "at": 1},
        {"op": "u", "before": old, "after": new, "at": 2},
        {"op": "u", "before": new, "after": old, "at": 3},
        {"op": "u", "before": old, "after": new, "at": 4},
        {"op": "u", "before": old, "after": new, "at": 4},
    ]
    lines = [*map(json.dumps, events), "{no json", '{"op": "t", "at": 5}']
    (tmp_path / "events.json").write_text("\n".join(lines))
    schema = f"op string, before {row}, after {row}, at long, _corrupt_record string"
    frame = spark.read.schema(schema).json(str(tmp_path))
    good, bad = normalized(frame, unique=("id",))
    sums = {amount: sum(w for _, _, a, _, w in good if a == amount) for amount in (Decimal(1), Decimal(2))}
    assert sums == {Decimal(1): 0, Decimal(2): 1}
    (reason, content), (why, what) = bad
    assert (reason, content) == ("cannot be parsed", "{no json")
    assert why.startswith("no usable direction: op t, no before, no after")
    assert json.loads(what) == {"op": "t", "at": 5}


def test_directions_and_rows_sent_twice(spark: Any) -> None:
    schema = "id long, customer string, amount decimal(9,2), day date, _change_type string"
    rows = [(1, "a", None, None, word) for word in ("insert", "insert", "delete", "upsert")]
    good, bad = normalized(spark.createDataFrame(rows, schema), unique=("id",))
    assert [weight for *_, weight in good] == [-1, 1]
    assert [reason for reason, _ in bad] == ["_change_type: upsert"]
    with pytest.raises(PipelineError, match="no column 'day'"):
        normalized(spark.createDataFrame([(1, "a", None)], "id long, customer string, amount decimal(9,2)"))


def pipeline(source: Path, sink: Path, spark: Any) -> Pipeline:
    found = Pipeline("shop")

    @found.table(schema="id BIGINT NOT NULL, customer VARCHAR, amount BIGINT")
    def orders() -> Any:
        return spark.readStream.schema("id string, customer string, amount string").json(str(source))

    @found.append_flow(target="orders")
    def corrections() -> Any:
        return spark.createDataFrame(
            [(1, "ann", 5, -1)], "id long, customer string, amount long, _weight int"
        )

    @found.materialized_view
    def spending() -> str:
        return "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer"

    found.create_sink("all", view="spending", format="parquet", options={"path": str(sink / "all")})
    found.create_sink(
        "feed", view="spending", format="json", options={"path": str(sink / "feed")}, emits="changes"
    )
    return found


def write(path: Path, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))


def test_a_durable_pipeline_takes_every_batch_once(spark: Any, tmp_path: Path) -> None:
    """Run, new files, run again: nothing is lost, nothing counts twice, sinks follow."""
    source, sink, file = tmp_path / "in", tmp_path / "out", str(tmp_path / "shop.viewlet")
    write(source / "1.json", [{"id": "1", "customer": "ann", "amount": "5"}, {"id": "2", "customer": "bob"}])
    options = {"checkpoint": str(tmp_path / "streams")}
    progress = run(pipeline(source, sink, spark), spark, file, **options)
    assert progress.rows == {"corrections": 1, "orders": 2}
    write(source / "2.json", [{"id": "3", "customer": "bob", "amount": "7"}, {"id": "?", "customer": "eve"}])
    progress = run(pipeline(source, sink, spark), spark, file, **options)
    assert (progress.rows["orders"], progress.quarantined["orders"]) == (1, 1)
    with viewlet.connect(file) as db:
        assert db.view("spending").rows() == [("bob", 7, 2)]
        (refused,) = db.table("quarantine").rows()
        assert refused[2] == "id: cannot be read as BIGINT"
    assert [tuple(row) for row in spark.read.parquet(str(sink / "all")).collect()] == [("bob", 7, 2)]
    feed = spark.read.json(str(sink / "feed"))
    signs = feed.selectExpr("customer", "n", "IF(_change_type = 'insert', 1, -1) AS sign")
    net = signs.groupBy("customer", "n").sum("sign").where("`sum(sign)` <> 0").collect()
    assert [tuple(row) for row in net] == [("bob", 2, 1)]


def test_a_batch_delivered_again_is_not_applied_again(spark: Any, tmp_path: Path) -> None:
    """Spark forgets that a batch was committed, as after a crash before its own note: the token remembers."""
    source, sink, file = tmp_path / "in", tmp_path / "out", str(tmp_path / "shop.viewlet")
    write(source / "1.json", [{"id": "2", "customer": "bob", "amount": "7"}])
    options = {"checkpoint": str(tmp_path / "streams")}
    run(pipeline(source, sink, spark), spark, file, **options)
    for note in (tmp_path / "streams" / "orders" / "commits").iterdir():
        note.unlink()
    run(pipeline(source, sink, spark), spark, file, **options)
    with viewlet.connect(file) as db:
        assert ("bob", 7, 1) in db.view("spending").rows()


def test_late_rows_go_to_quarantine(spark: Any, tmp_path: Path) -> None:
    """A batch is judged by the latest time of those before it, also by those of a run before."""
    days = iter([["10", "12"], ["12", "09", "11"], ["20"], ["12", "19"]])
    file = str(tmp_path / "late.viewlet")

    def take() -> dict[str, int]:
        found = Pipeline(f"late{next(count)}")

        @found.table(schema="id BIGINT, at TIMESTAMP", late=("at", "2 days"))
        def events() -> Any:
            rows = [(i, f"2024-01-{day} 00:00:00") for i, day in enumerate(next(days))]
            return spark.createDataFrame(rows, "id long, at string")

        progress = run(found, spark, file)
        return {"good": progress.rows["events"], "late": progress.quarantined["events"]}

    count = itertools.count()
    assert take() == {"good": 2, "late": 0}
    assert take() == {"good": 2, "late": 1}
    assert take() == {"good": 1, "late": 0}
    assert take() == {"good": 1, "late": 1}
    with viewlet.connect(file) as db:
        reasons = sorted(row[2] for row in db.table("quarantine").rows())
    assert reasons == ["at: late, before 2024-01-10 00:00:00", "at: late, before 2024-01-18 00:00:00"]
    wrong = Pipeline("wrong")
    wrong.table(schema="id BIGINT, at DATE", name="t", late=("id", "1 day"))(lambda: None)
    with pytest.raises(PipelineError, match="needs a TIMESTAMP or DATE column, not 'id'; at"):
        run(wrong, spark, str(tmp_path / "wrong.viewlet"))
    with pytest.raises(PipelineError, match="'soon' is no delay"):
        read_delay("soon")


def test_what_cannot_be_run_is_refused(spark: Any, tmp_path: Path) -> None:
    found = Pipeline("p")
    with pytest.raises(PipelineError, match="not durable"):
        run(found, spark, checkpoint=str(tmp_path))
    found.append_flow(target="nowhere")(test_nothing_is_rounded)
    with pytest.raises(PipelineError, match="no table 'nowhere'"):
        run(found, spark)
    with pytest.raises(PipelineError, match="no file"):
        load(tmp_path / "none.py")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(PipelineError, match="defines no table"):
        load(tmp_path / "empty.py")
    (tmp_path / "twice.py").write_text(
        "from viewlet.pipelines import table\n"
        "for _ in range(2):\n"
        "    @table(schema='a BIGINT')\n"
        "    def t(): ...\n"
    )
    with pytest.raises(PipelineError, match="'t' is defined twice"):
        load(tmp_path / "twice.py")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A pipeline in a file, with a row that can be used and one that cannot."""
    write(tmp_path / "in" / "1.json", [{"id": "1", "customer": "ann"}, {"id": "x", "customer": "bob"}])
    file, out = tmp_path / "shop.py", str(tmp_path / "out")
    file.write_text(
        "from pyspark.sql import SparkSession\n"
        "from viewlet.pipelines import create_sink, materialized_view, table\n"
        "@table(schema='id BIGINT NOT NULL, customer VARCHAR REFERENCES customers (name)')\n"
        "def orders():\n"
        "    stream = SparkSession.active().readStream.schema('id string, customer string')\n"
        f"    return stream.json({str(tmp_path / 'in')!r})\n"
        "@materialized_view(name='per_customer')\n"
        "def any_name():\n"
        "    return 'SELECT customer, count(*) AS n FROM orders GROUP BY customer'\n"
        f"create_sink('out', view='per_customer', format='csv', options={{'path': {out!r}}})\n"
    )
    return file


def viewlet_run(file: Path, *options: str) -> Any:
    """The command, in a process of its own: what it says."""
    command = [sys.executable, "-m", "viewlet.cli", "run", str(file), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def written(file: Path) -> list[str]:
    """The lines of the sink."""
    return sorted(
        line for part in (file.parent / "out").glob("*.csv") for line in part.read_text().splitlines()
    )


@pytest.mark.slow
def test_viewlet_run(shop: Path) -> None:
    found = viewlet_run(shop, "--master", "local[1]")
    assert found == {"batches": {"orders": 1}, "rows": {"orders": 1}, "quarantined": {"orders": 1}}
    assert written(shop) == ["ann,1"]


@pytest.mark.slow
def test_a_standalone_cluster(shop: Path, tmp_path: Path) -> None:
    """A master and two workers as processes of their own; a second run goes on where the first was."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    script = Path(__file__).parents[2] / "scripts" / "cluster.sh"
    settings = {"HOST": "127.0.0.1", "PORT": port, "MEMORY": "1g", "PYTHON": sys.executable}
    with subprocess.Popen(
        [str(script), "here", "2"],
        env={**os.environ, **settings},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as cluster:
        try:
            options = ["--master", f"spark://127.0.0.1:{port}", "--checkpoint", str(tmp_path / "streams")]
            for setting in (
                f"spark.viewlet.database={(tmp_path / 'database').as_uri()}",
                "spark.viewlet.partitions=2",
                "spark.executor.memory=512m",
                "spark.driver.host=127.0.0.1",
            ):
                options += ["--conf", setting]
            assert viewlet_run(shop, *options)["rows"] == {"orders": 1}
            write(tmp_path / "in" / "2.json", [{"id": str(i), "customer": "eve"} for i in (2, 3)])
            assert viewlet_run(shop, *options)["rows"] == {"orders": 2}
            assert written(shop) == ["ann,1", "eve,2"]
        finally:
            cluster.terminate()
