"""However a run of a pipeline ends: changes reach its sinks at least once, by the version of their commit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.pipelines import Pipeline, run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]

VIEW = "SELECT customer, count(*) AS n FROM orders GROUP BY customer"


def pipeline(spark: Any, folder: Path) -> Pipeline:
    found = Pipeline("shop")

    @found.table(schema="id BIGINT NOT NULL, customer VARCHAR")
    def orders() -> Any:
        return spark.readStream.schema("id long, customer string").json(str(folder / "in"))

    found.materialized_view(name="per_customer")(lambda: VIEW)
    for name in ("one", "two"):
        path = {"path": str(folder / name)}
        found.create_sink(name, view="per_customer", format="json", options=path, emits="changes")
    return found


def arrive(folder: Path, number: int, customers: list[str]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    rows = [json.dumps({"id": i, "customer": customer}) for i, customer in enumerate(customers)]
    (folder / "in" / f"{number}.json").write_text("\n".join(rows))


def written(spark: Any, folder: Path, sink: str) -> Counter[tuple[Any, ...]]:
    """The changes that a sink was given, and how often."""
    columns = ("customer", "n", "_change_type", "_commit_version")
    return Counter(tuple(row) for row in spark.read.json(str(folder / sink)).select(*columns).collect())


def net(changes: Counter[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """The rows that there are after all changes, each counted once."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for customer, n, kind, _ in changes:
        rows[customer, n] += 1 if kind == "insert" else -1
    return set((+rows).elements())


class KilledError(Exception):
    """The run ends here."""


def kill(monkeypatch: pytest.MonkeyPatch, place: str, dies: Callable[..., bool], after: bool = False) -> None:
    """Let a method raise instead of what it does, or after it, where ``dies`` says so."""
    module, kind, name = place.rsplit(".", 2)
    owner = getattr(__import__(module, fromlist=[kind]), kind)
    whole = getattr(owner, name)

    def method(*arguments: Any) -> Any:
        if dies(*arguments) and not after:
            raise KilledError(place)
        answer = whole(*arguments)
        if dies(*arguments):
            raise KilledError(place)
        return answer

    monkeypatch.setattr(owner, name, method)


def always(*_: Any) -> bool:
    return True


def is_commit(_: Any, kind: str, *__: Any) -> bool:
    return kind == "commit"


POINTS: dict[str, tuple[str, Callable[..., bool], bool, tuple[int, int]]] = {
    "before changes are kept": ("viewlet.spark_journal.Folder.write", always, False, (1, 1)),
    "while they are kept": ("viewlet.spark_journal.Folder.rename", always, False, (1, 1)),
    "when they are kept for one": ("viewlet.pipelines.outbox.Outbox.put", always, True, (1, 1)),
    "before the commit": ("viewlet.storage.container.Container.append", is_commit, False, (1, 1)),
    "after the commit": ("viewlet.storage.container.Container.append", is_commit, True, (1, 1)),
    "before a sink": ("viewlet.pipelines.run._Running._save", always, False, (1, 1)),
    "after a sink": ("viewlet.pipelines.run._Running._save", always, True, (2, 1)),
    "between two sinks": ("viewlet.pipelines.outbox.Outbox.done", always, True, (1, 1)),
}
"""Where a run ends, and how often each of two sinks is given the changes of that batch."""


@pytest.mark.parametrize("point", POINTS)
def test_no_change_is_lost_whenever_a_run_ends(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    file, options = str(tmp_path / "shop.viewlet"), {"checkpoint": str(tmp_path / "streams")}
    arrive(tmp_path, 1, ["ann", "bob"])
    run(pipeline(spark, tmp_path), spark, file, **options)
    arrive(tmp_path, 2, ["ann", "eve"])
    place, dies, after, times = POINTS[point]
    with monkeypatch.context() as patch:
        kill(patch, place, dies, after)
        with pytest.raises(Exception, match="KilledError"):
            run(pipeline(spark, tmp_path), spark, file, **options)
    arrive(tmp_path, 3, ["bob"])
    run(pipeline(spark, tmp_path), spark, file, **options)
    with viewlet.connect(file) as db:
        rows = set(db.view("per_customer").rows())
    assert rows == {("ann", 2), ("bob", 2), ("eve", 1)}
    for sink, often in zip(("one", "two"), times, strict=True):
        changes = written(spark, tmp_path, sink)
        assert net(changes) == rows
        assert {n for (_, _, _, version), n in changes.items() if version == 2} == {often}
        assert {n for (_, _, _, version), n in changes.items() if version != 2} == {1}
    assert not list((tmp_path / "shop.viewlet-outbox" / "shop").glob("[!.]*"))


def test_a_database_on_spark_keeps_them_beside_its_folder(
    spark_with: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = spark_with({"spark.viewlet.database": (tmp_path / "shop").as_uri()})
    arrive(tmp_path, 1, ["ann", "bob"])
    options = {"checkpoint": str(tmp_path / "streams")}
    with monkeypatch.context() as patch:
        kill(patch, "viewlet.pipelines.run._Running._save", always)
        with pytest.raises(Exception, match="KilledError"):
            run(pipeline(spark, tmp_path), spark, **options)
    assert len(list((tmp_path / "shop-outbox" / "shop").glob("[!.]*"))) == 2, "one for each sink"
    run(pipeline(spark, tmp_path), spark, **options)
    for sink in ("one", "two"):
        assert net(written(spark, tmp_path, sink)) == {("ann", 1), ("bob", 1)}


def test_a_frame_that_is_no_stream_needs_no_checkpoint(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is applied once per database, so nothing would bring its changes again."""
    found, file = Pipeline("shop"), str(tmp_path / "shop.viewlet")
    found.table(schema="id BIGINT, customer VARCHAR", name="orders")(
        lambda: spark.createDataFrame([(1, "ann")], "id long, customer string")
    )
    found.materialized_view(name="per_customer")(lambda: VIEW)
    path = {"path": str(tmp_path / "one")}
    found.create_sink("one", view="per_customer", format="json", options=path, emits="changes")
    with monkeypatch.context() as patch:
        kill(patch, "viewlet.pipelines.run._Running._save", always)
        with pytest.raises(KilledError):
            run(found, spark, file)
    for _ in range(2):
        run(found, spark, file)
    assert written(spark, tmp_path, "one") == {("ann", 1, "insert", 1): 1}
