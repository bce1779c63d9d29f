"""Nexmark: people who open auctions, and bids on them, as the streaming benchmarks of the field have them.

Of 50 events the first is a person, the next three are auctions, and the rest are bids. Event number n comes
at the time n / rate, and everything about it is a pure function of (seed, n), so that any range of events can
be made alone. Proportions, hot keys and lifetimes are the published generator's; the random numbers are not.

>>> market = Market(rate=100)
>>> {table: rows.num_rows for table, rows in market.tables(1_000).items()}
{'person': 20, 'auction': 60, 'bid': 920}
>>> market.stream(1_000).after(900).whole() == market.stream(100, first=900).whole()
True
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.workloads import draws, schema
from viewlet.workloads.ddl import arrow_schemas, conform
from viewlet.workloads.draws import Index
from viewlet.workloads.stream import Stream, weighted

Columns: TypeAlias = dict[str, Any]

PEOPLE, AUCTIONS, TOGETHER = 1, 3, 50
"""Of so many events together the first are people, the next auctions, the others bids."""
SPANS = {"person": (0, PEOPLE), "auction": (PEOPLE, PEOPLE + AUCTIONS), "bid": (PEOPLE + AUCTIONS, TOGETHER)}

HOT_EVERY = 100
"""One person of so many, and one auction, is hot for as long as he or it is the latest one."""
LEAD = 10
"""So many people and auctions are referred to before they come."""
BASE_TIME = 1_436_918_400_000_000
FIRST_CATEGORY, CATEGORIES = 10, 5
CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend"),
    *("Redmond", "Seattle", "Kent", "Cheyenne"),
)
FIRST_NAMES = (
    *("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate"),
    *("Julie", "Sarah", "Deiter", "Walter"),
)
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")


@dataclass(frozen=True, slots=True)
class Market:
    """What the events are like.

    ``rate`` events come per second of their own time. One bid in ``hot_auctions`` is for any of the last
    ``in_flight`` auctions, the others for the hot one; one in ``hot_bidders`` is by any of the last
    ``active`` people, one auction in ``hot_sellers`` of one of them. An auction lasts until ``in_flight``
    others have come, on the average. Numbers of people and of auctions begin at ``first_id``.
    """

    rate: int = 10_000
    hot_auctions: int = 2
    hot_bidders: int = 4
    hot_sellers: int = 4
    in_flight: int = 100
    active: int = 1_000
    first_id: int = 1_000
    seed: int = 0

    def stream(self, events: int, *, first: int = 0) -> Stream:
        """The events ``first`` to ``first + events`` as insertions, in the order of their numbers."""
        places = {table: numbers - first for table, numbers in numbers(first, events).items()}
        return Stream({t: weighted(rows) for t, rows in self.tables(events, first=first).items()}, places)

    def tables(self, events: int, *, first: int = 0) -> dict[str, pa.Table]:
        """The same as tables."""
        return {table: self.rows(table, numbers) for table, numbers in numbers(first, events).items()}

    def rows(self, table: str, number: Index) -> pa.Table:
        """The rows of the events of these numbers, all of them of one table."""
        columns: Columns = {"person": self._person, "auction": self._auction, "bid": self._bid}[table](number)
        shared = {"date_time": _moment(self._time(number)), "extra": self._extra(table, number)}
        return conform(columns | shared, arrow_schemas(schema("nexmark"))[table])

    def _person(self, number: Index) -> Columns:
        first, last = (
            draws.choice(self.seed, part, number, names)
            for part, names in (("first name", FIRST_NAMES), ("last name", LAST_NAMES))
        )
        card = draws.integers(self.seed, "card", number, 0, 10**16)
        return {
            "id": self.first_id + _last(number, "person"),
            "name": np.char.add(np.char.add(first, " "), last),
            "email_address": [
                f"{user}@{host}.com"
                for user, host in zip(
                    self._words("user", number, 3, 8).to_pylist(),
                    self._words("host", number, 3, 6).to_pylist(),
                    strict=True,
                )
            ],
            "credit_card": [" ".join(f"{c:016}"[i : i + 4] for i in range(0, 16, 4)) for c in card.tolist()],
            "city": draws.choice(self.seed, "city", number, CITIES),
            "state": draws.choice(self.seed, "state", number, STATES),
        }

    def _auction(self, number: Index) -> Columns:
        seed, initial = self.seed, self._price("initial bid", number)
        horizon = self.in_flight * TOGETHER * 1_000 // (AUCTIONS * self.rate)  # milliseconds
        lasts = 1_000 * (1 + draws.integers(seed, "lasts", number, 0, max(2 * horizon, 1)))
        hot = draws.integers(seed, "hot seller", number, 0, self.hot_sellers) > 0
        return {
            "id": self.first_id + _last(number, "auction"),
            "item_name": self._words("item", number, 3, 20),
            "description": self._words("description", number, 3, 100),
            "initial_bid": initial,
            "reserve": initial + self._price("reserve", number),
            "expires": _moment(self._time(number) + lasts),
            "seller": self.first_id + np.where(hot, _hot(number, "person"), self._someone("seller", number)),
            "category": draws.integers(seed, "category", number, FIRST_CATEGORY, FIRST_CATEGORY + CATEGORIES),
        }

    def _bid(self, number: Index) -> Columns:
        seed, last = self.seed, _last(number, "auction")
        oldest = np.maximum(last - self.in_flight, 0)
        other = oldest + _below(seed, "auction", number, last - oldest + 1 + LEAD)
        hot = draws.integers(seed, "hot auction", number, 0, self.hot_auctions) > 0
        keen = draws.integers(seed, "hot bidder", number, 0, self.hot_bidders) > 0
        known = draws.chance(seed, "hot channel", number, 0.5)
        channel = np.where(
            known,
            draws.integers(seed, "which hot channel", number, 0, len(HOT_CHANNELS)),
            len(HOT_CHANNELS) + draws.integers(seed, "channel", number, 0, CHANNELS),
        )
        names, urls = _channels(seed)
        return {
            "auction": self.first_id + np.where(hot, _hot(number, "auction"), other),
            # the second of a hundred, so that hot bidders are not hot sellers
            "bidder": self.first_id
            + np.where(keen, _hot(number, "person") + 1, self._someone("bidder", number)),
            "price": self._price("price", number),
            "channel": names.take(pa.array(channel)),
            "url": urls.take(pa.array(channel)),
        }

    def _someone(self, draw: str, number: Index) -> NDArray[np.int64]:
        """One of the people who are active, or of those who will come next."""
        people = _last(number, "person") + 1
        active = np.minimum(people, self.active)
        return people - active + _below(self.seed, draw, number, active + LEAD)

    def _price(self, draw: str, number: Index) -> NDArray[np.int64]:
        """From a dollar to a million, in cents, their logarithms evenly."""
        price: NDArray[np.float64] = np.round(100 * 10 ** (6 * draws.uniform(self.seed, draw, number)))
        return price.astype(np.int64)

    def _time(self, number: Index) -> NDArray[np.int64]:
        """Microseconds; the clock shows milliseconds."""
        return BASE_TIME + number * 1_000 // self.rate * 1_000

    def _words(self, draw: str, number: Index, shortest: int, longest: int) -> pa.Array:
        return letters(self.seed, draw, number, shortest, longest)

    def _extra(self, table: str, number: Index) -> pa.Array:
        """What fills a row to its usual size, 200, 500 and 100 bytes in the published generator."""
        shortest, longest = {"person": (80, 120), "auction": (280, 420), "bid": (20, 60)}[table]
        return self._words(f"extra of {table}", number, shortest, longest)


def side_input(rows: int = 10_000) -> pa.Table:
    """The table that q13 looks bids up in: every key below ``rows``, with a text."""
    key = np.arange(rows)
    columns = {"key": key, "value": [f"side {k}" for k in key]}
    return conform(columns, arrow_schemas(schema("nexmark"))["side_input"])


def letters(seed: int, draw: str, number: Index, shortest: int, longest: int) -> pa.Array:
    """A text of small letters per event, ``shortest`` to ``longest`` of them.

    >>> letters(1, "x", np.arange(2), 3, 3).to_pylist() == letters(1, "x", np.arange(9), 3, 3).to_pylist()[:2]
    True
    """
    lengths = draws.integers(seed, f"length of {draw}", number, shortest, longest + 1)
    ends = np.cumsum(lengths)
    # Four bits make no letter: of each eight random bytes come eight letters, by their remainders.
    blocks = -(-longest // 8)
    block = (np.asarray(number)[:, None] * blocks + np.arange(blocks)).ravel()
    drawn = draws.bits(seed, draw, block).view(np.uint8).reshape(len(lengths), blocks * 8)
    text = (drawn % 26 + ord("a"))[np.arange(blocks * 8) < lengths[:, None]]
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(text))


@lru_cache(maxsize=4)
def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """Names and addresses, those of the hot channels first. Of ten addresses nine name their channel."""
    number = np.arange(len(HOT_CHANNELS) + CHANNELS, dtype=np.int64)
    folders = [letters(seed, f"folder {i}", number, 3, 5).to_pylist() for i in range(3)]
    named = draws.chance(seed, "channel in address", number, 0.9).tolist()
    urls = [
        f"https://www.nexmark.com/{'/'.join(path)}/item.htm?query=1{f'&channel_id={n}' if told else ''}"
        for n, told, *path in zip(number.tolist(), named, *folders, strict=True)
    ]
    names = [*HOT_CHANNELS, *(f"channel-{n}" for n in range(CHANNELS))]
    return pa.array(names), pa.array(urls)


def numbers(first: int, events: int) -> dict[str, Index]:
    """The numbers of the events of each table."""
    number = np.arange(first, first + events, dtype=np.int64)
    place = number % TOGETHER
    return {table: number[(low <= place) & (place < high)] for table, (low, high) in SPANS.items()}


def _last(number: Index, table: str) -> NDArray[np.int64]:
    """The latest row of a table when an event comes, counted from 0; the event's own row, if it is one.

    >>> _last(np.array([0, 1, 3, 4, 49, 50, 51]), "auction").tolist()
    [0, 0, 2, 2, 2, 2, 3]
    """
    low, high = SPANS[table]
    found = number // TOGETHER * (high - low) + np.clip(number % TOGETHER - low, -1, high - low - 1)
    return np.maximum(found, 0)


def _hot(number: Index, table: str) -> NDArray[np.int64]:
    return _last(number, table) // HOT_EVERY * HOT_EVERY


def _below(seed: int, draw: str, number: Index, limits: NDArray[np.int64]) -> NDArray[np.int64]:
    """An integer from 0 to below the event's own limit."""
    return np.floor(draws.uniform(seed, draw, number) * limits).astype(np.int64)


def _moment(micros: NDArray[np.int64]) -> pa.Array:
    return pa.array(micros).cast(pa.timestamp("us"))
