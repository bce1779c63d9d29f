"""After any updates a maintained sketch equals the accurate one, and answers its query."""

from __future__ import annotations

from random import Random

import pytest

from sketches.databases import arrow_result, load, random_changes, random_data, result
from sketches.model import Having, Spec, Top, fragments
from viewlet import sketches

BOUNDS = {"a": [1, 2, 3, 4], "b": [1, 2], "c": [2, 4], "d": [3, 6], "x": [1, 2], "y": [1, 3]}

CASES = {
    "rows": (Spec(where=("c", "<", 4)), "r.d"),
    "rows of a join": (Spec(join="s", where=("c", "<", 4)), "r.a"),
    "other side of a join": (Spec(join="s"), "s.y"),
    "self join": (Spec(join="self", where=("c", "<", 3)), "r.a"),
    "left join": (Spec(join="left", where=("c", "<", 4)), "r.a"),
    "distinct": (Spec(distinct=True, where=("d", ">", 2)), "r.c"),
    "union": (Spec(where=("c", "<", 3), union=("d", ">", 5)), "r.d"),
    "sum by group attribute": (Spec(groups=("a",), having=(Having("sum", "d", ">", 20),)), "r.a"),
    "sum by other attribute": (Spec(groups=("a",), having=(Having("sum", "d", ">", 20),)), "r.c"),
    "avg": (Spec(groups=("a", "b"), having=(Having("avg", "d", "<", 5),)), "r.a"),
    "count": (Spec(groups=("a",), where=("c", ">", 1), having=(Having("count", "*", ">", 3),)), "r.d"),
    "count of a column": (Spec(groups=("a",), having=(Having("count", "c", ">=", 4),)), "r.b"),
    "count distinct": (Spec(groups=("a",), having=(Having("countd", "d", ">", 3),)), "r.b"),
    "min": (Spec(groups=("a",), having=(Having("min", "d", "<", 1),)), "r.c"),
    "max": (Spec(groups=("a",), having=(Having("max", "d", ">", 8),)), "r.c"),
    "two conditions": (
        Spec(groups=("a",), having=(Having("avg", "c", "<", 4), Having("min", "d", "<", 2))),
        "r.a",
    ),
    "either condition": (
        Spec(
            groups=("a",), having=(Having("max", "c", ">", 5), Having("sum", "d", ">", 25)), connective="OR"
        ),
        "r.b",
    ),
    "no condition": (Spec(groups=("a", "b"), where=("d", ">", 6)), "r.c"),
    "join and groups": (Spec(groups=("a",), join="s", having=(Having("sum", "y", ">", 6),)), "r.a"),
    "join, other table": (Spec(groups=("a",), join="s", having=(Having("count", "*", ">", 5),)), "s.y"),
    "groups of the other table": (Spec(groups=("y",), join="s", having=(Having("avg", "d", "<", 5),)), "s.y"),
    "self join and groups": (
        Spec(groups=("a",), join="self", having=(Having("sum", "y", ">", 20),)),
        "r.c",
    ),
    "left join and groups": (
        Spec(groups=("a",), join="left", having=(Having("count", "y", ">", 3),)),
        "r.a",
    ),
    "top of groups": (Spec(groups=("a",), top=Top("sum", "d", True, 2)), "r.b"),
    "top with offset": (Spec(groups=("a",), top=Top("count", "*", True, 1, 1)), "r.a"),
    "lowest of groups": (Spec(groups=("a", "b"), top=Top("min", "d", False, 3)), "r.c"),
    "top of averages": (Spec(groups=("a",), top=Top("avg", "d", False, 2)), "r.a"),
    "top of rows": (Spec(top=Top("max", "a", True, 4)), "r.c"),
    "nested": (
        Spec(
            groups=("a", "b"),
            having=(Having("count", "*", ">", 1),),
            outer=(("a",), Having("count", "*", ">", 1)),
        ),
        "r.c",
    ),
    "nested sums": (
        Spec(
            groups=("a", "b"),
            having=(Having("sum", "d", ">", 5),),
            outer=(("a",), Having("sum", "v0", ">", 20)),
        ),
        "r.c",
    ),
    "nested, inner attribute": (
        Spec(
            groups=("a", "b"),
            having=(Having("avg", "d", "<", 6),),
            outer=(("a",), Having("count", "*", ">", 1)),
        ),
        "r.b",
    ),
}


def follow(name: str, seed: int, batches: int, low: int = 0, **options: object) -> None:
    spec, attribute = CASES[name]
    random = Random(f"{name} {seed}")
    data = random_data(random, random.choice([0, 8, 40]), low)
    connection = load(data)
    store = sketches.open(connection)
    table, column = attribute.split(".")
    options = {"maintain": "incremental", **options}
    sketch = store.capture(spec.sql(), on=attribute, ranges=BOUNDS[column], **options)
    for _ in range(batches):
        accurate = fragments(spec.lineage(data), data, table, column, BOUNDS[column])
        assert sketch.fragments == accurate, f"{spec.sql()} over {data}"
        if sketch.retired is None:
            answered = arrow_result(store.query(spec.sql(), use="always"))
            assert answered == result(connection, spec.sql()), f"{store.rewrite(spec.sql())} over {data}"
        store.apply(random_changes(random, data, low))
        sketch.refresh()
    if "way" not in options and "bound" not in options and "left" not in name:
        assert sketch.costs.captures == 1, "changes were followed, not captured again"


@pytest.mark.parametrize("name", CASES)
def test_incremental(name: str) -> None:
    follow(name, 1, 5)


@pytest.mark.parametrize("name", list(CASES)[::2])
def test_two_pass(name: str) -> None:
    follow(name, 7, 3, way="two_pass")


@pytest.mark.parametrize("name", ["min", "max", "top of groups", "lowest of groups", "top of rows"])
def test_bounded_buffers(name: str) -> None:
    for seed in range(2):
        follow(name, seed, 8, bound=1)


@pytest.mark.parametrize("name", ["sum by group attribute", "self join and groups", "nested", "top of rows"])
def test_lazy(name: str) -> None:
    spec, attribute = CASES[name]
    random = Random(name)
    data = random_data(random, 30)
    connection = load(data)
    store = sketches.open(connection)
    table, column = attribute.split(".")
    sketch = store.capture(
        spec.sql(), on=attribute, ranges=BOUNDS[column], eager=False, maintain="incremental"
    )
    before = sketch.fragments
    for _ in range(3):
        store.apply(random_changes(random, data))
    assert sketch.fragments == before
    with pytest.raises(sketches.StaleError, match="version"):
        sketch.require_usable()
    assert arrow_result(store.query(spec.sql(), use="always")) == result(connection, spec.sql())
    assert sketch.fragments == fragments(spec.lineage(data), data, table, column, BOUNDS[column])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_incremental_long(name: str) -> None:
    for seed in range(40):
        follow(name, 100 + seed, 12)
