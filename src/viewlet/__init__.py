"""Viewlet keeps analytical results fresh while their inputs change."""
