"""The whole demo: prepare, play, compare, report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO

from viewlet.backends import Backend
from viewlet.database import Database, connect
from viewlet.demo.play import Run, play, prepare
from viewlet.demo.reevaluation import Reevaluation, reevaluate
from viewlet.demo.report import Contents, Played, refresh_times, verdict
from viewlet.demo.scenes import SCENES, Scene
from viewlet.demo.screen import LiveScreen, SnapshotScreen, page
from viewlet.demo.sources import spark_session
from viewlet.errors import BackendError

CHANGES = 200_000
SINGLES = 5_000  # of them, and at most a tenth, are kept back to be applied one at a time
RIVAL_SECONDS = 2.0
SINGLES_SECONDS = 0.5


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
        notes.append(f"The rows are made in this process, not by Spark: {why_not}.")
        print(notes[-1] + "\n", file=output)
    else:
        notes.append("The rows were made by Spark in local mode.")
    played = []
    for make in SCENES:
        with connect(backend=backend) as db:
            played.append(_play(db, make(spark), backend, wishes, output))
            try:
                played[-1] = _compared(db, played[-1])
            except BackendError as missing:
                notes.append(f"No comparison with re-evaluation: {missing}.")
                print(notes[-1], file=output)
        print("\n".join(summary(played[-1])) + "\n", file=output)
    if spark is not None:
        spark.stop()
    return played, list(dict.fromkeys(notes))


def _spark(wishes: Wishes, output: TextIO) -> tuple[Any, str | None]:
    """A session to make the rows with, or why there is none."""
    if not wishes.spark:
        return None, "so it was asked"
    print("Starting Spark in local mode ...", file=output, flush=True)
    return spark_session()


def _play(db: Database, scene: Scene, backend: str, wishes: Wishes, output: TextIO) -> Played:
    print(f"{scene.title}: preparing ...", file=output, flush=True)
    changes = prepare(db, scene, CHANGES)
    screen = LiveScreen(output) if wishes.live else SnapshotScreen(output)
    run = Run()
    streamed = changes.first(len(changes) - min(SINGLES, len(changes) // 10))
    for share in play(db, streamed, wishes.batch, wishes.seconds / len(SCENES), run):
        if screen.due(share):
            screen.draw(list(page(scene, db, run, share)))
    screen.draw(list(page(scene, db, run, 1.0)))
    singles = Run()
    for _ in play(db, changes.after(run.changes), 1, SINGLES_SECONDS, singles):
        pass
    return Played(scene, backend, wishes.batch, run, singles, list(_contents(db, scene)), ())


def _contents(db: Database, scene: Scene) -> Iterator[Contents]:
    for name in scene.views:
        view = db.view(name)
        yield Contents(name, [column.name for column in view.columns], view.rows(), db.explain(name))


def _compared(db: Database, played: Played) -> Played:
    rival: Sequence[Reevaluation] = reevaluate(db, played.scene, RIVAL_SECONDS)
    return replace(played, rival=rival)


def summary(played: Played) -> Iterator[str]:
    """What a scene came to, in a few lines."""
    run = played.run
    speed = f"{run.changes:,} changes at {run.rate:,.0f} per second"
    yield f"{played.scene.title}: {speed}, {played.backend} backend."
    if not played.rival:
        return
    yield from (f"  {found.view}: {verdict(found)}" for found in played.rival)
    one, many, again = refresh_times(played).values()
    more = "more than " if any(found.seconds is None for found in played.rival) else ""
    yield f"  Refreshing all views from scratch takes {more}{again:.2f} ms, the queries alone. Maintained:"
    for what, ours in (("one change", one), (f"a batch of {played.batch}", many)):
        yield f"    after {what}: {ours:.3f} ms{f', ratio {more}{again / ours:.1f}' if ours else ''}"


def agree(played: Sequence[Played]) -> bool:
    """Did every view that was compared hold the rows that DuckDB finds?"""
    return all(found.agrees is not False for scene in played for found in scene.rival)
