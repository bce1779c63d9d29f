"""How a matrix program changes: factored deltas, derived statement by statement.

The classes of :mod:`viewlet.core.delta` say almost everything; what is particular to matrices is that a
delta is kept as a sum of outer products ``u1 v1' + u2 v2' + ...`` of thin matrices. A change of one row
touches every entry of A @ A, but its delta still has rank two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from viewlet.core.delta import DeltaClass, DeltaTable
from viewlet.linalg.apply import Applier
from viewlet.linalg.common_factors import Factored, Term, extract_common_factors, form, rank_of
from viewlet.linalg.flat_sums import flat_sums
from viewlet.linalg.instructions import Accumulate, Builder, Code, Effect, Named
from viewlet.linalg.inverse import delta_inverse
from viewlet.linalg.iterate import unfold
from viewlet.linalg.nodes import (
    Block,
    Constant,
    Expr,
    Identity,
    Input,
    Inverse,
    Iterate,
    Power,
    PowerSum,
    Product,
    Ref,
    Scale,
    Stored,
    Sum,
    Transpose,
    Window,
    Zeros,
    product,
    transpose,
)
from viewlet.linalg.program import Program

DELTAS = DeltaTable("matrices")
DELTAS.constant(Constant, Identity, Zeros)
DELTAS.linear(Sum, Scale, Transpose, Block, Window, Stored)
DELTAS.bilinear(Product)
DELTAS.recomputed(Inverse)


@dataclass(frozen=True, slots=True)
class FactorShape:
    """One term of an input's change: its rank, and which sides select rows or columns (are one-hot)."""

    rank: int
    selects_rows: bool = False
    selects_columns: bool = False


@dataclass(frozen=True)
class Trigger:
    """The code that maintains a program under changes of some inputs, and where it leaves each delta."""

    code: Code
    deltas: Mapping[str, tuple[str, str]]
    ranks: Mapping[str, int]


def factor_names(name: str, index: int) -> tuple[str, str]:
    """What the code calls the factors of the ``index``-th term of the change of input ``name``."""
    suffix = "" if index == 0 else str(index + 1)
    return f"U_{name}{suffix}", f"V_{name}{suffix}"


def compile_trigger(
    program: Program, changes: Mapping[str, tuple[FactorShape, ...]], collapse: bool
) -> Trigger:
    """Algorithm 6.3 of the thesis for simultaneous changes of several inputs, of given ranks.

    With ``collapse`` a delta whose rank reaches the smaller side of its matrix is formed as one dense
    matrix (hybrid evaluation); without, every delta stays factored.
    """
    builder = Builder(dict(program.shapes))
    derivation = _Derivation(builder, collapse)
    factors: list[str] = []
    for name, terms in changes.items():
        rows, columns = program.shapes[name]
        for index, term in enumerate(terms):
            left, right = factor_names(name, index)
            builder.shapes |= {left: (rows, term.rank), right: (columns, term.rank)}
            builder.selectors |= {left} if term.selects_rows else set()
            builder.selectors |= {right} if term.selects_columns else set()
            factors += [left, right]
        pairs = (factor_names(name, index) for index in range(len(terms)))
        derivation.changed[name] = tuple(Term(left, right) for left, right in pairs)
    for statement in program.statements:
        if isinstance(statement.expr, Inverse):
            change = derivation.derive(statement.expr.body)
            reference = program.reference(statement)
            delta = delta_inverse(derivation.applier, reference, change) if change else ()
        else:
            delta = derivation.derive(statement.expr)
        if delta:
            derivation.changed[statement.name] = delta
    return _trigger(builder, factors, derivation.changed, set(changes))


def _trigger(builder: Builder, factors: list[str], changed: dict[str, Factored], inputs: set[str]) -> Trigger:
    effects: list[Effect] = []
    deltas: dict[str, tuple[str, str]] = {}
    ranks: dict[str, int] = {}
    for name, terms in changed.items():
        if name in inputs:  # term by term: a term that selects rows touches those rows only
            effects += [Accumulate(name, term.left, term.right) for term in terms]
        left, right = builder.stack([t.left for t in terms]), builder.stack([t.right for t in terms])
        if name not in inputs:
            effects.append(Accumulate(name, left, right))
            deltas[name] = left, right
        ranks[name] = rank_of(builder, terms)
    return Trigger(flat_sums(builder.code(factors, effects)), deltas, ranks)


