"""Matrix programs in blocks: exact over residues on simulated workers, then on Spark itself."""

from __future__ import annotations

import gc
import math
import os
import shutil
import signal
import tempfile
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import viewlet
import viewlet.linalg as vl
from linalg.fed import check_fed_models
from linalg.random_programs import PRIME, inputs_of, integers, programs, random_batch
from linalg.simulated_holders import SimulatedHolders
from viewlet.errors import BackendError
from viewlet.linalg.cost import Machine
from viewlet.linalg.evaluate import evaluate
from viewlet.linalg.nodes import Iterate, PowerSum, Stored, Transpose, Zeros
from viewlet.linalg.plan import choose_program
from viewlet.linalg.spark.arrays import Distributed, SparkArrays
from viewlet.linalg.spark.run import compute_in_levels
from viewlet.linalg.view import MatrixView, Settings, _initial_state

INPUTS = inputs_of(9, 8)
RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def in_blocks(
    outputs, values, *, inner=None, partitions=2, mishaps=0.0, thin=7, flush_rank=3, seed=0, **options
):
    """A view whose large matrices lie on simulated workers."""
    inner = inner or vl.Blas()
    arrays = SparkArrays(
        SimulatedHolders(inner, partitions, mishaps, seed), inner, thin=thin, flush_rank=flush_rank
    )
    machine = Machine(round=1e-3, thin=thin)
    strategy, model = options.get("strategy", "auto"), options.get("model", "auto")
    program, choices = choose_program(outputs, strategy, model, None, math.inf, machine, 8)
    state = _initial_state(program, values, arrays)
    view = MatrixView(
        outputs, program, choices, state, arrays, Settings(strategy, 1e-9, True, machine), compute_in_levels
    )
    view.recompute()
    return view


def check_exactly(view, outputs):
    inputs = {name: view[name] for name in view.program.inputs}
    for name, expr in outputs.items():
        np.testing.assert_array_equal(view[name], evaluate(expr, inputs, view.arrays.inner), err_msg=name)
    assert view.error() == 0.0


def run_in_blocks(outputs, strategy, partitions, seed, updates):
    rng = np.random.default_rng(seed)
    values = {name: integers(rng, *node.shape) for name, node in INPUTS.items()}
    outputs = {**outputs, **{f"keep{name}": vl.stored(node + node) for name, node in INPUTS.items()}}
    try:
        view = in_blocks(
            outputs,
            values,
            inner=vl.Modular(PRIME),
            partitions=partitions,
            mishaps=0.2,
            seed=seed,
            strategy=strategy,
            thin=7,
        )
    except vl.SingularError:
        assume(False)
    with closing(view):
        for _ in range(updates):
            before = {name: view[name].copy() for name in view.program.inputs}
            try:
                view.apply(random_batch(rng, INPUTS, most=2))
            except vl.SingularError:
                for name, value in before.items():  # a refused update changes nothing
                    np.testing.assert_array_equal(view[name], value)
                continue
            check_exactly(view, outputs)


@settings(max_examples=15, **RELAXED)
@given(
    programs(INPUTS),
    st.sampled_from(["incremental", "hybrid", "reevaluate", "auto"]),
    st.sampled_from([1, 2, 3, 4]),
    st.integers(0, 2**32),
)
def test_random_programs_in_blocks_are_exact(outputs, strategy, partitions, seed):
    run_in_blocks(outputs, strategy, partitions, seed, updates=3)


@pytest.mark.slow
@settings(max_examples=600, **RELAXED)
@given(
    programs(INPUTS),
    st.sampled_from(["incremental", "hybrid", "reevaluate", "auto"]),
    st.sampled_from([1, 2, 3, 4, 6]),
    st.integers(0, 2**32),
)
def test_random_programs_in_blocks_at_length(outputs, strategy, partitions, seed):
    run_in_blocks(outputs, strategy, partitions, seed, updates=6)


