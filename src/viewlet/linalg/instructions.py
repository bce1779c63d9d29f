"""Straight-line code over named matrices: what triggers and re-evaluation are compiled to.

Every instruction computes one new matrix from named ones; every *effect* changes one stored matrix. All
instructions of a :class:`Code` run before its first effect, so they read old values only, and an
instruction that fails leaves the state untouched.

The :class:`Builder` numbers values: asking twice for the same instruction gives the same name, which is
common-subexpression elimination and, for powers and iterations, what makes one pair of Krylov bases serve
every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, assert_never

from viewlet.linalg.nodes import Scalar, Shape


@dataclass(frozen=True, slots=True)
class Named:
    """A matrix by its name, read as it is or transposed."""

    name: str
    transposed: bool = False


@dataclass(frozen=True, slots=True)
class Multiply:
    """left @ right"""

    left: Named
    right: Named


@dataclass(frozen=True, slots=True)
class Combine:
    """c1 a1 + c2 a2 + ..."""

    terms: tuple[tuple[Scalar, Named], ...]


@dataclass(frozen=True, slots=True)
class Stack:
    """[a1 a2 ...], side by side"""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """a[rows, columns], half-open ranges"""

    name: str
    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Embed:
    """a between rows of zeros: ``above`` of them first, ``total`` rows in all"""

    name: str
    above: int
    total: int


@dataclass(frozen=True, slots=True)
class Assemble:
    """A grid of matrices as one matrix."""

    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """The identity matrix."""

    n: int


@dataclass(frozen=True, slots=True)
class Nought:
    """A matrix of zeros."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Divide:
    """-left @ capacitance^-1, refused where the capacitance is close to singular"""

    left: str
    capacitance: str
    statement: str


@dataclass(frozen=True, slots=True)
class Invert:
    """a^-1, refused where a is singular"""

    name: str
    statement: str


Instruction: TypeAlias = (
    Multiply | Combine | Stack | Part | Embed | Assemble | Unit | Nought | Divide | Invert
)


@dataclass(frozen=True, slots=True)
class Accumulate:
    """target += left @ right.T, in place"""

    target: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Replace:
    """target := name"""

    target: str
    name: str


Effect: TypeAlias = Accumulate | Replace


@dataclass(frozen=True)
class Code:
    """Instructions in order, then effects; ``factors`` are the names that the update provides."""

    factors: tuple[str, ...]
    instructions: tuple[tuple[str, Instruction], ...]
    effects: tuple[Effect, ...]
    shapes: dict[str, Shape]
    selectors: frozenset[str]

    @cached_property
    def spent(self) -> tuple[tuple[str, ...], ...]:
        """The names that each instruction is the last to read; what effects read is kept to the end."""
        last = {
            name: position for position, (_, op) in enumerate(self.instructions) for name in operands_of(op)
        }
        for effect in self.effects:
            for name in effect_operands(effect):
                last.pop(name, None)
        names: list[list[str]] = [[] for _ in self.instructions]
        for name, position in last.items():
            names[position].append(name)
        return tuple(map(tuple, names))


def operands_of(op: Instruction) -> tuple[str, ...]:
    """The names that an instruction reads."""
    match op:
        case Multiply(left, right):
            return left.name, right.name
        case Combine(terms):
            return tuple(named.name for _, named in terms)
        case Stack(names):
            return names
        case Part(name) | Embed(name) | Invert(name):
            return (name,)
        case Assemble(rows):
            return tuple(name for row in rows for name in row)
        case Unit() | Nought():
            return ()
        case Divide(left, capacitance):
            return left, capacitance
        case _:
            assert_never(op)


def effect_operands(effect: Effect) -> tuple[str, ...]:
    """The names that an effect reads."""
    match effect:
        case Accumulate(_, left, right):
            return left, right
        case Replace(_, name):
            return (name,)
        case _:
            assert_never(effect)


