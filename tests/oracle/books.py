"""Small order books of every kind, event by event, and queries drawn for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from random import Random

from oracle.harness import Engine, connect, replay
from viewlet.workloads import order_book
from viewlet.workloads.stream import Batch, Stream

EVENTS = 20
BOOKS = {
    "benign": order_book.stream(
        EVENTS,
        order_book.walk(12, spread=2),
        tick=25,
        brokers=2,
        volumes=9,
        deletions=0.4,
        lifetime=12,
        seed=1,
    ),
    "adversarial": order_book.adversarial(EVENTS, prices=8, tick=40, brokers=2),
    "negative": order_book.stream(
        EVENTS,
        order_book.drawn(7),
        tick=40,
        brokers=2,
        volumes=5,
        negatives=0.4,
        deletions=0.4,
        lifetime=12,
        seed=2,
    ),
    "nulls": order_book.stream(
        EVENTS,
        order_book.drawn(7),
        tick=40,
        brokers=2,
        volumes=5,
        nulls=0.25,
        deletions=0.4,
        lifetime=12,
        seed=3,
    ),
}


def events(stream: Stream, tables: Set[str]) -> list[Batch]:
    """The events of a stream one by one, those of some tables."""
    return [batch for batch in stream.batches(1) if batch.keys() <= tables]


def replay_drawn(
    drawn: Callable[[Random], str],
    seed: int,
    kind: str,
    tables: Set[str],
    ddls: Sequence[str],
    *,
    engine: Engine = ("native", "higher_order"),
    beside: Mapping[str, str] | None = None,
) -> None:
    """Three queries that a seed draws, and those ``beside`` them, after every event of one kind of book."""
    random = Random(f"{seed} {kind}")
    views = {f"v{i}": drawn(random) for i in range(3)} | dict(beside or {})
    for ddl in ddls:
        replay(connect(engine), ddl, views, events(BOOKS[kind], tables))
