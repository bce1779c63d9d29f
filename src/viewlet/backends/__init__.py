"""Stage 6: engines that keep views fresh."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

from viewlet.backends.base import Engine, Strategy
from viewlet.backends.native.build import obstacle
from viewlet.backends.native.engine import NativeEngine
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.backends.reference.reevaluate import Reevaluate
from viewlet.errors import BackendError, CompileError

Backend: TypeAlias = Literal["auto", "reference", "native"]


@runtime_checkable
class GivesReasons(Protocol):
    """An engine that can say why a view is not incremental."""

    def obstacles(self, name: str) -> tuple[str, ...]:
        """The reasons, one per input table and cause; none if every change costs only its effect."""


def engine_for(backend: Backend, strategy: Strategy, *, spill: Path | None = None) -> Engine:
    """The engine of a backend for a strategy; ``auto`` is native code where a C compiler is found.

    Native maps live in files of the folder ``spill``, if it is given.

    >>> engine_for("reference", "reevaluate")
    <Reevaluate: no views>
    """
    if backend not in get_args(Backend):
        raise BackendError(f"there is no backend {backend!r}; choose one of {', '.join(get_args(Backend))}")
    if strategy not in get_args(Strategy):
        raise BackendError(
            f"there is no strategy {strategy!r}; choose one of {', '.join(get_args(Strategy))}"
        )
    if backend == "native" and (reason := obstacle()):
        raise BackendError(f"backend 'native': {reason}")
    if backend == "native" or (backend == "auto" and _can_compile()):
        return NativeEngine(spill=spill)
    if spill is not None:
        raise BackendError(f"spill={str(spill)!r}: only native code can keep its maps in files")
    return Reevaluate() if strategy == "reevaluate" else ReferenceEngine()


def _can_compile() -> bool:
    """Can views be native code here? If not, say so: the reference engine is right, but slow."""
    reason = obstacle()
    if reason:
        warnings.warn(
            f"{reason}; until then views run on the reference engine, which is correct but slow",
            RuntimeWarning,
            stacklevel=2,
        )
    return not reason


def obstacles(engine: Engine, name: str) -> tuple[str, ...]:
    """Why a view is not incremental; an engine that cannot say so makes no such promise."""
    if isinstance(engine, GivesReasons):
        return engine.obstacles(name)
    raise CompileError(
        f"view {name!r}: {type(engine).__name__} cannot promise INCREMENTAL STRICT; use INCREMENTAL"
    )
