"""Random programs on a cluster of partitions in this process, next to the reference engine."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace

from laws.maintenance import compiled, steps
from viewlet.backends.base import Change
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.backends.spark.cluster import SimulatedCluster
from viewlet.backends.spark.coordinate import Coordinator
from viewlet.backends.spark.distribute import Passes, distribute
from viewlet.backends.spark.native import site_codes
from viewlet.backends.spark.nodes import Dist, DistProgram, Local, Random, Replicated
from viewlet.backends.spark.place import place
from viewlet.backends.spark.site import Changes
from viewlet.errors import ProgramSizeError
from viewlet.plan.bags import consolidate


def agree(seed: int, *, native: bool = False, by_row: bool = False) -> bool | None:
    """Replay a random case through both, comparing every map after every batch.

    Columns to partition by, which maps of the driver are everywhere, the number of partitions, where batches
    arrive, how they are cut and which optimizations are made are drawn. ``by_row`` takes away the triggers
    for batches, so that rows come one by one.
    Returns whether some map was distributed; ``None`` where the query itself is refused, or its program is.
    """
    found = compiled(seed)
    if found is None:
        return None
    case, catalog, query = found
    rng = random.Random(seed)
    reference = ReferenceEngine()
    try:
        reference.create("v", query, catalog, {table: {} for table in catalog}, "higher_order")
    except ProgramSizeError:
        return None
    program = replace(reference.program, batch_triggers={}) if by_row else reference.program
    columns = {t: rng.choice(catalog[t].column_names) for t in catalog if rng.random() < 0.8}
    placement = {
        name: Replicated() if isinstance(where, Local) and rng.random() < 0.3 else where
        for name, where in place(program, {}, columns).items()
    }
    passes = Passes(shared=rng.random() < 0.8, fused=rng.random() < 0.8)
    distributed = distribute(program, placement, rng.choice([Local(), Random()]), passes)
    partitions = rng.choice([1, 2, 3])
    changes = list(steps(case, catalog))
    batches: list[dict[str, list[Change]]] = []
    while changes:
        size = rng.choice([1, 3, 8])
        batch, changes = changes[:size], changes[size:]
        batches.append({})
        for table, change in batch:
            batches[-1].setdefault(table, []).append(change)
    compare(reference, distributed, partitions, batches, native=native, what=f"seed {seed}, {columns}")
    return any(isinstance(where, Dist) for where in placement.values())


def compare(
    reference: ReferenceEngine,
    distributed: DistProgram,
    partitions: int,
    batches: Iterable[Mapping[str, list[Change]]],
    *,
    native: bool,
    what: str,
) -> None:
    """Apply batches, each with the changes of some tables, to both; every map must be the same after each."""
    driver, partition = site_codes(distributed, native)
    coordinator = Coordinator(driver, partition, SimulatedCluster(partition, partitions))
    names = list(distributed.maps)
    coordinator.load({name: dict(reference.contents(name)) for name in names})
    for batch in batches:
        for table, own in batch.items():
            reference.apply(table, own, "batch", frozenset())
        coordinator.apply([(table, _changes(own)) for table, own in batch.items()])
        held = coordinator.contents(names)
        for name in names:
            assert held[name] == dict(reference.contents(name)), f"{what}, map {name}"


def _changes(changes: list[Change]) -> Changes:
    bag = consolidate((change.row, change.weight) for change in changes)
    return Changes(list(bag), list(bag.values()))
