"""Matrix expressions: what there is.

Expressions are written with Python operators, ``@ + - * .T .inv()``, and kept in a normal form by the
constructor functions (``add``, ``product``, ``transpose``, ...), never by calling the node classes.

Nodes are *interned*: equal structure is the same object, so equality is identity, common subexpressions
are shared from the start, and hashing a node of a deep program costs O(1).

>>> A = Input("A", (3, 3))
>>> (A @ A).T is A.T @ A.T
True
>>> A + A is 2 * A
True
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any, TypeAlias, cast
from weakref import WeakValueDictionary

import numpy as np

from viewlet.core.node import children
from viewlet.linalg.errors import ShapeError

Scalar: TypeAlias = "int | float | Fraction"
Shape: TypeAlias = tuple[int, int]

_INTERNED: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()


class Matrix:
    """Operators common to every node; the class itself is never instantiated."""

    __slots__ = ()
    __array_ufunc__ = None  # so that ``array @ expression`` reaches __rmatmul__ below
    __match_args__: tuple[str, ...] = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """The node with these fields: the one that exists already, or a new one."""
        values = args + tuple(kwargs[name] for name in cls.__match_args__[len(args) :])
        key = (cls, *values)
        node = _INTERNED.get(key)
        if node is None:
            node = _INTERNED[key] = object.__new__(cls)
        return node

    @property
    def T(self) -> Expr:  # noqa: N802  the field's own name
        """The transpose."""
        return transpose(cast(Any, self))

    def inv(self) -> Expr:
        """The inverse; a singular value is refused when the program runs."""
        return inverse(cast(Any, self))

    def __matmul__(self, other: Operand) -> Expr:
        return product(cast(Any, self), as_matrix(other))

    def __rmatmul__(self, other: Operand) -> Expr:
        return product(as_matrix(other), cast(Any, self))

    def __add__(self, other: Operand) -> Expr:
        return add(cast(Any, self), as_matrix(other))

    def __radd__(self, other: Operand) -> Expr:
        return add(as_matrix(other), cast(Any, self))

    def __sub__(self, other: Operand) -> Expr:
        return add(cast(Any, self), scale(-1, as_matrix(other)))

    def __rsub__(self, other: Operand) -> Expr:
        return add(as_matrix(other), scale(-1, cast(Any, self)))

    def __mul__(self, factor: Scalar) -> Expr:
        return scale(factor, cast(Any, self))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Scalar) -> Expr:
        return scale(Fraction(1, divisor) if isinstance(divisor, int) else 1 / divisor, cast(Any, self))

    def __neg__(self) -> Expr:
        return scale(-1, cast(Any, self))

    def __pow__(self, k: int) -> Expr:
        return power(cast(Any, self), k)

    def __getitem__(self, index: tuple[slice, slice]) -> Expr:
        return window(cast(Any, self), index)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Input(Matrix):
    """A matrix given by the user, who may change it."""

    name: str
    shape: Shape


@dataclass(frozen=True, eq=False)
class Held:
    """An array held by a constant; equal only to itself."""

    array: Any
    serial: int = field(default_factory=count(1).__next__)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Constant(Matrix):
    """A matrix that never changes."""

    held: Held

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        rows, columns = self.held.array.shape
        return int(rows), int(columns)

    @property
    def name(self) -> str:
        """A name for programs, numbered in the order in which constants were made."""
        return f"const{self.held.serial}"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Identity(Matrix):
    """Ones on the diagonal."""

    n: int

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.n, self.n


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Zeros(Matrix):
    """All zeros: the unit of addition."""

    shape: Shape


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Sum(Matrix):
    """Two or more terms, none of them a sum, no two alike."""

    terms: tuple[Expr, ...]

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.terms[0].shape


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Scale(Matrix):
    """A scalar times a matrix that is neither a sum nor scaled itself."""

    factor: Scalar
    body: Expr

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.body.shape


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Product(Matrix):
    """Two or more factors; the order of evaluation is chosen later, by cost."""

    factors: tuple[Expr, ...]

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.factors[0].shape[0], self.factors[-1].shape[1]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Transpose(Matrix):
    """The transpose of a leaf or of an iteration; other transposes are pushed inwards."""

    body: Expr

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.body.shape[1], self.body.shape[0]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Inverse(Matrix):
    """The inverse of a square matrix."""

    body: Expr

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.body.shape


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Block(Matrix):
    """A matrix made of a grid of matrices."""

    rows: tuple[tuple[Expr, ...], ...]

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return sum(row[0].shape[0] for row in self.rows), sum(cell.shape[1] for cell in self.rows[0])


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Window(Matrix):
    """A contiguous part of a matrix, as half-open row and column ranges."""

    body: Expr
    row_range: tuple[int, int]
    column_range: tuple[int, int]

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.row_range[1] - self.row_range[0], self.column_range[1] - self.column_range[0]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Stored(Matrix):
    """Its body, kept as a materialized view of its own."""

    body: Expr

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.body.shape


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Power(Matrix):
    """``body`` multiplied by itself, k factors, k >= 2."""

    body: Expr
    k: int

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.body.shape


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PowerSum(Matrix):
    """I + body + ... + body^(k-1), k >= 2."""

    body: Expr
    k: int

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.body.shape


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Iterate(Matrix):
    """T_k of T_(i+1) = step T_i + offset, from T_0 = start, k >= 1."""

    step: Expr
    offset: Expr
    start: Expr
    k: int

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.start.shape


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Ref(Matrix):
    """The stored result of an earlier statement of the same program."""

    name: str
    shape: Shape
    symmetric: bool


Expr: TypeAlias = (
    Input
    | Constant
    | Identity
    | Zeros
    | Sum
    | Scale
    | Product
    | Transpose
    | Inverse
    | Block
    | Window
    | Stored
    | Power
    | PowerSum
    | Iterate
    | Ref
)
Operand: TypeAlias = "Expr | np.ndarray[Any, Any]"


def as_matrix(value: Operand) -> Expr:
    """Read an array as a constant; expressions pass through."""
    if isinstance(value, Matrix):
        return value
    array = np.asarray(value)
    if array.ndim != 2:
        raise ShapeError(f"an array with {array.ndim} axes is not a matrix; reshape vectors to (n, 1)")
    return Constant(Held(array))


def add(*operands: Expr) -> Expr:
    """a + (b + c) -> a + b + c;  a + 0 -> a;  a + 2a -> 3a"""
    shape = operands[0].shape
    coefficients: dict[Expr, Scalar] = {}
    for operand in operands:
        if operand.shape != shape:
            raise ShapeError(f"cannot add {operand.shape} to {shape}")
        for term in operand.terms if isinstance(operand, Sum) else (operand,):
            factor, body = (term.factor, term.body) if isinstance(term, Scale) else (1, term)
            if not isinstance(body, Zeros):
                coefficients[body] = coefficients.get(body, 0) + factor
    terms = tuple(scale(factor, body) for body, factor in coefficients.items() if factor != 0)
    if not terms:
        return Zeros(shape)
    return terms[0] if len(terms) == 1 else Sum(terms)


def scale(factor: Scalar, body: Expr) -> Expr:
    """0 a -> 0;  1 a -> a;  c (d a) -> (c d) a;  c (a + b) -> c a + c b"""
    factor = getattr(factor, "item", lambda: factor)()  # NumPy scalars
    if not isinstance(factor, int | float | Fraction):
        raise ShapeError(f"{factor!r} is not a scalar; use @ for the product of matrices")
    if factor == 0 or isinstance(body, Zeros):
        return Zeros(body.shape)
    if factor == 1:
        return body
    if isinstance(body, Scale):
        return scale(factor * body.factor, body.body)
    if isinstance(body, Sum):
        return Sum(tuple(scale(factor, term) for term in body.terms))
    return Scale(factor, body)


def product(*operands: Expr) -> Expr:
    """a (b c) -> a b c;  a I -> a;  a 0 -> 0;  a (c b) -> c (a b)"""
    factor: Scalar = 1
    factors: list[Expr] = []
    for operand in operands:
        if isinstance(operand, Scale):
            factor, operand = factor * operand.factor, operand.body
        for part in operand.factors if isinstance(operand, Product) else (operand,):
            if factors and factors[-1].shape[1] != part.shape[0]:
                raise ShapeError(f"cannot multiply {factors[-1].shape} by {part.shape}")
            factors.append(part)
    shape = factors[0].shape[0], factors[-1].shape[1]
    if any(isinstance(part, Zeros) for part in factors):
        return Zeros(shape)
    kept = [part for part in factors if not isinstance(part, Identity)]
    if not kept:
        return scale(factor, Identity(shape[0]))
    return scale(factor, kept[0] if len(kept) == 1 else Product(tuple(kept)))


def transpose(body: Expr) -> Expr:
    """(a b)' -> b' a';  (a + b)' -> a' + b';  a'' -> a;  a' -> a where a is symmetric"""
    match body:
        case Transpose(inner):
            return inner
        case Identity():
            return body
        case Zeros((rows, columns)):
            return Zeros((columns, rows))
        case Sum(terms):
            return Sum(tuple(transpose(term) for term in terms))
        case Scale(factor, inner):
            return Scale(factor, transpose(inner))
        case Product(factors):
            return Product(tuple(transpose(part) for part in reversed(factors)))
        case Block(rows):
            return Block(tuple(tuple(transpose(row[j]) for row in rows) for j in range(len(rows[0]))))
        case Window(inner, row_range, column_range):
            return Window(transpose(inner), column_range, row_range)
        case Power(inner, k):
            return Power(transpose(inner), k)
        case PowerSum(inner, k):
            return PowerSum(transpose(inner), k)
        case Inverse(inner) | Stored(inner) if is_symmetric(inner):
            return body
        case Ref(symmetric=True):
            return body
        case _:
            return Transpose(body)


