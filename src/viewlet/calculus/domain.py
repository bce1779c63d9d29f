"""Domain extraction: for which keys can a nested query change at all?

From the simplified delta D of the nested query Q with keys K:

1. *equality*: pairs ``k == @i`` or ``k := f(@i, @j)`` that hold in every term of D, and where terms differ in
   them, the alternatives: ``E<k>({k == @i} + {k == @j})``;
2. *support*: keys that atoms of D connect with the changed row, in every term, or that are computed from what
   these bind: ``E`` over those atoms;
3. *unrestricted*: nothing of the kind; every key may be affected.

A superset of the affected keys is fine, because new minus old is 0 elsewhere. For a batch the domain projects
|dR|, never dR: {(a=1, c=5): +1, (a=1, c=3): -1} cancels on a=1 while SUM(c) has changed.
"""

from __future__ import annotations

from viewlet.calculus.nodes import (
    Cond,
    Delta,
    Exists,
    Factor,
    Let,
    MapRef,
    Nested,
    Query,
    Rel,
    Term,
    factor_variables,
    is_parameter,
    product,
    term_variables,
)
from viewlet.calculus.schedule import is_computed
from viewlet.core.scalar import Call, Scalar, Var, call, variables

Domain = tuple[Factor, ...]
"""Factors that are 1 on (a superset of) the affected keys and 0 or absent elsewhere."""


def extract_domain(factor: Nested, change: Query) -> Domain | None:
    """The domain of a nested factor whose inner delta is ``change``; ``None`` if it is unrestricted.

    A factor without keys has no key to restrict: it is a single value, and unrestricted.
    """
    keys = {key.name: key for key in factor.keys}
    if not keys:
        return None
    told = [_equalities(term, keys) for term in change]
    names = [name for name in keys if all(name in each for each in told)]
    if not names:
        return _support(change, keys)
    same = {name: told[0][name] for name in names if _are_same([each[name] for each in told])}
    equal = tuple(Cond(call("==", keys[name], scalar)) for name, scalar in same.items())
    others = tuple(keys[name] for name in names if name not in same)
    if not others:
        return equal
    ways = dict.fromkeys(
        way for term, each in zip(change, told, strict=True) for way in _way(term, others, each)
    )
    return (*equal, *next(iter(ways)).factors) if len(ways) == 1 else (*equal, Exists(others, tuple(ways)))


def _are_same(scalars: list[Scalar]) -> bool:
    """One parameter or constant? Not what is computed: that may fail where no term asks for it."""
    return not isinstance(scalars[0], Call) and all(scalar == scalars[0] for scalar in scalars)


def _way(term: Term, keys: tuple[Var, ...], told: dict[str, Scalar]) -> Query:
    """The keys as one term tells them, under the term's own conditions on the changed row."""
    guards = (f for f in term.factors if isinstance(f, Cond) and _is_given(f.scalar))
    return product(*guards, *(Let(key, told[key.name]) for key in keys))


def enumerates_change(factor: Factor) -> bool:
    """Is it the change relation, or the domain of a change: keys that it has or that it tells?"""
    return isinstance(factor, Delta) or (
        isinstance(factor, Exists)
        and not factor.negated
        and all(any(isinstance(f, Delta) for f in term.factors) or is_computed(term) for term in factor.query)
    )


def _equalities(term: Term, keys: dict[str, Var]) -> dict[str, Scalar]:
    """Keys that a term equates with a constant, a parameter, or a value computed from parameters."""
    found: dict[str, Scalar] = {}
    for factor in term.factors:
        match factor:
            case Cond(Call("==", (Var(a), b))) if a in keys and _is_given(b):
                found[a] = b
            case Cond(Call("==", (b, Var(a)))) if a in keys and _is_given(b):
                found[a] = b
            case Let(Var(a), b) if a in keys and _is_given(b):
                found[a] = b
    return found


def _is_given(scalar: Scalar) -> bool:
    return all(is_parameter(var) for var in variables(scalar))


def _support(change: Query, keys: dict[str, Var]) -> Domain | None:
    """``E<reached keys>(atoms of D)``, one alternative per term of D, if every term reaches the same keys."""
    reduced = [_supporting_atoms(term, keys) for term in change]
    reached = [set(term_variables(factors)) & keys.keys() for factors in reduced]
    common = set.intersection(*reached)
    if not common:
        return None
    shared = tuple(keys[name] for name in keys if name in common)
    query = tuple(dict.fromkeys(term for factors in reduced for term in product(*factors)))
    return (Exists(shared, query),)


def _supporting_atoms(term: Term, keys: dict[str, Var]) -> tuple[Factor, ...]:
    """The atoms that connect the change with keys, the keys computed from them, conditions over all these.

    Values and nested factors are dropped. Atoms are reached from the changed row (its parameters, or its
    own atom in a batch) through shared variables, so that the domain is no larger than the change implies.
    """
    atoms = [f for f in term.factors if isinstance(f, Rel | Delta | MapRef) or enumerates_change(f)]
    atoms = [Delta(a.table, a.binds, absolute=True) if isinstance(a, Delta) else a for a in atoms]
    reached = {v.name for f in term.factors for v in factor_variables(f) if v.name.startswith("@")}
    reached |= {v.name for a in atoms if enumerates_change(a) for v in factor_variables(a)}
    chosen: list[Factor] = []
    pending = atoms
    while True:
        linked = [a for a in pending if any(v.name in reached for v in factor_variables(a))]
        if not linked:
            break
        chosen += linked
        pending = [a for a in pending if a not in linked]
        reached |= {v.name for a in linked for v in factor_variables(a)}
    bound = {v.name for a in chosen for v in factor_variables(a)} | {n for n in reached if n.startswith("@")}
    computed = [
        f
        for f in term.factors
        if isinstance(f, Let) and f.var.name in keys and all(v.name in bound for v in variables(f.scalar))
    ]
    bound |= {f.var.name for f in computed}
    conditions = [
        f for f in term.factors if isinstance(f, Cond) and all(v.name in bound for v in factor_variables(f))
    ]
    return (*chosen, *computed, *conditions)
