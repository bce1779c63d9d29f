"""What code costs, in flops and bytes, and which model and strategy are cheapest.

An instruction takes its arithmetic plus its memory traffic, which BLAS hardly overlaps where matrices are
thin, plus a fixed overhead. Triggers read large matrices to do little arithmetic on them, so they are bound
by bandwidth; re-evaluation is bound by arithmetic. A model in flops alone would therefore switch to
re-evaluation much too late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from viewlet.linalg.blas import Blas
from viewlet.linalg.instructions import (
    Accumulate,
    Assemble,
    Code,
    Combine,
    Divide,
    Effect,
    Embed,
    Instruction,
    Invert,
    Multiply,
    Nought,
    Part,
    Replace,
    Stack,
    Unit,
)
from viewlet.linalg.levels import count_rounds
from viewlet.linalg.nodes import Shape


@dataclass(frozen=True, slots=True)
class Machine:
    """Speeds of the machine: flops and bytes per second, seconds of overhead per instruction.

    BLAS walks through a matrix faster to multiply it by a vector or to add to it in place (``vector``) than
    to multiply it by a few columns (``bandwidth``), and faster still where it has at most ``cache`` bytes
    (``cached``): vectors are iterated over the same matrix again and again.

    Where matrices with no side of at most ``thin`` lie on workers, every level of instructions that read
    them is a round of messages, and takes ``round`` seconds before anything happens.
    """

    flops: float = 40e9
    bandwidth: float = 10e9
    overhead: float = 6e-6
    round: float = 0.0
    thin: int | None = None
    vector: float = 22e9
    cached: float = 50e9
    cache: float = 12e6


@dataclass(frozen=True, slots=True)
class Cost:
    """Arithmetic, memory traffic and predicted time."""

    flops: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes, self.seconds + other.seconds)

    def __str__(self) -> str:
        return f"{quantity(self.flops)}flop, {quantity(self.bytes)}B, {quantity(self.seconds)}s"


def quantity(value: float) -> str:
    """A number with three digits and an SI prefix, ready for its unit.

    >>> quantity(1_234_000), quantity(0.00215)
    ('1.23 M', '2.15 m')
    """
    for exponent, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""), (-3, "m"), (-6, "µ")):
        if abs(value) >= 10.0**exponent:
            return f"{value / 10.0**exponent:.3g} {prefix}"
    return f"{value:.3g} "


def code_cost(code: Code, machine: Machine, itemsize: int) -> Cost:
    """The cost of running the code once."""
    total = Cost()
    for name, op in code.instructions:
        flops, numbers = _instruction_work(op, code.shapes[name], code)
        by_vector = isinstance(op, Multiply) and 1 in code.shapes[name]
        total += _timed(flops, numbers * itemsize, machine, by_vector)
    for effect in code.effects:
        flops, numbers = _effect_work(effect, code)
        total += _timed(flops, numbers * itemsize, machine, streams=True)
    if machine.thin is not None:
        total += Cost(seconds=machine.round * count_rounds(code, machine.thin))
    return total


def _timed(flops: float, traffic: float, machine: Machine, streams: bool) -> Cost:
    """``streams`` says that BLAS goes through the matrix once and does little on the way."""
    rate = machine.bandwidth
    if streams:
        rate = machine.cached if traffic <= machine.cache else machine.vector
    seconds = flops / machine.flops + traffic / rate + machine.overhead
    return Cost(flops, traffic, seconds)


def _instruction_work(op: Instruction, shape: Shape, code: Code) -> tuple[float, float]:
    size = float(shape[0] * shape[1])
    match op:
        case Multiply(left, right):
            if left.name in code.selectors or right.name in code.selectors:
                return 0.0, 2 * size
            rows, columns = code.shapes[left.name]
            inner = rows if left.transposed else columns
            return 2 * size * inner, size + inner * (shape[0] + shape[1])
        case Combine(terms):
            return len(terms) * size, (len(terms) + 1) * size
        case Stack() | Embed() | Assemble():
            return 0.0, 2 * size
        case Part() | Unit():
            return 0.0, 0.0
        case Nought():
            return 0.0, size
        case Divide():
            rank = shape[1]
            return 2 * size * rank + rank**3, 2 * size + rank**2
        case Invert():
            return 2 * size**1.5, 4 * size
        case _:
            assert_never(op)


def _effect_work(effect: Effect, code: Code) -> tuple[float, float]:
    match effect:
        case Accumulate(target, left, right):
            rows, columns = code.shapes[target]
            rank = code.shapes[left][1]
            if left in code.selectors:
                return rank * columns, 3.0 * rank * columns
            if right in code.selectors:
                return rank * rows, 3.0 * rank * rows
            return 2.0 * rank * rows * columns, 2.0 * rows * columns + rank * (rows + columns)
        case Replace():
            return 0.0, 0.0
        case _:
            assert_never(effect)


def calibrate(n: int = 768) -> Machine:
    """Measure this process: products of a square matrix with itself, two columns, a vector; small sums.

    Takes some 50 ms.
    """
    square = np.asfortranarray(np.random.default_rng(0).standard_normal((n, n)))
    large = np.ones((3 * n, 3 * n), order="F")  # zeros would be one page of memory, seen many times
    thin, vector = np.ones((3 * n, 2), order="F"), np.ones((3 * n, 1))
    small, arrays = np.ones((2, 2)), Blas()

    def instructions() -> None:
        for _ in range(50):
            arrays.multiply(small, False, small, True)
            arrays.combine([(1, small, False), (1, small, False)])

    flops = 2 * n**3 / _best_of(lambda: square @ square)
    bandwidth = large.nbytes / _best_of(lambda: arrays.multiply(large, False, thin, False))
    from_memory = large.nbytes / _best_of(lambda: arrays.multiply(large, False, vector, False))
    from_cache = square.nbytes / _best_of(lambda: arrays.multiply(square, False, vector[:n], False), 20)
    dispatch = 3e-6  # reading operands and dropping dead values, beside the arithmetic itself
    overhead = _best_of(instructions) / 100 + dispatch
    return Machine(flops, bandwidth, overhead, vector=from_memory, cached=max(from_cache, from_memory))


def _best_of(work: Callable[[], object], repeats: int = 5) -> float:
    """The smaller of wall and CPU time: the first is right for many threads, the second on a busy machine."""
    times = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        times.append(min(time.perf_counter() - wall, time.process_time() - cpu))
    return min(times)


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to maintain a program: its model, strategy, cost per update and memory."""

    model: str
    strategy: str
    cost: Cost
    memory: float
    fits: bool


def cheapest(choices: Mapping[str, Cost]) -> str:
    """The name of the cheapest cost; the first of equals.

    >>> cheapest({"a": Cost(seconds=2.0), "b": Cost(seconds=1.0)})
    'b'
    """
    return min(choices, key=lambda name: choices[name].seconds)