def is_symmetric(body: Expr) -> bool:
    """Is the expression its own transpose, whatever the values? (X'X is; a covariance input is not known.)"""
    return body.shape[0] == body.shape[1] and transpose(body) is body


def inverse(body: Expr) -> Expr:
    """(a^-1)^-1 -> a;  (c a)^-1 -> c^-1 a^-1;  I^-1 -> I"""
    _require_square(body, "invert")
    match body:
        case Inverse(inner):
            return inner
        case Identity():
            return body
        case Scale(factor, inner):
            return scale(Fraction(1, factor) if isinstance(factor, int) else 1 / factor, inverse(inner))
        case _:
            return Inverse(body)


def identity(n: int) -> Expr:
    """The n x n matrix with ones on the diagonal."""
    return Identity(n)


def power(body: Operand, k: int) -> Expr:
    """The k-th power of a square matrix, k >= 0.

    >>> A = Input("A", (3, 3))
    >>> power(A, 1) is A
    True
    """
    matrix = as_matrix(body)
    _require_square(matrix, "raise")
    if k < 0:
        raise ShapeError(f"power {k} is negative; use .inv() first")
    if k < 2 or isinstance(matrix, Identity):
        return matrix if k == 1 else Identity(matrix.shape[0])
    return Power(matrix, k)


