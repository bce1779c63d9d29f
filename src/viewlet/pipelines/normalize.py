"""Rows as they come to changes of a table: types, directions, rows sent twice, and what is wrong with a row.

The result has the table's columns, ``_weight``, and for a row that cannot be used ``_reason`` and the row
itself as JSON, ``_row``: of an envelope without a direction all of it, of a row that Spark could not parse
its text, if there is a column ``_corrupt_record``. Nothing is bent to fit: a number that would lose digits is
refused like a text that is none.

=====================  ===============================================================================
columns                what a row says
=====================  ===============================================================================
``op, before, after``  an envelope of change data capture: ``c`` and ``r`` insert ``after``, ``d`` deletes
                       ``before``, ``u`` does both
``_change_type``       insert, delete, update_preimage, update_postimage
``_weight``            how often the row comes (or, below 0, goes)
none of these          the row is inserted
=====================  ===============================================================================

Of rows that are only inserted, those that agree in some columns may be one that was sent twice. With
directions they may not: a row may go and come again, or change. There it is the rows that agree in *all*
columns of the source, so one of these had better say where in the source the row stood.
"""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from viewlet.changes import CHANGE_TYPE, CHANGE_TYPES, WEIGHT
from viewlet.core.types import Column, Kind, Type
from viewlet.pipelines.definitions import PipelineError
from viewlet.pipelines.lateness import Bound
from viewlet.sql.catalog import Table

REASON = "_reason"
ROW = "_row"
ENVELOPE = frozenset({"op", "before", "after"})
EVENT, DOUBT = "_event", "_doubt"
CORRUPT = "_corrupt_record"
"""Where readers of Spark leave the text of a row that they could not parse."""
ZONED = r"\d[T ]\d{1,2}(:\d{1,2}){0,2}(\.\d*)?\s*[A-Za-z+-]"
"""A time of day with something behind it that tells the time zone."""


def normalize(
    frame: DataFrame, table: Table, unique: tuple[str, ...] = (), late: Bound | None = None
) -> DataFrame:
    """The changes of a table that a DataFrame holds."""
    given = {name.lower() for name in frame.columns}
    if unique and (given >= ENVELOPE or given & {WEIGHT, CHANGE_TYPE}):
        frame, unique = frame.dropDuplicates(), ()
    if given >= ENVELOPE:
        frame = _opened(frame)
    known = {name.lower(): name for name in frame.columns}
    missing = [column.name for column in table.columns if column.name not in known]
    if missing:
        raise PipelineError(
            f"table {table.name!r}: the source has no column {missing[0]!r}; its columns: {', '.join(known)}"
        )
    weight, reasons = _weight(known)
    own = [name for name in known if not name.startswith("_")]
    values = []
    for column in table.columns:
        source = fn.col(_quoted(known[column.name]))
        kind = frame.schema[known[column.name]].dataType.simpleString()
        value = _value(column, source, kind)
        values.append(value.alias(column.name))
        reasons += _doubts(column, source, value, kind)
        if late is not None and late.column == column.name:
            behind = value.cast("timestamp_ntz") < fn.lit(late.time).cast("timestamp_ntz")
            reasons.append(fn.when(behind, fn.lit(f"{column.name}: late, before {late.time}")))
    reason = fn.concat_ws("; ", *reasons)
    content = fn.to_json(fn.struct(*(fn.col(_quoted(known[name])) for name in own)))
    if EVENT in known:
        content = fn.coalesce(fn.col(EVENT), content)
    if CORRUPT in known:
        text = fn.col(_quoted(known[CORRUPT]))
        content = fn.coalesce(text, content)
        reason = fn.when(text.isNotNull(), fn.lit("cannot be parsed")).otherwise(reason)
    found = frame.select(
        *values,
        weight.alias(WEIGHT),
        fn.when(reason != "", reason).alias(REASON),
        fn.when(reason != "", content).alias(ROW),
    )
    return found.dropDuplicates([*unique, WEIGHT, REASON, ROW]) if unique else found


