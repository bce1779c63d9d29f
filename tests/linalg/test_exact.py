"""Modulo a prime, maintained views equal recomputation exactly: no tolerance hides a wrong rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import viewlet.linalg as vl
from linalg.random_programs import INPUTS, PRIME, integers, programs, random_batch
from viewlet.linalg.evaluate import evaluate

MODELS = [("linear", None), ("exponential", None), ("skip", 2), ("skip", 3), ("krylov", None)]
RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def maintained(outputs, seed, **options):
    """A view over random inputs, or a discarded example where a matrix to invert is singular."""
    rng = np.random.default_rng(seed)
    values = {name: integers(rng, *node.shape) for name, node in INPUTS.items()}
    used = vl.maintain(
        {**outputs, **{f"keep{name}": vl.stored(node + node) for name, node in INPUTS.items()}},
        arrays=vl.Modular(PRIME),
        inputs=values,
        **options,
    )
    return used, rng


def check(view, outputs):
    inputs = {name: view.state[name] for name in INPUTS}
    for name, expr in outputs.items():
        np.testing.assert_array_equal(view[name], evaluate(expr, inputs, view.arrays), err_msg=name)
    for statement in view.program.statements:  # every auxiliary view, not only the outputs
        meant = evaluate(statement.expr, view.state, view.arrays)
        np.testing.assert_array_equal(view.state[statement.name], meant, err_msg=statement.name)
    assert view.error() == 0.0


def run_random_updates(outputs, model, strategy, seed, updates):
    kind, skip = model
    try:
        view, rng = maintained(outputs, seed, model=kind, skip=skip, strategy=strategy)
    except vl.SingularError:
        assume(False)
    for _ in range(updates):
        batch = random_batch(rng)
        before = {name: value.copy() for name, value in view.state.items()}
        try:
            update = view.apply(batch)
        except vl.SingularError:
            for name, value in before.items():  # a refused update changes nothing
                np.testing.assert_array_equal(view.state[name], value)
            continue
        check(view, outputs)
        for name in outputs:
            stored = view.program.outputs[name]
            if name in update.deltas:
                dense = update[name].to_dense() % PRIME
                np.testing.assert_array_equal((view.state[stored] - before[stored]) % PRIME, dense)


@settings(max_examples=60, **RELAXED)
@given(programs(), st.sampled_from(MODELS), st.sampled_from(["incremental", "hybrid"]), st.integers(0, 2**32))
def test_random_programs_under_random_updates(outputs, model, strategy, seed):
    run_random_updates(outputs, model, strategy, seed, updates=3)


@pytest.mark.slow
@settings(max_examples=2000, **RELAXED)
@given(
    programs(),
    st.sampled_from(MODELS),
    st.sampled_from(["incremental", "hybrid", "auto"]),
    st.integers(0, 2**32),
)
def test_random_programs_at_length(outputs, model, strategy, seed):
    run_random_updates(outputs, model, strategy, seed, updates=6)


@settings(max_examples=25, **RELAXED)
@given(programs(), st.sampled_from(MODELS), st.integers(0, 2**32))
def test_a_batch_equals_its_single_changes(outputs, model, seed):
    kind, skip = model
    try:
        together, rng = maintained(outputs, seed, model=kind, skip=skip, strategy="incremental")
        singly, _ = maintained(outputs, seed, model=kind, skip=skip, strategy="incremental")
        batch = random_batch(rng)
        for name, change in batch:
            singly.update(
                name,
                rows=change.rows,
                cols=change.cols,
                entries=change.entries,
                adds=change.adds,
                factors=change.factors,
            )
        together.apply(batch)
    except vl.SingularError:
        assume(False)
    for name in together.state:
        np.testing.assert_array_equal(together.state[name], singly.state[name], err_msg=name)


@settings(max_examples=20, **RELAXED)
@given(programs(), st.integers(0, 2**32))
def test_reevaluation_equals_the_meaning(outputs, seed):
    run_random_updates(outputs, ("krylov", None), "reevaluate", seed, updates=2)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 13, pytest.param(19, marks=pytest.mark.slow)])
def test_every_model_of_every_length(model, k):
    A, B, C = INPUTS["A"], INPUTS["B"], INPUTS["C"]
    outputs = {
        "P": vl.power(A, k),
        "S": vl.power_sum(A, k),
        "T": vl.iterate(lambda T: A @ T + B, C.T, k),
        "V": vl.iterate(lambda T: T - 2 * (C.T @ (C @ T - C @ B)), B, k),
    }
    run_random_updates(outputs, model, "hybrid", seed=k, updates=2)
    run_random_updates(outputs, model, "incremental", seed=k + 100, updates=2)


def test_a_step_that_is_not_affine_is_unrolled():
    A, D = INPUTS["A"], INPUTS["D"]
    run_random_updates(
        {"T": vl.iterate(lambda T: T @ A @ T + D, D, 4)}, ("linear", None), "incremental", 3, 3
    )


def test_cancelling_changes_are_nothing():
    view, _ = maintained({"P": vl.power(INPUTS["A"], 3)}, 0)
    old = view["A"][1].copy()
    update = view.apply([("A", vl.Change(rows={1: [1, 2, 3, 4]})), ("A", vl.Change(rows={1: old}))])
    assert (update.strategy, update.rank) == ("nothing", 0)


def test_modular_refuses_what_is_not_a_prime_or_has_no_residue():
    with pytest.raises(vl.LinalgError, match="not a prime"):
        vl.Modular(15)
    with pytest.raises(vl.LinalgError, match="no residue"):
        maintained({"P": 0.3 * INPUTS["A"]}, 0)
