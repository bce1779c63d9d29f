"""The compiler: normal forms, text, factoring, chain order, sharing, choices, and the golden trigger."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import viewlet.linalg as vl
from linalg.random_programs import INPUTS, programs
from viewlet.errors import BackendError
from viewlet.linalg.chain import chain_order
from viewlet.linalg.cost import Machine
from viewlet.linalg.delta import FactorShape, compile_trigger
from viewlet.linalg.iterate import Model
from viewlet.linalg.nodes import Sum
from viewlet.linalg.plan import choose_program, plan_update
from viewlet.linalg.program import build_program
from viewlet.linalg.text import show_code

ONE_ROW = (FactorShape(1),)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_text_reads_back_as_the_same_expression(outputs):
    for expr in outputs.values():
        assert vl.parse(vl.show(expr), INPUTS) is expr


@pytest.mark.parametrize("text", ["A @", "E + A", "A.real", "__import__('os')", "A if A else B", "3"])
def test_text_that_is_no_expression_is_refused(text):
    with pytest.raises(vl.LinalgError):
        vl.parse(text, INPUTS)


def test_the_fourth_power_compiles_to_listing_6_4():
    program = build_program({"C": vl.power(vl.input("A", (9, 9)), 4)}, Model("exponential"))
    code = show_code(compile_trigger(program, {"A": ONE_ROW}, collapse=False).code)
    assert code.splitlines() == [
        "t1 := A.T @ V_A",
        "t2 := A @ U_A",
        "t3 := V_A.T @ U_A",
        "t4 := U_A @ t3",
        "t5 := t2 + t4",
        "t6 := [t1  V_A]",
        "t7 := A_2.T @ t6",
        "t8 := t7[0:9, 0:1]",
        "t9 := t7[0:9, 1:2]",
        "t10 := [U_A  t5]",
        "t11 := A_2 @ t10",
        "t14 := t6.T @ t10",
        "t15 := t10 @ t14",
        "t16 := t11 + t15",
        "t17 := t16[0:9, 0:1]",
        "t18 := t16[0:9, 1:2]",
        "t19 := [U_A  t5  t17  t18]",
        "t20 := [t8  t9  t1  V_A]",
        "A += U_A @ V_A.T",
        "A_2 += t10 @ t6.T",
        "C += t19 @ t20.T",
    ]


@pytest.mark.parametrize(
    "model", [Model("linear"), Model("exponential"), Model("skip", 4), Model("krylov")], ids=str
)
def test_common_factors_keep_the_rank_at_the_number_of_steps(model):
    A, T0, B = vl.input("A", (50, 50)), vl.input("T0", (50, 40)), vl.input("B", (50, 40))
    outputs = {"P": vl.power(A, 16), "S": vl.power_sum(A, 16), "T": vl.iterate(lambda T: A @ T + B, T0, 16)}
    ranks = compile_trigger(build_program(outputs, model), {"A": ONE_ROW}, collapse=False).ranks
    assert ranks["P"] == 16
    if model.kind in ("linear", "krylov"):
        assert ranks["S"] == 15
        assert ranks["T"] == 16


def test_krylov_reads_the_matrix_twice_per_step_and_stores_two_matrices():
    program = build_program({"P": vl.power(vl.input("A", (50, 50)), 16)}, Model("krylov"))
    code = show_code(compile_trigger(program, {"A": ONE_ROW}, collapse=False).code)
    assert code.count(":= A @") == code.count(":= A.T @") == 15
    assert program.stored_numbers() == 2 * 50 * 50


def test_hybrid_never_carries_more_columns_than_the_matrix_has():
    A, T0 = vl.input("A", (50, 50)), vl.input("T0", (50, 3))
    program = build_program({"T": vl.iterate(lambda T: A @ T, T0, 16)}, Model("linear"))
    assert compile_trigger(program, {"A": ONE_ROW}, collapse=True).ranks["T"] == 3
    assert compile_trigger(program, {"A": ONE_ROW}, collapse=False).ranks["T"] == 16


def test_a_symmetric_inverse_is_read_once():
    X = vl.input("X", (80, 9))
    program = build_program({"W": (X.T @ X + vl.identity(9)).inv()}, Model("linear"))
    code = show_code(compile_trigger(program, {"X": ONE_ROW}, collapse=False).code)
    assert code.count(":= W @") == 1
    assert "W.T" not in code


def test_equal_subexpressions_are_one_statement():
    A, B = INPUTS["A"], INPUTS["D"]
    program = build_program({"x": (A + B).inv() @ A, "y": B @ (A + B).inv()}, Model("linear"))
    assert sum("inv" in vl.show(statement.expr) for statement in program.statements) == 1


def brute_force_cost(order, dims):
    if isinstance(order, int):
        return 0, dims[order], dims[order + 1]
    left, right = brute_force_cost(order[0], dims), brute_force_cost(order[1], dims)
    assert left[2] == right[1]
    return left[0] + right[0] + left[1] * left[2] * right[2], left[1], right[2]


def all_orders(i, j):
    if i == j:
        yield i
    for m in range(i, j):
        yield from itertools.product(all_orders(i, m), all_orders(m + 1, j))


@pytest.mark.parametrize("seed", range(8))
def test_chain_order_is_the_cheapest_of_all(seed):
    dims = tuple(np.random.default_rng(seed).integers(1, 30, 6).tolist())
    best = min(brute_force_cost(order, dims)[0] for order in all_orders(0, len(dims) - 2))
    assert brute_force_cost(chain_order(dims), dims)[0] == best


def test_the_cost_model_switches_to_reevaluation_for_large_batches():
    rng = np.random.default_rng(0)
    A = vl.input("A", (300, 300))
    view = vl.maintain({"C": vl.power(A, 16)}, A=rng.standard_normal((300, 300)) / 20)
    assert view.update("A", rows={0: np.zeros(300)}).strategy == "incremental"
    everything = {i: rng.standard_normal(300) / 20 for i in range(300)}
    update = view.update("A", rows=everything)
    assert update.strategy == "reevaluate"
    np.testing.assert_allclose(view["C"], np.linalg.matrix_power(view["A"], 16), rtol=1e-9, atol=1e-9)
    with pytest.raises(vl.LinalgError, match="reevaluate"):
        update["C"]


def test_hybrid_recomputes_where_that_is_cheaper_unless_a_model_is_given():
    changes = {"A": (FactorShape(1, selects_rows=True),)}
    served = {}
    for n, model in ((60, "auto"), (4000, "auto"), (60, "linear")):
        A, B, T = vl.input("A", (n, n)), vl.input("B", (n, 1)), vl.input("T", (n, 1))
        program, choices = choose_program(
            {"T16": vl.iterate(lambda t, A=A, B=B: A @ t + B, T, 16)},
            "hybrid",
            model,
            None,
            math.inf,
            Machine(),
            8,
        )
        free = len({choice.strategy for choice in choices}) > 1
        served[n, model] = plan_update(program, changes, "hybrid", Machine(), 8, free).strategy
    assert served == {(60, "auto"): "reevaluate", (4000, "auto"): "hybrid", (60, "linear"): "hybrid"}


def test_memory_limits_the_model():
    A = vl.input("A", (100, 100))
    free = vl.maintain({"C": vl.power(A, 16)}, A=np.eye(100), strategy="incremental")
    assert free.program.model.kind == "exponential"
    tight = vl.maintain({"C": vl.power(A, 16)}, A=np.eye(100), strategy="incremental", memory="170kB")
    assert tight.program.model.kind == "krylov"
    with pytest.raises(vl.LinalgError, match="at least"):
        vl.maintain({"C": vl.power(A, 16)}, A=np.eye(100), memory="100kB")


def test_explain_gives_the_program_and_its_costs():
    X, Y = vl.input("X", (200, 5)), vl.input("Y", (200, 1))
    rng = np.random.default_rng(0)
    view = vl.maintain({"beta": (X.T @ X).inv() @ X.T @ Y}, X=rng.random((200, 5)), Y=rng.random((200, 1)))
    text = view.explain()
    for wanted in (
        "W := (X.T @ X).inv()",
        "on update of one row of X",
        "flop",
        "B,",
        "reevaluate costs",
        "health: ok",
    ):
        assert wanted in text


@pytest.mark.parametrize(
    "build",
    [
        lambda: INPUTS["A"] @ INPUTS["C"],
        lambda: INPUTS["A"] + INPUTS["B"],
        lambda: INPUTS["B"].inv(),
        lambda: vl.power(INPUTS["B"], 2),
        lambda: vl.power(INPUTS["A"], -1),
        lambda: INPUTS["A"][0:2],
        lambda: INPUTS["A"][0:4:2, :],
        lambda: INPUTS["A"] * INPUTS["A"],
        lambda: vl.block([[INPUTS["A"], INPUTS["C"]]]),
        lambda: vl.iterate(lambda T: INPUTS["C"] @ T, INPUTS["B"], 2),
        lambda: INPUTS["A"] @ np.ones(4),
        lambda: vl.input("not a name", (2, 2)),
        lambda: vl.input("Z", (0, 2)),
    ],
)
def test_nonsense_is_refused_where_it_is_built(build):
    with pytest.raises(vl.LinalgError):
        build()


def test_wrong_use_of_a_view_is_refused_and_changes_nothing():
    A = INPUTS["A"]
    view = vl.maintain({"C": A @ A}, A=np.eye(4))
    bad = [
        lambda: view.update("B", rows={0: np.ones(4)}),
        lambda: view.update("A", rows={4: np.ones(4)}),
        lambda: view.update("A", rows={-1: np.ones(4)}),
        lambda: view.update("A", rows={0: np.ones(3)}),
        lambda: view.update("A", entries={(0, 9): 1.0}),
        lambda: view.update("A", factors=(np.ones((4, 1)), np.ones((4, 2)))),
        lambda: view.update("A", rows={0: [1.0, np.nan, 0.0, 0.0]}),
        lambda: view.update("A", factors=(np.full((4, 1), np.inf), np.ones((4, 1)))),
        lambda: view["nothing"],
        lambda: vl.maintain({"C": A @ A}, A=np.eye(3)),
        lambda: vl.maintain({"C": A @ A}),
        lambda: vl.maintain({"C": A @ A}, A=np.eye(4), Z=np.eye(4)),
        lambda: vl.maintain({"A": A @ A}, A=np.eye(4)),
        lambda: vl.maintain({}, A=np.eye(4)),
        lambda: vl.maintain({"C": A @ A}, A=np.eye(4), strategy="fast"),
        lambda: vl.maintain({"C": A @ A}, A=np.eye(4), model="cubic"),
        lambda: vl.maintain({"C": A @ A}, A=np.eye(4), memory="lots"),
    ]
    for attempt in bad:
        with pytest.raises(vl.LinalgError):
            attempt()
        np.testing.assert_array_equal(view["C"], np.eye(4))
    with pytest.raises(BackendError, match="Spark"):
        vl.maintain({"C": A @ A}, A=np.eye(4), spark=object())
    with pytest.raises(ValueError, match="read-only"):
        view["C"][0, 0] = 5.0


def test_operators_accept_arrays_on_both_sides():
    A = INPUTS["A"]
    view = vl.maintain({"C": np.ones((2, 4)) @ A - np.eye(2, 4) + (A / 2)[0:2, :]}, A=np.eye(4))
    view.update("A", entries={(0, 1): 3.0})
    expected = np.ones((2, 4)) @ view["A"] - np.eye(2, 4) + view["A"][:2] / 2
    np.testing.assert_allclose(view["C"], expected)


def test_sums_collect_like_terms():
    A, D = INPUTS["A"], INPUTS["D"]
    assert A + D - A is D
    assert isinstance(2 * (A + D), Sum)
    assert 2 * (A + D) - 2 * A is 2 * D