def _opened(frame: DataFrame) -> DataFrame:
    """An envelope as rows with ``_weight``; one that says nothing usable has none, but is there itself."""
    envelope = {name.lower(): name for name in frame.columns}
    op, before, after = (fn.col(_quoted(envelope[name])) for name in ("op", "before", "after"))
    nothing = fn.lit(None).cast("string")

    def event(row: SparkColumn, weight: int | None, doubt: SparkColumn, whole: SparkColumn) -> SparkColumn:
        number = fn.lit(weight).cast("int").alias(WEIGHT)
        return fn.struct(row.alias("row"), number, doubt.alias(DOUBT), whole.alias(EVENT))

    gone, come = event(before, -1, nothing, nothing), event(after, 1, nothing, nothing)
    doubt = fn.concat_ws(
        ", ",
        fn.concat(fn.lit("no usable direction: op "), fn.coalesce(op.cast("string"), fn.lit("NULL"))),
        fn.when(before.isNull(), fn.lit("no before")),
        fn.when(after.isNull(), fn.lit("no after")),
    )
    whole = fn.to_json(fn.struct(*(fn.col(_quoted(name)) for name in frame.columns)))
    unusable = event(fn.coalesce(after, before), None, doubt, whole)
    events = (
        fn.when(op.isin("c", "r") & after.isNotNull(), fn.array(come))
        .when((op == "d") & before.isNotNull(), fn.array(gone))
        .when((op == "u") & before.isNotNull() & after.isNotNull(), fn.array(gone, come))
        .otherwise(fn.array(unusable))
    )
    corrupt = [fn.col(_quoted(envelope[CORRUPT]))] if CORRUPT in envelope else []
    opened = frame.select(fn.explode(events).alias("event"), *corrupt)
    return opened.select("event.row.*", f"event.{WEIGHT}", f"event.{DOUBT}", f"event.{EVENT}", *corrupt)


def _weight(known: dict[str, str]) -> tuple[SparkColumn, list[SparkColumn]]:
    """Which way a row goes, and what may be wrong with that."""
    if WEIGHT in known and CHANGE_TYPE in known:
        raise PipelineError(f"a source gives either {WEIGHT} or {CHANGE_TYPE}, not both")
    if CHANGE_TYPE in known:
        word = fn.col(known[CHANGE_TYPE])
        weight = fn.lit(None).cast("bigint")
        for name, number in CHANGE_TYPES.items():
            weight = fn.when(word == name, fn.lit(number)).otherwise(weight)
        return weight.cast("bigint"), [
            fn.when(weight.isNull(), fn.concat(fn.lit(f"{CHANGE_TYPE}: "), fn.coalesce(word, fn.lit("NULL"))))
        ]
    if WEIGHT in known:
        weight = fn.col(known[WEIGHT]).cast("bigint")
        doubt = fn.col(DOUBT) if DOUBT in known else fn.lit(f"{WEIGHT}: NULL, or no number")
        return weight, [fn.when(weight.isNull(), doubt)]
    return fn.lit(1).cast("bigint"), []


def _value(column: Column, source: SparkColumn, kind: str) -> SparkColumn:
    """The value in the column's type, or NULL. A text with a time zone is the moment that it says."""
    plain = source.try_cast(spark_type(column.type))
    if column.type.kind is Kind.TIMESTAMP and kind.startswith("string"):
        moment = source.try_cast("timestamp").try_cast("timestamp_ntz")
        return fn.when(source.rlike(ZONED), moment).otherwise(plain)
    return plain


def _doubts(column: Column, source: SparkColumn, value: SparkColumn, kind: str) -> list[SparkColumn]:
    """What may be wrong with a value, as texts that are NULL where it is not."""
    target = spark_type(column.type)
    wrong = source.isNotNull() & value.isNull()
    found = [fn.when(wrong, fn.lit(f"{column.name}: cannot be read as {column.type}"))]
    if not column.nullable:
        found.append(fn.when(source.isNull(), fn.lit(f"{column.name}: NULL in a NOT NULL column")))
    lost = _lost(column.type, source, value, kind) if kind != target else None
    if lost is not None:
        found.append(fn.when(value.isNotNull() & lost, fn.lit(f"{column.name}: does not fit {column.type}")))
    if column.type.is_floating:
        finite = fn.abs(value.cast("double")) < float("inf")
        found.append(
            fn.when(
                value.isNotNull() & (fn.isnan(value) | ~finite), fn.lit(f"{column.name}: not a finite number")
            )
        )
    return found


def _lost(target: Type, source: SparkColumn, value: SparkColumn, kind: str) -> SparkColumn | None:
    """Does a value say less than its source did? Of most texts Spark itself refuses what does not fit."""
    if not kind.startswith("string"):
        return value.try_cast(kind) != source
    if target.kind is Kind.DECIMAL:
        wide = source.try_cast(f"decimal(38,{38 - (target.precision - target.scale)})")
        return (wide != value) | source.rlike(rf"\.\d{{{target.scale}}}\d*[1-9]\d*\s*$")
    if target.kind is Kind.DATE:
        return source.try_cast("timestamp_ntz") != value.cast("timestamp_ntz")
    return None


def spark_type(kind: Type) -> str:
    """How Spark calls a type.

    >>> from viewlet.core.types import BIGINT, VARCHAR, decimal
    >>> spark_type(BIGINT), spark_type(VARCHAR), spark_type(decimal(15, 2))
    ('bigint', 'string', 'decimal(15,2)')
    """
    match kind.kind:
        case Kind.VARCHAR:
            return "string"
        case Kind.TIMESTAMP:
            return "timestamp_ntz"
        case Kind.DECIMAL:
            return f"decimal({kind.precision},{kind.scale})"
        case _:
            return str(kind).lower()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
