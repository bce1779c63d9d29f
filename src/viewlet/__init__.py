"""Viewlet keeps analytical results fresh while their inputs change."""

from viewlet import errors
from viewlet.compiled import CompiledProgram, compile
from viewlet.connecting import connect
from viewlet.database import Database

__all__ = ["CompiledProgram", "Database", "compile", "connect", "errors"]
