"""Views given as DataFrames: the SQL made of a plan means what the DataFrame means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as fn

import viewlet
from viewlet.errors import SqlError
from viewlet.spark_database import SparkDatabase
from viewlet.sql import compile_query
from viewlet.workloads import miniature, queries, schema

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]

Frame = Callable[[Callable[[str], Any]], Any]

EXECUTED = ("q07", "q15", "q22")


@pytest.fixture(scope="module")
def db(spark: Any) -> Iterator[SparkDatabase]:
    found = viewlet.connect(spark)
    found.execute(schema("tpch"))
    assert isinstance(found, SparkDatabase)
    yield found
    found.close()


@pytest.fixture(scope="module")
def tables(spark: Any) -> dict[str, Any]:
    return {name: spark.createDataFrame(rows).cache() for name, rows in miniature.tables(orders=60).items()}


@pytest.mark.parametrize(
    "name", [n if n in EXECUTED else pytest.param(n, marks=pytest.mark.slow) for n in queries("tpch")]
)
def test_tpch(spark: Any, db: SparkDatabase, tables: dict[str, Any], name: str) -> None:
    """The SQL of the plan of a query: the same types and rows in Spark, and it is one that can be kept."""
    for table in tables:
        db.frame(table).createOrReplaceTempView(table)
    text = db.sql_of(spark.sql(queries("tpch")[name]))
    for table, rows in tables.items():
        rows.createOrReplaceTempView(table)
    original, again = spark.sql(queries("tpch")[name]), spark.sql(text)
    assert [(f.name, f.dataType) for f in again.schema] == [(f.name, f.dataType) for f in original.schema]
    if name in EXECUTED:
        assert sorted(map(str, again.collect())) == sorted(map(str, original.collect()))
    assert compile_query(text, db.catalog).columns


def grouped(t: Callable[[str], Any]) -> Any:
    lines = t("lineitem").groupBy("l_returnflag")
    sums = fn.sum("l_quantity").alias("q"), fn.max("l_shipdate").alias("last")
    return lines.agg(*sums, fn.countDistinct("l_orderkey").alias("n"))


def joined(t: Callable[[str], Any]) -> Any:
    both = t("orders").join(t("lineitem"), fn.col("o_orderkey") == fn.col("l_orderkey"), "left")
    kept = both.where((fn.col("o_totalprice") > 1000) & fn.col("o_comment").isNotNull())
    tax = fn.coalesce("l_tax", fn.lit(0)).alias("tax")
    return kept.select("o_orderkey", (fn.col("l_quantity") * 2).alias("twice"), tax)


def semi(t: Callable[[str], Any]) -> Any:
    found = t("orders").join(t("lineitem"), fn.col("o_orderkey") == fn.col("l_orderkey"), "left_semi")
    return found.select("o_orderkey", fn.when(fn.col("o_orderstatus") == "O", 1).otherwise(0).alias("open"))


def self_joined(t: Callable[[str], Any]) -> Any:
    a, b = t("nation").alias("a"), t("nation").alias("b")
    both = a.join(b, fn.expr("a.n_regionkey = b.n_regionkey"))
    return both.select("a.n_name", fn.col("b.n_name").alias("other"))


def united(t: Callable[[str], Any]) -> Any:
    return t("customer").select("c_name").union(t("supplier").select("s_name")).distinct()


def top(t: Callable[[str], Any]) -> Any:
    return t("customer").select("c_custkey", "c_acctbal").orderBy(fn.desc("c_acctbal"), "c_custkey").limit(3)


@pytest.mark.parametrize("frame", [grouped, joined, semi, self_joined, united, top])
def test_frames(spark: Any, db: SparkDatabase, tables: dict[str, Any], frame: Frame) -> None:
    text = db.sql_of(frame(db.frame))
    for table, rows in tables.items():
        rows.createOrReplaceTempView(table)
    expected = frame(lambda table: tables[table])
    again = spark.sql(text)
    assert again.columns == expected.columns
    assert sorted(map(str, again.collect())) == sorted(map(str, expected.collect()))
    assert compile_query(text, db.catalog).columns


def test_a_view_of_a_frame_is_kept(spark: Any) -> None:
    db = viewlet.connect(spark)
    assert isinstance(db, SparkDatabase)
    db.execute("CREATE TABLE sales (shop VARCHAR, amount BIGINT)")
    db.create_view("totals", db.frame("sales").groupBy("shop").sum("amount").toDF("shop", "total"))
    db.insert("sales", [("a", 1), ("b", 2), ("a", 3)])
    db.delete("sales", [("b", 2)])
    assert db.view("totals").rows() == [("a", 4)]
    db.create_view("best", db.frame("totals").agg({"total": "max"}).toDF("best"))
    assert db.view("best").value == 4
    db.close()


REFUSED: dict[str, Frame] = {
    "try_": lambda t: t("nation").selectExpr("try_cast(n_name AS int) AS x"),
    "ESCAPE": lambda t: t("nation").where("n_name LIKE 'a/%' ESCAPE '/'"),
    "which rows stay": lambda t: t("nation").dropDuplicates(["n_regionkey"]),
    "unpivot": lambda t: t("nation").unpivot("n_name", ["n_nationkey", "n_regionkey"], "k", "v"),
    "expression RegExpReplace": lambda t: t("nation").select(fn.regexp_replace("n_name", "a", "b")),
    "expression RLike: there are LIKE": lambda t: t("nation").where(fn.col("n_name").rlike("a")),
    "PythonUDF: nothing is known": lambda t: t("nation").select(fn.udf(str)("n_name")),
    "Sample: it takes other rows": lambda t: t("nation").sample(0.5),
    "First: which row comes first": lambda t: t("nation").agg(fn.first("n_name")),
    "GlobalLimit: LIMIT stands at the end": lambda t: t("nation").limit(3).where("n_regionkey > 1"),
    "names no values": lambda t: t("nation").groupBy("n_regionkey").pivot("n_name").sum("n_nationkey"),
    "a pivot that names no values": lambda t: (
        t("nation").groupBy("n_regionkey").pivot("n_name").max("n_nationkey").where("n_regionkey > 1")
    ),
    "no values: give": lambda t: t("nation").groupBy("n_regionkey").pivot("n_name").agg(fn.max("n_comment")),
    "type struct": lambda t: t("nation").select(fn.lit(None).cast("struct<a:int>")),
    "First that ignores NULL": lambda t: t("nation").select(
        fn.first("n_name", ignorenulls=True).over(Window.orderBy("n_nationkey"))
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_not_known_is_refused_by_name(db: SparkDatabase, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        db.sql_of(REFUSED[reason](db.frame))


def test_data_that_is_no_table_is_refused(spark: Any, db: SparkDatabase) -> None:
    with pytest.raises(SqlError, match="no table of the database"):
        db.sql_of(spark.createDataFrame([(1,)], "a long").where("a > 0"))
