"""Higher-order maintenance: take the delta, materialize what it reads, repeat until nothing is left to read.

A map is *recomputed* on an event exactly if its definition has a nested factor that the event affects with an
unrestricted domain; otherwise it is incremented by its delta. Recomputation reads maps too, so even then only
what depends on the unrestricted part is done again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from viewlet.calculus.crossing import crosses, crossing_delta, moves
from viewlet.calculus.delta import affected_by
from viewlet.calculus.events import BatchEvent, Event, TupleEvent
from viewlet.calculus.from_plan import Alternative, PlanToCalculus
from viewlet.calculus.groupwise import groupwise_extrema
from viewlet.calculus.keys import inline_keyed_exists
from viewlet.calculus.nodes import (
    Argument,
    Cond,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    Nested,
    Query,
    Rel,
    Term,
    product,
    tables,
    times,
)
from viewlet.calculus.schedule import binds_all
from viewlet.calculus.simplify import simplify_query, simplify_term
from viewlet.core.later import Later
from viewlet.core.names import Names
from viewlet.core.scalar import Const, Scalar, Var, call, substitute, variables
from viewlet.errors import CompileError, ProgramSizeError
from viewlet.plan import nodes as plan_nodes
from viewlet.sql.catalog import Catalog, TableKind
from viewlet.triggers.batched import batched
from viewlet.triggers.caches import ViewCaches
from viewlet.triggers.components import Components, Depth
from viewlet.triggers.cost import DEFAULT_ROWS, Estimate, Statistics, estimate
from viewlet.triggers.explain import explain, obstacles
from viewlet.triggers.flips import only_flips
from viewlet.triggers.isolate import isolate_sums
from viewlet.triggers.maps import MapRegistry
from viewlet.triggers.materialize import Materializer
from viewlet.triggers.order import order_increments, order_recomputations, reads
from viewlet.triggers.program import MapDefinition, OutputTerm, Program, Statement, Trigger, View
from viewlet.triggers.reach import needed_maps, part_of
from viewlet.triggers.settle import Settled
from viewlet.triggers.strategy import STRATEGIES, Strategy, strategy_of
from viewlet.triggers.work import Ordered, is_at_most_logarithmic

CHEAP_STEPS = 200.0
"""A program that takes no more steps per change than this is good enough not to look for a better one."""


@dataclass(slots=True)
class Compiler:
    """Compiles views of one database; maps are shared among all of them, also with views created later.

    ``searches`` says which ordered access paths the engine has, for the choice of a strategy and for what is
    said about a program.
    """

    catalog: Catalog
    searches: Ordered = False
    names: Names = field(default_factory=Names)
    statistics: Statistics = field(default_factory=Statistics)
    views: dict[str, View] = field(default_factory=dict)
    registry: MapRegistry = field(init=False)
    _statements: Later[tuple[str, str, str], tuple[Statement, ...]] = field(default_factory=Later)
    _queries: dict[str, plan_nodes.Query] = field(default_factory=dict)
    _by_row: set[tuple[str, str]] = field(default_factory=set)
    _caches: ViewCaches = field(init=False)
    _restricted: dict[Nested, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.registry = MapRegistry(self.catalog)
        self._caches = ViewCaches(self.registry, self)

    def extend(self, catalog: Catalog) -> None:
        """Take note of tables that exist by now."""
        self.catalog = self.registry.catalog = catalog

    def advance(self, table: str) -> None:
        """Note that a stream has moved on: a view created from now on starts without its past rows."""
        if self.catalog[table].kind is TableKind.STREAM:
            self.registry.epochs[table] = self.registry.epochs.get(table, 0) + 1

    def add(self, name: str, query: plan_nodes.Query, strategy: str = "higher_order") -> list[MapDefinition]:
        """Compile a view; returns the maps that it adds to the program.

        ``auto`` starts from ``higher_order`` and weighs the others only where that has much to do; a query
        whose deltas are too large is re-evaluated. What cannot be compiled leaves nothing behind.
        """
        if strategy == "auto":
            return self._add_cheapest(name, query)
        way = strategy_of(strategy)
        try:
            return self._compile(name, query, way)
        except BaseException:
            self.views.pop(name, None)
            self._queries.pop(name, None)
            self.registry.take_pending()
            self._forget_unneeded()
            raise

    def _compile(self, name: str, query: plan_nodes.Query, way: Strategy) -> list[MapDefinition]:
        self._queries[name] = query
        self.views[name] = self._view(name, query, way)
        added: list[MapDefinition] = []
        while pending := self.registry.take_pending():
            for definition in pending:
                added.append(definition)
                for table in sorted(tables(definition.definition)):
                    if self.catalog[table].kind is not TableKind.STATIC:
                        self._maintain(definition, table, way)
        if way.caches:
            self._read_caches({definition.name for definition in added})
        return added

    def _read_caches(self, targets: Collection[str]) -> None:
        """Increments read caches too: only now is it known which there are."""
        for (target, table, granularity), statements in self._statements.items():
            if target in targets:
                self._statements[target, table, granularity] = tuple(
                    replace(s, query=self._caches.increment(s.query)) if s.op == "+=" else s
                    for s in statements
                )

    def _add_cheapest(self, name: str, query: plan_nodes.Query) -> list[MapDefinition]:
        try:
            added = self.add(name, query, "higher_order")
        except ProgramSizeError:
            return self.add(name, query, "reevaluate")
        part = part_of(self.program(), name)
        own = estimate(part, "higher_order", self.statistics, self.searches)
        if own.average <= CHEAP_STEPS:
            return added
        known = {"higher_order": own}
        if not any(trigger.recomputations for trigger in part.triggers.values()):
            known["view_caches"] = own  # caches hold what recomputation asks for: here, nothing
        others = alternatives(name, query, self.catalog, self.statistics, self.searches, known)
        best = others[0].strategy
        if best == "higher_order":
            return added
        self.drop(name)
        return self.add(name, query, best)

    def drop(self, name: str) -> list[str]:
        """Remove a view; returns the maps that nothing needs any more."""
        del self.views[name], self._queries[name]
        return self._forget_unneeded()

    def _forget_unneeded(self) -> list[str]:
        by_target: dict[str, list[Statement]] = {}
        for (target, _, _), statements in self._statements.items():
            by_target.setdefault(target, []).extend(statements)
        needed = needed_maps(self.views.values(), by_target)
        gone = [m for m in self.registry.maps if m not in needed]
        self.registry.forget(gone)
        self._caches.forget(gone)
        self._statements = Later({at: s for at, s in self._statements.items() if at[0] in needed})
        return gone

    def obstacles(self, name: str) -> tuple[str, ...]:
        """Why a view is not incremental; nothing if it is."""
        return obstacles(self.program(), name, self.searches)

    def explain(self, name: str) -> str:
        """What keeping a view takes, and what the other strategies would."""
        others = alternatives(name, self._queries[name], self.catalog, self.statistics, self.searches)
        listed = "\n".join(f"    {item}" for item in others)
        missing = [strategy for strategy in STRATEGIES if strategy not in {item.strategy for item in others}]
        listed += "".join(f"\n    {strategy}: too large to compile" for strategy in missing)
        heading = f"strategies by estimated cost ({self._sizes(name)})"
        return f"{explain(self.program(), name, self.searches)}\n\n  {heading}:\n{listed}"

    def _sizes(self, name: str) -> str:
        """The rows for which the strategies of a view are compared: those of its tables, known or assumed."""
        known, read = self.statistics.rows, part_of(self.program(), name).triggers
        said = (
            f"{known[table]:,} rows of {table}"
            if table in known
            else f"{DEFAULT_ROWS:,} rows of {table}, assumed"
            for table in sorted(read)
        )
        return "; ".join(said)

    def program(self) -> Program:
        """The program for all views added so far."""
        read = sorted({table for _, table, _ in self._statements} | self._tables_read())
        return Program(
            tables={name: self.catalog[name] for name in read},
            maps=dict(self.registry.maps),
            triggers=Later(self._triggers("tuple")),
            batch_triggers=Later(self._triggers("batch")),
            views=dict(self.views),
        )

    def _tables_read(self) -> set[str]:
        return {table for m in self.registry.maps.values() for table in tables(m.definition)}

    def _triggers(self, granularity: str) -> dict[str, Trigger]:
        found: dict[str, list[Statement]] = {}
        by_row = {table for target, table in self._by_row if target in self.registry.maps}
        for (_, table, kind), statements in self._statements.items():
            if kind == granularity and not (kind == "batch" and table in by_row):
                found.setdefault(table, []).extend(statements)
        return {
            table: Trigger(
                table,
                order_increments([s for s in statements if s.op == "+="]),
                order_recomputations([s for s in statements if s.op == ":="]),
            )
            for table, statements in sorted(found.items())
        }

    # Views

    def _view(self, name: str, query: plan_nodes.Query, strategy: Strategy) -> View:
        plan = query.plan.input if isinstance(query.plan, plan_nodes.Top) else query.plan
        translation = PlanToCalculus(plan)
        self.names = translation.names
        columns = _row_variables(query)
        terms: list[OutputTerm] = []
        stored: list[Term] = []
        for alternative in translation.alternatives(plan):
            row = tuple(alternative.read(column) for column in columns)
            if _is_read_off(alternative) and not self._crosses(alternative, columns, strategy):
                terms.extend(self._read_off(name, alternative, row))
            else:
                stored.extend(self._stored(alternative, columns))
        if stored:
            reference = self.registry.reference(columns, columns, tuple(stored), name)
            terms.append(OutputTerm(Term((reference,)), columns))
        return View(name, tuple((var.name, var.type) for var in columns), tuple(terms))

    def _crosses(self, alternative: Alternative, columns: tuple[Var, ...], strategy: Strategy) -> bool:
        """Are rows that could be read off better kept, as they come and go by crossing a moving total?"""
        totals = any(isinstance(f, Lift) and not f.keys for f in alternative.factors)
        if not (totals and strategy.crossing and self.searches):
            return False
        stored = self._stored(alternative, columns)
        changing = [t for t in sorted(tables(stored)) if self.catalog[t].kind is not TableKind.STATIC]
        events = [self._one(table) for table in changing]
        return any(moves(stored, event, self.names) for event in events) and all(
            crosses(stored, columns, event, self.names) for event in events
        )

    def _stored(self, alternative: Alternative, columns: tuple[Var, ...]) -> Query:
        """An alternative as terms of a map keyed by the whole output row."""
        query = self._keyed(product(*alternative.bind(columns)), (column.name for column in columns))
        return simplify_query(query, (column.name for column in columns), self.names)

    def _keyed(self, query: Query, frozen: Iterable[str]) -> Query:
        """Simplified, so that columns meet their constants, and then without the ``E`` that keys or the
        extrema of groups decide."""
        simple = groupwise_extrema(simplify_query(query, frozen, self.names), self.names)
        return inline_keyed_exists(simple, self.catalog, self.names)

    def _read_off(self, name: str, alternative: Alternative, row: tuple[Scalar, ...]) -> Iterable[OutputTerm]:
        """An alternative whose rows are read from the maps of its nested factors.

        An ``E`` that keys decide stays here: only inside a map are there tables to look it up in.
        """
        needed = {var.name: var for scalar in row for var in variables(scalar)}
        for term in simplify_query(product(*alternative.factors), needed, self.names):
            done = simplify_term(term, frozenset(), self.names, keys=needed.values())
            if done is None:
                continue
            materializer = self._materializer("", "component")
            factors = tuple(self._nested_map(f, materializer, name) for f in done.term.factors)
            outputs = tuple(substitute(scalar, done.bindings) for scalar in row)
            settled = Settled((Term(factors),), self.registry.columns)
            for own in settled.query((Term(factors, done.term.coefficient),)):
                yield OutputTerm(own, tuple(settled.scalar(scalar) for scalar in outputs))

    def _nested_map(self, factor: Factor, materializer: Materializer, stem: str) -> Factor:
        if not isinstance(factor, Lift | Extremum | Exists):
            return factor
        keys = (*factor.keys, factor.of) if isinstance(factor, Extremum) else factor.keys
        names = [key.name for key in keys]
        query = simplify_query(self._keyed(factor.query, names), names, self.names)
        if isinstance(factor, Extremum):
            sought = materializer.sought(replace(factor, query=query), stem)
            if sought is not None:
                return _with_query(factor, sought)
        if binds_all(query, keys) and not materializer.is_power(query, keys):
            return _with_query(factor, materializer.whole(query, keys, stem))
        bound = frozenset(key.name for key in factor.keys)
        return _with_query(factor, materializer.nested(query, keys, factor.keys, bound))

    # Maps

    def _maintain(self, target: MapDefinition, table: str, strategy: Strategy) -> None:
        """Statements for one row, and for a batch unless only single rows restrict what changes."""
        one, many = self._one(table), BatchEvent(self.catalog[table], self.catalog.children(table))
        reevaluated = strategy.reevaluates and not _is_rows(target)
        if reevaluated or self._must_recompute(target, one, strategy):
            statements = [self._recompute(target, table, strategy)]
            self._statements[target.name, table, "tuple"] = tuple(statements)
            self._statements[target.name, table, "batch"] = tuple(statements)
            return
        by_row = self._increment(target, one, strategy)
        self._statements[target.name, table, "tuple"] = self._renewal(target, one, by_row, strategy) or by_row
        if self._must_recompute(target, many, strategy):
            self._by_row.add((target.name, table))
            return
        by_batch = batched(target, one.table, by_row)
        if by_batch is None:
            by_batch = self._increment(target, many, strategy)
        self._statements[target.name, table, "batch"] = by_batch

    def _one(self, table: str) -> TupleEvent:
        return TupleEvent(self.catalog[table], self.catalog.children(table))

    def _must_recompute(self, target: MapDefinition, event: Event, strategy: Strategy) -> bool:
        unrestricted = any(
            affected is not None and affected.domain is None
            for term in target.definition
            for factor in term.factors
            if (affected := affected_by(factor, event, self.names)) is not None
        )
        if not unrestricted or not strategy.crossing:
            return unrestricted
        return not crosses(target.definition, target.keys, event, self.names)

    def _recompute(self, target: MapDefinition, table: str, strategy: Strategy) -> Statement:
        materializer = self._materializer(table, strategy.depth)
        query = materializer.query(target.definition, target.keys, frozenset())
        query = isolate_sums(query, target.keys, self.names, self.registry)
        if strategy.caches:
            query = self._caches.recomputation(query, table)
        settled = Settled(query, self.registry.columns)
        keys = tuple(settled.variable(key) for key in target.keys)
        return Statement(target.name, keys, ":=", settled.query(query))

    def _increment(self, target: MapDefinition, event: Event, strategy: Strategy) -> tuple[Statement, ...]:
        """One statement per distinct form of the target's keys."""
        materializer = self._materializer(event.table.name, strategy.depth)
        by_keys: dict[tuple[Argument, ...], list[Term]] = {}
        for term in crossing_delta(target.definition, event, self.names):
            done = simplify_term(term, frozenset(), self.names, keys=target.keys)
            if done is None:
                continue
            keys = tuple(_argument(done.bindings.get(key.name, key)) for key in target.keys)
            by_keys.setdefault(keys, []).append(done.term)
        statements: list[Statement] = []
        for keys, terms in by_keys.items():
            needed = [key for key in keys if isinstance(key, Var)]
            query = materializer.query(tuple(terms), needed, frozenset())
            query = isolate_sums(query, needed, self.names, self.registry)
            query = only_flips(query, self.names, self.searches)
            if query:
                settled = Settled(query, self.registry.columns, event.parameters)
                own = tuple(settled.variable(k) if isinstance(k, Var) else k for k in keys)
                statements.append(Statement(target.name, own, "+=", settled.query(query)))
        return tuple(statements)

    def _renewal(
        self, target: MapDefinition, event: Event, increments: tuple[Statement, ...], strategy: Strategy
    ) -> tuple[Statement, ...]:
        """The entries that a row changes, each found anew by searches where their increments would scan::

            M[@k] += Q'(@k) - Q(@k)    ->    M[@k] := Q(@k)                 after the event

        Q' has the changed row beside each map that it reads, and a sum of both is not monotone where the map
        alone is. Afterwards the maps have the row themselves. Nothing is founded for it: what the increments
        read is enough, or they stay.
        """
        if not self.searches or strategy.depth != "component" or not increments:
            return ()
        if all(is_at_most_logarithmic(s.query, self.searches) for s in increments):
            return ()
        if not all(s.is_of_one_entry for s in increments):
            return ()
        before = self.names.snapshot(), self.registry.names.snapshot(), len(self.registry.pending)
        renewed: tuple[Statement, ...] = ()
        with suppress(ProgramSizeError):
            renewed = tuple(self._renewed(target, event, s.keys, strategy) for s in increments)
        founded = [definition.name for definition in self.registry.pending[before[2] :]]
        told = all(target.name not in reads(s.query) for s in renewed)  # M[@k] := M[@k] would tell nothing
        quick = all(is_at_most_logarithmic(s.query, self.searches) for s in renewed)
        if renewed and told and quick and not founded:
            return renewed
        self.names.restore(before[0])
        self.registry.names.restore(before[1])
        self.registry.withdraw(founded)
        return ()

    def _renewed(
        self, target: MapDefinition, event: Event, keys: tuple[Argument, ...], strategy: Strategy
    ) -> Statement:
        """One entry of a map from its definition, on the state after the event."""
        entry = [Cond(call("==", key, given)) for key, given in zip(target.keys, keys, strict=True)]
        done = (
            simplify_term(term, frozenset(), self.names, keys=target.keys)
            for term in times(target.definition, product(*entry))
        )
        query = self._materializer(event.table.name, strategy.depth).query(
            tuple(simple.term for simple in done if simple is not None), (), frozenset()
        )
        query = isolate_sums(query, (), self.names, self.registry)
        settled = Settled(query, self.registry.columns, event.parameters)
        return Statement(target.name, keys, ":=", settled.query(query))

    def _materializer(self, table: str, depth: Depth) -> Materializer:
        components = Components(self.catalog, self, table, depth, bool(self.searches))
        return Materializer(self.registry, self.names, components)

    def restricted(self, factor: Nested) -> bool:
        """Has a nested factor a restricted domain for every table that can change in it?"""
        known = self._restricted.get(factor)
        if known is None:
            known = self._restricted[factor] = all(
                affected is None or affected.domain is not None
                for table in sorted(tables(factor.query))
                if self.catalog[table].kind is not TableKind.STATIC
                for affected in [affected_by(factor, self._one(table), self.names)]
            )
        return known


