"""From a trigger program to a distributed one.

Every statement is split into terms, each term gets a route (``route.py``), and each stop of a route becomes a
statement; what travels between stops is a relation of its own, so the program is in single transformer form.
Relations with equal definitions at equal places are one relation, which is what common subexpression
elimination means here. All increments are computed from the old state and added at the end, so the only
dependencies are flows of data; ``fuse.py`` packs the statements into as few blocks as these allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from viewlet.backends.spark.deal import deal_rows
from viewlet.backends.spark.fuse import fuse, one_by_one
from viewlet.backends.spark.hoist import Product, products, with_relations
from viewlet.backends.spark.nodes import (
    Compute,
    Dist,
    DistProgram,
    DistStatement,
    DistTrigger,
    Local,
    Location,
    Mode,
    Movement,
    Random,
    Replicated,
    Transfer,
)
from viewlet.backends.spark.route import MOVED_MAP, By, Fetch, Leg, Router, Stop, is_home, shared_keys
from viewlet.calculus.canonical import canonical_form
from viewlet.calculus.nodes import (
    Argument,
    Delta,
    Exists,
    Extremum,
    Factor,
    Lift,
    MapRef,
    Query,
    Term,
    arguments,
    factor_variables,
    is_parameter,
)
from viewlet.core.names import Names
from viewlet.core.scalar import Var
from viewlet.triggers.program import MapDefinition, Program, Statement, Trigger


@dataclass(frozen=True, slots=True)
class Passes:
    """Which optimizations are made: equal relations are shared, statements are fused into blocks."""

    shared: bool
    fused: bool


ALL = Passes(shared=True, fused=True)


def distribute(
    program: Program, placement: Mapping[str, Location], changes_at: Local | Random, passes: Passes = ALL
) -> DistProgram:
    """The distributed form of a program; ``changes_at`` says where batches arrive.

    Programs for single rows have the row as parameters, which every place knows.
    """
    router = Router(placement, changes_at)
    return DistProgram(
        changes_at=changes_at,
        tables=program.tables,
        maps=program.maps,
        placement=placement,
        batch={
            table: distribute_trigger(program, trigger, router, passes)
            for table, trigger in program.batch_triggers.items()
        },
        tuple={
            table: distribute_trigger(program, trigger, router, passes)
            for table, trigger in program.triggers.items()
            if table not in program.batch_triggers
        },
        views=program.views,
    )


def distribute_trigger(program: Program, trigger: Trigger, router: Router, passes: Passes) -> DistTrigger:
    """One trigger: increments from the old state, their addition, then recomputations on the new state."""
    building = _Building(program, router, Names(frozenset(program.maps)))
    parts = []
    for statement in trigger.increments:
        if not passes.shared:
            building.forget()
        parts += building.part(statement)
    building.statements += parts
    for statement in trigger.recomputations:
        building.forget()
        building.statements += building.part(_as_addition(statement, program.maps))
    statements, dealt = list(building.statements), None
    in_batches = trigger.table in program.batch_triggers
    if isinstance(router.changes_at, Local) and in_batches and passes.shared:
        statements, dealt = deal_rows(statements, program.tables[trigger.table], router.placement)
    return DistTrigger(trigger.table, (fuse if passes.fused else one_by_one)(statements), dealt)


@dataclass(slots=True)
class _Building:
    """The statements of one trigger so far, and the relations that they define, by what they hold."""

    program: Program
    router: Router
    names: Names
    statements: list[DistStatement] = field(default_factory=list)
    _relations: dict[object, str] = field(default_factory=dict)

    def forget(self) -> None:
        """From here on the state is another: a copy of a map made before is of no use."""
        self._relations.clear()

    def part(self, statement: Statement) -> list[Compute]:
        """Route every term of a statement; returns what brings the sums into the target map.

        Coefficients come in only here, so that terms which differ by them share their relations. A map that
        is everywhere gets its sums on the driver and in the partitions.
        """
        where = self.router.placement[statement.target]
        free = all(isinstance(key, Var) and not is_parameter(key) for key in statement.keys)
        keys = statement.keys
        if not free or len(set(keys)) < len(keys):  # given keys are columns too, to partition by
            keys = tuple(Var(f"key_{i}", key.type) for i, key in enumerate(keys))
        modes: list[Mode] = ["local"] if isinstance(where, Local) else ["distributed"]
        if isinstance(where, Replicated):
            modes = ["local", "distributed"]
        arrived = [
            [(found, term.coefficient) for found in self._term(term, statement.keys, keys, where)]
            for term in statement.query
        ]
        return [
            Compute(
                mode,
                statement.target,
                keys,
                statement.op,
                tuple(Term((own[at][0],), own[at][1]) for own in arrived),
            )
            for at, mode in enumerate(modes)
        ]

    def _term(
        self, term: Term, keys: tuple[Argument, ...], names: tuple[Argument, ...], target: Location
    ) -> list[MapRef]:
        """Compute a product along its route; the relations that hold its sums at the target.

        ``names`` are what the keys are called there: themselves if they are variables of the term.
        """
        term = self._without_moved_maps(term, keys, target)
        legs = self.router.route(term, keys, target)
        carried: MapRef | None = None
        for i, leg in enumerate(legs[:-1], 1):
            factors = self._at(leg, carried)
            later = [factor for after in legs[i:] for factor in after.factors]
            towards = (after.stop.argument for after in legs[i:] if isinstance(after.stop, By))
            relation = self._relation(factors, _needed(factors, later, (*keys, *towards)), leg.stop)
            carried = self._carry(relation, leg.stop, legs[i])
        stop = legs[-1].stop
        factors = self._at(legs[-1], carried)
        if names == keys:
            result = self._relation(factors, tuple(key for key in keys if isinstance(key, Var)), stop)
        else:
            result = MapRef(self._define(keys, (Term(factors),), stop), names)
        return [result] if is_home(stop, keys, target) else self._bring(result, names, stop, target)

    def _without_moved_maps(self, term: Term, keys: tuple[Argument, ...], target: Location) -> Term:
        """A term whose nested queries read relations where they would have maps moved (``hoist.py``)."""
        price = self.router.price(term, keys, target)
        found = list(dict.fromkeys(products(term))) if price >= MOVED_MAP else []
        chosen: Mapping[Product, int] = {}
        for at, asked in product(dict.fromkeys(key for each in found for key in each.keys), (False, True)):
            homes = {each: each.keys.index(at) for each in found if at in each.keys and each.asked <= asked}
            if (other := self._price_of(term, keys, target, homes)) < price:
                chosen, price = homes, other
        relations = {}
        for each, home in chosen.items():
            (made,) = self._term(each.term, each.keys, each.keys, Dist(home))
            self.router = self.router.knowing(made.name, Dist(made.keys.index(each.keys[home])))
            relations[each] = made
        return with_relations(term, relations) if relations else term

    def _price_of(
        self, term: Term, keys: tuple[Argument, ...], target: Location, homes: Mapping[Product, int]
    ) -> float:
        """What a term costs if some of its products are relations, partitioned by these of their keys."""
        router, relations = self.router, {}
        for i, (each, home) in enumerate(homes.items()):
            relations[each] = MapRef(f"?{i}", each.keys)
            router = router.knowing(f"?{i}", Dist(home))
        inside = sum(self.router.price(each.term, each.keys, Dist(home)) for each, home in homes.items())
        return router.price(with_relations(term, relations), keys, target) + inside

    def _at(self, leg: Leg, carried: MapRef | None) -> tuple[Factor, ...]:
        """The factors of a stop, with copies in the place of what was fetched.

        Where changes arrive, each part of the one that a route starts with meets all of the others.
        """
        starts = leg.factors[:1] if isinstance(leg.stop, Random) else ()
        rest = leg.factors[len(starts) :]
        here = (*starts, *(self._with_copies(factor, leg.stop, None) for factor in rest))
        return here if carried is None else (carried, *here)

    def _with_copies(self, factor: Factor, stop: Stop, inner: frozenset[str] | None) -> Factor:
        """Read copies instead of what is elsewhere.

        Of one change there may be two: what a product goes through is here in part, and what a nested query
        reads under other variables is here as a whole. ``inner`` is as in :meth:`Router.needed`.
        """
        match factor:
            case MapRef() | Delta():
                copies = [self._fetch(fetch) for fetch in self.router.needed(factor, stop, inner) or ()]
                if not copies:
                    return factor
                ((name, kept),) = copies
                args = arguments(factor)
                return MapRef(name, args if kept is None else tuple(args[i] for i in kept))
            case Lift() | Extremum() | Exists():
                shared = shared_keys(factor, inner)
                query = tuple(
                    Term(tuple(self._with_copies(f, stop, shared) for f in term.factors), term.coefficient)
                    for term in factor.query
                )
                return replace(factor, query=query)
            case _:
                return factor

    def _fetch(self, fetch: Fetch) -> tuple[str, tuple[int, ...] | None]:
        """Make a copy of an atom: its name, and for a change which arguments it has."""
        if isinstance(fetch.atom, MapRef):
            name = fetch.atom.name
            if isinstance(self.router.placement[name], Local):
                return self._move(fetch.movement, name, fetch.position, "local"), None
            keys: tuple[Var, ...] = tuple(Var(f"key_{i}", key.type) for i, key in enumerate(fetch.atom.keys))
            if name in self.program.maps:
                keys = self.program.maps[name].keys
            copied = self._define(keys, (Term((MapRef(name, keys),)),), By(keys[0]))
            return self._move(fetch.movement, copied, fetch.position, "distributed"), None
        columns = tuple(
            Var(column, argument.type, argument.nullable) if isinstance(argument, Var) else argument
            for column, argument in fetch.atom.binds
        )
        atom = Delta(
            fetch.atom.table,
            tuple((column, a) for (column, _), a in zip(fetch.atom.binds, columns, strict=True)),
            fetch.atom.absolute,
        )
        free = tuple(column for column in columns if isinstance(column, Var))
        source = self._relation((atom,), free, self.router.changes_at)
        kept = tuple(columns.index(key) for key in source.keys)
        position = None if fetch.position is None else kept.index(fetch.position)
        return self._move(fetch.movement, source.name, position, _mode(self.router.changes_at)), kept

    def _relation(self, factors: tuple[Factor, ...], keys: tuple[Var, ...], stop: Stop) -> MapRef:
        """A relation with the sums of a product by ``keys``: an earlier one if it is the same."""
        query = (Term(factors),)
        form = canonical_form(query, keys)
        same = ("relation", _mode(stop), form.text)
        if same not in self._relations:
            self._relations[same] = self._define(form.keys, query, stop)
        return MapRef(self._relations[same], form.keys)

    def _define(self, keys: tuple[Argument, ...], query: Query, stop: Stop) -> str:
        same = ("define", _mode(stop), keys, query)
        if same not in self._relations:
            self._relations[same] = name = self.names.fresh("t")
            self.statements.append(Compute(_mode(stop), name, keys, ":=", query))
        return self._relations[same]

    def _carry(self, relation: MapRef, stop: Stop, leg: Leg) -> MapRef:
        if leg.arrival is None:
            return relation
        position = None
        if leg.arrival in ("Repart", "Scatter"):
            position = relation.keys.index(leg.stop.argument)  # type: ignore[union-attr]
        return MapRef(self._move(leg.arrival, relation.name, position, _mode(stop)), relation.keys)

    def _bring(
        self, relation: MapRef, names: tuple[Argument, ...], stop: Stop, target: Location
    ) -> list[MapRef]:
        """Move a result to where its map is; for one that is everywhere, the driver's comes first."""
        origin = _mode(stop)
        match target:
            case Local():
                moved = [self._move("Gather", relation.name, None, origin)]
            case Dist(position):
                at = relation.keys.index(names[position])
                moved = [self._move("Scatter" if origin == "local" else "Repart", relation.name, at, origin)]
            case Replicated():
                here = (
                    relation.name if origin == "local" else self._move("Gather", relation.name, None, origin)
                )
                moved = [here, self._move("Broadcast", relation.name, None, origin)]
            case Random():
                raise AssertionError("maps are not left to chance")
        return [MapRef(name, relation.keys) for name in moved]

    def _move(self, movement: Movement, source: str, position: int | None, origin: Mode) -> str:
        same = (movement, source, position)
        if same not in self._relations:
            self._relations[same] = name = self.names.fresh("t")
            self.statements.append(Transfer(movement, name, source, position, origin))
        return self._relations[same]


def _as_addition(statement: Statement, maps: Mapping[str, MapDefinition]) -> Statement:
    """``M[@k] := Q  ->  M[@k] += Q - M[@k]``: what sites replace is a whole map."""
    if not statement.keys or not statement.is_of_one_entry:
        return statement
    old = MapRef(statement.target, statement.keys, maps[statement.target].type)
    return replace(statement, op="+=", query=(*statement.query, Term((old,), -1)))


def _mode(stop: Stop) -> Mode:
    return "local" if isinstance(stop, Local) else "distributed"


def _needed(factors: Iterable[Factor], later: Iterable[Factor], keys: Iterable[Argument]) -> tuple[Var, ...]:
    """The variables of a product that later factors or the target's keys refer to."""
    wanted = {v.name for factor in later for v in factor_variables(factor)}
    wanted |= {key.name for key in keys if isinstance(key, Var)}
    here = {v.name: v for factor in factors for v in factor_variables(factor)}
    return tuple(v for name, v in here.items() if name in wanted and not is_parameter(v))
