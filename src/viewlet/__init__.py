"""Viewlet keeps analytical results fresh while their inputs change."""

from viewlet import errors
from viewlet.database import Database, connect

__all__ = ["Database", "connect", "errors"]