def alternatives(
    name: str,
    query: plan_nodes.Query,
    catalog: Catalog,
    statistics: Statistics | None = None,
    searches: Ordered = False,
    known: Mapping[str, Estimate] | None = None,
) -> list[Estimate]:
    """What each strategy would cost for a query, the cheapest first; ties go to the earlier strategy.

    Strategies whose estimates are ``known`` are not compiled again; those whose programs would be too large
    are left out.
    """
    figures, found = statistics or Statistics(), dict(known or {})
    for strategy in STRATEGIES:
        if strategy not in found:
            with suppress(ProgramSizeError):
                program = compile_views({name: query}, catalog, strategy, figures, searches)
                found[strategy] = estimate(program, strategy, figures, searches)
    ranked = (found[strategy] for strategy in STRATEGIES if strategy in found)
    return sorted(ranked, key=lambda item: item.average)


def compile_views(
    views: Mapping[str, plan_nodes.Query],
    catalog: Catalog,
    strategy: str = "higher_order",
    statistics: Statistics | None = None,
    searches: Ordered = False,
) -> Program:
    """The maintenance program for some queries; ``auto`` takes the strategy with the least estimated cost."""
    compiler = Compiler(catalog, searches, statistics=statistics or Statistics())
    for name, query in views.items():
        compiler.add(name, query, strategy)
    return compiler.program()


