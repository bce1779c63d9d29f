"""The examples in the docstrings of the SQL and plan stages run."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = [
    "core.arithmetic",
    "core.text",
    "plan.fold_constants",
    "plan.from_sql.queries",
    "plan.text",
    "sql",
    "sql.expressions",
    "sql.intervals",
    "sql.parse",
    "sql.position",
    "sql.scalars",
    "sql.typing",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    result = doctest.testmod(import_module(f"viewlet.{name}"))
    assert result.attempted, f"viewlet.{name} has no example"
    assert not result.failed
