"""The cost model: a sketch that does not pay is not used, a change that is too large is not followed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import duckdb
import pytest

from viewlet import sketches
from viewlet.sketches.cost import DOUBTED, RETRIED, TRUSTED, Costs, Line, Skipping, predicted_gain

HAVING = "SELECT a FROM r GROUP BY a HAVING sum(b) > {}"


def table(order: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    rows = "SELECT (i * 7919) % 1000 AS a, i AS b FROM range(300000) t(i)"
    connection.execute(f"CREATE TABLE r AS SELECT a::BIGINT AS a, b::BIGINT AS b FROM ({rows}) {order}")
    return connection


def test_order_of_storage_decides() -> None:
    """The same sketch touches few row groups of a sorted table, and all of an unsorted one."""
    shares = {}
    for order in ("", "ORDER BY a"):
        store = sketches.open(table(order))
        text = "SELECT a FROM r WHERE a < 10 GROUP BY a HAVING sum(b) > 5"
        sketch = store.capture(text, on="r.a", ranges=100)
        (restriction,) = sketch.restrictions
        shares[order] = store._backend.skipping(*restriction)
    assert shares[""].kept == shares["ORDER BY a"].kept < 0.05
    assert shares[""].touched == 1
    assert shares["ORDER BY a"].touched < 0.5
    assert predicted_gain(shares["ORDER BY a"]) > predicted_gain(shares[""]) > 1


def test_useless_sketch_is_not_used() -> None:
    """A sketch of nearly everything costs more than it saves; the gate says so before it is tried."""
    connection = table("")
    store = sketches.open(connection)
    text = HAVING.format(-1)
    sketch = store.capture(text, on="r.a", ranges=50)
    assert sketch.predicted_gain() <= 1
    assert store.query(text).num_rows == 1000
    assert (sketch.costs.use.count, sketch.costs.full.count) == (0, 1)
    assert store.query(text, use="always").num_rows == 1000
    assert (sketch.costs.use.count, sketch.costs.full.count) == (1, 1)


def test_measurements_overrule_predictions() -> None:
    costs = Costs()
    costs.use.add(2.0)
    assert costs.gain(5.0) == 5.0
    costs.full.add(1.0)
    assert costs.gain(5.0) == 0.5


def measured(use: float, full: float, follow: float) -> Costs:
    costs = Costs()
    costs.use.add(use)
    costs.full.add(full)
    costs.refresh.add(100, follow)
    costs.light.add(9.0)
    return costs


def test_following_waits_until_it_pays() -> None:
    """Within one version savings forgone add up to the price of following; then it is paid."""
    costs = measured(1.0, 3.0, 5.0)
    assert [costs.pays(lambda: 100, 9.0) for _ in range(3)] == [False, False, True]
    assert costs.pays(lambda: 0, 9.0), "nothing to follow"
    costs.full.value = 0.5
    assert not costs.pays(lambda: 0, 9.0), "it does not gain"


def test_following_counts_on_the_usual_queries() -> None:
    """With many queries between changes it is paid at the first of them; with one, rarely."""
    costs = measured(1.0, 3.0, 5.0)
    for changes in range(1, 4):
        pending = [changes * 100]
        answers = []
        for _ in range(5):
            answers.append(costs.pays(lambda: pending[0], 9.0))  # noqa: B023
            pending[0] = 0 if answers[-1] else pending[0]
        assert answers == ([False, False, True, True, True] if changes == 1 else [True] * 5)
        costs.refresh = Line()
        costs.refresh.add(100, 5.0)
        costs.refresh.add(1000, 5.0)
    costs = measured(1.0, 3.0, 5.0)
    costs.refresh.add(1000, 5.0)
    assert sum(costs.pays(lambda: change, 9.0) for change in range(1, 2 * RETRIED)) == 1  # noqa: B023


def test_the_whole_query_is_measured_while_it_costs_nothing() -> None:
    costs = Costs()
    assert not costs.pays(lambda: 5, 9.0), "with changes pending, the whole query is no loss"
    costs.full.add(3.0)
    assert costs.pays(lambda: 5, 9.0)
    assert not Costs().pays(lambda: 0, 0.9), "the gate"


def test_an_unlucky_measurement_is_forgotten() -> None:
    """What looked bad once is tried again soon; what was bad several times, rarely."""
    costs = measured(3.0, 1.0, 0.0)
    assert [costs.pays(lambda: 0, 9.0) for _ in range(DOUBTED)] == [False] * (DOUBTED - 1) + [True]
    costs.use.add(0.1)
    costs.use.add(0.1)
    assert costs.pays(lambda: 0, 9.0), "it was the machine"
    costs = measured(3.0, 1.0, 0.0)
    for _ in range(TRUSTED):
        costs.use.add(3.0)
    assert sum(costs.pays(lambda: 0, 9.0) for _ in range(2 * RETRIED)) == 2


def test_a_doubtful_sketch_is_not_followed_at_any_price() -> None:
    costs = measured(3.0, 1.0, 0.7)
    assert not any(costs.pays(lambda: 100, 9.0) for _ in range(RETRIED - 1))
    assert not any(measured(3.0, 1.0, 0.0).pays(lambda: 0, 0.9) for _ in range(RETRIED)), "the gate"


def test_large_changes_are_captured_lightly() -> None:
    costs = Costs()
    costs.capture.add(1.0)
    assert not costs.light_is_cheaper(10**4), "by the prior, and as long as the first capture"
    assert costs.light_is_cheaper(10**6)
    costs.refresh.add(1000, 0.02)
    costs.refresh.add(2000, 0.03)
    assert not costs.light_is_cheaper(50_000)
    assert costs.light_is_cheaper(200_000)
    costs.full.add(0.1)
    assert costs.light_is_cheaper(50_000), "a light capture takes about as long as the query"
    costs.captured_lightly(50_000, 0.2)
    assert costs.light_is_cheaper(1), "the state would have to follow all that it has missed"


@dataclass(frozen=True)
class World:
    """What things take, in seconds: the query, its share with the sketch, a batch and a row of it."""

    full: float
    share: float
    batch: float
    row: float
    light: float

    def run(
        self, updates: int, queries: int, rows: int, operations: int, unlucky: float = 1.0
    ) -> dict[str, float]:
        """The time of a mix without sketch, captured anew after every change, and as the model chooses.

        The first use was measured ``unlucky`` times as long as it takes.
        """
        costs = Costs()
        costs.captured(1.5 * self.light)
        use, waiting, changed = self.full * self.share, 0, False
        costs.full.add(self.full)
        costs.use.add(unlucky * use)
        spent = {"without": 0.0, "anew": 0.0, "own": 0.0}
        for operation in range(operations):
            if operation % (updates + queries) < updates:
                waiting, changed = waiting + rows, True
                continue
            spent["without"] += self.full
            spent["anew"] += use + self.light * changed
            changed = False
            if costs.pays(lambda: waiting, 1 / self.share):  # noqa: B023
                spent["own"] += self._catch_up(costs, waiting) + use
                waiting = 0
                costs.use.add(use)
            else:
                spent["own"] += self.full
                costs.full.add(self.full)
        return spent

    def _catch_up(self, costs: Costs, waiting: int) -> float:
        if not waiting:
            return 0.0
        if costs.light_is_cheaper(waiting):
            costs.captured_lightly(waiting, self.light)
            return self.light
        rows, costs.behind = waiting + costs.behind, 0
        seconds = self.batch + self.row * rows
        costs.followed(rows, seconds)
        return seconds


def test_the_model_never_loses_much() -> None:
    """Mixes over all kinds of prices: within a tenth of the better of doing without and capturing anew.

    Prices come true as the world has them, so what is lost is lost by the model: the first batch that it
    follows may cost more than it thought.
    """
    won = 0
    for full, share, batch, row, light in product(
        (0.005, 0.1, 1.0), (0.05, 0.3, 1.1), (0.0, 0.3, 1.0), (1e-6, 2e-5, 1e-4), (1.0, 1.5)
    ):
        world = World(full, share, 0.005 + batch * full, row, light * full)
        for (updates, queries), rows in product(((1, 1), (1, 5), (5, 1)), (1, 20, 200, 2000)):
            spent = world.run(updates, queries, rows, 300)
            best = min(spent["without"], spent["anew"])
            assert spent["own"] <= 1.1 * best, (world, updates, queries, rows, spent)
            won += spent["own"] < 0.9 * best
    assert won > 500, won


def test_an_unlucky_start_is_made_up_for() -> None:
    """As long as changes are few: to follow many before it is known what is gained would risk too much."""
    world = World(full=0.1, share=0.2, batch=0.003, row=2e-6, light=0.1)
    for (updates, queries), rows in product(((1, 1), (1, 5), (5, 1)), (1, 20)):
        spent = world.run(updates, queries, rows, 120, unlucky=20.0)
        assert spent["own"] < 0.8 * min(spent["without"], spent["anew"]), (updates, queries, rows, spent)


def test_store_follows_the_model() -> None:
    connection = table("ORDER BY a")
    store = sketches.open(connection)
    text = HAVING.format(44_900_000)
    sketch = store.capture(text, on="r.a", ranges=50)
    sketch.costs.capture.value = 10.0
    store.apply({"r": [(1, 1)]})
    assert (sketch.costs.captures, sketch.costs.refreshes) == (1, 1)
    sketch.costs.refresh = Line()
    sketch.costs.refresh.add(1, 1000.0)
    store.apply({"r": [(1, 10**7)]})
    assert (sketch.costs.captures, sketch.costs.refreshes, sketch.costs.behind) == (2, 1, 1)
    assert store.query(text, use="always").num_rows == store.query(text, use="never").num_rows
    assert "1 changes behind" in sketch.explain()
    sketch.costs.refresh = Line()
    sketch.costs.light.value = 10.0
    store.apply({"r": [(2, 10**7)]})  # the state follows from where it was left
    assert (sketch.costs.captures, sketch.costs.refreshes, sketch.costs.behind) == (2, 2, 0)
    followed = sketch.fragments
    sketch.recapture()
    assert followed == sketch.fragments


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
def test_gain_falls_with_what_is_kept(share: float) -> None:
    assert predicted_gain(Skipping(share, share, 0.2)) >= predicted_gain(Skipping(share, 1.0, 0.2))
    assert predicted_gain(Skipping(share, 1.0, 0.2)) >= predicted_gain(Skipping(1.0, 1.0, 0.2))


def test_a_spike_is_not_believed() -> None:
    """One slow query or one slow refresh on a busy machine does not end the use of a sketch."""
    costs = measured(1.0, 3.0, 0.1)
    costs.use.add(100.0)
    costs.followed(10, 100.0)
    assert costs.pays(lambda: 10, 9.0)
