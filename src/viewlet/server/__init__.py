"""The console: a web page over a live database, with a JSON API, a change feed and Prometheus metrics.

``viewlet serve`` runs it for a database in a file; a program that keeps a database runs it beside its own
work with :func:`background`. It reads, and never changes anything.
"""

from __future__ import annotations

from viewlet.server.run import Running, ServerError, background, start

__all__ = ["Running", "ServerError", "background", "start"]
