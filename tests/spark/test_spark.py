"""Databases on a Spark session: the results of the reference, also when processes die and state is lost."""

from __future__ import annotations

import doctest
import os
import pickle
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.backends.spark.cluster import SparkCluster
from viewlet.backends.spark.engine import SparkEngine, on_spark
from viewlet.backends.spark.partition import PartitionCode
from viewlet.database import Database
from viewlet.errors import BackendError, CompileError, DataError, SqlError, ValueRangeError
from viewlet.workers import Workers
from viewlet.workers.jobs import Executors, Jobs
from viewlet.workers.lines import Lines
from viewlet.workers.operations import Run
from viewlet.workloads import miniature, nested, order_book, queries, schema
from viewlet.workloads.stream import Stream, churn

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]

DDL = """CREATE TABLE r (k BIGINT NOT NULL, g VARCHAR, v BIGINT, PRIMARY KEY (k));
         CREATE TABLE s (k BIGINT REFERENCES r (k), w BIGINT)"""
VIEWS = {
    "joined": "SELECT r.k, g, sum(w) AS w, count(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k, g",
    "by_g": "SELECT g, sum(v * w) AS x FROM r JOIN s ON r.k = s.k GROUP BY g",
    "late": "SELECT max(w) AS m FROM joined",
}

# The small TPC-H data repeats line numbers.
TPCH = schema("tpch").replace("PRIMARY KEY (l_orderkey, l_linenumber),", "")


def agree(
    spark: Any,
    ddl: str,
    views: dict[str, str],
    batches: Iterator[dict[str, pa.Table]],
    *,
    shown: bool = True,
) -> None:
    """The same batches through a database on Spark and one in this process, comparing after each.

    In the end some view has rows, unless nothing is said about what is ``shown``.
    """
    here, there = viewlet.connect(backend="reference"), viewlet.connect(spark)
    for db in (here, there):
        db.execute(ddl)
        for name, sql in views.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    for batch in batches:
        assert here.apply(batch) == there.apply(batch)
        for name in views:
            assert there.view(name).rows() == here.view(name).rows(), name
    assert not shown or any(here.view(name).rows() for name in views)
    there.close()


