"""Implication against brute force: a yes is always right, with intervals alone and with z3."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from viewlet.core.functions import compile_scalar
from viewlet.core.scalar import Const, Scalar, Var, call
from viewlet.core.types import BIGINT
from viewlet.sketches import smt
from viewlet.sketches.implication import implies

X, Y = Var("x", BIGINT), Var("y", BIGINT)
VALUES = (None, -3, -2, -1, 0, 1, 2, 3)


def random_value(random: Random, depth: int) -> Scalar:
    if depth and random.random() < 0.4:
        op = random.choice("+-*")
        return call(op, random_value(random, depth - 1), random_value(random, 0))
    return random.choice((X, Y, Const(random.randint(-2, 2), BIGINT)))


def random_condition(random: Random, depth: int) -> Scalar:
    match random.choice(("and", "or", "not", "null", "<")) if depth else random.choice(("<", "<", "null")):
        case "and" | "or" as op:
            return call(op, random_condition(random, depth - 1), random_condition(random, depth - 1))
        case "not":
            return call("not", random_condition(random, depth - 1))
        case "null":
            return call("is_null", random.choice((X, Y)))
        case _:
            op = random.choice(("<", "<=", ">", ">=", "=", "<>"))
            return call(op, random_value(random, 1), random_value(random, 1))


def brute_force(strong: Scalar, weak: Scalar) -> bool:
    slots = {"x": 0, "y": 1}
    first, second = compile_scalar(strong, slots), compile_scalar(weak, slots)
    return all(second(row) is True for row in product(VALUES, VALUES) if first(row) is True)


def right_yes(seeds: range) -> int:
    """How often a yes was right; a wrong one fails."""
    yes = 0
    for seed in seeds:
        random = Random(seed)
        strong, weak = random_condition(random, 2), random_condition(random, 1)
        if implies(strong, weak):
            yes += 1
            assert brute_force(strong, weak), f"seed {seed}: {strong} does not imply {weak}"
    return yes


def test_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt, "available", lambda: False)
    assert right_yes(range(1500)) > 10


def test_z3() -> None:
    pytest.importorskip("z3", reason="z3 is not installed")
    assert right_yes(range(300)) > 10


def test_z3_finds_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("z3", reason="z3 is not installed")
    zero = Const(0, BIGINT)
    pairs = [
        (call("and", call("<", X, Y), call("<", Y, zero)), call("<", X, zero)),
        (call(">", call("+", X, Y), Const(3, BIGINT)), call(">", call("+", Y, X), Const(2, BIGINT))),
        (call("not", call("<=", X, zero)), call(">=", X, Const(1, BIGINT))),
    ]
    assert all(implies(strong, weak) for strong, weak in pairs)
    monkeypatch.setattr(smt, "available", lambda: False)
    assert not any(implies(strong, weak) for strong, weak in pairs)
