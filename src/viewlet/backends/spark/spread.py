"""Views that partitions read, each its own rows, so that no map has to travel for it.

A view is *spread* if every row is read in one partition, from what that holds, and a column of the row tells
which one: then equal rows are in one place, where their multiplicities add up::

    V  =  V of partition 1  +  V of partition 2  +  ..       and so for what a batch changes in it

Any other view is read on the driver, from copies of the maps that are elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.backends.spark.nodes import Dist, Local, Location
from viewlet.backends.spark.route import By, Router
from viewlet.core.scalar import Scalar, Var
from viewlet.triggers.program import OutputTerm, View


def find_spread(views: Mapping[str, View], placement: Mapping[str, Location]) -> frozenset[str]:
    """The views of a program that are spread."""
    router = Router(placement, Local())
    return frozenset(name for name, view in views.items() if _is_spread(view, router))


def _is_spread(view: View, router: Router) -> bool:
    return any(
        all(_is_read_by(part, part.row[at], router) for part in view.output)
        for at in range(len(view.columns))
    )


def _is_read_by(part: OutputTerm, column: Scalar, router: Router) -> bool:
    """Does each partition read the rows whose value of a column belongs to it, from what it holds?"""
    if not isinstance(column, Var):
        return False
    (leg, *rest) = router.route(part.term, (column,), Dist(0))
    return not rest and leg.stop == By(column) and not leg.fetches