def _is_rows(target: MapDefinition) -> bool:
    """Does a map hold the rows of a table as they are?"""
    factors = [f for term in target.definition for f in term.factors]
    return len(factors) == 1 and isinstance(factors[0], Rel)


def _row_variables(query: plan_nodes.Query) -> tuple[Var, ...]:
    """What a stored row consists of: the result columns, and what only ORDER BY reads."""
    row = [var for _, var in query.columns]
    if isinstance(query.plan, plan_nodes.Top):
        row += [var for key in query.plan.keys for var in variables(key.scalar)]
    return tuple(dict.fromkeys(row))


def _is_read_off(alternative: Alternative) -> bool:
    """Are the rows read from maps directly: at most one nested factor that enumerates, and no table?"""
    if any(isinstance(f, Rel) for f in alternative.factors):
        return False
    given = {f.var.name for f in alternative.factors if isinstance(f, Lift | Extremum | Let)}
    enumerating = [
        f
        for f in alternative.factors
        if isinstance(f, Exists) and not f.negated and not {k.name for k in f.keys} <= given
    ]
    return len(enumerating) <= 1


def _with_query(factor: Nested, query: Query) -> Nested:
    match factor:
        case Lift(var, keys):
            return Lift(var, keys, query)
        case Extremum(var, op, of, keys):
            return Extremum(var, op, of, keys, query)
        case Exists(keys, _, negated):
            return Exists(keys, query, negated)


def _argument(scalar: Scalar) -> Argument:
    if not isinstance(scalar, Var | Const):
        raise CompileError(f"a map key became the expression {scalar}")
    return scalar
