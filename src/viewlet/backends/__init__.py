"""Stage 6: engines that keep views fresh."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

from viewlet.backends.base import Engine, Strategy
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.backends.reference.reevaluate import Reevaluate
from viewlet.errors import BackendError, CompileError

Backend: TypeAlias = Literal["auto", "reference", "native"]


@runtime_checkable
class GivesReasons(Protocol):
    """An engine that can say why a view is not incremental."""

    def obstacles(self, name: str) -> tuple[str, ...]:
        """The reasons, one per input table and cause; none if every change costs only its effect."""


def engine_for(backend: Backend, strategy: Strategy) -> Engine:
    """The engine of a backend for a strategy; ``auto`` is the fastest backend there is.

    >>> engine_for("auto", "reevaluate")
    <Reevaluate: no views>
    """
    if backend not in get_args(Backend):
        raise BackendError(f"there is no backend {backend!r}; choose one of {', '.join(get_args(Backend))}")
    if strategy not in get_args(Strategy):
        raise BackendError(
            f"there is no strategy {strategy!r}; choose one of {', '.join(get_args(Strategy))}"
        )
    if backend == "native":
        raise BackendError("the native backend is not available yet; use backend='reference' or 'auto'")
    return Reevaluate() if strategy == "reevaluate" else ReferenceEngine()


def obstacles(engine: Engine, name: str) -> tuple[str, ...]:
    """Why a view is not incremental; an engine that cannot say so makes no such promise."""
    if isinstance(engine, GivesReasons):
        return engine.obstacles(name)
    raise CompileError(
        f"view {name!r}: {type(engine).__name__} cannot promise INCREMENTAL STRICT; use INCREMENTAL"
    )
