"""The sketches of one database: captured, kept fresh with the data, and used to answer queries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from sqlglot import exp

from viewlet.changes import Data, read_changes
from viewlet.core.types import Column
from viewlet.errors import DataError
from viewlet.plan.nodes import Query
from viewlet.plan.scope import tables_of
from viewlet.sketches.advice import Advice
from viewlet.sketches.backends.base import Backend, Version
from viewlet.sketches.capture import Way, capture_two_pass
from viewlet.sketches.cost import Costs
from viewlet.sketches.errors import SketchError, UnsafeError
from viewlet.sketches.facts import Limits, quantity
from viewlet.sketches.partition import Partition, equi_depth
from viewlet.sketches.reuse import covers
from viewlet.sketches.safety import Verdict, check, judge
from viewlet.sketches.sketch import Maintain, Sketch, read_saved
from viewlet.sketches.state import Keep
from viewlet.sketches.union import Union, alike, combined
from viewlet.sketches.use import conditions_of, restrict
from viewlet.sketches.windows import join_windows
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse_query
from viewlet.values import physical

Use: TypeAlias = Literal["auto", "always", "never"]
Serving: TypeAlias = Sketch | Union
RANGES = 400
"""How many ranges an attribute is cut into, unless the caller says."""


class Store:
    """The sketches of one database; made by :func:`viewlet.sketches.open`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.sketches: list[Sketch] = []
        self._catalog: Catalog | None = None
        self._compiled: dict[str, Query] = {}
        self._parsed: dict[str, exp.Query] = {}
        self._texts: dict[tuple[str, int], tuple[object, str]] = {}
        self._unions: dict[Query, tuple[Version, Union]] = {}
        for _, content in sorted(backend.saved().items()):
            self._restore(read_saved(content))

    # Looking.

    def advise(self, sql: str) -> list[Advice]:
        """Every column of the query's tables: is a sketch on it safe, why, how many fragments it has."""
        query, catalog = self._compile(sql)
        advice: list[Advice] = []
        for name in sorted(tables_of(query.plan)):
            for column in catalog[name].columns:
                verdict = check(query, frozenset({(name, column.name)}), catalog, self._limits(catalog))
                fragments = size = None
                if verdict.safe:
                    try:
                        partition = self._partition(f"{name}.{column.name}", None, catalog)
                        (found,) = capture_two_pass(query, [partition], self._backend)
                        fragments, size = len(found), partition.size
                    except SketchError as error:
                        verdict = Verdict(False, str(error))
                advice.append(Advice(name, column.name, verdict.safe, verdict.reason, fragments, size))
        return advice

    def explain(self, sql: str) -> str:
        """Which sketch would answer the query, or why none does."""
        query, _ = self._compile(sql)
        reasons = [self._why_not(sketch, query) for sketch in self.sketches]
        lines = [
            reason or f"usable:\n{sketch.explain()}"
            for sketch, reason in zip(self.sketches, reasons, strict=True)
        ]
        if None not in reasons and self._together(query):
            lines.append("R5: usable together, as their union")
        return "\n".join(lines) or "there are no sketches"

    # Capturing.

    def capture(
        self,
        sql: str,
        on: str | Sequence[str],
        ranges: int | Sequence[Any] | None = None,
        *,
        way: Way = "auto",
        maintain: Maintain = "auto",
        eager: bool = True,
        bound: int | None = None,
        keep: Keep = "auto",
        optimize: bool = True,
    ) -> Sketch:
        """Capture the sketch of a query on an attribute ``table.column``, or on several.

        ``ranges`` are the inner bounds, or how many ranges of about equally many rows, or nothing. Changes
        are followed or the sketch is captured again, whichever is cheaper, unless ``maintain`` says. An
        ``eager`` sketch does so with every :meth:`apply`, others when they are used. ``bound`` limits the
        reserve of the buffers for MIN, MAX and top-k. ``keep`` says what follows: ``operators`` beside the
        database, or ``native`` triggers compiled for the sketch; by itself, triggers for large tables.
        Without ``optimize`` changes are neither tested for join partners (by Bloom filters, operators) nor
        selected before they are fetched (triggers), which is for measurements.
        """
        query, catalog = self._compile(sql)
        attributes = [on] if isinstance(on, str) else list(on)
        partitions = tuple(self._partition(attribute, ranges, catalog) for attribute in attributes)
        options = {
            "way": way,
            "maintain": maintain,
            "eager": eager,
            "bound": bound,
            "keep": keep,
            "optimize": optimize,
        }
        sketch = self._sketch(sql, query, partitions, catalog, **options)
        with self._backend.snapshot():
            self._backend.track(sketch.schema)
        sketch.recapture()
        sketch.predicted_gain()  # looked up now, so that no query has to wait for it, nor for its text
        self._restricted(sql, sketch)
        self.sketches.append(sketch)
        return sketch

    def _sketch(
        self,
        sql: str,
        query: Query,
        partitions: tuple[Partition, ...],
        catalog: Catalog,
        **options: Any,
    ) -> Sketch:
        attributes = frozenset((p.table, p.column) for p in partitions)
        limits = self._limits(catalog)
        verdict = check(query, attributes, catalog, limits)
        if not verdict.safe:
            names = ", ".join(sorted(p.name for p in partitions))
            raise UnsafeError(f"no sketch on {names}: {verdict.reason}")
        judgement = judge(query.plan, attributes, catalog, limits)
        schema = tuple(catalog[name] for name in sorted(tables_of(query.plan)))
        return Sketch(sql, query, schema, partitions, verdict, judgement, _backend=self._backend, **options)

    def _partition(self, attribute: str, ranges: int | Sequence[Any] | None, catalog: Catalog) -> Partition:
        table_name, _, column_name = attribute.lower().rpartition(".")
        if not table_name:
            raise SketchError(f"{attribute!r}: name the attribute as table.column")
        table = catalog[table_name]
        column = next((c for c in table.columns if c.name == column_name), None)
        if column is None:
            raise SketchError(
                f"table {table.name} has no column {column_name}: {', '.join(table.column_names)}"
            )
        if ranges is None or isinstance(ranges, int):
            wanted = RANGES if ranges is None else ranges
            if wanted < 1:
                raise SketchError(f"{attribute}: {wanted} ranges; at least 1 is needed")
            bounds = equi_depth(self._backend.quantiles(table.name, column, wanted), column.type)
        else:
            target = Column(column.name, column.type, nullable=False)
            bounds = tuple(physical(value, target, table.name, n) for n, value in enumerate(ranges))
        return Partition(table.name, column.name, column.type, bounds)

    # Changing.

    def apply(self, batch: Mapping[str, Data]) -> None:
        """Change the data by weighted rows, and every eager sketch with it, in one version."""
        changes = {}
        for name, data in batch.items():
            table = self._backend.described(name)
            read = read_changes(table, data)
            if read.keyed:
                raise DataError(f"table {table.name!r}: rows to delete must be given with all columns")
            changes[table] = read.changes
        touched = {table.name for table in changes}
        concerned = [sketch for sketch in self.sketches if sketch.tables & touched]
        following = [sketch for sketch in concerned if sketch.eager]
        refreshed: list[Sketch] = []
        try:
            with self._backend.snapshot():
                self._backend.apply(changes, lagging=len(following) < len(concerned))
                for sketch in following:
                    refreshed.append(sketch)
                    sketch.refresh()
        except BaseException:
            for sketch in refreshed:
                sketch.invalidate()
            raise
        self._forget()

    def refresh(self) -> None:
        """Bring every sketch to the present version."""
        for sketch in self.sketches:
            sketch.refresh()
        self._forget()

    def _forget(self) -> None:
        """Changes that every sketch has seen are not kept; one without version will capture anyway."""
        self._backend.forget([version for sketch in self.sketches for version in sketch.versions])

    # Using.

    def rewrite(self, sql: str) -> str:
        """The query restricted to the fragments of a sketch that serves it."""
        return self._restricted(sql, self.find(sql))

    def query(self, sql: str, *, use: Use = "auto") -> pa.Table:
        """The result of a query, answered from a sketch that serves it.

        By itself (``auto``) it uses the sketch only if it expects to gain by that: from its model until
        both ways were measured; the sketch's ``explain`` tells. ``always`` uses it, ``never`` does not.
        """
        sketch = min(self._serving(sql), key=_kept_share)
        if use == "never" or (use == "auto" and not self._pays(sketch)):
            began = time.perf_counter()
            result = self._backend.run(sql)  # one query is a snapshot by itself
            sketch.costs.full.add(time.perf_counter() - began)
            return result
        with self._backend.snapshot():
            return self._answered(sql)

    @staticmethod
    def _pays(sketch: Serving) -> bool:
        return sketch.costs.pays(sketch.pending, sketch.predicted_gain())

    def answer(self, sql: str, sketch: Sketch) -> pa.Table:
        """The result of a query from one sketch that serves it, wherever that is kept, brought up to date."""
        with self._backend.snapshot():
            sketch.refresh()
            reason = self._why_not(sketch, self._compile(sql)[0])
            if reason is not None:
                raise SketchError(reason)
            return self._backend.run(self._restricted(sql, sketch))

    def _answered(self, sql: str) -> pa.Table:
        """The result from a sketch. All that it takes counts as its use, but for following and capturing."""
        began, upkeep = time.perf_counter(), self._upkeep()
        sketch = self.find(sql)
        sketch.require_usable()
        result = self._backend.run(self._restricted(sql, sketch))
        sketch.costs.use.add(max(time.perf_counter() - began - (self._upkeep() - upkeep), 0.0))
        return result

    def _upkeep(self) -> float:
        return sum(sketch.costs.upkeep for sketch in self.sketches)

    def find(self, sql: str) -> Serving:
        """The smallest sketch that serves a query, or several together, brought to the present version."""
        for sketch in self._serving(sql):
            sketch.refresh()
        # What came with the refresh may have retired a sketch, or made another one smaller.
        return min(self._serving(sql), key=_kept_share)

    def _serving(self, sql: str) -> Sequence[Serving]:
        """The sketches that serve a query, of whatever version; an error with the reasons if none does."""
        query = self._compiled[sql] if sql in self._compiled else self._compile(sql)[0]
        reasons: list[str] = []
        serving: list[Serving] = []
        for sketch in self.sketches:
            if sketch.tables & tables_of(query.plan):
                reason = self._why_not(sketch, query)
                if reason is None:
                    serving.append(sketch)
                else:
                    reasons.append(reason)
        if not serving:
            serving = self._together(query)
        if not serving:
            why = "; ".join(reasons) or "no sketch is on its tables"
            raise SketchError(f"no sketch serves the query: {why}; capture() one")
        return serving

    def _together(self, query: Query) -> list[Serving]:
        """Sketches of which none serves a query, but their union does; as few of them as possible."""
        version, known = self._unions.get(query, (None, None))
        usable = [sketch for sketch in self.sketches if sketch.retired is None]
        if known is not None and version == self._backend.version():
            return [known] if all(sketch in usable for sketch in known.sketches) else []
        for sketch in usable:
            group = alike(sketch, usable)
            if len(group) < 2 or not self._safe(query, sketch.partitions).safe:
                continue
            if self._cover(group, query):
                for member in list(group):
                    fewer = [other for other in group if other is not member]
                    group = fewer if self._cover(fewer, query) else group
                union = Union(tuple(group), Costs() if known is None else known.costs)
                self._unions[query] = (self._backend.version(), union)
                return [union]
        return []

    def _cover(self, group: Sequence[Sketch], query: Query) -> bool:
        """Does the union of sketches hold all that a query depends on?"""
        either = combined([sketch.query for sketch in group]) if group else None
        if either is None:
            return False
        try:
            covers(either, query, self._limits(self._backend.catalog()))
        except UnsafeError:
            return False
        return True

    def _safe(self, query: Query, partitions: Sequence[Partition]) -> Verdict:
        """May a query be answered from a sketch on these attributes?"""
        catalog = self._backend.catalog()
        attributes = frozenset((p.table, p.column) for p in partitions)
        return check(query, attributes, catalog, self._limits(catalog))

    def _why_not(self, sketch: Sketch, query: Query) -> str | None:
        """Why a sketch does not serve a query; ``None`` if it does."""
        names = ", ".join(p.name for p in sketch.partitions)
        if sketch.retired is not None:
            return f"the sketch on {names} is retired: {sketch.retired}"
        if query is sketch.query or query == sketch.query or query in sketch.served:
            return None
        verdict = self._safe(query, sketch.partitions)
        if not verdict.safe:
            return f"the sketch on {names} is not safe: {verdict.reason}"
        try:
            relied = covers(sketch.query, query, self._limits(self._backend.catalog()))
        except UnsafeError as error:
            return f"the sketch on {names} is of another query: {error}"
        if sketch.watches_changes:  # so it is told when what this rests on breaks: it is not asked again
            sketch.served[query] = verdict.assumes | relied
        return None

    def _restricted(self, sql: str, sketch: Serving) -> str:
        """The text of the restricted query, made again when the data or the fragments have changed."""
        restrictions = sketch.restrictions
        parts: dict[str, exp.Table] = {}
        for name in sorted({partition.table for partition, _ in restrictions}):
            part = self._backend.reduced([r for r in restrictions if r[0].table == name])
            if part is not None:
                parts[name] = part
        known = (sketch.version, restrictions, parts)
        made_for, text = self._texts.get((sql, id(sketch)), (None, ""))
        if made_for != known:
            if sql not in self._parsed:
                self._parsed[sql] = parse_query(sql, self._backend.dialect)
            conditions = conditions_of(restrictions, self._backend.condition)
            text = self._backend.sql(restrict(self._parsed[sql], conditions, parts))
            self._texts[sql, id(sketch)] = known, text
        return text

    # State.

    def save(self) -> None:
        """Keep every sketch with its state in the database; :func:`viewlet.sketches.open` restores them."""
        with self._backend.snapshot():
            for name in self._backend.saved():
                self._backend.save(name, None)
            for number, sketch in enumerate(self.sketches):
                self._backend.save(f"sketch {number:06d}", sketch.saved())

    def _restore(self, literal: dict[str, Any]) -> None:
        query, catalog = self._compile(literal["text"])
        partitions = tuple(
            Partition(table, column, _type_of(catalog, table, column), tuple(bounds))
            for table, column, bounds in literal["partitions"]
        )
        options = {name: literal[name] for name in ("way", "maintain", "eager", "bound", "keep", "optimize")}
        sketch = self._sketch(literal["text"], query, partitions, catalog, **options)
        sketch.restore(literal)
        self.sketches.append(sketch)

    def _compile(self, sql: str) -> tuple[Query, Catalog]:
        catalog = self._backend.catalog()
        if catalog is not self._catalog:
            self._catalog, self._compiled, self._parsed, self._texts = catalog, {}, {}, {}
        if sql not in self._compiled:
            query = join_windows(parse_query(sql, self._backend.dialect))
            self._compiled[sql] = compile_query(query, catalog, self._backend.dialect)
        return self._compiled[sql], catalog

    def _limits(self, catalog: Catalog) -> Limits:
        known: dict[tuple[str, str], tuple[Fraction | None, Fraction | None]] = {}

        def limits(table: str, column: str) -> tuple[Fraction | None, Fraction | None]:
            if (table, column) not in known:
                described = next(c for c in catalog[table].columns if c.name == column)
                known[table, column] = self._observed(table, described)
            return known[table, column]

        return limits

    def _observed(self, table: str, column: Column) -> tuple[Fraction | None, Fraction | None]:
        try:
            low, high = self._backend.limits(table, column)
        except DataError:  # NaN and infinity are no limits
            return None, None
        if low is None:  # no value breaks the usual assumption
            return Fraction(0), None
        return quantity(low, column.type), quantity(high, column.type)


def _type_of(catalog: Catalog, table: str, column: str) -> Any:
    return next(c.type for c in catalog[table].columns if c.name == column)


def _kept_share(sketch: Serving) -> float:
    shares: Iterable[float] = (len(f) / p.size for p, f in sketch.restrictions)
    return min(shares)
