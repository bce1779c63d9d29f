"""Minima, maxima and confined loops by ordered indexes, where loops over all entries would do as well.

the end of an order
    A maximum over ``M[k, v] * {v < c}`` is the last key v before an edge. Entries that *points* beside the
    map (the changed row of an event) touch are passed over, and each point is a candidate by itself::

        max v<k>(M[k, v] + {v == b} * w)     visit v down, up to the first that is no point; then the points

    Where conditions read running sums, they are asked along an index of these sums, which leads from key to
    key as well::

    min v<k>(M[k, v] * (c := sum<k, v>(V[k, w] * {w <= v})) * {c >= n})      seek along V, visit M up

the best of an interval
    A maximum of v over ``M[q, v] * {q <= p}`` is what an index along q knows of the part before an edge.

a confined loop
    A loop over ``M[s, k] * {s > a} * {s <= b}`` visits the levels of s between two edges, and the entries of
    each level: the rows that a moving threshold has crossed.

The conditions are recognised in ``calculus/extreme.py`` and ``calculus/ranges.py``. NULL has no place in an
order: it is neither least nor greatest; and a loop is confined only if its conditions do not hold for NULL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from viewlet.calculus.extreme import End, as_end
from viewlet.calculus.monotone import Search
from viewlet.calculus.nodes import Argument, Extremum, Factor, MapRef, Term
from viewlet.calculus.ranges import as_range
from viewlet.core.scalar import Var, call
from viewlet.core.types import wide
from viewlet.loops.builder import BlockBuilder, Sums, nonzero
from viewlet.loops.nodes import Axis, Best, Holds, Offer, Peak, Product
from viewlet.loops.searches import Searching
from viewlet.loops.served import best_axis, is_floating, is_ordered, may_hold_at_null
from viewlet.loops.storage import AtomPlace

if TYPE_CHECKING:
    from viewlet.loops.lower import Env, Lowering


def ordered_end(lowering: Lowering, factor: Extremum, block: BlockBuilder, env: Env) -> Var | None:
    """A variable with an extremum from an ordered index; ``None``, and nothing done, where that cannot be."""
    end = as_end(factor, frozenset(env))
    if end is None:
        return None
    place = lowering.storage.place(end.interval.atom)
    served = _is_best_served(end, place, factor) if end.is_nested else _is_end_served(end, place, factor.of)
    if not (served and lowering.storage.ordered):
        lowering.storage.scanned.add(end.interval.atom.name)
        return None
    return (_best if end.is_nested else _end)(lowering, factor, end, block, env)


def _is_end_served(end: End, place: AtomPlace, of: Var) -> bool:
    column = place.record.keys[place.arguments.index(of)]
    return is_ordered(column.type) and not is_floating(place)


def _is_best_served(end: End, place: AtomPlace, factor: Extremum) -> bool:
    """Is the map all there is, and has it an index of best values?"""
    return (
        not end.points and not end.interval.dependents and best_axis(place, end.interval, factor) is not None
    )


def _end(lowering: Lowering, factor: Extremum, end: End, block: BlockBuilder, env: Env) -> Var:
    """The first key from the end of an order that no point touches, or a point if that is better."""
    place = lowering.storage.place(end.interval.atom)
    position = place.arguments.index(factor.of)
    holds: Holds = "sums" if end.interval.needs else "levels"
    axis = Axis(position, tuple(i for i in range(len(place.arguments)) if i != position), holds)
    points = lowering.gather(end.points, (factor.of,), block, env) if end.points else None

    def visit(at: BlockBuilder, found: Env, _: Product) -> None:
        searching = Searching(lowering, end.interval, axis, at, found)
        if searching.rounds():
            lowering.storage.scanned.add(end.interval.atom.name)
            at.last(Offer(lowering.scanned_extremum(factor, at, found)))
            return
        start, stop = searching.edges()
        what = (searching.along, start, stop, factor.op == "max", True)
        visit = at.visit(what, place.record, _sums(lowering, factor, searching, env))
        keys: dict[int, Argument] = dict(searching.along.bound) | {position: visit.key}
        entry = visit.body.get(place.record, tuple(keys[i] for i in sorted(keys)))
        body = visit.body.when(nonzero(entry.read(place.field)))
        if points is not None:
            body = body.when(call("not", body.get(lowering.storage.records[points], (visit.key,)).found))
        body.last(Offer(visit.key))

    inner = block.inner()
    lowering.term(Term(end.interval.flat), inner, env, visit)
    best = block.best(inner.freeze(), Best(factor.var, factor.op, ()))
    return best if points is None else _or_point(lowering, factor, end, points, best, block, env)


def _sums(lowering: Lowering, factor: Extremum, searching: Searching, env: Env) -> Sums:
    """What a visit is to know that goes along an index of sums: when to scan instead, and how."""
    if searching.axis.holds != "sums":
        return None, (), ()
    scan = BlockBuilder(searching.block.variables, searching.block)
    scan.last(Offer(lowering.scanned_extremum(factor, scan, env)))
    return searching.place.field, searching.needs, scan.freeze()


def _or_point(
    lowering: Lowering, factor: Extremum, end: End, points: str, best: Var, block: BlockBuilder, env: Env
) -> Var:
    """The better of an end and those points that do not cancel what the map holds for them."""
    inner = block.inner()
    inner.last(Offer(best))
    loop = inner.loop(lowering.storage.records[points], ())
    (value,) = loop.keys
    total = loop.body.inner()
    total.yields(Product(1, (loop.read("n"),)))
    known = env | {factor.of.name: value}
    for term in factor.query:
        if not any(term is point for point in end.points):
            lowering.term(term, total, known, lambda at, _, product: at.yields(product))
    count = loop.body.total(total.freeze(), wide(0), "n")
    loop.body.when(nonzero(count)).last(Offer(value))
    return block.best(inner.freeze(), Best(factor.var, factor.op, ()))


def _best(lowering: Lowering, factor: Extremum, end: End, block: BlockBuilder, env: Env) -> Var:
    """The best key of the entries between the edges of another one."""
    axis = best_axis(lowering.storage.place(end.interval.atom), end.interval, factor)
    assert axis is not None, "what no index tells is scanned"

    def find(at: BlockBuilder, found: Env, _: Product) -> None:
        searching = Searching(lowering, end.interval, axis, at, found)
        start, stop = searching.edges()
        scan = BlockBuilder(at.variables, at)
        best = lowering.scanned_extremum(factor, scan, env)
        peak = Peak(best, searching.along, start, stop, searching.needs, scan.freeze())
        at.last(Offer(at.peak(peak)))

    inner = block.inner()
    lowering.term(Term(end.interval.flat), inner, env, find)
    return block.best(inner.freeze(), Best(factor.var, factor.op, ()))


def confined_level(
    lowering: Lowering, atom: MapRef, others: Iterable[Factor], block: BlockBuilder, env: Env
) -> BlockBuilder | None:
    """Visit the levels of one key of a map to which others confine it; the key is known from then on.

    ``None``, and nothing done, where the conditions do not confine it on both sides.
    """
    found = as_range(atom, others, frozenset(env))
    if found is None or not found.is_closed:
        return None
    place = lowering.storage.place(atom)
    position = place.arguments.index(found.key)
    column = place.record.keys[position]
    interval = Search(atom, found.key, (), found.rising, found.falling, (), frozenset())
    served = is_ordered(column.type) and not (column.nullable and may_hold_at_null(interval))
    if not (served and lowering.storage.ordered):
        lowering.storage.scanned.add(atom.name)
        return None
    searching = Searching(lowering, interval, Axis(position, (), "levels"), block, env)
    start, stop = searching.edges()
    visit = block.visit((searching.along, start, stop, False, False), place.record)
    env[found.key.name] = visit.key
    return visit.body
