"""Views from DataFrames as people write them: what is kept is what Spark makes of the DataFrame."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as fn
from pyspark.sql.functions import col

import viewlet
from viewlet.errors import DataError, SqlError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]

DDL = """
    CREATE TABLE orders (id BIGINT NOT NULL, country_code VARCHAR, customer VARCHAR, amount DECIMAL(10,2),
                         qty INT, x DOUBLE, day DATE, at TIMESTAMP, ok BOOLEAN, PRIMARY KEY (id));
    CREATE TABLE lines (id BIGINT, item VARCHAR, price BIGINT)
"""
Tables = Callable[[str], Any]


def orders(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    some: Callable[[Any], Any] = lambda value: None if rng.random() < 0.2 else value  # noqa: E731
    moment = dt.datetime(2023, 12, 28, 22, 30)
    return [
        {
            "id": i,
            "country_code": some(rng.choice(["de", "fr", "no"])),
            "customer": some(rng.choice(["ann", " bo ", "Cy%"])),
            "amount": some(Decimal(rng.randrange(-999, 2000)) / 100),
            "qty": some(rng.randrange(-2, 4)),
            "x": some(rng.choice([-1.5, 0.0, 0.25, 2.5])),
            "day": some(dt.date(2023, 12, 28) + dt.timedelta(days=rng.randrange(70))),
            "at": some(moment + dt.timedelta(minutes=rng.randrange(9999), microseconds=rng.randrange(3))),
            "ok": some(rng.random() < 0.5),
        }
        for i in range(count)
    ]


def lines(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    items = ["tea", "cup", "jam", None]
    return [
        {"id": rng.choice([0, 1, 2, 3, 40, None]), "item": rng.choice(items), "price": rng.randrange(5)}
        for _ in range(count)
    ]


FRAMES: dict[str, Callable[[Tables], Any]] = {
    "columns": lambda t: (
        t("orders")
        .withColumn("twice", col("amount") * 2)
        .withColumn("sum", col("twice") + col("qty"))
        .withColumnRenamed("id", "order_id")
        .drop("x")
        .withColumns({"half": col("qty") / 2, "odd": col("qty") % 2})
    ),
    "pivot": lambda t: t("orders").groupBy("customer").pivot("country_code", ["de", "fr"]).sum("amount"),
    "pivot over NULL": lambda t: t("lines").groupBy("id").pivot("item", ["tea", None]).sum("price"),
    "pivot of several": lambda t: (
        t("lines")
        .groupBy("item")
        .pivot("id", [1, 2, 7])
        .agg(fn.sum("price").alias("s"), fn.count("id").alias("n"))
    ),
    "rollup": lambda t: (
        t("orders")
        .rollup("country_code", "customer")
        .agg(fn.sum("qty").alias("s"), fn.grouping_id().alias("g"))
    ),
    "cube": lambda t: (
        t("orders").cube("country_code", "ok").agg(fn.count("*").alias("n"), fn.grouping("ok").alias("g"))
    ),
    "ranks": lambda t: t("orders").select(
        "id",
        fn.rank().over(Window.partitionBy("customer").orderBy(fn.desc("qty"))).alias("r"),
        fn.dense_rank().over(Window.orderBy("country_code")).alias("d"),
        fn.row_number().over(Window.partitionBy("customer").orderBy("day", "id")).alias("n"),
    ),
    "shares of a partition": lambda t: t("orders").select(
        "id",
        fn.percent_rank().over(Window.partitionBy("customer").orderBy("qty")).alias("p"),
        fn.cume_dist().over(Window.orderBy(fn.desc("qty"))).alias("c"),
    ),
    "places": lambda t: t("orders").select(
        "id",
        fn.ntile(3).over(Window.partitionBy("ok").orderBy("id")).alias("third"),
        fn.nth_value("qty", 2).over(Window.partitionBy("customer").orderBy("id")).alias("second"),
    ),
    "near": lambda t: t("orders").select(
        "id", fn.max("qty").over(Window.partitionBy("customer").orderBy("id").rowsBetween(-2, 1)).alias("m")
    ),
    "the latest of each": lambda t: (
        t("orders")
        .where("id % 5 <> 0")
        .withColumn(
            "place", fn.row_number().over(Window.partitionBy("customer").orderBy(fn.desc("at"), "id"))
        )
        .where("place = 1")
        .drop("place")
    ),
    "the best groups": lambda t: (
        t("orders")
        .groupBy("customer")
        .agg(fn.sum("amount").alias("total"))
        .withColumn("place", fn.row_number().over(Window.orderBy(fn.desc("total"), "customer")))
        .where("place <= 2")
    ),
    "running": lambda t: t("orders").select(
        "id",
        (col("amount") - fn.avg("amount").over(Window.partitionBy("customer"))).alias("off"),
        fn.sum("qty")
        .over(Window.partitionBy("customer").orderBy("id").rowsBetween(Window.unboundedPreceding, 0))
        .alias("s"),
        fn.count("*").over(Window.orderBy("qty").rangeBetween(-1, 1)).alias("near"),
        (col("qty") - fn.lag("qty").over(Window.orderBy("id"))).alias("up"),
        fn.lead("qty", 1, 0).over(Window.partitionBy("customer").orderBy("id")).alias("next"),
        fn.first("qty").over(Window.partitionBy("customer").orderBy("id")).alias("first"),
    ),
    "conditions": lambda t: (
        t("orders")
        .where(col("country_code").isin("de", "fr") | ~col("qty").isin(1, 2) | col("ok"))
        .select(
            "id",
            fn.when(col("qty") > 2, "big").when(col("qty") > 0, "mid").otherwise("small").alias("size"),
            col("qty").between(0, 2).alias("few"),
            col("customer").startswith("a").alias("a"),
            col("customer").endswith(col("country_code")).alias("same"),
            col("customer").contains("%").alias("percent"),
            col("customer").ilike("c%").alias("c"),
            col("country_code").eqNullSafe(col("customer")).alias("eq"),
        )
    ),
    "missing": lambda t: (
        t("orders")
        .fillna({"country_code": "??", "qty": 0, "x": 0.5})
        .dropna(subset=["customer"])
        .dropna(thresh=3, subset=["amount", "day", "at", "ok"])
        .replace("ann", "anna")
        .withColumn("n", fn.nullif("qty", fn.lit(1)))
        .withColumn("o", fn.nvl("amount", fn.lit(0)))
        .withColumn("p", fn.nvl2("ok", fn.lit("known"), fn.lit("not")))
    ),
    "texts": lambda t: t("orders").select(
        fn.trim("customer").alias("t"),
        fn.ltrim("customer").alias("l"),
        fn.rtrim(fn.upper("customer")).alias("r"),
        fn.concat("customer", fn.lit("-"), "country_code").alias("c"),
        fn.lpad("customer", 6, "*").alias("p"),
        fn.reverse("customer").alias("v"),
        fn.instr("customer", "n").alias("i"),
        fn.replace("customer", fn.lit("n"), fn.lit("m")).alias("m"),
        col("customer").substr(1, 2).alias("s"),
        fn.left("customer", fn.lit(2)).alias("f"),
        fn.length("customer").alias("k"),
    ),
    "dates": lambda t: t("orders").select(
        fn.year("day").alias("y"),
        fn.month("at").alias("m"),
        fn.dayofweek("day").alias("w"),
        fn.weekofyear("day").alias("k"),
        fn.hour("at").alias("h"),
        fn.date_trunc("hour", "at").alias("hour"),
        fn.trunc("day", "month").alias("month"),
        fn.to_date("at").alias("d"),
        fn.last_day("day").alias("last"),
        fn.date_add("day", 3).alias("later"),
        fn.add_months("day", 1).alias("next"),
        fn.datediff("day", fn.lit(dt.date(2024, 1, 1))).alias("apart"),
        (col("day") + fn.expr("INTERVAL 1 MONTH")).alias("i"),
        (col("at") - fn.expr("INTERVAL 90 MINUTES")).alias("j"),
        (col("at") >= "2024-01-01").alias("new"),
    ),
    "numbers": lambda t: t("orders").select(
        fn.round("amount", 1).alias("r"),
        fn.floor("x").alias("f"),
        fn.ceil("amount").alias("c"),
        fn.abs("qty").alias("a"),
        fn.sqrt(fn.abs("x")).alias("s"),
        fn.pow("x", fn.lit(2)).alias("p"),
        fn.signum("x").alias("g"),
        fn.greatest("qty", "id").alias("most"),
        (-col("amount") / 3).alias("d"),
        col("qty").cast("string").alias("t"),
    ),
    "aggregates": lambda t: (
        t("orders")
        .groupBy("country_code")
        .agg(
            fn.stddev("x").alias("s"),
            fn.var_pop("x").alias("v"),
            fn.max_by("customer", "id").alias("m"),
            fn.countDistinct("customer").alias("n"),
            fn.sum_distinct("qty").alias("q"),
            fn.bool_and("ok").alias("every"),
            fn.count_if(col("qty") > 1).alias("c"),
            (fn.sum("amount") / fn.count("*")).alias("mean"),
            fn.sum(fn.when(col("ok"), col("qty")).otherwise(0)).alias("good"),
        )
    ),
    "sets": lambda t: (
        t("lines")
        .select("id", "item")
        .unionByName(t("orders").select(fn.col("customer").alias("item"), "id"))
        .exceptAll(t("lines").where("price > 2").select("id", "item"))
        .intersect(t("lines").select("id", "item").union(t("lines").select("id", "item")))
    ),
    "joins": lambda t: (
        t("orders")
        .join(fn.broadcast(t("lines")), "id", "full")
        .join(t("orders").groupBy("customer").agg(fn.sum("qty").alias("all")), "customer", "left")
        .where(col("all").isNull() | (col("price") + 1 < col("all")))
        .repartition(3)
        .orderBy("id")
        .select("id", "item", "all", "amount")
    ),
    "the first rows": lambda t: (
        t("orders").orderBy(fn.desc_nulls_last("amount"), "id").offset(1).limit(3).select("id", "amount")
    ),
    "what nobody decides": lambda t: t("orders").select(
        fn.lit(1.5).alias("a"), fn.lit(None).cast("int").alias("b"), "ok"
    ),
}


@pytest.fixture(scope="module")
def rows() -> dict[str, list[dict[str, Any]]]:
    return {"orders": orders(40, 1), "lines": lines(30, 2)}


@pytest.fixture(scope="module")
def data(spark: Any, rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    with viewlet.connect(backend="reference") as db:
        db.execute(DDL)
        db.apply(rows)
        return {name: spark.createDataFrame(db.table(name).to_arrow()).cache() for name in rows}


def plain(table: pa.Table) -> list[str]:
    """Rows for comparison: moments as a clock shows them, doubles without their last digits."""
    found = []
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        values = (v.replace(tzinfo=None) if isinstance(v, dt.datetime) else v for v in row)
        found.append(repr([round(v, 9) if isinstance(v, float) else v for v in values]))
    return sorted(found)


@pytest.mark.parametrize("name", FRAMES)
def test_what_people_write(
    spark: Any, data: dict[str, Any], rows: dict[str, list[dict[str, Any]]], name: str
) -> None:
    """Kept while half of the rows come twice and go again, in batches of any split."""
    there = viewlet.connect(spark)
    there.execute(DDL)
    text = there.sql_of(FRAMES[name](there.frame))  # type: ignore[attr-defined]
    there.close()
    expected = FRAMES[name](data.__getitem__).toArrow()
    with viewlet.connect(backend="reference") as db:
        db.execute(DDL)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {text}")
        for table, own in rows.items():
            db.insert(table, own[::2])
            db.apply({table: [{**row, "_weight": -1} for row in own[::4]]})
            db.apply({table: [{**row, "_weight": 1} for row in [*own[1::2], *own[::4]]]})
        kept = db.view("v").to_arrow()
    assert [name.lower() for name in expected.column_names] == kept.column_names
    zoneless = [pa.timestamp("us") if pa.types.is_timestamp(kind) else kind for kind in expected.schema.types]
    assert kept.schema.types == zoneless
    assert plain(kept) == plain(expected)
    assert kept.num_rows


def test_moments_are_what_a_clock_of_the_session_shows(spark_with: Callable[..., Any]) -> None:
    spark = spark_with({"spark.sql.session.timeZone": "America/New_York"})
    db = viewlet.connect(spark)
    db.execute("CREATE TABLE events (id BIGINT, at TIMESTAMP)")
    db.create_view("by hour", db.frame("events").groupBy(fn.hour("at").alias("hour")).count())  # type: ignore[attr-defined]
    events = spark.sql("SELECT 1L AS id, TIMESTAMP'2024-03-01 23:30:00' AS at")
    db.insert("events", events)
    db.insert("events", events.withColumn("at", col("at").cast("timestamp_ntz")))
    assert db.view("by hour").rows() == [(23, 2)]
    assert db.table("events").to_spark().exceptAll(events.union(events)).count() == 0
    assert db.sql("SELECT max(hour(at)) AS h FROM events").to_pylist() == [{"h": 23}]
    db.apply({"events": events.withColumn("_weight", fn.lit(-1))})
    assert db.view("by hour").rows() == [(23, 1)]
    db.close()


def test_views_of_the_session_are_left_alone(spark: Any) -> None:
    db = viewlet.connect(spark)
    db.execute("CREATE TABLE mine (a BIGINT)")
    db.insert("mine", [(1,), (2,)])
    spark.range(7).createOrReplaceTempView("mine")
    assert db.sql("SELECT count(mine.a) AS n FROM mine").to_pylist() == [{"n": 2}]
    assert db.sql("WITH w AS (SELECT m.a FROM mine m) SELECT sum(a) AS s FROM w").to_pylist() == [{"s": 3}]
    assert spark.sql("SELECT count(*) AS n FROM mine").first().n == 7
    spark.catalog.dropTempView("mine")
    db.close()


def test_what_is_no_frame_of_rows(spark: Any) -> None:
    db = viewlet.connect(spark)
    db.execute("CREATE TABLE r (a BIGINT)")
    with pytest.raises(DataError, match="streams has no rows yet"):
        db.insert("r", spark.readStream.format("rate").load())
    with pytest.raises(SqlError, match="not of a str"):
        db.create_view("v", "SELECT a FROM r")  # type: ignore[attr-defined]
    db.close()
