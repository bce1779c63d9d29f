"""Run passes in order, or one pass to its fixpoint, and notice when it never gets there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from viewlet.errors import PlanError

N = TypeVar("N")

LIMIT = 1000


def fixpoint(change: Callable[[N], N], node: N) -> N:
    """Apply ``change`` until it changes nothing.

    A pass that revisits an earlier result would run forever, so that raises instead of stopping
    quietly with whatever came out last.

    >>> fixpoint(lambda n: n // 2, 100)
    0
    """
    seen: set[N] = set()
    for _ in range(LIMIT):
        changed = change(node)
        if changed == node:
            return node
        if changed in seen:
            raise PlanError(f"pass {name_of(change)} does not converge: it came back to {changed}")
        seen.add(node)
        node = changed
    raise PlanError(f"pass {name_of(change)} still changes after {LIMIT} rounds")


def run_passes(passes: Sequence[Callable[[N], N]], node: N) -> N:
    """Run each pass once, in order."""
    for change in passes:
        node = change(node)
    return node


def name_of(change: Callable[..., object]) -> str:
    """The name under which a pass appears in traces and errors."""
    return getattr(change, "__name__", repr(change))