def test_tpch(spark: Any) -> None:
    tables = miniature.tables(orders=40)
    stream = churn(tables, seed=1, deletions=0.3, duplicates=0.0)
    chosen = {name: queries("tpch")[name] for name in ("q03", "q06")}
    agree(spark, TPCH, chosen, stream.batches(len(stream) // 2 + 1))


def test_finance(spark: Any) -> None:
    chosen = {name: queries("finance")[name] for name in ("vwap", "bsv", "axf")}
    agree(spark, schema("finance"), chosen, order_book_stream().batches(60))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "name"), [(s, name) for s in ("finance", "nested", "tpch") for name in queries(s)]
)
def test_every_query_of_the_workloads(spark: Any, suite: str, name: str) -> None:
    """Native code in the partitions of a session against the reference, with deletions."""
    if suite == "tpch":
        stream = churn(miniature.tables(orders=16), seed=7, deletions=0.4, duplicates=0.0)
        agree(spark, TPCH, {name: queries(suite)[name]}, stream.batches(len(stream) // 3 + 1), shown=False)
        return
    book = order_book.stream(120, order_book.drawn(30), nulls=0.05, seed=2)
    if suite == "nested":
        bids = Stream({"bids": book.changes["bids"]}, {"bids": book.places["bids"]})
        book = churn(nested.tables(30), seed=5).then(bids)
    agree(spark, schema(suite), {name: queries(suite)[name]}, book.batches(50), shown=False)


def order_book_stream() -> Stream:
    return order_book.stream(120, order_book.drawn(30), nulls=0.05, seed=2)


@pytest.fixture
def db(spark: Any) -> Iterator[Database]:
    db = viewlet.connect(spark)
    db.execute(DDL)
    for name, sql in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    yield db
    db.close()


def test_dataframes_in_and_out(spark: Any, db: Database) -> None:
    db.insert("r", spark.createDataFrame([(1, "a", 10), (2, None, 20)], "k long, g string, v long"))
    db.apply(
        {
            "s": spark.createDataFrame(
                [(1, 5, "insert"), (2, 6, "insert")], "k long, w long, _change_type string"
            ),
            "r": pa.table({"k": [3], "g": ["a"], "v": [1], "_weight": [1]}),
        }
    )
    assert db.view("joined").rows() == [(1, "a", 5, 1), (2, None, 6, 1)]
    assert sorted(map(tuple, db.view("by_g").to_spark().collect()), key=str) == [("a", 50), (None, 120)]
    assert db.sql("SELECT sum(x) AS t FROM by_g").to_pylist() == [{"t": 170}]
    assert db.table("r").to_spark().count() == 3
    assert db.view("late").value == 6
    db.delete("s", spark.createDataFrame([(2, 6)], "k long, w long"))
    assert db.view("late").value == 5
    assert "Dist(" in db.explain("joined")
    with pytest.raises(SqlError):
        db.sql("SELECT nonsense(x) FROM by_g")


def test_subscribers_and_late_views(db: Database) -> None:
    seen: list[pa.Table] = []
    db.view("joined").subscribe(seen.append, weights=True)
    db.apply({"r": [(1, "a", 1), (2, "b", 1)], "s": [(1, 1), (1, 1), (2, 4)]})
    db.execute("CREATE MATERIALIZED VIEW again AS SELECT k, count(*) AS n FROM s GROUP BY k")
    assert db.view("again").rows() == [(1, 2), (2, 1)]
    db.delete("s", [(1, 1)])
    assert db.view("again").rows() == [(1, 1), (2, 1)]
    assert [part.to_pylist() for part in seen] == [
        [{"k": 1, "g": "a", "w": 2, "n": 2, "_weight": 1}, {"k": 2, "g": "b", "w": 4, "n": 1, "_weight": 1}],
        [{"k": 1, "g": "a", "w": 2, "n": 2, "_weight": -1}, {"k": 1, "g": "a", "w": 1, "n": 1, "_weight": 1}],
    ]
    db.execute("DROP MATERIALIZED VIEW again")
    assert {stats.name for stats in db.stats().maps}


STATEMENTS = (
    "INSERT INTO r VALUES (1, 'a', 5), (2, 'b', 7), (3, NULL, NULL)",
    "INSERT INTO s SELECT k, v * 2 FROM r WHERE v IS NOT NULL",
    "INSERT INTO s (w, k) SELECT x, 1 FROM by_g",
    "UPDATE r SET v = v + (SELECT max(w) FROM s), g = 'c' WHERE k <> 2",
    "UPDATE r SET k = k + 1",
    "DELETE FROM s WHERE k NOT IN (SELECT k FROM r)",
    """MERGE INTO r USING (SELECT w AS k, max(k) AS v FROM s GROUP BY w) AS q ON r.k = q.k
       WHEN MATCHED THEN UPDATE SET v = q.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (q.k, 1)""",
    "TRUNCATE TABLE s",
)


def test_temporary_views_are_renewed(spark: Any, db: Database) -> None:
    db.execute("CREATE MATERIALIZED VIEW totals AS SELECT g, sum(v) AS v FROM r GROUP BY g")
    kept, other = db.register("totals"), db.register("totals", "other name")  # type: ignore[attr-defined]
    assert spark.table("totals").count() == 0
    db.insert("r", [(1, "a", 5), (2, "b", 7), (3, "a", 1)])
    assert sorted(map(tuple, spark.sql("SELECT * FROM totals").collect())) == [("a", 6), ("b", 7)]
    kept.close()
    db.delete("r", [(2, "b", 7)])
    assert spark.table("totals").count() == 2
    assert list(map(tuple, spark.table("`other name`").collect())) == [("a", 6)]
    other.close()
    for name in ("totals", "other name"):
        spark.catalog.dropTempView(name)


def test_statements_change_tables(spark: Any) -> None:
    with viewlet.connect(spark) as there, viewlet.connect(backend="reference") as here:
        for db in (there, here):
            db.execute(DDL)
            for name, query in VIEWS.items():
                db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for text in STATEMENTS:
            assert there.execute(text) == here.execute(text), text
            assert there.table("r").rows() == here.table("r").rows(), text
            for name in VIEWS:
                assert there.view(name).rows() == here.view(name).rows(), f"{name} after {text}"
        with pytest.raises(DataError, match="k = 3 would occur twice"):
            there.execute("UPDATE r SET k = 3")


def test_a_refused_batch_changes_nothing(spark: Any) -> None:
    db = viewlet.connect(spark)
    db.execute("CREATE TABLE r (k BIGINT NOT NULL, v BIGINT, PRIMARY KEY (k))")
    db.execute("CREATE TABLE s (k BIGINT REFERENCES r (k), w BIGINT)")
    db.execute(
        "CREATE MATERIALIZED VIEW x AS SELECT r.k, sum(w / v) AS q FROM r JOIN s ON r.k = s.k GROUP BY r.k"
    )
    db.apply({"r": [(1, 2), (2, 4), (3, 0)], "s": [(1, 8), (2, 8)]})
    before = db.view("x").rows()
    with pytest.raises(ValueRangeError):
        db.insert("s", [(1, 2), (2, 2), (3, 1)])
    with pytest.raises(DataError, match="not there"):
        db.delete("s", [(7, 7)])
    assert db.view("x").rows() == before
    db.insert("s", [(1, 2)])
    assert db.view("x").rows() == [(1, 5.0), (2, 2.0)]
    db.close()


def test_streams_of_arrow(spark: Any) -> None:
    """Arrow batches stay in Arrow; the tables of a commit go through together, or none of them does."""
    db = viewlet.connect(spark)
    db.execute("""CREATE STREAM r (k SMALLINT NOT NULL, f FLOAT, PRIMARY KEY (k));
                  CREATE STREAM s (k SMALLINT REFERENCES r (k), w BIGINT)""")
    db.execute("""CREATE MATERIALIZED VIEW x AS SELECT r.k, sum(f) AS f, sum(10 / w) AS w
                  FROM r JOIN s ON r.k = s.k GROUP BY r.k""")
    r = pa.table({"k": pa.array([1, 2, 3], pa.int16()), "f": pa.array([0.5, None, 1.25], pa.float32())})
    s = pa.table({"k": [1, 1, 3], "w": [1, 2, 5], "_weight": [1, 2, 1]})
    db.apply({"r": r, "s": s})
    before = [(1, 1.5, 20.0), (3, 1.25, 2.0)]
    assert db.view("x").rows() == before
    for _ in range(2):
        with pytest.raises(ValueRangeError):
            db.apply({"r": pa.table({"k": [2], "f": [1.0]}), "s": pa.table({"k": [3, 2], "w": [1, 0]})})
        assert db.view("x").rows() == before
    db.apply({"s": pa.table({"k": [3], "w": [5], "_weight": [-1]})})
    assert db.view("x").rows() == before[:1]
    db.close()


def test_what_does_not_fit_is_refused(spark: Any) -> None:
    with pytest.raises(BackendError, match="memory_limit"):
        viewlet.connect(spark, memory_limit="1GB")
    with pytest.raises(BackendError, match="backend='native'"):
        viewlet.connect(spark, backend="native")
    with pytest.raises(BackendError, match="cannot connect to a list"):
        viewlet.connect([])


class FragileJobs(Jobs):
    """Partition 0 meets with an accident at every third job with a step, before or after it takes effect."""

    accident: Callable[[Path], None]
    after = False
    jobs = 0
    marks: Path

    def task(self, sequence: int, blobs: Sequence[bytes | None]) -> Any:
        task = super().task(sequence, blobs)
        if blobs[0] is None or not isinstance(pickle.loads(blobs[0]), Run):
            return task
        self.jobs += 1
        mark, accident, after, due = (
            self.marks / str(self.jobs),
            self.accident,
            self.after,
            self.jobs % 3 == 0,
        )
        name = self._executors.name

        def fragile(partition: int, rows: Iterator[int]) -> Any:
            from viewlet.workers.jobs import state_directory

            answer = list(task(partition, rows)) if after else []
            if due and partition == 0 and not mark.exists():
                mark.touch()
                accident(state_directory(name))
            return iter(answer) if after else task(partition, rows)

        return fragile


class FragileLines(Lines):
    """The process of partition 0 is killed at every third round, before it is told or while it works."""

    during = False
    rounds = 0

    def ask(self, sequence: int, blobs: Sequence[bytes | None]) -> dict[int, bytes]:
        self.rounds += 1
        if self.rounds % 3 == 0 and 0 in self._lines:
            victim = self.processes()[0]
            if self.during:
                os.kill(victim, signal.SIGSTOP)  # so that it is told, and dies of it
                threading.Timer(0.05, os.kill, (victim, signal.SIGKILL)).start()
            else:
                os.kill(victim, signal.SIGKILL)
        return super().ask(sequence, blobs)


def die(directory: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def lose(directory: Path) -> None:
    for log in directory.glob("*.log"):
        log.unlink()


def lose_and_die(directory: Path) -> None:
    shutil.rmtree(directory)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("accident", "after"),
    [
        (die, True),
        (lose, False),
        pytest.param(die, False, marks=pytest.mark.slow),
        pytest.param(lose, True, marks=pytest.mark.slow),
        pytest.param(lose_and_die, False, marks=pytest.mark.slow),
        pytest.param(lose_and_die, True, marks=pytest.mark.slow),
    ],
)
def test_accidents_leave_no_trace(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accident: Callable[[Path], None], after: bool
) -> None:
    """Workers that die before or after a step, and state that is lost, do not show in any result."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    made: list[Workers] = []

    def way(executors: Executors) -> FragileJobs:
        fragile = FragileJobs(executors)
        fragile.accident, fragile.after, fragile.marks = accident, after, tmp_path
        return fragile

    stream_with_accidents(spark, monkeypatch, way, made)
    assert len(list(tmp_path.iterdir())) >= 2, "there were accidents"


def stream_with_accidents(spark: Any, monkeypatch: pytest.MonkeyPatch, way: Any, made: list[Workers]) -> None:
    """A stream of batches through partitions that are reached in some way, and one without accidents."""

    def cluster(code: Any) -> SparkCluster:
        made.append(Workers(spark, PartitionCode(code), 2, way))
        return SparkCluster(made[-1])

    monkeypatch.setattr("viewlet.spark_database.on_spark", lambda *_: cluster)
    monkeypatch.setattr("viewlet.workers.cluster.CHECKPOINT_BYTES", 3_000)
    tables = miniature.tables(orders=25)
    stream = churn(
        {name: tables[name] for name in ("customer", "orders", "lineitem")},
        seed=4,
        deletions=0.3,
        duplicates=0.0,
    )
    agree(spark, TPCH, {"q03": queries("tpch")["q03"]}, stream.batches(len(stream) // 3 + 1))
    assert sum(workers.traffic.checkpoints for workers in made) > 0, "there were checkpoints"


@pytest.mark.parametrize("during", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_processes_that_die_leave_no_trace(spark: Any, monkeypatch: pytest.MonkeyPatch, during: bool) -> None:
    monkeypatch.setattr(FragileLines, "during", during)
    made: list[Workers] = []
    stream_with_accidents(spark, monkeypatch, FragileLines, made)
    assert sum(workers.traffic.restorations for workers in made) > 2 * len(made), "there were accidents"


def test_the_guide(spark: Any) -> None:
    """Every example of the guide gives what it says."""
    page = Path(__file__).parents[2] / "docs" / "guide" / "spark.md"
    examples = doctest.DocTestParser().get_doctest(page.read_text(), {"spark": spark}, "spark.md", None, 0)
    assert len(examples.examples) > 10
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples).failed == 0


def test_a_frame_that_the_driver_may_not_take(spark: Any) -> None:
    conf = spark.sparkContext._jsc.sc().conf()
    with viewlet.connect(spark) as db:
        db.execute("CREATE TABLE t (id BIGINT)")
        conf.set("spark.driver.maxResultSize", "1m")
        try:
            with pytest.raises(DataError, match=r"larger than spark\.driver\.maxResultSize: raise"):
                db.insert("t", spark.range(1_000_000))
        finally:
            conf.set("spark.driver.maxResultSize", "1g")
        assert db.insert("t", spark.range(1_000_000)) == 1


def test_a_session_declares_columns(spark_with: Callable[..., Any]) -> None:
    sql = "SELECT g, sum(v) AS v FROM T GROUP BY g"
    for settings, place in (({}, "at Local"), ({"spark.viewlet.partition.T": "G"}, "at Dist(g)")):
        with viewlet.connect(spark_with(settings)) as db:
            db.execute("CREATE TABLE T (g VARCHAR, v BIGINT)")
            assert place in db.explain(sql)
    with viewlet.connect(spark_with({"spark.viewlet.partition.t": "h"})) as db:
        db.execute("CREATE TABLE t (g VARCHAR, v BIGINT)")
        with pytest.raises(CompileError, match="partition_by: table 't' has no column 'h'; there are g, v"):
            db.explain(sql)


def test_engine_with_declared_columns(spark: Any) -> None:
    """A declared column spreads what would otherwise stay on the driver."""
    from viewlet.backends.base import Change
    from viewlet.sql import compile_query
    from viewlet.sql.catalog import Catalog
    from viewlet.sql.parse import parse

    catalog = Catalog(s.table for s in parse("CREATE TABLE t (g VARCHAR, v DOUBLE)"))  # type: ignore[union-attr]
    engine = SparkEngine(on_spark(spark, 3), {"t": "g"})
    query = compile_query("SELECT g, sum(v) AS v FROM t GROUP BY g", catalog)
    engine.create("x", query, catalog, {"t": {("a", 0.1): 2}}, "auto")
    effect = engine.apply("t", [Change(("a", 0.1), 1), Change(("b", 1.5), 1)], "auto", frozenset({"x"}))
    assert effect["x"] == {("a", 0.2): -1, ("a", 0.30000000000000004): 1, ("b", 1.5): 1}
    engine.apply("t", [Change(("a", 0.1), -1), Change(("a", 0.1), -2)], "tuple", frozenset())
    assert engine.output("x") == {("b", 1.5): 1}
    engine.close()
