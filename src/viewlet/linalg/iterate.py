"""Powers, sums of powers and T = A T + B: what they unfold to, and the models that cut them into views.

A *model* decides which steps are stored (Table 6.1 of the thesis)::

    linear        T_1, T_2, T_3, ..., T_k
    exponential   T_1, T_2, T_4, ..., T_k        (other k by the binary digits of k)
    skip-s        T_1, T_2, T_4, ..., T_s, T_2s, T_3s, ..., T_k
    krylov        only T_k: deltas of all steps share one pair of bases, so no step needs to be stored

The last is not in the thesis: d(A^k) = [u, A'u, .., A'^(k-1) u] [(A^T)^(k-1) v, .., v]^T, A' the new A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.linalg.errors import LinalgError, ShapeError
from viewlet.linalg.nodes import (
    Expr,
    Identity,
    Input,
    Iterate,
    Operand,
    Power,
    PowerSum,
    Product,
    Scale,
    Sum,
    Zeros,
    add,
    as_matrix,
    operands_of,
    power,
    power_sum,
    product,
    scale,
    stored,
)

Folded: TypeAlias = Power | PowerSum | Iterate
ModelKind: TypeAlias = Literal["linear", "exponential", "skip", "krylov"]


@dataclass(frozen=True, slots=True)
class Model:
    """Which steps of an iteration are stored; ``skip`` is the s of skip-s."""

    kind: ModelKind
    skip: int = 0

    def __str__(self) -> str:
        return f"skip-{self.skip}" if self.kind == "skip" else self.kind


def unfold(expr: Folded) -> Iterator[tuple[Expr, Expr]]:
    """The steps of an iteration from the first to ``expr``, each with its equal over the one before.

    A^i = A A^(i-1);   S_i = A S_(i-1) + I;   T_i = A T_(i-1) + B
    """
    match expr:
        case Power(body, k):
            for i in range(2, k + 1):
                yield power(body, i), product(body, power(body, i - 1))
        case PowerSum(body, k):
            for i in range(2, k + 1):
                before = product(body, power_sum(body, i - 1))
                yield power_sum(body, i), add(before, Identity(body.shape[0]))
        case Iterate(step, offset, start, k):
            for i in range(1, k + 1):
                before = iteration(step, offset, start, i - 1)
                yield iteration(step, offset, start, i), add(product(step, before), offset)


def iteration(step: Expr, offset: Expr, start: Expr, k: int) -> Expr:
    """T_k of T_(i+1) = step T_i + offset from T_0 = start."""
    return start if k == 0 else Iterate(step, offset, start, k)


def cut(expr: Folded, model: Model, store: Callable[[Expr, Expr], Expr]) -> Expr:
    """Store the steps that ``model`` keeps; ``store(meaning, expression)`` returns the reference to one."""
    match model.kind:
        case "krylov":
            return store(expr, expr)
        case "linear":
            return _Steps(expr, store).linear(_length(expr))
        case "exponential":
            return _Steps(expr, store).exponential(_length(expr))
        case "skip":
            return _Steps(expr, store).skipping(_length(expr), model.skip)


def models(lengths: set[int]) -> list[Model]:
    """The models worth comparing for programs with iterations of these lengths."""
    if not lengths:
        return [Model("linear")]
    longest = max(lengths)
    skips = [s for s in (2**e for e in range(1, longest.bit_length())) if s < longest]
    return [Model("linear"), Model("exponential"), *(Model("skip", s) for s in skips), Model("krylov")]


def _length(expr: Folded) -> int:
    return expr.k


class _Steps:
    """One iteration written as P_i = A^i, S_i = I + ... + A^(i-1), T_i, as far as each is needed."""

    def __init__(self, expr: Folded, store: Callable[[Expr, Expr], Expr]) -> None:
        self.expr, self.store = expr, store
        self.body = expr.step if isinstance(expr, Iterate) else expr.body

    def linear(self, k: int) -> Expr:
        """T_i = A T_(i-1) + B"""
        current = self.initial()
        for i in range(self.first(), k + 1):
            current = self.one_more(i, current)
        return current

    def exponential(self, k: int) -> Expr:
        """T_2i = P_i T_i + S_i B, and T_(2i+1) = A T_2i + B where k has an odd digit"""
        if k < self.first():
            return self.initial()
        half = self.exponential(k // 2) if k > 1 else self.initial()
        if k == 1:
            return self.one_more(1, half)
        doubled = self.jump(k - k % 2, k // 2, half)
        return self.one_more(k, doubled) if k % 2 else doubled

    def skipping(self, k: int, s: int) -> Expr:
        """T_i = P_s T_(i-s) + S_s B, after the exponential model up to s; single steps for the rest"""
        if s < 1:
            raise LinalgError(f"skip-{s} does not exist; s is at least 1")
        if k <= s:
            return self.exponential(k)
        current, i = self.exponential(s), s
        while i + s <= k:
            i += s
            current = self.jump(i, s, current)
        while i < k:
            i += 1
            current = self.one_more(i, current)
        return current

    def first(self) -> int:
        """The index of the first step that is not simply given."""
        return 1 if isinstance(self.expr, Iterate) else 2

    def initial(self) -> Expr:
        match self.expr:
            case Power(body):
                return body
            case PowerSum(body):
                return Identity(body.shape[0])
            case Iterate(start=start):
                return start

    def one_more(self, i: int, before: Expr) -> Expr:
        """The i-th step from the one before it."""
        return self.store(self.meaning(i), self.after(self.body, self.offset(1), before))

    def jump(self, i: int, by: int, before: Expr) -> Expr:
        """The i-th step from the one ``by`` steps before it."""
        return self.store(self.meaning(i), self.after(self.power(by), self.offset(by), before))

    def after(self, leap: Expr, offset: Expr, before: Expr) -> Expr:
        return add(product(leap, before), offset)

    def power(self, i: int) -> Expr:
        return _Steps(Power(self.body, i), self.store).exponential(i) if i > 1 else self.body

    def sums(self, i: int) -> Expr:
        if i == 1:
            return Identity(self.body.shape[0])
        return _Steps(PowerSum(self.body, i), self.store).exponential(i)

    def offset(self, by: int) -> Expr:
        """What ``by`` steps add: nothing for powers, S_by for sums, S_by B for T."""
        match self.expr:
            case Power():
                return Zeros(self.expr.shape)
            case PowerSum():
                return self.sums(by)
            case Iterate(offset=offset):
                return product(self.sums(by), offset)

    def meaning(self, i: int) -> Expr:
        match self.expr:
            case Power(body):
                return power(body, i)
            case PowerSum(body):
                return power_sum(body, i)
            case Iterate(step, offset, start):
                return iteration(step, offset, start, i)


def iterate(step: Callable[[Expr], Expr], start: Operand, k: int) -> Expr:
    """T_k of T_(i+1) = step(T_i), from T_0 = start.

    A step that is affine in T, ``A @ T + B`` in any writing, is recognized and gets every model. Any other
    step is unrolled, and all its iterates are stored.

    >>> A, T0 = Input("A", (3, 3)), Input("T0", (3, 1))
    >>> iterate(lambda T: A @ T, T0, 4) is Iterate(A, Zeros((3, 1)), T0, 4)
    True
    """
    first = as_matrix(start)
    if k < 0:
        raise LinalgError(f"cannot iterate {k} times")
    variable = Input("T (iterated)", first.shape)
    traced = step(variable)
    if traced.shape != first.shape:
        raise ShapeError(f"the step turns {first.shape} into {traced.shape}; it must keep the shape")
    affine = split_affine(traced, variable)
    if affine is not None:
        return iteration(*affine, first, k)
    current = first
    for _ in range(k):
        current = stored(step(current))
    return current


def split_affine(expr: Expr, variable: Expr) -> tuple[Expr, Expr] | None:
    """Write ``expr`` as A @ variable + B, or return None where it cannot be."""
    n = variable.shape[0]
    if expr is variable:
        return Identity(n), Zeros(variable.shape)
    if not _mentions(expr, variable):
        return Zeros((expr.shape[0], n)), expr
    match expr:
        case Sum(terms):
            parts = [split_affine(term, variable) for term in terms]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            return add(*(a for a, _ in known)), add(*(b for _, b in known))
        case Scale(factor, body):
            inner = split_affine(body, variable)
            return None if inner is None else (scale(factor, inner[0]), scale(factor, inner[1]))
        case Product(factors):
            before = product(*factors[:-1])
            last = None if _mentions(before, variable) else split_affine(factors[-1], variable)
            return None if last is None else (product(before, last[0]), product(before, last[1]))
        case _:
            return None


def _mentions(expr: Expr, variable: Expr) -> bool:
    return expr is variable or any(_mentions(child, variable) for child in operands_of(expr))