def test_one_value_that_is_two_views():
    """Found by random programs: the second of them stayed on the driver, where no worker has blocks of it."""
    steps = Iterate(INPUTS["A"], INPUTS["B"], Transpose(INPUTS["C"]), 4)
    identity = Stored(PowerSum(Zeros((8, 8)), 4))
    run_in_blocks({"out0": steps, "out1": identity}, "reevaluate", 3, 79360, updates=6)


def powers_of(n, seed=0):
    rng = np.random.default_rng(seed)
    A = vl.input("A", (n, n))
    return {"C": vl.power(A, 16)}, 0.9 * rng.standard_normal((n, n)) / np.sqrt(n), rng


def test_lost_blocks_are_made_again_from_a_checkpoint_and_the_factors_since():
    n = 24
    outputs, A0, rng = powers_of(n)
    view = in_blocks(
        outputs, {"A": A0}, partitions=4, mishaps=0.3, thin=20, flush_rank=20, strategy="incremental"
    )
    with closing(view):
        for _ in range(24):
            view.update("A", rows={int(rng.integers(n)): rng.standard_normal(n) / np.sqrt(n)})
        arrays = view.arrays
        assert arrays.holders.lost > 10
        assert arrays.recoveries > 0
        assert arrays.checkpoints > 0
        assert view.health.reevaluations == 0
        np.testing.assert_allclose(view["C"], np.linalg.matrix_power(view["A"], 16), rtol=1e-9, atol=1e-12)


def test_an_update_is_one_round_per_level_and_flushes_are_rare():
    n = 24
    outputs, A0, rng = powers_of(n)
    view = in_blocks(outputs, {"A": A0}, thin=20, flush_rank=160, strategy="incremental", model="exponential")
    with closing(view):
        view._monitor.period = 10**6
        view.update("A", rows={0: rng.standard_normal(n)})
        before = view.arrays.rounds
        for i in range(1, 7):
            view.update("A", rows={i: rng.standard_normal(n) / np.sqrt(n)})
        assert view.arrays.rounds - before == 6 * 5  # the old row, then A, A^2, A^4, A^8
        assert view.arrays.flushes == 0
        for i in range(7, 12):
            view.update("A", rows={i: rng.standard_normal(n) / np.sqrt(n)})
        assert view.arrays.flushes == 1


def test_files_of_old_versions_go():
    n = 24
    outputs, A0, rng = powers_of(n)
    view = in_blocks(outputs, {"A": A0}, thin=20, flush_rank=1, strategy="incremental")
    with closing(view):
        counts = []
        for i in range(6):
            view.update("A", rows={i: rng.standard_normal(n) / np.sqrt(n)})
            gc.collect()
            view.error()
            counts.append(sum(1 for _ in view.arrays.holders.home.rglob("*.npy")))
        assert max(counts[3:]) <= 3 * 2 * len(view.program.shapes)


def test_durable_blocks_that_are_gone_are_an_error():
    outputs, A0, _ = powers_of(24)
    view = in_blocks(outputs, {"A": A0}, thin=20)
    for path in view.arrays.holders.home.rglob("*.npy"):
        path.unlink()
    with closing(view), pytest.raises(BackendError, match="durable storage"):
        view.update("A", rows={0: np.ones(24)})


def test_refused_updates_change_nothing_in_blocks():
    n = 24
    A = vl.input("A", (n, n))
    outputs = {"W": A.inv()}
    view = in_blocks(outputs, {"A": np.eye(n)}, thin=20, strategy="incremental")
    with closing(view):
        with pytest.raises(vl.SingularError):
            view.update("A", rows={3: np.zeros(n)})
        np.testing.assert_array_equal(view["A"], np.eye(n))
        np.testing.assert_array_equal(view["W"], np.eye(n))
        with pytest.raises(vl.ShapeError, match="no row 99"):
            view.update("A", rows={99: np.zeros(n)})
        with pytest.raises(vl.NumericalError):
            view.update("A", rows={0: np.full(n, np.nan)})
        view.update("A", rows={3: 2 * np.eye(n)[3]})
        np.testing.assert_allclose(view["W"][3, 3], 0.5)


