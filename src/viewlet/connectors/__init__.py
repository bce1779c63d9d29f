"""Sources that bring changes into a database and sinks that take views out, exactly once."""

from __future__ import annotations

from viewlet.connectors.base import Batch, ConnectorError, Sink, Source
from viewlet.connectors.files import Files
from viewlet.connectors.run import following, forget, positions, run

__all__ = [
    "Batch",
    "ConnectorError",
    "Files",
    "Sink",
    "Source",
    "following",
    "forget",
    "positions",
    "run",
]
