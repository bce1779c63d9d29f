"""A matrix program: statements in order, each a stored view over inputs and earlier statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from viewlet.core.node import rebuild
from viewlet.linalg.chain import Order, chain_order
from viewlet.linalg.errors import LinalgError
from viewlet.linalg.iterate import Model, cut
from viewlet.linalg.nodes import (
    Block,
    Constant,
    Expr,
    Input,
    Inverse,
    Iterate,
    Power,
    PowerSum,
    Product,
    Ref,
    Scale,
    Shape,
    Stored,
    Sum,
    Transpose,
    Window,
    add,
    block,
    inverse,
    is_symmetric,
    operands_of,
    postorder,
    product,
    scale,
    transpose,
)

# An intermediate product this much smaller than its largest operand is stored: it costs next to nothing,
# and saves reading that operand (X'Y of a regression, next to X).
SMALL_INTERMEDIATE = 1 / 4


@dataclass(frozen=True, slots=True)
class Statement:
    """``name := expr``; ``meaning`` is the same over inputs and inverses alone."""

    name: str
    expr: Expr
    meaning: Expr


@dataclass(frozen=True)
class Program:
    """What is stored, in the order in which it can be computed, and which statements are outputs."""

    model: Model
    inputs: Mapping[str, Input]
    constants: Mapping[str, Constant]
    statements: tuple[Statement, ...]
    outputs: Mapping[str, str]
    shapes: Mapping[str, Shape]
    references: Mapping[str, Ref]

    def reference(self, statement: Statement) -> Ref:
        """How later statements read this one."""
        return self.references[statement.name]

    def stored_numbers(self) -> int:
        """How many numbers the inputs, constants and views hold together."""
        return sum(rows * columns for rows, columns in self.shapes.values())


def build_program(outputs: Mapping[str, Expr], model: Model) -> Program:
    """Cut expressions into statements: inverses, steps that ``model`` keeps, small intermediates, outputs.

    Structurally equal pieces are one statement.
    """
    builder = _Statements(model)
    builder.reserved |= set(outputs)
    builder.reserved |= {node.name for node in postorder(*outputs.values()) if isinstance(node, Input)}
    names: dict[str, str] = {}
    for name, expr in outputs.items():
        names[name] = builder.output(name, expr)
    nodes = set(postorder(*(statement.expr for statement in builder.statements)))
    inputs = {node.name: node for node in nodes if isinstance(node, Input)}
    constants = {node.name: node for node in nodes if isinstance(node, Constant)}
    _refuse_clashes(outputs, inputs, nodes)
    shapes = {name: node.shape for name, node in sorted(inputs.items())}
    shapes |= {name: node.shape for name, node in constants.items()}
    shapes |= {statement.name: statement.expr.shape for statement in builder.statements}
    return Program(
        model, dict(sorted(inputs.items())), constants, tuple(builder.statements), names, shapes, builder.refs
    )


def _refuse_clashes(outputs: Mapping[str, Expr], inputs: Mapping[str, Input], nodes: set[Expr]) -> None:
    for name in outputs:
        if name in inputs:
            raise LinalgError(f"{name} is both an input and an output; rename one of them")
    shapes: dict[str, Shape] = {}
    for node in nodes:
        if isinstance(node, Input) and shapes.setdefault(node.name, node.shape) != node.shape:
            raise LinalgError(f"input {node.name} is used with shapes {shapes[node.name]} and {node.shape}")


@dataclass
class _Statements:
    """Statements collected so far; one per distinct meaning."""

    model: Model
    statements: list[Statement] = field(default_factory=list)
    refs: dict[str, Ref] = field(default_factory=dict)
    _by_meaning: dict[Expr, Expr] = field(default_factory=dict)
    _cut: dict[Expr, Expr] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _preferred: dict[Expr, str] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)

    def output(self, name: str, expr: Expr) -> str:
        """Make ``expr`` a statement; where it is one already, the output is that statement."""
        for operand in operands_of(expr):
            self.cut(operand)
        self._preferred.setdefault(self._over_statements(expr), name)
        reference = self.cut(expr)
        if not isinstance(reference, Ref):
            self._preferred.setdefault(reference, name)
            reference = self.store(reference, reference)
        return cast(Ref, reference).name

    def store(self, meaning: Expr, expr: Expr) -> Expr:
        """The reference to the statement with this meaning, made where there is none yet."""
        known = self._by_meaning.get(meaning)
        if known is not None:
            return known
        chosen = self._preferred.get(meaning) or self._fresh(meaning)
        reference = Ref(chosen, expr.shape, is_symmetric(meaning))
        self.statements.append(Statement(chosen, expr, meaning))
        self.refs[chosen] = reference
        self._by_meaning[meaning] = reference
        return reference

    def cut(self, expr: Expr) -> Expr:
        """``expr`` over references to statements, which are made on the way."""
        for node in postorder(expr):
            if node not in self._cut:
                self._cut[node] = self._cut_node(node)
        return self._cut[expr]

    def _over_statements(self, node: Expr) -> Expr:
        """The node over references, before it becomes a statement itself."""
        if isinstance(node, Stored):
            return self._cut[node.body]
        return renew(node, self._cut)

    def _cut_node(self, node: Expr) -> Expr:
        over = self._over_statements(node)
        if isinstance(node, Stored) or isinstance(over, Inverse):
            return over if isinstance(over, Ref) else self.store(over, over)
        if isinstance(over, Power | PowerSum | Iterate):
            return cut(over, self.model, self.store)
        return self._store_small(over)

    def _store_small(self, expr: Expr) -> Expr:
        """Store the intermediates of the cheapest order that are small beside the largest factor."""
        if not isinstance(expr, Product) or len(expr.factors) < 3:
            return expr
        factors = expr.factors
        order = chain_order((factors[0].shape[0], *(factor.shape[1] for factor in factors)))
        limit = SMALL_INTERMEDIATE * max(factor.shape[0] * factor.shape[1] for factor in factors)

        def hoist(part: Order, whole: bool) -> Expr:
            if isinstance(part, int):
                return factors[part]
            result = product(hoist(part[0], False), hoist(part[1], False))
            small = result.shape[0] * result.shape[1] <= limit
            return self.store(result, result) if small and not whole else result

        return hoist(order, True)

    def _fresh(self, meaning: Expr) -> str:
        match meaning:
            case Power(Input(name), k):
                stem = f"{name}_{k}"
            case Iterate(k=k):
                stem = f"T_{k}"
            case PowerSum(k=k):
                stem = f"S_{k}"
            case Inverse():
                stem = "W"
            case _:
                stem = "M"
        count = self._counts[stem] = self._counts.get(stem, 0) + 1
        name = stem if count == 1 else f"{stem}_{count}"
        return name if name not in self.refs and name not in self.reserved else self._fresh(meaning)


def renew(node: Expr, replacement: Mapping[Expr, Expr]) -> Expr:
    """The same node over replaced operands, back in normal form."""

    def of(child: Expr) -> Expr:
        return replacement[child]

    match node:
        case Sum(terms):
            return add(*map(of, terms))
        case Scale(factor, body):
            return scale(factor, of(body))
        case Product(factors):
            return product(*map(of, factors))
        case Transpose(body):
            return transpose(of(body))
        case Block(rows):
            return block([[of(cell) for cell in row] for row in rows])
        case Window(body, rows, columns):
            return of(body)[slice(*rows), slice(*columns)]
        case Inverse(body):
            return inverse(of(body))
        case _:
            return rebuild(node, lambda child: replacement.get(child, child))
