"""One captured sketch: which fragments a query needs, of which version of the data, and how it is kept."""

from __future__ import annotations

import ast
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from viewlet.core.types import Column, Value
from viewlet.plan.nodes import Query
from viewlet.sketches.capture import Fragments, Way, capture_free, capture_two_pass, free_columns
from viewlet.sketches.compiled import Compiled
from viewlet.sketches.cost import OPERATOR_ROW, TRIGGER_ROW, Costs, predicted_gain
from viewlet.sketches.errors import ExhaustedError, SketchError, StaleError
from viewlet.sketches.facts import Assumption
from viewlet.sketches.operators.branch import NotLinearError
from viewlet.sketches.operators.build import NotIncrementalError
from viewlet.sketches.partition import Partition
from viewlet.sketches.safety import Judgement, Verdict
from viewlet.sketches.state import Keep, OperatorState, State
from viewlet.sketches.streamed import StreamedOperators
from viewlet.sketches.views import Counters, KeepsViews, has_top
from viewlet.sql.catalog import Table

Maintain: TypeAlias = Literal["auto", "incremental", "recapture"]
"""Follow changes or capture again: as the cost model says, or always the one or the other."""
WORTH = 1.5
"""Another layout is advised if it gains this much more."""

if TYPE_CHECKING:
    from viewlet.sketches.backends.base import Backend, Version


