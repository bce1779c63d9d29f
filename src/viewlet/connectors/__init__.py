"""Sources that load changes into a database, and sinks that mirror views elsewhere, exactly once."""

from __future__ import annotations

from viewlet.connectors.base import Batch, ConnectorError, Sink, Source
from viewlet.connectors.delta import DeltaSink, DeltaSource
from viewlet.connectors.files import Files
from viewlet.connectors.mirror import Mirror, mirror
from viewlet.connectors.postgres import PostgresSource
from viewlet.connectors.postgres_sink import PostgresSink
from viewlet.connectors.run import following, forget, positions, run

__all__ = [
    "Batch",
    "ConnectorError",
    "DeltaSink",
    "DeltaSource",
    "Files",
    "Mirror",
    "PostgresSink",
    "PostgresSource",
    "Sink",
    "Source",
    "following",
    "forget",
    "mirror",
    "positions",
    "run",
]
