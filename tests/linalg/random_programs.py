"""Random matrix programs and random changes, over small shapes and small integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

import viewlet.linalg as vl
from viewlet.linalg.nodes import Expr

PRIME = 32_749


def inputs_of(n: int, m: int) -> dict[str, Expr]:
    """Two square inputs, a tall and a wide one."""
    shapes = {"A": (n, n), "B": (n, m), "C": (m, n), "D": (n, n)}
    return {name: vl.input(name, shape) for name, shape in shapes.items()}


INPUTS = inputs_of(4, 3)
SCALARS = (2, -1, 3, Fraction(1, 2), Fraction(-2, 3))


@st.composite
def expressions(draw, rows: int, columns: int, depth: int, inputs: dict[str, Expr]) -> Expr:
    """An expression of the given shape; square ones may hold inverses and iterations."""
    leaves = [node for node in inputs.values() if node.shape == (rows, columns)]
    leaves += [node.T for node in inputs.values() if node.shape == (columns, rows)]
    if rows == columns:
        leaves.append(vl.identity(rows))
    if not leaves:
        leaves.append(inputs["C"] @ inputs["B"])
    if depth == 0:
        return draw(st.sampled_from(leaves))
    kinds = [
        "leaf",
        "sum",
        "difference",
        "product",
        "scaled",
        "transposed",
        "window",
        "block",
        "stored",
        "iterate",
    ]
    if rows == columns:
        kinds += ["inverse", "power", "power_sum"]
    kind = draw(st.sampled_from(kinds))
    below = depth - 1

    def same() -> Expr:
        return draw(expressions(rows, columns, below, inputs))

    match kind:
        case "leaf":
            return draw(st.sampled_from(leaves))
        case "sum":
            return same() + same()
        case "difference":
            return same() - same()
        case "product":
            inner = draw(st.sampled_from(inputs["B"].shape))
            left, right = expressions(rows, inner, below, inputs), expressions(inner, columns, below, inputs)
            return draw(left) @ draw(right)
        case "scaled":
            return draw(st.sampled_from(SCALARS)) * same()
        case "transposed":
            return draw(expressions(columns, rows, below, inputs)).T
        case "window":
            wide = vl.block([[same(), same()], [same(), same()]])
            top, left = draw(st.integers(0, rows)), draw(st.integers(0, columns))
            return wide[top : top + rows, left : left + columns]
        case "block":
            return vl.block([[same()[0:1, :]], [same()[1:rows, :]]])
        case "stored":
            return vl.stored(same())
        case "iterate":
            step = draw(expressions(rows, rows, 0, inputs))
            return vl.iterate(lambda T: step @ T + leaves[0], same(), draw(st.integers(1, 5)))
        case "inverse":
            return (same() + 5 * vl.identity(rows)).inv()
        case "power":
            return vl.power(same(), draw(st.integers(2, 6)))
        case _:
            return vl.power_sum(same(), draw(st.integers(2, 6)))


@st.composite
def programs(draw, inputs: dict[str, Expr] = INPUTS) -> dict[str, Expr]:
    """One or two outputs of depth up to three that read at least one input."""
    count = draw(st.integers(1, 2))
    sides = st.sampled_from(inputs["B"].shape)
    outputs = {}
    for i in range(count):
        rows, columns, depth = draw(sides), draw(sides), draw(st.integers(1, 3))
        outputs[f"out{i}"] = draw(expressions(rows, columns, depth, inputs))
    return outputs


def integers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-9, 10, shape)


def random_change(rng: np.random.Generator, shape: tuple[int, int]) -> vl.Change:
    """A change of one input: rows, columns, entries, additions, factors, or several of them at once."""
    rows, columns = shape
    kinds = rng.choice(["rows", "cols", "entries", "adds", "factors"], rng.integers(1, 4), replace=False)
    change = {}
    for kind in kinds:
        match kind:
            case "rows":
                change["rows"] = {
                    int(i): integers(rng, columns) for i in rng.choice(rows, rng.integers(1, 3), False)
                }
            case "cols":
                change["cols"] = {
                    int(j): integers(rng, rows) for j in rng.choice(columns, rng.integers(1, 3), False)
                }
            case "factors":
                rank = int(rng.integers(1, 3))
                change["factors"] = (integers(rng, rows, rank), integers(rng, columns, rank))
            case _:
                places = {
                    (int(rng.integers(rows)), int(rng.integers(columns))) for _ in range(rng.integers(1, 4))
                }
                change[str(kind)] = {place: int(integers(rng, 1)[0]) for place in places}
    return vl.Change(**change)


def random_batch(
    rng: np.random.Generator, inputs: dict[str, Expr] = INPUTS, most: int = 4
) -> list[tuple[str, vl.Change]]:
    """Up to four changes of up to all inputs."""
    names = rng.choice(list(inputs), rng.integers(1, most + 1))
    return [(name, random_change(rng, inputs[name].shape)) for name in names]
