"""Topics of Kafka in and out, on a broker of this host: every event counts once, however a run ends."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import viewlet
from spark.packages import broker, needed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]

SHOP = """
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
from viewlet.pipelines import create_sink, materialized_view, table

KAFKA = {"kafka.bootstrap.servers": "ADDRESS"}
ROW = "struct<id: string, customer: string, amount: string>"
EVENT = f"op string, before {ROW}, after {ROW}, _corrupt_record string"


@table(schema="id BIGINT NOT NULL, customer VARCHAR, amount DECIMAL(9,2)")
def orders():
    source = SparkSession.active().readStream.format("kafka").options(**KAFKA)
    source = source.option("subscribe", "orders-RUN").option("startingOffsets", "earliest")
    events = source.option("maxOffsetsPerTrigger", 40).load()
    text = events.where("value IS NOT NULL").select(col("value").cast("string").alias("value"))
    options = {"columnNameOfCorruptRecord": "_corrupt_record"}
    return text.select(from_json("value", EVENT, options).alias("event")).select("event.*")


@materialized_view
def spending():
    return "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer"


create_sink(
    "spending",
    view="spending",
    format="kafka",
    options={**KAFKA, "topic": "spending-RUN"},
    emits="changes",
    select=["customer AS key", "to_json(struct(*)) AS value"],
)
"""


class Shop:
    """Orders that come, change and go: the events, and what should be left of them."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._number = 0
        self.orders: dict[int, dict[str, str]] = {}
        self.refused = 0

    def events(self, n: int) -> list[tuple[str, str | None]]:
        """Messages with their keys: of an order in sequence, and among them some that cannot be used."""
        return [self._event() for _ in range(n)]

    def _event(self) -> tuple[str, str | None]:
        self._number += 1
        kind = self._draw.choices(["c", "u", "d", "bad", "tombstone"], [6, 3, 3, 1, 1])[0]
        if kind == "tombstone":
            return "0", None
        if kind == "bad":
            self.refused += 1
            order = {"id": str(self._number), "customer": "eve"}
            return "0", self._draw.choice(
                ["{no json", envelope("c", None, {**order, "amount": "much"}), envelope("d", None, order)]
            )
        if kind == "c" or not self.orders:
            self.orders[self._number] = new = self._order(self._number)
            return str(self._number), envelope("c", None, new)
        id = self._draw.choice(list(self.orders))
        old = self.orders.pop(id)
        if kind == "d":
            return str(id), envelope("d", old, None)
        self.orders[id] = new = self._order(id)
        return str(id), envelope("u", old, new)

    def _order(self, id: int) -> dict[str, str]:
        amount = f"{self._draw.randint(-500, 500) / 100:.2f}"
        return {"id": str(id), "customer": self._draw.choice(["ann", "bob", "cid"]), "amount": amount}

    def spending(self) -> list[tuple[str, int, int]]:
        """The view from scratch, in cents."""
        totals: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for order in self.orders.values():
            totals[order["customer"]] += round(100 * float(order["amount"]))
            counts[order["customer"]] += 1
        return sorted((customer, totals[customer], n) for customer, n in counts.items())


def envelope(op: str, before: Any, after: Any) -> str:
    return json.dumps({"op": op, "before": before, "after": after})


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needed("kafka")
    with broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


def send(spark: Any, topic: dict[str, str], events: list[tuple[str, str | None]]) -> None:
    frame = spark.createDataFrame(events, "key string, value string").coalesce(1)
    frame.write.format("kafka").options(**topic).save()


def published(spark: Any, topic: dict[str, str]) -> list[tuple[Any, ...]]:
    """What all changes in the topic of a sink come to."""
    net: Counter[tuple[Any, ...]] = Counter()
    messages = spark.read.format("kafka").options(**topic).load().selectExpr("CAST(value AS string)")
    for (text,) in messages.collect():
        change = json.loads(text)
        row = change["customer"], round(100 * change["total"]), change["n"]
        net[row] += 1 if change["_change_type"] == "insert" else -1
    assert set(net.values()) <= {0, 1}
    return sorted(net.elements())


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "viewlet.cli", "run", str(folder / "shop.py"), "--master", "local[1]"]
    command += [
        "--conf",
        f"spark.jars={','.join(needed('kafka'))}",
        "--database",
        str(folder / "shop.viewlet"),
    ]
    command += ["--checkpoint", str(folder / "streams"), "--json", *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=(folder / "err").open("ab"))


def until_a_commit(folder: Path, process: subprocess.Popen[bytes], before: int) -> None:
    """Wait until Spark has noted more batches than before."""
    for _ in range(3000):
        assert process.poll() is None, (folder / "err").read_text()[-3000:]
        if notes(folder) > before:
            return
        time.sleep(0.1)
    raise AssertionError((folder / "err").read_text()[-3000:])


def notes(folder: Path) -> int:
    found = (folder / "streams" / "orders" / "commits").glob("[0-9]*")
    return max((int(note.name) for note in found), default=-1)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_a_run_that_ends_goes_on(spark: Any, kafka: str, tmp_path: Path, how: signal.Signals) -> None:
    """Ended at any moment, and then run to the end: the view and the quarantine are right.

    So is the topic of the sink, unless the run was killed: that may be between a commit and its sinks.
    """
    (tmp_path / "shop.py").write_text(SHOP.replace("ADDRESS", kafka).replace("RUN", how.name))
    server, shop = {"kafka.bootstrap.servers": kafka}, Shop(how.value)
    orders = {**server, "topic": f"orders-{how.name}"}
    send(spark, orders, shop.events(100))
    with start(tmp_path, "--every", "100 milliseconds") as process:
        until_a_commit(tmp_path, process, -1)
        send(spark, orders, shop.events(200))
        until_a_commit(tmp_path, process, notes(tmp_path))
        process.send_signal(how)
        process.wait(200)
    taken = notes(tmp_path)
    send(spark, orders, shop.events(50))
    with start(tmp_path) as process:
        assert process.wait(500) == 0, (tmp_path / "err").read_text()[-3000:]
    assert notes(tmp_path) > taken >= 1
    with viewlet.connect(str(tmp_path / "shop.viewlet")) as db:
        found = [(customer, round(100 * total), n) for customer, total, n in db.view("spending").rows()]
        assert sorted(found) == shop.spending()
        assert len(db.table("quarantine").rows()) == shop.refused > 0
    if how is not signal.SIGKILL:
        assert published(spark, {**server, "subscribe": f"spending-{how.name}"}) == shop.spending()
