"""The whole demo: prepare, play, compare, report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TextIO

from viewlet.backends import Backend
from viewlet.connecting import connect
from viewlet.database import Database
from viewlet.demo.on_spark import CHANGES as PIPED_CHANGES
from viewlet.demo.on_spark import Piped, pipe
from viewlet.demo.play import Run, play, prepare
from viewlet.demo.reevaluation import Reevaluation, reevaluate
from viewlet.demo.report import Contents, Played, at_least, pipeline_verdict, refresh_times, verdict
from viewlet.demo.scenes import SCENES, Scene
from viewlet.demo.screen import LiveScreen, Page, SnapshotScreen
from viewlet.demo.sources import spark_session
from viewlet.errors import BackendError
from viewlet.sql.catalog import Catalog
from viewlet.workloads.stream import Stream

CHANGES = 200_000
SINGLES = 5_000  # of them, and at most a tenth, are kept back to be applied one at a time
RIVAL_SECONDS = 2.0
SINGLES_SECONDS = 0.5
JUDGE_SECONDS = 2.0  # between two looks at what DuckDB takes, while the stream runs


@dataclass(frozen=True, slots=True)
class Wishes:
    """How long, in which batches, whether the screen may redraw itself, and whether Spark makes the rows."""

    seconds: float
    batch: int
    live: bool
    spark: bool


def best_backend() -> tuple[Backend, str | None]:
    """The fastest backend that runs here, and if that is not the native one, the reason."""
    try:
        with connect(backend="native") as probe:
            probe.execute("CREATE TABLE probe (a BIGINT)")
            probe.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(a) AS s FROM probe")
            probe.insert("probe", [(1,)])
            return (
                ("native", None) if probe.view("total").value == 1 else ("reference", "it gives wrong sums")
            )
    except BackendError as reason:
        return "reference", str(reason)


def show(wishes: Wishes, output: TextIO) -> tuple[list[Played], list[str]]:
    """Play every scene and say how it went; returns the scenes and what a reader should know about them."""
    backend, reason = best_backend()
    notes = []
    if reason is not None:
        notes.append(f"The reference backend (Python) runs, since the native one cannot: {reason}.")
        print(notes[-1] + "\n", file=output)
    spark, why_not = _spark(wishes, output)
    if why_not is not None:
        notes.append(f"The rows are made in this process and no pipeline runs on Spark: {why_not}.")
        print(notes[-1] + "\n", file=output)
    else:
        notes.append("The rows were made by Spark in local mode.")
    played = []
    for make in SCENES:
        scene = make(spark)
        with _step(f"{scene.title}: making the rows", output):
            streams = scene.stream(CHANGES)
        with connect(backend=backend) as db:
            played.append(_play(db, scene, streams, backend, wishes, output))
            try:
                played[-1] = replace(played[-1], rival=reevaluate(db, scene, RIVAL_SECONDS))
            except BackendError as missing:
                notes.append(f"No comparison with re-evaluation: {missing}.")
                print(notes[-1], file=output)
            catalog = db.catalog
        print("\n".join(summary(played[-1])) + "\n", file=output)
        if spark is not None and backend == "native":  # which the executors run
            piped = _piped(spark, scene, catalog, streams, wishes, output)
            played[-1] = replace(played[-1], piped=piped)
            print(f"{scene.title}, as a pipeline on Spark: {pipeline_verdict(piped)}\n", file=output)
    if spark is not None:
        spark.stop()
    return played, list(dict.fromkeys(notes))


@contextmanager
def _step(what: str, output: TextIO) -> Iterator[None]:
    """Say what is done meanwhile, and how long it took."""
    print(f"{what} ...", end="", file=output, flush=True)
    began = time.perf_counter()
    yield
    print(f" {time.perf_counter() - began:.1f} s", file=output, flush=True)


def _spark(wishes: Wishes, output: TextIO) -> tuple[Any, str | None]:
    """A session to make the rows with, or why there is none."""
    if not wishes.spark:
        return None, "so it was asked"
    with _step("Starting Spark in local mode", output):
        return spark_session()


def _screen(wishes: Wishes, output: TextIO) -> LiveScreen | SnapshotScreen:
    return LiveScreen(output) if wishes.live else SnapshotScreen(output)


def _play(
    db: Database, scene: Scene, streams: tuple[Stream, Stream], backend: str, wishes: Wishes, output: TextIO
) -> Played:
    start, changes = streams
    with _step(f"{scene.title}: compiling {len(scene.views)} views and filling them", output):
        prepare(db, scene, start)
    screen, run = _screen(wishes, output), Run()
    rival: Sequence[Reevaluation] = ()
    judged = 0.0
    streamed = changes.first(len(changes) - min(SINGLES, len(changes) // 10))
    for share in play(db, streamed, wishes.batch, wishes.seconds / len(SCENES), run):
        if screen.due(share):
            if wishes.live and time.perf_counter() - judged >= JUDGE_SECONDS:
                with suppress(BackendError):  # without DuckDB; said at the end
                    rival = reevaluate(db, scene, RIVAL_SECONDS)
                judged = time.perf_counter()
            screen.draw(Page(scene.title, scene, db, run, share, rival))
    screen.draw(Page(scene.title, scene, db, run, 1.0, rival))
    singles = Run()
    for _ in play(db, changes.after(run.changes), 1, SINGLES_SECONDS, singles):
        pass
    return Played(scene, backend, wishes.batch, run, singles, list(_contents(db, scene)), ())


def _piped(
    spark: Any,
    scene: Scene,
    catalog: Catalog,
    streams: tuple[Stream, Stream],
    wishes: Wishes,
    output: TextIO,
) -> Piped:
    """The same stream on Spark, drawn as it goes; how far it is, is known from the number of its changes."""
    title = f"{scene.title}, as a pipeline on Spark"
    screen, changes = _screen(wishes, output), min(len(streams[1]), PIPED_CHANGES)

    def told(db: Database, run: Run) -> None:
        if screen.due(run.changes / changes):
            screen.draw(Page(title, scene, db, run, min(run.changes / changes, 1.0)))

    print(f"{title}: compiling for its executors ...", file=output, flush=True)
    return pipe(spark, scene, catalog, streams, told)


def _contents(db: Database, scene: Scene) -> Iterator[Contents]:
    for name in scene.views:
        view = db.view(name)
        yield Contents(name, [column.name for column in view.columns], view.rows(), db.explain(name))


def summary(played: Played) -> Iterator[str]:
    """What a scene came to, in a few lines."""
    run = played.run
    speed = f"{run.changes:,} changes at {run.rate:,.0f} per second"
    yield f"{played.scene.title}: {speed}, {played.backend} backend."
    if not played.rival:
        return
    yield from (f"  {found.view}: {verdict(found)}" for found in played.rival)
    one, many, again = refresh_times(played).values()
    more = at_least(played)
    yield f"  Refreshing all views from scratch takes {more}{again:.2f} ms, the queries alone. Maintained:"
    for what, ours in (("one change", one), (f"a batch of {played.batch}", many)):
        yield f"    after {what}: {ours:.3f} ms{f', ratio {more}{again / ours:.1f}' if ours else ''}"


def agree(played: Sequence[Played]) -> bool:
    """Did every view that was compared hold the rows that DuckDB finds, in this process and on Spark?"""
    found = [verdict for scene in played for verdict in (*scene.rival, *(scene.piped or Piped()).rival)]
    return all(each.agrees is not False for each in found)