@dataclass
class Builder:
    """Emits instructions, one name per distinct value.

    >>> code = Builder({"A": (4, 4)})
    >>> code.shapes["u"] = (4, 1)
    >>> first = code.multiply(Named("A"), Named("u"))
    >>> code.multiply(Named("A"), Named("u")) == first
    True
    """

    shapes: dict[str, Shape]
    selectors: set[str] = field(default_factory=set)
    instructions: list[tuple[str, Instruction]] = field(default_factory=list)
    _names: dict[Instruction, str] = field(default_factory=dict)
    _defined: dict[str, Instruction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stored = frozenset(self.shapes)  # names that follow are factors of an update or computed

    def emit(self, op: Instruction, shape: Shape) -> str:
        """The name of the value of ``op``, computed once."""
        name = self._names.get(op)
        if name is None:
            name = self._names[op] = f"t{len(self._names) + 1}"
            self.shapes[name] = shape
            self._defined[name] = op
            self.instructions.append((name, op))
        return name

    def shape(self, named: Named) -> Shape:
        """The shape of a named matrix as it is read."""
        rows, columns = self.shapes[named.name]
        return (columns, rows) if named.transposed else (rows, columns)

    def rank(self, name: str) -> int:
        """The number of columns of a thin factor."""
        return self.shapes[name][1]

    def is_unit(self, name: str) -> bool:
        """Is the named value an identity matrix?"""
        return isinstance(self._defined.get(name), Unit)

    def unit(self, n: int) -> str:
        """The identity matrix."""
        return self.emit(Unit(n), (n, n))

    def multiply(self, left: Named, right: Named) -> str:
        """a I -> a;  I a -> a, copied where a is stored: a delta must not read what effects change."""
        if self.is_unit(left.name):
            return self._unchanging(right)
        if self.is_unit(right.name):
            return self._unchanging(left)
        return self.emit(Multiply(left, right), (self.shape(left)[0], self.shape(right)[1]))

    def _unchanging(self, named: Named) -> str:
        if named.name not in self._stored:
            return self.plain(named)
        return self.emit(Combine(((1, named),)), self.shape(named))

    def plain(self, named: Named) -> str:
        """The name of a value that is not read transposed."""
        return self.combine([(1, named)]) if named.transposed else named.name

    def combine(self, terms: Iterable[tuple[Scalar, Named]]) -> str:
        """A linear combination: like terms are added, a + 0 -> a, and 1 a -> a."""
        coefficients: dict[Named, Scalar] = {}
        shape: Shape | None = None
        for factor, named in terms:
            shape = self.shape(named)
            if not isinstance(self._defined.get(named.name), Nought):
                coefficients[named] = coefficients.get(named, 0) + factor
        kept = tuple((factor, named) for named, factor in coefficients.items() if factor != 0)
        assert shape is not None, "a linear combination needs a term to know its shape"
        if not kept:
            return self.emit(Nought(shape), shape)
        if len(kept) == 1 and kept[0][0] == 1 and not kept[0][1].transposed:
            return kept[0][1].name
        return self.emit(Combine(kept), shape)

    def stack(self, names: Sequence[str]) -> str:
        """[a] -> a;  [a[:, :2] a[:, 2:]] -> a"""
        if len(names) == 1:
            return names[0]
        first = self._defined.get(names[0])
        if isinstance(first, Part):
            whole, position = first.name, 0
            for name in names:
                part = self._defined.get(name)
                if not (isinstance(part, Part) and part.name == whole and part.columns[0] == position):
                    break
                if part.rows != (0, self.shapes[whole][0]):
                    break
                position = part.columns[1]
            else:
                if position == self.rank(whole):
                    return whole
        return self.emit(Stack(tuple(names)), (self.shapes[names[0]][0], sum(map(self.rank, names))))

    def split(self, name: str, like: Sequence[str]) -> list[str]:
        """Columns of ``name`` in groups as wide as the names in ``like``."""
        if len(like) == 1:
            return [name]
        parts, start = [], 0
        for other in like:
            stop = start + self.rank(other)
            parts.append(self.part(name, (0, self.shapes[name][0]), (start, stop)))
            start = stop
        return parts

    def part(self, name: str, rows: tuple[int, int], columns: tuple[int, int]) -> str:
        """A window of a named value; the whole of it is the value itself."""
        if (rows, columns) == ((0, self.shapes[name][0]), (0, self.shapes[name][1])):
            return name
        return self.emit(Part(name, rows, columns), (rows[1] - rows[0], columns[1] - columns[0]))

    def embed(self, name: str, above: int, total: int) -> str:
        """A named value between rows of zeros; without any it is the value itself."""
        rows, width = self.shapes[name]
        return name if rows == total else self.emit(Embed(name, above, total), (total, width))

    def code(self, factors: Sequence[str], effects: Sequence[Effect]) -> Code:
        """The code without the instructions whose values nothing reads."""
        needed = {name for effect in effects for name in effect_operands(effect)}
        kept = []
        for name, op in reversed(self.instructions):
            if name in needed:
                kept.append((name, op))
                needed.update(operands_of(op))
        return Code(
            tuple(factors),
            tuple(reversed(kept)),
            tuple(effects),
            dict(self.shapes),
            frozenset(self.selectors),
        )