@dataclass(slots=True)
class Sketch:
    """The sketch of a query on one or more attributes; made by :meth:`viewlet.sketches.Store.capture`."""

    text: str
    query: Query
    schema: tuple[Table, ...]
    partitions: tuple[Partition, ...]
    verdict: Verdict
    judgement: Judgement
    way: Way
    maintain: Maintain
    eager: bool
    bound: int | None
    keep: Keep
    optimize: bool
    _backend: Backend
    version: Version = None
    costs: Costs = field(default_factory=Costs)
    retired: str | None = None
    not_incremental: str | None = None
    served: dict[Query, frozenset[Assumption]] = field(default_factory=dict)
    """Other queries that it was found to serve, and what that rests on."""
    _found: Fragments = field(default_factory=list)
    _state: State | None = None
    _state_version: Version = None
    _counters: Counters | None = None
    _predicted: tuple[int, float] | None = None

    # Reading.

    @property
    def fragments(self) -> frozenset[int]:
        """The fragment numbers, from 0 in the order of the ranges; -1 is NULL. Of the first attribute."""
        return self._found[0]

    def fragments_of(self, attribute: str) -> frozenset[int]:
        """The fragment numbers of one attribute, given as ``table.column``."""
        for partition, fragments in self.restrictions:
            if partition.name == attribute.lower():
                return fragments
        known = ", ".join(partition.name for partition in self.partitions)
        raise SketchError(f"the sketch is not on {attribute}, but on {known}")

    @property
    def restrictions(self) -> list[tuple[Partition, frozenset[int]]]:
        """Each partition with its fragments."""
        return list(zip(self.partitions, self._found, strict=True))

    @property
    def tables(self) -> frozenset[str]:
        """The tables whose changes can change the sketch."""
        return frozenset(table.name for table in self.schema)

    @property
    def incremental(self) -> bool:
        """Is there state from which changes are followed?"""
        return self._state is not None or self._counters is not None

    @property
    def watches_changes(self) -> bool:
        """Does it see every change, or does a database keep it as a view?"""
        return self._counters is None

    @property
    def versions(self) -> tuple[Version, ...]:
        """The versions from which it will need the changes; without any, it captures anyway."""
        if self.version is None:
            return ()
        return (self.version,) if self._state is None else (self.version, self._state_version)

    def entries(self) -> int:
        """How much is remembered to follow changes: groups, values, records of maps."""
        if self._counters is not None:
            return self._counters.entries()
        return 0 if self._state is None else self._state.entries()

    # Capturing and maintaining.

    def recapture(self) -> None:
        """Find the fragments from scratch."""
        began = time.perf_counter()
        with self._backend.snapshot():
            self.version = self._backend.version()
            self.costs.behind = 0
            self._capture()
        self.costs.captured(time.perf_counter() - began)

    def _capture(self) -> None:
        with_state = self.way == "instrumented" or (self.way == "auto" and self.maintain != "recapture")
        if not with_state or not self._capture_with_state():
            self._state = None
            self._found = self._find_fragments()

    def _find_fragments(self) -> Fragments:
        """By the cheapest way that leaves no state, or by the one that was asked for."""
        places = free_columns(self.query, self.partitions, self.judgement)
        if self.way == "free" and places is None:
            raise SketchError("free capture needs the attribute as a column of the result, by rule S2")
        if places is None or self.way == "two_pass":
            return capture_two_pass(self.query, self.partitions, self._backend)
        return capture_free(self.query, self.partitions, places, self.text, self._backend)

    def _capture_with_state(self) -> bool:
        """Load the operators or create the views; ``False``, with the reason kept, if nothing follows it."""
        try:
            if isinstance(self._backend, KeepsViews):
                self._create_counters(self._backend)
                return True
            state = self._loaded(self._kept_by())
        except NotIncrementalError as reason:
            if self.way == "instrumented":
                raise
            self.not_incremental = str(reason)
            return False
        self._state, self._found, self._state_version = state, state.fragments(), self.version
        self.costs.row = OPERATOR_ROW if state.keep == "operators" else TRIGGER_ROW
        return True

    def _loaded(self, keep: Keep) -> State:
        """The state, filled; by operators if it was to be chosen and no triggers follow the query."""
        state = self._state
        try:
            state = state or self._new_state(keep)
            state.load()
        except NotIncrementalError:
            if self.keep != "auto" or keep == "operators":
                raise
            return self._loaded("operators")
        return state

    def _kept_by(self) -> Keep:
        """Triggers, which are quicker, where the data is large enough for a C compiler's time."""
        if self.keep != "auto":
            return self.keep
        large = any(self._backend.count(table.name) >= self._backend.large for table in self.schema)
        # A bound is there to save memory, which triggers would need for all groups.
        return "native" if large and (self.bound is None or not has_top(self.query.plan)) else "operators"

    def _new_state(self, keep: Keep) -> State:
        if keep == "operators":
            return OperatorState(self.query, self.partitions, self._backend, self.bound, self.optimize)
        if has_top(self.query.plan):
            return StreamedOperators(
                self.query, self.partitions, self.schema, self._backend, keep, self.bound, self.optimize
            )
        return Compiled(self.query, self.partitions, self.schema, self._backend, keep, self.optimize)

    def _create_counters(self, database: KeepsViews) -> None:
        if self._counters is None:
            self._counters = Counters(self.query, self.partitions, self.assumes, database)
        self._found = self._counters.fragments()

    def invalidate(self) -> None:
        """Forget the version: the state may hold changes that were undone, so the next refresh captures."""
        self.version = None
        self._state = None

    def pending(self) -> int:
        """How many changes the sketch has not seen; all rows, if that is not known."""
        if self._counters is not None:
            return 0
        known = None
        if self.version is not None:
            known = self._backend.pending(self.version, self.schema)
        return sum(self._backend.count(table.name) for table in self.schema) if known is None else known

    def refresh(self) -> None:
        """Bring the sketch to the present version: by the changes since its own, or from scratch."""
        if self._counters is not None:
            self._found, broken = self._counters.fragments(), self._counters.broken()
            if broken is not None:
                self.retired = f"an update broke {broken}"
            self.version = self._backend.version()
            return
        began = time.perf_counter()
        followed = self._follow_at_hand()
        if followed is None:
            followed = self._follow_in_snapshot()
        if followed:
            self.costs.followed(followed, time.perf_counter() - began)

    def _follow_at_hand(self) -> int | None:
        """Follow changes that are all in this process; ``None`` if more must be read, or it is cheaper."""
        state = self._state
        if state is None or not state.needs_changes_alone or self.version is None:
            return None
        found = None
        if self.maintain != "recapture" and not self.costs.behind:
            found = self._backend.at_hand(self.version, self.schema)
        if found is None:
            return None
        version, staged = found
        changes = sum(staged.values())
        if changes and self.maintain == "auto" and self.costs.light_is_cheaper(changes):
            return None
        self._check_assumptions(staged)
        if staged and not self._change(state, staged):
            self._state = None
            return None
        self.version = self._state_version = version
        return changes

    def _follow_in_snapshot(self) -> int:
        """Bring the sketch up to date by what the database tells: by so many changes, or by a capture."""
        followed = 0
        with self._backend.snapshot():
            staged = None if self.version is None else self._backend.stage(self.version, self.schema)
            if staged is None:
                self._check_data()
                self.recapture()
            elif staged:
                followed = self._follow(staged)
            self.version = self._backend.version()
            if not self.costs.behind:
                self._state_version = self.version
        return followed

    def _follow(self, staged: dict[str, int]) -> int:
        """Bring the sketch up to date by so many changes; by 0 if it was captured again instead."""
        self._check_assumptions(staged)
        if self._state is None or self.maintain == "recapture":
            self.recapture()
            return 0
        if self.maintain == "auto" and self.costs.light_is_cheaper(sum(staged.values())):
            self._capture_lightly(sum(staged.values()))
            return 0
        behind: dict[str, int] | None = staged
        if self.costs.behind:
            behind = self._backend.stage(self._state_version, self.schema)
        if behind is None or not self._change(self._state, behind):
            self.recapture()
            return 0
        followed, self.costs.behind = sum(staged.values()) + self.costs.behind, 0
        return followed

    def _change(self, state: State, staged: Iterable[str]) -> bool:
        """Let the state follow the staged changes of some tables; ``False`` if it cannot."""
        try:
            state.change(frozenset(staged))
            self._found = state.fragments()
        except (ExhaustedError, NotLinearError):
            return False
        except BaseException:
            self.invalidate()
            raise
        return True

    def _capture_lightly(self, changes: int) -> None:
        """Find the fragments, but leave the state where it is, to follow from there later."""
        began = time.perf_counter()
        self._found = self._find_fragments()
        self.costs.captured_lightly(changes, time.perf_counter() - began)
        if self.costs.behind > sum(self._backend.count(table.name) for table in self.schema):
            self._state = None  # to follow all that would cost more than to load it again

    def _check_assumptions(self, staged: Iterable[str]) -> None:
        """A value that breaks what the sketch's safety rests on retires it, or ends its use for a query."""
        relied = frozenset().union(self.assumes, *self.served.values())
        broken = {a for a in relied if a.table in staged and not self._holds(a, self._staged_limits(a))}
        self._take_back(broken)

    def _check_data(self) -> None:
        """The same where it is not known what has changed."""
        self.served.clear()
        self._take_back({a for a in self.assumes if not self._holds(a, self._limits(a))})

    def _take_back(self, broken: set[Assumption]) -> None:
        for assumption in broken & self.assumes:
            self.retired = f"an update broke {assumption}"
        self.served = {query: relied for query, relied in self.served.items() if not relied & broken}

    def _holds(self, assumption: Assumption, limits: tuple[Value, Value]) -> bool:
        """An interval holds all values that its least and its greatest one are in."""
        kind = self._column(assumption).type
        return all(assumption.holds(value, kind) for value in limits)

    def _staged_limits(self, assumption: Assumption) -> tuple[Value, Value]:
        table = next(table for table in self.schema if table.name == assumption.table)
        return self._backend.staged_limits(table, self._column(assumption))

    def _limits(self, assumption: Assumption) -> tuple[Value, Value]:
        return self._backend.limits(assumption.table, self._column(assumption))

    def _column(self, assumption: Assumption) -> Column:
        table = next(table for table in self.schema if table.name == assumption.table)
        return next(column for column in table.columns if column.name == assumption.column)

    def require_usable(self) -> None:
        """Refuse a sketch that is retired or of another version."""
        if self.retired is not None:
            raise SketchError(f"the sketch is retired: {self.retired}; capture one on another attribute")
        if self.version != self._backend.version():
            raise StaleError(f"the sketch is of version {self.version}: refresh() it")

    # State.

    def saved(self) -> bytes:
        """The sketch as bytes, state included."""
        state = None if self._state is None else (self._state.keep, self._state.saved())
        literal = {
            "text": self.text,
            "partitions": [(p.table, p.column, p.bounds) for p in self.partitions],
            "way": self.way,
            "maintain": self.maintain,
            "eager": self.eager,
            "bound": self.bound,
            "keep": self.keep,
            "optimize": self.optimize,
            "version": self.version,
            "state_version": self._state_version,
            "behind": self.costs.behind,
            "found": [sorted(fragments) for fragments in self._found],
            "retired": self.retired,
            "state": state,
        }
        return zlib.compress(repr(literal).encode())

    def restore(self, literal: dict[str, Any]) -> None:
        """Take over what was saved, read by :func:`read_saved`."""
        self.version, self.retired = literal["version"], literal["retired"]
        self._state_version, self.costs.behind = literal["state_version"], literal["behind"]
        self._found = [frozenset(fragments) for fragments in literal["found"]]
        if literal["state"] is not None:
            keep, saved = literal["state"]
            self._state = self._new_state(keep)
            self._state.restore(saved)

    def explain(self) -> str:
        """What the sketch is on, why that is safe, how it is kept, what it has cost and saved."""
        return "\n".join(self._explain())

    def _explain(self) -> Sequence[str]:
        costs = self.costs
        lines = [f"sketch of: {self.text}"]
        for partition, fragments in self.restrictions:
            lines.append(f"on {partition.name}: {len(fragments)} of {partition.size} ranges")
        lines.append(f"safe: {self.verdict.reason}")
        if self.retired is not None:
            lines.append(f"retired: {self.retired}")
        if self._state is not None:
            lines += self._state.explain()
        elif self._counters is not None:
            lines.append(f"kept as views of the database: {self._counters.entries()} counters")
        else:
            way = f"captured by way of {self.way}, which keeps no state"
            reason = self.not_incremental or ("as asked" if self.maintain == "recapture" else way)
            lines.append(f"captured again when the data changes: {reason}")
        lines.append(f"captures: {costs.captures}, of late in {costs.capture.value:.4f} s")
        if costs.light.count:
            light = f"{costs.light.count} of them without state, of late in {costs.light.value:.4f} s"
            lines.append(f"{light}; the state is {costs.behind} changes behind")
        lines.append(
            f"refreshes: {costs.refreshes} by {costs.refreshed_rows} changes in {costs.refresh_seconds:.4f} s"
        )
        if self._state is not None and self.maintain == "auto":
            lines.append(costs.foretold())
        lines.append(f"uses: {costs.use.count}, of late in {costs.use.value:.4f} s")
        lines.append(f"runs without: {costs.full.count}, of late in {costs.full.value:.4f} s")
        gain = costs.gain(self.predicted_gain())
        lines.append(f"gain: {gain:.1f}" + ("" if gain > 1 else ", so queries do without it"))
        return [*lines, *self._layout_advice()]

    def _layout_advice(self) -> Iterator[str]:
        """What it would gain if the database could skip all that the sketch does."""
        for restriction in self.restrictions:
            skipping = self._backend.skipping(*restriction)
            now, best = predicted_gain(skipping), predicted_gain(replace(skipping, touched=skipping.kept))
            if best > WORTH * now:
                order = f"in the order of {restriction[0].name}, or with an index on it"
                yield f"stored {order}, the gain would be about {best:.1f}"

    def predicted_gain(self) -> float:
        """How many times faster its query should be with the sketch than without."""
        kept = sum(map(len, self._found))
        # What is skipped is looked up again when the sketch has grown or shrunk, not after every change.
        if self._predicted is None or abs(kept - self._predicted[0]) > 0.1 * self._predicted[0]:
            self._predicted = (kept, self.gain_with(self.restrictions))
        return self._predicted[1]

    def gain_with(self, restrictions: Iterable[tuple[Partition, frozenset[int]]]) -> float:
        """How many times faster a query should be if it reads these fragments only."""
        return max(predicted_gain(self._backend.skipping(*restriction)) for restriction in restrictions)

    @property
    def assumes(self) -> frozenset[Assumption]:
        """What the sketch's safety rests on."""
        return self.verdict.assumes


def read_saved(content: bytes) -> dict[str, Any]:
    """What :meth:`Sketch.saved` wrote; only literals are read, nothing is executed."""
    return cast("dict[str, Any]", ast.literal_eval(zlib.decompress(content).decode()))
