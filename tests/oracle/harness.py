"""After every batch, every view equals its query run from scratch by DuckDB.

:func:`replay` is the whole check for one stream at one batch size; :func:`replay_everyhow` repeats it one
change at a time, in batches, and all at once. ``ENGINES`` is the one list of what is tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlglot import exp

import viewlet
from oracle.compare import Difference, difference
from oracle.mirror import Mirror, question
from viewlet.views import STRATEGIES
from viewlet.workloads.ddl import creates
from viewlet.workloads.stream import Batch, Stream, weighted_rows

Check = Callable[[Any], None]
Engine = tuple[str, str]

# (backend, strategy): every oracle test runs on each of these, on those of the second list in the long run.
# What native code computes is compared with the reference backend in tests/agree, stream by stream.
ENGINES: list[Engine] = [("reference", "reevaluate"), ("reference", "higher_order")]
MORE_ENGINES: list[Engine] = [
    (backend, strategy)
    for backend in ("reference", "native")
    for strategy in STRATEGIES
    if (backend, strategy) not in ENGINES
]


def slow(value: object) -> Any:
    """A parameter for the long run alone."""
    return pytest.param(value, marks=pytest.mark.slow)


def _each(quick: list[Engine], slow: list[Engine]) -> pytest.MarkDecorator:
    params = [pytest.param(engine, id="-".join(engine)) for engine in quick]
    params += [pytest.param(engine, id="-".join(engine), marks=pytest.mark.slow) for engine in slow]
    return pytest.mark.parametrize("engine", params)


engines = _each(ENGINES, MORE_ENGINES)

# For queries that take long to compile: recomputation is seen on many others.
incremental_engines = _each(ENGINES[1:], [ENGINES[0], *MORE_ENGINES])

# For large data: what takes minutes in Python takes seconds in native code.
engines_on_large_data = _each(
    [("native", "higher_order")],
    [("reference", "reevaluate"), ("reference", "higher_order"), ("reference", "first_order")],
)


def connect(engine: Engine) -> Any:
    """A database in memory on one of ``ENGINES``."""
    backend, strategy = engine
    return viewlet.connect(backend=backend, strategy=strategy)


def replay(
    database: Any,
    ddl: str,
    views: Mapping[str, str],
    batches: Iterable[Batch],
    *,
    before: Iterable[Batch] = (),
    asked: Mapping[str, str] | None = None,
    trigger: str = "auto",
    check: Check | None = None,
) -> Counter[str]:
    """Apply every batch to the database and to DuckDB, and compare all views after each.

    The batches of ``before`` are applied before the views are created, which then start from present rows.
    DuckDB knows tables only: of views on views it is ``asked`` something else.
    ``check`` is called with the database whenever the views were compared. At the end, the change feed of
    each view must add up to the view, and the tables must hold what DuckDB holds. Returns in how many states
    each view held a value that is not NULL: a stream that finds nothing proves nothing.
    """
    mirror = Mirror(ddl)
    questions = {name: question(sql) for name, sql in {**views, **(asked or {})}.items()}
    found: Counter[str] = Counter()
    done: list[Batch] = []
    database.execute(ddl)
    for batch in before:
        _apply(database, mirror, batch, trigger)
        done.append(batch)
    for name, sql in views.items():
        database.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql.strip().rstrip(';')}")
    feeds = {name: _feed(database, name) for name in views}
    for batch in [{}, *batches]:
        if batch:
            _apply(database, mirror, batch, trigger)
        done.append(batch)
        for name in views:
            content = database.view(name).to_arrow()
            wrong = difference(content, mirror.answer(questions[name]))
            assert not wrong, report(f"view {name}", views[name], ddl, done, wrong)
            found[name] += _holds_a_value(content)
        if check is not None:
            check(database)
    for name, feed in feeds.items():
        content = Counter(_rows(database.view(name).to_arrow()))
        wrong = Difference(_excess(content, feed), _excess(feed, content))
        assert not wrong, report(f"the change feed of {name}", views[name], ddl, done, wrong)
    for table in mirror.schemas:
        ours, theirs = Counter(_rows(database.table(table).to_arrow())), Counter(mirror.rows(table))
        assert ours == theirs, f"table {table} differs: {ours - theirs} but {theirs - ours}"
    database.close()
    return found


def replay_everyhow(
    engine: Engine,
    ddl: str,
    views: Mapping[str, str],
    stream: Stream,
    *,
    size: int,
    singles: int,
    check: Check | None = None,
    late: bool = True,
) -> None:
    """Replay a stream in batches of ``size`` and its last ``singles`` changes one by one; then otherwise.

    Otherwise is: all of it taken away at once, then brought at once; and, if ``late``, views that are created
    before the last changes. Every view must hold a value in some state. A recomputation does not know how
    changes came: for it, the first replay is all there is to see.
    """
    begin, end = stream.first(len(stream) - singles), stream.after(len(stream) - singles)
    steps = [*begin.batches(size), *end.batches(1)]
    recomputes = engine[1] == "reevaluate"
    if not recomputes:
        steps += [opposite(stream.whole()), stream.whole()]
    found = replay(connect(engine), ddl, views, steps, check=check)
    assert all(found[name] for name in views), f"nothing found: {[name for name in views if not found[name]]}"
    if late and not recomputes:
        replay_late(engine, ddl, views, stream, singles=singles, check=check)


def replay_late(
    engine: Engine,
    ddl: str,
    views: Mapping[str, str],
    stream: Stream,
    *,
    singles: int,
    check: Check | None = None,
) -> None:
    """Create views before the last ``singles`` changes: one batch, with a refresh after every row."""
    begin, end = stream.first(len(stream) - singles), stream.after(len(stream) - singles)
    late = connect(engine)
    replay(late, ddl, views, [end.whole()], before=[begin.whole()], trigger="tuple", check=check)


def opposite(batch: Batch) -> Batch:
    """The batch that takes away what another brings, the last row first."""
    turned = {}
    for table, rows in batch.items():
        rows = rows.take(pa.array(range(rows.num_rows - 1, -1, -1)))
        weights = rows.schema.get_field_index("_weight")
        turned[table] = rows.set_column(weights, "_weight", pc.negate(rows.column("_weight")))
    return turned


def nullable(ddl: str) -> str:
    """The same tables without keys and constraints, so that rows may repeat and values may be NULL.

    >>> nullable("CREATE TABLE r (a BIGINT NOT NULL, b VARCHAR(5), PRIMARY KEY (a))")
    'CREATE TABLE r (a BIGINT, b VARCHAR(5));'
    """
    statements = creates(ddl)
    for statement in statements:
        columns = [part for part in statement.this.expressions if isinstance(part, exp.ColumnDef)]
        for column in columns:
            column.set("constraints", [])
        statement.this.set("expressions", columns)
    return "\n".join(statement.sql("spark") + ";" for statement in statements)


def report(what: str, sql: str, ddl: str, batches: list[Batch], wrong: Difference) -> str:
    """What differs after which batch, with all that is needed to see it again if that is short."""
    lines = [
        f"{what} is wrong after batch {len(batches) - 1}",
        f"  missing:    {wrong.missing[:5]}{' ..' if len(wrong.missing) > 5 else ''}",
        f"  unexpected: {wrong.unexpected[:5]}{' ..' if len(wrong.unexpected) > 5 else ''}",
        sql.strip(),
        ddl.strip(),
    ]
    history = [
        f"batch {number}: {table} {weight:+d} {row}"
        for number, batch in enumerate(batches[-60:], start=max(len(batches) - 60, 0))
        for table, changes in batch.items()
        for row, weight in weighted_rows(changes.slice(0, 20))
    ]
    return "\n".join([*lines, *history[-60:]])


def _apply(database: Any, mirror: Mirror, batch: Batch, trigger: str) -> None:
    database.apply(batch, trigger=trigger)
    mirror.apply(batch)


def _feed(database: Any, name: str) -> Counter[tuple[Any, ...]]:
    """What a view holds, which its change feed will keep up to date from now on."""
    feed = Counter(_rows(database.view(name).to_arrow()))
    database.view(name).subscribe(lambda changes: _follow(feed, changes))
    return feed


def _follow(feed: Counter[tuple[Any, ...]], changes: pa.Table) -> None:
    """Add one batch of a view's changes to what the feed has said so far."""
    signs = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
    values = changes.drop_columns([name for name in changes.column_names if name.startswith("_c")])
    for row, kind in zip(_rows(values), changes["_change_type"].to_pylist(), strict=True):
        feed[row] += signs[kind]


def _excess(more: Counter[tuple[Any, ...]], less: Counter[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [row for row in more for _ in range(more[row] - less[row])]


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _holds_a_value(content: pa.Table) -> int:
    return int(any(column.null_count < len(column) for column in content.columns))