def power_sum(body: Operand, k: int) -> Expr:
    """I + body + ... + body^(k-1), k >= 0."""
    matrix = as_matrix(body)
    _require_square(matrix, "sum powers of")
    if k < 0:
        raise ShapeError(f"a sum of {k} powers does not exist")
    if k < 2:
        return Identity(matrix.shape[0]) if k else Zeros(matrix.shape)
    return PowerSum(matrix, k)


def stored(body: Operand) -> Expr:
    """Ask for ``body`` to be kept as a materialized view of its own."""
    matrix = as_matrix(body)
    return matrix if isinstance(matrix, Input | Constant | Identity | Zeros | Stored) else Stored(matrix)


def block(rows: list[list[Operand]]) -> Expr:
    """A matrix made of a grid of matrices, given as rows of blocks."""
    grid = tuple(tuple(as_matrix(cell) for cell in row) for row in rows)
    if not grid or not grid[0] or len({len(row) for row in grid}) > 1:
        raise ShapeError("a block matrix needs rows of equally many blocks")
    for row in grid:
        for cell, above in zip(row, grid[0], strict=True):
            if cell.shape != (row[0].shape[0], above.shape[1]):
                raise ShapeError(f"block {cell.shape} stands where {(row[0].shape[0], above.shape[1])} fits")
    return grid[0][0] if len(grid) == len(grid[0]) == 1 else Block(grid)


def window(body: Expr, index: tuple[slice, slice]) -> Expr:
    """A contiguous part of a matrix: ``A[2:5, :]``."""
    if not (isinstance(index, tuple) and len(index) == 2 and all(isinstance(part, slice) for part in index)):
        raise ShapeError(f"{index!r}: take parts of a matrix with two slices, as in A[2:5, :]")
    ranges = []
    for part, size in zip(index, body.shape, strict=True):
        start, stop, stride = part.indices(size)
        if stride != 1 or stop <= start:
            raise ShapeError(f"{part} of {size} is not a contiguous, non-empty range")
        ranges.append((start, stop))
    if ranges == [(0, body.shape[0]), (0, body.shape[1])]:
        return body
    return Window(body, ranges[0], ranges[1])


def postorder(*roots: Expr) -> Iterator[Expr]:
    """Every distinct node below the roots, operands before the nodes that use them."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child in operands_of(node) if child not in seen)


def operands_of(node: Expr) -> list[Expr]:
    """The matrices directly below a node."""
    return [cast("Expr", child) for child in children(node) if isinstance(child, Matrix)]  # not Held arrays


def _require_square(body: Expr, verb: str) -> None:
    if body.shape[0] != body.shape[1]:
        raise ShapeError(f"cannot {verb} a {body.shape[0]} x {body.shape[1]} matrix; it is not square")
