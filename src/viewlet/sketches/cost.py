"""What sketches cost and gain: when to use one, and when to follow changes rather than capture again.

All models are linear, as measured: following a change costs ``fixed + slope * rows``, a capture what the last
ones did, a restricted query a share of the full one. Predictions give way to measurements as these come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from viewlet.core.types import Kind, Type

FORGETTING = 0.7
"""How much of an old measurement counts beside a new one that is longer, and a new one that is shorter."""
EXPLORED = 4
"""After how many uses the query is run without the sketch once, to know what is gained."""
RETRIED = 25
"""A sketch that does not pay is tried once in so many queries."""
TRUSTED, DOUBTED, CHEAP = 3, 4, 0.5
"""Fewer uses than the first number may all have been unlucky: then it is tried once in the second number of
queries, if what has to be followed first costs no more than this share of the query."""
SPIKE = 3.0
"""A measurement counts for at most so many times what was expected: the machine may have been busy."""
MARGIN = 1.1
"""Measurements are noisy: what is gained must exceed its price by this factor."""
FIRST_FOLLOW, FOLLOW_SHARE = 0.005, 0.2
"""Seconds to follow a batch, without its rows, until that is measured; and that share of the query."""
MANY = tuple(round(1.5**power) for power in range(50))
"""The sizes of changes among which the first that is not worth following is looked for."""
OPERATOR_ROW, TRIGGER_ROW = 20e-6, 2e-6
"""Seconds per row of a batch by operators and by triggers, until they are measured."""


@dataclass(slots=True)
class Mean:
    """A mean in which recent measurements weigh more, and short ones: what else the machine does only adds.

    >>> mean = Mean()
    >>> mean.add(1.0); mean.add(2.0)
    >>> round(mean.value, 2), mean.count
    (1.3, 2)
    >>> mean.add(1.0)
    >>> round(mean.value, 2)
    1.09
    """

    value: float = 0.0
    count: int = 0

    def add(self, measured: float) -> None:
        """Take a measurement into account."""
        likely = min(measured, SPIKE * self.value)
        old = 1 - FORGETTING if measured < self.value else FORGETTING
        self.value = measured if not self.count else old * self.value + (1 - old) * likely
        self.count += 1


@dataclass(slots=True)
class Line:
    """``y = fixed + slope * x`` by least squares over what was measured.

    >>> line = Line()
    >>> for x in (10, 20, 30): line.add(x, 5 + 2 * x)
    >>> round(line.predict(100))
    205
    """

    count: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def add(self, x: float, y: float) -> None:
        """Take a measurement into account."""
        self.count += 1
        self.x, self.y, self.xx, self.xy = self.x + x, self.y + y, self.xx + x * x, self.xy + x * y

    def predict(self, x: float) -> float | None:
        """The value at ``x``; ``None`` before the first measurement. With one, in proportion."""
        if not self.count:
            return None
        spread = self.count * self.xx - self.x * self.x
        if spread <= 1e-9 * self.xx * self.count:
            return self.y / self.count * max(x * self.count / self.x, 1.0) if self.x else self.y / self.count
        slope = max((self.count * self.xy - self.x * self.y) / spread, 0.0)
        return max((self.y - slope * self.x) / self.count, 0.0) + slope * x


@dataclass(slots=True)
class Costs:
    """What a sketch has cost and saved so far, in seconds and rows."""

    captures: int = 0
    capture: Mean = field(default_factory=Mean)
    capture_seconds: float = 0.0
    light: Mean = field(default_factory=Mean)
    """Captures that find the fragments only, and leave the state behind the data."""
    row: float = OPERATOR_ROW
    """Seconds per row to follow, until that is measured."""
    behind: int = 0
    """So many changes the state lacks which the fragments have seen."""
    refreshes: int = 0
    refreshed_rows: int = 0
    refresh_seconds: float = 0.0
    refresh: Line = field(default_factory=Line)
    use: Mean = field(default_factory=Mean)
    full: Mean = field(default_factory=Mean)
    runs: Mean = field(default_factory=Mean)
    """Queries between two changes of the data."""
    run: int = 0
    forgone: float = 0.0
    waiting: int = 0
    declined: int = 0

    def captured(self, seconds: float) -> None:
        """The sketch was captured from scratch."""
        self.captures += 1
        self.capture_seconds += seconds
        self.capture.add(seconds)

    def captured_lightly(self, rows: int, seconds: float) -> None:
        """The fragments were found from scratch; the state has not seen so many more changes."""
        self.captures += 1
        self.capture_seconds += seconds
        self.light.add(seconds)
        self.behind += rows

    def followed(self, rows: int, seconds: float) -> None:
        """The sketch followed so many changes."""
        self.refreshes += 1
        self.refreshed_rows += rows
        self.refresh_seconds += seconds
        self.refresh.add(rows, min(seconds, SPIKE * self._follow(rows)))

    @property
    def upkeep(self) -> float:
        """Seconds spent on the sketch, apart from its use."""
        return self.capture_seconds + self.refresh_seconds

    def light_is_cheaper(self, rows: int) -> bool:
        """Is finding the fragments from scratch predicted to be cheaper than following so many changes?

        A light capture takes about as long as the query itself, until one was measured.
        """
        light = self._light()
        return light is not None and self._follow(rows) > light

    def foretold(self) -> str:
        """What the model says of changes to come: which are followed, and from which size on not.

        >>> costs = Costs()
        >>> costs.captured(0.1)
        >>> costs.foretold()
        'changes are followed, 1000 in about 0.0250 s; from about 4988 on the fragments are found anew'
        """
        told = f"changes are followed, 1000 in about {self._follow(1000):.4f} s"
        most = next((rows for rows in MANY if self.light_is_cheaper(rows)), None)
        return told if most is None else f"{told}; from about {most} on the fragments are found anew"

    def _follow(self, rows: int) -> float:
        """Seconds to follow so many changes."""
        rows += self.behind
        measured = self.refresh.predict(rows)
        if measured is not None:
            return measured
        return FIRST_FOLLOW + FOLLOW_SHARE * self.full.value + self.row * rows

    def _light(self) -> float | None:
        known = next((mean for mean in (self.light, self.full, self.capture) if mean.count), None)
        return None if known is None else known.value

    def gain(self, predicted: float) -> float:
        """How many times faster the query is with the sketch: measured where both ways were taken."""
        if self.use.count and self.full.count and self.use.value > 0:
            return self.full.value / self.use.value
        return predicted

    def pays(self, pending: Callable[[], int], predicted: float) -> bool:
        """Should the next query use the sketch, although changes that are pending have to be followed first?

        A query saves ``full - use``. To follow pays if the queries until the next change, as many as there
        used to be, save its price, or once the savings forgone since the last change add up to it. Until the
        whole query was measured, it is run whenever that costs nothing, which is while changes are pending.
        """
        saving = self._saving(predicted)
        if saving <= 0:
            return self._try_again(predicted) or self._doubts(pending, predicted)
        waiting = pending()
        self._count_query(waiting)
        if not self.full.count:
            return not waiting and self.use.count < EXPLORED
        price = MARGIN * self._price(waiting)
        self.forgone += saving
        expected = max(self.runs.value - self.run + 1, 1.0)
        if max(saving * expected, self.forgone) < price:
            return self._try_again(predicted)
        self.forgone, self.waiting = 0.0, 0
        return True

    def _saving(self, predicted: float) -> float:
        """Seconds saved per query; before any measurement, by the predicted gain, in units of the query."""
        full = self.full.value if self.full.count else 1.0
        return full - (self.use.value if self.use.count and self.full.count else full / predicted)

    def _try_again(self, predicted: float) -> bool:
        """A sketch that was measured not to pay may have been unlucky: it is tried again, rarely.

        At most a capture's time is lost by that, so one query in ``RETRIED``.
        """
        self.declined += 1
        return predicted > 1 and self.declined % RETRIED == 0

    def _doubts(self, pending: Callable[[], int], predicted: float) -> bool:
        """Should a sketch that was said to gain, but did not when it was first used, be tried again soon?"""
        if predicted <= 1 or self.use.count >= TRUSTED or self.declined % DOUBTED:
            return False
        return self._price(pending()) <= CHEAP * self.full.value

    def _count_query(self, waiting: int) -> None:
        """Notice a change of the data by what is waiting to be followed."""
        if waiting != self.waiting:
            if self.run:
                self.runs.add(self.run)
            self.run, self.forgone, self.waiting = 0, 0.0, waiting
        self.run += 1

    def _price(self, waiting: int) -> float:
        """Seconds to follow the changes, or to find the fragments from scratch if that is less."""
        if not waiting:
            return 0.0
        follow, light = self._follow(waiting), self._light()
        return follow if light is None else min(follow, light)


@dataclass(frozen=True, slots=True)
class Skipping:
    """What a restriction leaves to read.

    ``kept`` is the share of rows that pass it; ``touched`` the share of the storage that must be looked at;
    ``check`` what testing a row costs, in units of reading it and computing on it.
    """

    kept: float
    touched: float
    check: float


def predicted_gain(skipping: Skipping) -> float:
    """How many times faster the restricted query is, from measurements of scans and aggregations::

        cost / full cost = touched * (reading + check) + kept * computing,   reading + computing = 1

    >>> round(predicted_gain(Skipping(kept=0.05, touched=1.0, check=0.2)), 1)
    1.9
    """
    reading = 0.3
    cost = skipping.touched * (reading + skipping.check) + skipping.kept * (1 - reading)
    return 1 / max(cost, 1e-6)


def is_enumerable(kind: Type) -> bool:
    """Can the values of a range be listed?"""
    return kind.is_integer or kind.kind is Kind.DATE
