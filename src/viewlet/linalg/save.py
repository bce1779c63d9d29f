"""Keep a maintained program in one file: its text, its inputs and its views."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.errors import StorageError
from viewlet.linalg.arrays import Arrays
from viewlet.linalg.blas import Blas
from viewlet.linalg.cost import Choice, Cost, Machine
from viewlet.linalg.drift import Health
from viewlet.linalg.errors import LinalgError
from viewlet.linalg.iterate import Model
from viewlet.linalg.modular import Modular
from viewlet.linalg.nodes import Constant, Expr, Held, Input, postorder
from viewlet.linalg.program import build_program
from viewlet.linalg.spark.arrays import SparkArrays
from viewlet.linalg.text import parse, show

if TYPE_CHECKING:
    from viewlet.linalg.view import MatrixView

FORMAT = 1


def save_view(view: MatrixView, path: Any) -> None:
    """Write one ``.npz`` file, complete or not at all: it is renamed into place."""
    constants = {
        node.name: node for node in postorder(*view.expressions.values()) if isinstance(node, Constant)
    }
    arithmetic = view.arrays.inner if isinstance(view.arrays, SparkArrays) else view.arrays
    described = {
        "format": FORMAT,
        "outputs": {name: show(expr) for name, expr in view.expressions.items()},
        "inputs": {name: node.shape for name, node in view.program.inputs.items()},
        "constants": list(constants),
        "model": asdict(view.program.model),
        "strategy": view.settings.strategy,
        "tolerance": view.settings.tolerance,
        "refresh": view.settings.refresh,
        "machine": None if arithmetic is not view.arrays else asdict(view.settings.machine),
        "prime": arithmetic.prime if isinstance(arithmetic, Modular) else None,
        "health": asdict(view.health),
        "choices": [asdict(choice) for choice in view.choices],
    }
    stored = {f"state.{name}": view.arrays.to_numpy(value) for name, value in view.state.items()}
    stored |= {f"constant.{name}": node.held.array for name, node in constants.items()}
    target = Path(path)
    temporary = target.with_name(target.name + ".writing")
    try:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, description=np.array(json.dumps(described)), **stored)
        os.replace(temporary, target)
    except OSError as wrong:
        raise StorageError(f"cannot write {target}: {wrong}") from wrong


def load(path: Any, arrays: Arrays | None = None, *, spark: Any = None, store: Any = None) -> MatrixView:
    """Read a view back as it was saved: nothing is recomputed.

    ``arrays`` names the array library, where it was not NumPy; saved views are plain NumPy files. A view
    may go on elsewhere than where it was: with ``spark`` its large matrices go to the executors.
    """
    from viewlet.linalg.view import MatrixView, Settings, backend

    try:
        with np.load(path, allow_pickle=False) as file:
            content = {name: file[name] for name in file.files}
        described = json.loads(str(content.pop("description")))
    except (OSError, ValueError, KeyError) as wrong:
        raise StorageError(f"{path} is not a saved matrix view: {wrong}") from wrong
    if described["format"] != FORMAT:
        raise StorageError(f"{path} has format {described['format']}; this version reads format {FORMAT}")
    chosen = arrays or (Modular(described["prime"]) if described["prime"] else Blas())
    saved = Machine(**described["machine"]) if described["machine"] else None
    arithmetic, run, machine = backend(chosen, saved, spark, store)
    names: dict[str, Expr] = {name: Input(name, tuple(shape)) for name, shape in described["inputs"].items()}
    for name in described["constants"]:
        names[name] = Constant(Held(content.pop(f"constant.{name}")))
    expressions = {name: parse(text, names) for name, text in described["outputs"].items()}
    program = build_program(expressions, Model(**described["model"]))
    renamed = {name: node.name for name, node in names.items() if isinstance(node, Constant)}
    state = {}
    for key, value in content.items():
        name = key.removeprefix("state.")
        state[renamed.get(name, name)] = arithmetic.own(arithmetic.take(value))
    if missing := set(program.shapes) - set(state):
        raise LinalgError(f"{path} lacks the views {sorted(missing)}; it was written by another version")
    choices = [Choice(**{**choice, "cost": Cost(**choice["cost"])}) for choice in described["choices"]]
    settings = Settings(described["strategy"], described["tolerance"], described["refresh"], machine)
    view = MatrixView(expressions, program, choices, state, arithmetic, settings, run)
    view.restore_health(Health(**described["health"]))
    return view