class _Derivation:
    """Deltas of expressions while the matrices in ``changed`` change."""

    def __init__(self, builder: Builder, collapse: bool) -> None:
        self.builder = builder
        self.applier = Applier(builder)
        self.collapse = collapse
        self.changed: dict[str, Factored] = {}
        self._known: dict[Expr, Factored] = {}

    def derive(self, expr: Expr) -> Factored:
        """The delta of ``expr``, common factors extracted, formed where that is cheaper."""
        known = self._known.get(expr)
        if known is None:
            terms = extract_common_factors(self.builder, self._derive(expr))
            if self.collapse and rank_of(self.builder, terms) > min(expr.shape):
                terms = form(self.builder, terms)
            known = self._known[expr] = terms
        return known

    def _derive(self, expr: Expr) -> Factored:
        match expr:
            case Input(name) | Ref(name):
                return self.changed.get(name, ())
            case Power() | PowerSum() | Iterate():
                for step, unfolded in unfold(expr):  # from the first step up, so that recursion stays shallow
                    self._known[step] = self.derive(unfolded)
                return self._known[expr]
        match DELTAS.of(expr):
            case DeltaClass.CONSTANT:
                return ()
            case DeltaClass.LINEAR:
                return self._delta_linear(expr)
            case DeltaClass.BILINEAR:
                return self._delta_product(cast(Product, expr))
            case DeltaClass.RECOMPUTED:
                raise AssertionError("an inverse is a statement of its own and is read by name")

    def _delta_linear(self, expr: Expr) -> Factored:
        """d(f(a)) = f(da), with f acting on one factor of each outer product"""
        match expr:
            case Sum(terms):
                return tuple(term for body in terms for term in self.derive(body))
            case Scale(factor, body):
                return tuple(
                    Term(self.builder.combine([(factor, Named(term.left))]), term.right)
                    for term in self.derive(body)
                )
            case Transpose(body):
                return tuple(Term(term.right, term.left) for term in self.derive(body))
            case Stored(body):
                return self.derive(body)
            case Window(body, rows, columns):
                return tuple(
                    Term(self._rows(term.left, rows), self._rows(term.right, columns))
                    for term in self.derive(body)
                )
            case Block():
                return self._delta_block(expr)
            case _:
                raise AssertionError(f"{type(expr).__name__} is declared linear, but has no rule")

    def _delta_block(self, expr: Block) -> Factored:
        """d[a b; c d] = sum over the blocks of [0; U; 0] [0; V; 0]'"""
        terms, above = [], 0
        for row in expr.rows:
            before = 0
            for cell in row:
                for term in self.derive(cell):
                    left = self.builder.embed(term.left, above, expr.shape[0])
                    terms.append(Term(left, self.builder.embed(term.right, before, expr.shape[1])))
                before += cell.shape[1]
            above += row[0].shape[0]
        return tuple(terms)

    def _delta_product(self, expr: Product) -> Factored:
        """d(a b) = da b + (a + da) db, folded over the factors from the right"""
        rest = expr.factors[-1]
        delta = self.derive(rest)
        for factor in reversed(expr.factors[:-1]):
            delta = extract_common_factors(
                self.builder, self._delta_pair(factor, rest, self.derive(factor), delta)
            )
            rest = product(factor, rest)
        return delta

    def _delta_pair(self, a: Expr, b: Expr, da: Factored, db: Factored) -> Factored:
        """(u v') b = u (b' v)'  and  (a + da) (u v') = (a u + da u) v'"""
        terms = []
        if da:
            rights = self.applier.apply(transpose(b), [term.right for term in da])
            terms += [Term(term.left, right) for term, right in zip(da, rights, strict=True)]
        if db:
            lefts = [term.left for term in db]
            applied = self.applier.apply(a, lefts)
            if da:
                applied = self._with_change(applied, da, lefts)
            terms += [Term(left, term.right) for left, term in zip(applied, db, strict=True)]
        return tuple(terms)

    def _with_change(self, applied: list[str], da: Factored, thin: list[str]) -> list[str]:
        """a x + U (V' x) for every x, all of them in two thin products"""
        left = self.builder.stack([term.left for term in da])
        right = self.builder.stack([term.right for term in da])
        x = self.builder.stack(thin)
        small = self.builder.multiply(Named(right, transposed=True), Named(x))
        correction = self.builder.multiply(Named(left), Named(small))
        total = self.builder.combine([(1, Named(self.builder.stack(applied))), (1, Named(correction))])
        return self.builder.split(total, thin)

    def _rows(self, name: str, rows: tuple[int, int]) -> str:
        return self.builder.part(name, rows, (0, self.builder.rank(name)))
