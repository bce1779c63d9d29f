"""Every function, operator and cast on edge values: the value, type and error that Spark has.

Where Spark has a value and we an error, the error is one of ``NARROWER``: the guide says so. Nowhere is it
the other way round, and nowhere do two values differ, but for the sign of zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from edge_values import ARITHMETIC, CASTS, FUNCTIONS, Failed, catalog, rows, scalar_of, values
from viewlet.core.casts import unscaled
from viewlet.core.types import Kind, Type, Value

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
NARROWER = (
    "outside the years 1 to 9999",
    "finite DOUBLE",
    "out of range for FLOAT",
    r"'(NaN|Infinity|1e1000)' is not a number",
    "is not a TIMESTAMP",  # with a time zone, or a point without digits
    r"div\(.*is out of range for BIGINT",  # Spark wraps around
    r" \+ .* is out of range for INT",  # so it does inside of pmod
    "math domain error|math range error",  # NaN and infinity in Spark
    "division by zero",  # of doubles, an infinity in Spark's cot, csc, log and atan
)
"""Errors of ours where Spark has a value."""

ULPS = 4
CHUNK = 60

Answer = tuple[str, Sequence[Any], Sequence[bool]]


@pytest.fixture(scope="module")
def spark(spark_with: Callable[..., Any]) -> Any:
    return spark_with(SETTINGS)


def asked(spark: Any, expressions: Sequence[str]) -> dict[str, Answer]:
    """For each expression its type, its value for every row of ``v``, and for which rows it fails."""
    from pyspark.sql import Column

    machine, parser = spark._jvm, spark._jsparkSession.sessionState().sqlParser()
    attempt = machine.org.apache.spark.sql.catalyst.expressions.TryEval
    column_of = machine.org.apache.spark.sql.classic.ExpressionUtils.column

    def tried(expression: str, name: str) -> Any:
        return Column(column_of(attempt(parser.parseExpression(expression)))).alias(name)

    frame = spark.table("v").select(
        "id",
        *(tried(expression, f"value{i}") for i, expression in enumerate(expressions)),
        *(tried(f"({expression}) IS NULL", f"known{i}") for i, expression in enumerate(expressions)),
    )
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    found = frame.toArrow().sort_by("id")
    return {
        expression: (
            types[f"value{i}"],
            plain(found.column(f"value{i}")),
            [known is None for known in found.column(f"known{i}").to_pylist()],
        )
        for i, expression in enumerate(expressions)
    }


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Values, of dates and timestamps their numbers: Spark's go beyond Python's."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        column = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
    return list(column.to_pylist())


def spark_type(kind: Type) -> str:
    return {Kind.VARCHAR: "string", Kind.TIMESTAMP: "timestamp_ntz"}.get(kind.kind, str(kind).lower())


def same(ours: Value, theirs: Any, kind: Type) -> bool:
    """Are they the same value? Doubles may be a few steps apart: libraries differ in what is not exact."""
    if ours is None or theirs is None:
        return ours is theirs
    if kind.is_floating:
        return abs(ours - theirs) <= ULPS * math.ulp(theirs) if math.isfinite(theirs) else False
    if kind.kind is Kind.VARCHAR:
        return re.sub(r"^-0\.0(?![0-9])", "0.0", theirs) == ours
    return type(ours) is type(theirs) and ours == theirs


@pytest.mark.parametrize("start", range(0, len((*ARITHMETIC, *CASTS, *FUNCTIONS)), 3 * CHUNK))
def test_it_means_what_spark_says(spark: Any, start: int) -> None:
    tables, data = catalog(), rows(40, seed=11)
    spark.createDataFrame(data.table).createOrReplaceTempView("v")
    expressions = (*ARITHMETIC, *CASTS, *FUNCTIONS)[start : start + 3 * CHUNK]
    theirs: dict[str, Answer] = {}
    for place in range(0, len(expressions), CHUNK):
        theirs |= asked(spark, expressions[place : place + CHUNK])
    wrong: list[str] = []
    for expression in expressions:
        scalar, (named, answers, failures) = scalar_of(expression, tables), theirs[expression]
        if named.replace("timestamp_ntz", "timestamp") != spark_type(scalar.type).replace("_ntz", ""):
            wrong.append(f"{expression}: {scalar.type}, in Spark {named}")
        for row, value in enumerate(values(scalar, data)):
            answer = answers[row]
            if scalar.type.kind is Kind.DECIMAL and answer is not None:
                answer = unscaled(answer, scalar.type.scale)
            if isinstance(value, Failed):
                right = failures[row] or any(re.search(reason, value) for reason in NARROWER)
            else:
                right = not failures[row] and same(value, answer, scalar.type)
            if not right:
                shown = "an error" if failures[row] else repr(answer)
                wrong.append(f"{expression}, row {row}: {value!r}, in Spark {shown}")
    assert not wrong, "\n".join(wrong[:40])
