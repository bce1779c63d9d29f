"""Sums of sums become one sum: a + (b + c) -> a + b + c, where nothing else reads b + c.

Every sum is a pass over its matrices and, for thin ones, a call; a chain of them costs as many of both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from viewlet.linalg.instructions import (
    Code,
    Combine,
    Instruction,
    Named,
    effect_operands,
    operands_of,
)
from viewlet.linalg.nodes import Scalar


def flat_sums(code: Code) -> Code:
    """The code with sums that are read once merged into the sum that reads them.

    >>> inner = Combine(((1, Named("b")), (-1, Named("c", True))))
    >>> outer = Combine(((1, Named("a")), (2, Named("t1", True))))
    >>> code = Code((), (("t1", inner), ("t2", outer)), (), {}, frozenset())
    >>> [(name, op)] = flat_sums(code).instructions
    >>> name, [(factor, n.name, n.transposed) for factor, n in op.terms]
    ('t2', [(1, 'a', False), (2, 'b', True), (-2, 'c', False)])
    """
    reads = Counter(name for _, op in code.instructions for name in operands_of(op))
    reads.update(name for effect in code.effects for name in effect_operands(effect))
    sums: dict[str, Combine] = {}
    merged: set[str] = set()
    flat: dict[str, Instruction] = {}
    for name, op in code.instructions:
        flat[name] = op
        if isinstance(op, Combine):
            inner = {named.name for _, named in op.terms if reads[named.name] == 1} & set(sums)
            flat[name] = sums[name] = _spliced(op, {one: sums[one] for one in inner})
            merged |= inner
    return replace(code, instructions=tuple((name, op) for name, op in flat.items() if name not in merged))


def _spliced(op: Combine, inner: dict[str, Combine]) -> Combine:
    """f (g a + h b') -> f g a + f h b', and transposed where the sum is; like terms are added."""
    if not inner:
        return op
    coefficients: dict[Named, Scalar] = {}
    for factor, named in op.terms:
        parts = inner[named.name].terms if named.name in inner else ((1, Named(named.name)),)
        for share, part in parts:
            term = Named(part.name, part.transposed != named.transposed)
            coefficients[term] = coefficients.get(term, 0) + factor * share
    terms = tuple((factor, named) for named, factor in coefficients.items())
    return Combine(tuple(term for term in terms if term[0] != 0) or terms[:1])
