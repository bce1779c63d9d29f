"""The streams of a scene once more, as a pipeline: files that Spark streams, views that its executors hold.

It is what ``viewlet run`` does with a file of definitions. The changes lie in a folder per table, and
Structured Streaming takes one file after the other; each is a commit. Tables are streams of their own, so the
two sides of a join do not arrive in step: keys are declared, references are not.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from viewlet.connecting import connect
from viewlet.database import Database
from viewlet.demo.play import Run
from viewlet.demo.reevaluation import Reevaluation, reevaluate
from viewlet.demo.scenes import Scene
from viewlet.errors import BackendError
from viewlet.sql.catalog import Catalog, Table
from viewlet.workloads.stream import Stream

if TYPE_CHECKING:
    from viewlet.pipelines import Pipeline, Progress

CHANGES = 20_000
FILES = 8
RIVAL_SECONDS = 2.0


@dataclass(slots=True)
class Piped:
    """What a pipeline came to: its commits after the first of every table, and DuckDB's verdict."""

    run: Run = field(default_factory=Run)
    rival: Sequence[Reevaluation] = ()


def pipe(
    spark: Any,
    scene: Scene,
    catalog: Catalog,
    streams: tuple[Stream, Stream],
    told: Callable[[Database, Run], object],
) -> Piped:
    """Run a scene's first changes through a pipeline, telling of each commit; DuckDB judges the views."""
    from viewlet.pipelines import run

    start, later = streams
    found = Piped()
    with tempfile.TemporaryDirectory(prefix="viewlet-demo-") as folder, connect(spark) as db:
        streamed = lay_out(Path(folder), start, later.first(CHANGES))
        pipeline = _pipeline(spark, scene, catalog, Path(folder), start, streamed)
        run(pipeline, spark, db, told=_Meter(found.run, set(streamed), partial(told, db)))
        with suppress(BackendError):  # without DuckDB; the scene itself has said so
            found.rival = reevaluate(db, scene, RIVAL_SECONDS)
    return found


class _Meter:
    """Measures from one commit to the next, once every stream has brought what is there at the start."""

    def __init__(self, run: Run, streams: Set[str], told: Callable[[Run], object]) -> None:
        self._run, self._streams, self._told = run, streams, told
        self._began: float | None = None
        self._clock, self._rows = 0.0, 0

    def __call__(self, progress: Progress) -> None:
        now, rows = time.perf_counter(), sum(progress.rows.values())
        if self._began is not None:
            self._run.ends.append(now - self._began)
            self._run.sizes.append(rows - self._rows)
            self._run.latencies.append(now - self._clock)
            self._told(self._run)
        elif self._streams <= progress.rows.keys():
            self._began = now
        self._clock, self._rows = time.perf_counter(), rows  # what is told takes time, too


def lay_out(folder: Path, start: Stream, later: Stream) -> Mapping[str, pa.Schema]:
    """Write the tables that change as numbered files, the first with what is there; returns their columns.

    Spark takes files by their time of change, so these are a second apart.
    """
    changing = [name for name, rows in later.changes.items() if rows.num_rows]
    parts = [start.whole(), *later.batches(max(1, -(-len(later) // FILES)))]
    for name in changing:
        (folder / name).mkdir()
        for number, part in enumerate(parts):
            if name in part:
                file = folder / name / f"{number:03}.parquet"
                pq.write_table(part[name], file)
                os.utime(file, (number, number))
    return {name: later.changes[name].schema for name in changing}


def _pipeline(
    spark: Any,
    scene: Scene,
    catalog: Catalog,
    folder: Path,
    start: Stream,
    streamed: Mapping[str, pa.Schema],
) -> Pipeline:
    from pyspark.sql.pandas.types import from_arrow_schema

    from viewlet.pipelines import Pipeline

    def frame(name: str) -> Any:
        """A stream of files, or rows that are there once and for all."""
        if name not in streamed:
            return spark.createDataFrame(start.changes[name])
        reader = spark.readStream.schema(from_arrow_schema(streamed[name]))
        return reader.option("maxFilesPerTrigger", 1).parquet(str(folder / name))

    pipeline = Pipeline(scene.title)
    for name in catalog:
        if name in start.whole():
            pipeline.table(schema=_columns(catalog[name]), name=name, kind="TABLE")(partial(frame, name))
    for name, query in scene.views.items():
        pipeline.materialized_view(name=name)(partial(str, query.strip().rstrip(";")))
    return pipeline


def _columns(table: Table) -> str:
    """The columns and the key of a table, as CREATE TABLE lists them."""
    key = [f"PRIMARY KEY ({', '.join(table.key)})"] if table.key else []
    return ", ".join([*map(str, table.columns), *key])