def test_large_matrices_are_distributed_and_saved_as_any(tmp_path):
    outputs, A0, rng = powers_of(24)
    view = in_blocks(outputs, {"A": A0}, thin=20)
    with closing(view):
        assert all(isinstance(value, Distributed) for value in view.state.values())
        view.update("A", cols={3: rng.standard_normal(24) / 5, 4: rng.standard_normal(24) / 5})
        view.save(tmp_path / "view.npz")
        back = vl.load(tmp_path / "view.npz")
        np.testing.assert_array_equal(back["C"], view["C"])
        for one in (back, view):
            one.update("A", entries={(0, 0): 1.0, (5, 7): -1.0})
        np.testing.assert_allclose(back["C"], view["C"], rtol=1e-9, atol=1e-12)


def test_what_does_not_run_on_spark_is_refused():
    A = vl.input("A", (2, 2))
    with pytest.raises(BackendError, match="SparkSession"):
        vl.maintain({"C": A @ A}, A=np.eye(2), spark="local[2]")
    with pytest.raises(BackendError, match="ArrayApi"):
        vl.maintain({"C": A @ A}, A=np.eye(2), spark=object(), arrays=vl.ArrayApi(np))


on_spark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]


def meet_accident(holders, number):
    """End the process of a partition, or remove the files of all, or both."""
    if number % 3 != 1:
        processes = holders.workers.way.processes()
        os.kill(processes[number % len(processes)], signal.SIGKILL)
    if number % 3 != 0:
        (near,) = Path(tempfile.gettempdir()).glob(f"*/viewlet/{holders.name}")
        shutil.rmtree(near)


class TestOnSpark:
    """What the simulated workers show in breadth, here once with real ones."""

    pytestmark = on_spark

    def test_powers_and_inverses_with_accidents(self, spark, tmp_path):
        n = 520
        rng = np.random.default_rng(0)
        A, B = vl.input("A", (n, n)), vl.input("B", (n, 2))
        outputs = {"C": vl.power(A, 4), "T": (A + 3 * vl.identity(n)).inv() @ B}
        values = {"A": rng.standard_normal((n, n)) / np.sqrt(n), "B": rng.standard_normal((n, 2))}
        view = vl.maintain(outputs, inputs=values, spark=spark, strategy="incremental")
        with closing(view):
            view.arrays.flush_rank = 6
            for i in range(6):
                meet_accident(view.arrays.holders, i)
                update = view.update("A", rows={i: rng.standard_normal(n) / np.sqrt(n)})
                assert update.strategy == "incremental"
            view.update("B", entries={(0, 1): 7.0})
            assert view.arrays.flushes > 0
            assert view.arrays.recoveries > 0
            assert view.health.reevaluations == 0
            A1 = view["A"]
            np.testing.assert_allclose(view["C"], np.linalg.matrix_power(A1, 4), rtol=1e-8, atol=1e-11)
            np.testing.assert_allclose(view["T"], np.linalg.solve(A1 + 3 * np.eye(n), view["B"]), rtol=1e-8)
            view.save(tmp_path / "view.npz")
        with closing(vl.load(tmp_path / "view.npz", spark=spark)) as again:
            again.update("A", rows={7: np.zeros(n)})
            assert "rounds" in again.explain()
            np.testing.assert_allclose(
                again["C"], np.linalg.matrix_power(again["A"], 4), rtol=1e-8, atol=1e-11
            )

    def test_a_cluster_needs_storage_that_all_can_read(self):
        elsewhere = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://elsewhere:7077"))
        A = vl.input("A", (2, 2))
        with pytest.raises(BackendError, match="store="):
            vl.maintain({"C": A @ A}, A=np.eye(2), spark=elsewhere)

    def test_views_of_a_database_feed_models(self, spark):
        with closing(viewlet.connect(spark)) as db:
            check_fed_models(db, batches=4)
