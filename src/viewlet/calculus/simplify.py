"""Unification and partial evaluation: equalities disappear into the variables they equate.

To a fixed point, per term, with ``x`` a variable of this scope that is not frozen::

    {x == e}, x := e        ->  x replaced by e          e a variable, parameter or constant
    x := e                  ->  e in place of x          x only in conditions, values and lets
    x := sum<K>()           ->  x := 0
    E<K>(t)                 ->  t                        t is 0 or 1 by itself
    {c}                     ->  1 or 0                   c has only constants

Frozen are the keys K of the enclosing nested query and the parameters of the event: the local side of an
equality goes, so ``sum<a>(S(a2, c) * {a2 == a} * <c>)`` becomes ``sum<a>(S(a, c) * <c>)``. The variable of a
lift never enters a table: a row must be known before a sum over rows can be compared with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import is_

from viewlet.calculus.nodes import (
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    MapRef,
    Query,
    Rel,
    Term,
    Value,
    add,
    factor_variables,
    is_parameter,
    product,
    term_variables,
)
from viewlet.calculus.substitute import freshen, seen_within, substitute_term
from viewlet.core.functions import evaluate
from viewlet.core.names import Names
from viewlet.core.scalar import Call, Const, Scalar, Var, call, variables
from viewlet.core.scalar import substitute as substitute_scalar
from viewlet.core.types import BOOLEAN
from viewlet.errors import ValueRangeError

Bindings = dict[str, Scalar]


@dataclass(frozen=True, slots=True)
class Simplified:
    """A simplified term, and what became of variables that it replaced."""

    term: Term
    bindings: Mapping[str, Scalar] = field(default_factory=dict)


def simplify_query(query: Query, frozen: Iterable[str], names: Names) -> Query:
    """Simplify each term and collect equal ones; a query with nothing to do comes back as it is."""
    frozen = frozenset(frozen)
    done = [simplify_term(term, frozen, names) for term in query]
    found = add(*((simple.term,) for simple in done if simple is not None))
    return query if len(found) == len(query) and all(map(is_, found, query)) else found


def simplify_term(
    term: Term, frozen: frozenset[str], names: Names, keys: Iterable[Var] = ()
) -> Simplified | None:
    """Simplify one term to a fixed point; ``None`` where it is zero.

    ``keys`` are needed outside but may be replaced: what they became is in the bindings.
    """
    wanted = {key.name for key in keys}
    bindings: Bindings = {}
    done: dict[int, Factor] = {}
    while True:
        folded = _fold_term(term, names, done)
        if folded is None:
            return None
        step = _unification(folded.factors, frozen, wanted)
        if step is None:
            return Simplified(drop_unused(folded, frozen | wanted | _targets(bindings)), bindings)
        index, by = step
        rest = Term(
            folded.factors[:index] + (folded.factors[index + 1 :] if index >= 0 else ()), folded.coefficient
        )
        changed = substitute_term(rest, by)
        if not changed:
            return None
        (term,) = changed
        bindings = {name: substitute_scalar(e, by) for name, e in bindings.items()}
        bindings |= {name: e for name, e in by.items() if name in wanted}
        wanted |= {var.name for e in by.values() for var in variables(e) if by.keys() & wanted}


def _targets(bindings: Bindings) -> frozenset[str]:
    return frozenset(var.name for e in bindings.values() for var in variables(e))


def _unification(
    factors: tuple[Factor, ...], frozen: frozenset[str], wanted: set[str]
) -> tuple[int, Bindings] | None:
    """The first factor that is an equality to be used up, and the replacement it stands for."""
    lifted = {f.var.name for f in factors if isinstance(f, Lift | Extremum)}
    for index, factor in enumerate(factors):
        match factor:
            case Cond(Call("==", (left, right))):
                by = _equate(factors, left, right, frozen, lifted)
                by = by or _equate(factors, right, left, frozen, lifted)
                if by is not None:
                    return index, by
            case Let(var, scalar) if var == scalar:
                return index, {}
            case Let(var, scalar):
                by = _define(factors, var, scalar, frozen, wanted, lifted)
                if by is not None:
                    return index, by
    return None


def _equate(
    factors: tuple[Factor, ...], x: Scalar, e: Scalar, frozen: frozenset[str], lifted: set[str]
) -> Bindings | None:
    """Use up ``x == e`` by replacing x: a variable of this scope, by a variable or constant."""
    if not isinstance(x, Var) or is_parameter(x) or x.name in frozen or x.name in lifted:
        return None
    if isinstance(e, Const):
        return {x.name: e}
    if isinstance(e, Var) and e.name not in lifted:
        return _identify(factors, x, e)
    return None


def _identify(factors: tuple[Factor, ...], x: Var, e: Var) -> Bindings:
    """x becomes e; where x cannot be NULL, e cannot either."""
    known = Var(e.name, e.type, _may_be_null(factors, e) and _may_be_null(factors, x))
    by: Bindings = {x.name: known}
    if known.nullable != e.nullable:
        by[e.name] = known
    return by


def _may_be_null(factors: tuple[Factor, ...], var: Var) -> bool:
    """Is a variable NULL anywhere? If only in some places, conditions there keep it so: they must not go."""
    return any(v.nullable for factor in factors for v in seen_within(factor) if v.name == var.name)


def _define(
    factors: tuple[Factor, ...],
    var: Var,
    scalar: Scalar,
    frozen: frozenset[str],
    wanted: set[str],
    lifted: set[str],
) -> Bindings | None:
    """Use up ``var := scalar`` from whichever side may go."""
    if isinstance(scalar, Var) and not is_parameter(scalar) and scalar.name not in frozen | lifted | wanted:
        return {scalar.name: Var(var.name, var.type, _may_be_null(factors, scalar))}
    if var.name in frozen:
        return None
    structural = any(
        var.name in {v.name for v in factor_variables(f)} - _read_only(f)
        for f in factors
        if not (isinstance(f, Let) and f.var == var)
    )
    if isinstance(scalar, Const) or (isinstance(scalar, Var) and not (structural and scalar.name in lifted)):
        return {var.name: scalar}
    if structural or var.name in wanted:
        return None
    return {var.name: scalar}


def _read_only(factor: Factor) -> set[str]:
    """Variables that a factor merely computes with, so that an expression can stand for them."""
    match factor:
        case Cond(scalar) | Value(scalar):
            return {var.name for var in variables(scalar)}
        case Let(var, scalar):
            return {v.name for v in variables(scalar)} - {var.name}
        case _:
            return set()


# Partial evaluation


def _fold_term(term: Term, names: Names, done: dict[int, Factor]) -> Term | None:
    """Fold each factor but those that are ``done``: by identity, with nothing left to fold in them."""
    factors: list[Factor] = []
    for factor in term.factors:
        if id(factor) in done:
            factors.append(factor)
            continue
        folded = _fold_factor(factor, names)
        if len(folded) == 1 and folded[0] is factor:
            done[id(factor)] = factor
        factors.extend(folded)
    result = product(*factors, coefficient=term.coefficient)
    if result and len(result[0].factors) == len(term.factors) and _are_same(result[0], term):
        return term
    return result[0] if result else None


def _are_same(left: Term, right: Term) -> bool:
    return left.coefficient == right.coefficient and all(map(is_, left.factors, right.factors))


def _fold_factor(factor: Factor, names: Names) -> tuple[Factor, ...]:
    match factor:
        case Cond(scalar) | Value(scalar) | Let(_, scalar):
            folded = fold(scalar)
            return (factor if folded is scalar else replace(factor, scalar=folded),)
        case Lift(var, keys, query):
            inner = simplify_query(query, (key.name for key in keys), names)
            if inner is query and any(term.factors for term in inner):
                return (factor,) if (used := _used(keys, inner)) == keys else (Lift(var, used, inner),)
            if all(not term.factors for term in inner):
                total = sum(term.coefficient for term in inner)
                return (Let(var, Const(total if var.type.is_exact else float(total), var.type)),)
            return (Lift(var, _used(keys, inner), inner),)
        case Extremum(var, op, of, keys, query):
            inner = simplify_query(query, (*(key.name for key in keys), of.name), names)
            if not inner:
                return (Let(var, Const(None, var.type)),)
            if inner is query and _used(keys, inner) == keys:
                return (factor,)
            return (Extremum(var, op, of, _used(keys, inner), inner),)
        case Exists(keys, query, negated):
            inner = simplify_query(query, (key.name for key in keys), names)
            if inner is not query or _used(keys, inner) != keys:
                factor = Exists(_used(keys, inner), inner, negated)
            return _fold_exists(factor, names)
        case Rel() | Delta() | MapRef():
            return (factor,)


def _used(keys: tuple[Var, ...], query: Query) -> tuple[Var, ...]:
    """The keys that the query mentions; nothing else can connect it with its surroundings."""
    mentioned = {name for term in query for name in term_variables(term.factors)}
    return tuple(key for key in keys if key.name in mentioned)


def _fold_exists(factor: Exists, names: Names) -> tuple[Factor, ...]:
    if len(factor.query) != 1 or factor.negated:
        if any(not term.factors for term in factor.query) and len(factor.query) == 1:
            return (Cond(Const(False, BOOLEAN)),) if factor.negated else ()
        return (factor,)
    (term,) = factor.query
    if not _is_zero_or_one(term, factor.keys):
        return (factor,)
    ((inner,)) = freshen((Term(term.factors),), factor.keys, names)
    return inner.factors


def _is_zero_or_one(term: Term, keys: tuple[Var, ...]) -> bool:
    """Does every variable depend on the keys alone, and is no factor but 0 or 1?"""
    known = {key.name for key in keys}
    known |= {f.var.name for f in term.factors if isinstance(f, Let | Lift | Extremum)}
    for factor in term.factors:
        match factor:
            case Rel() | Delta() | MapRef() | Value():
                return False
            case _ if any(not is_parameter(v) and v.name not in known for v in factor_variables(factor)):
                return False
    return True


def fold(scalar: Scalar) -> Scalar:
    """Evaluate what has only constants; an error while doing so is left for run time to report."""
    if not isinstance(scalar, Call):
        return scalar
    args = tuple([fold(arg) for arg in scalar.args])
    folded = call(scalar.op, *args, type=scalar.type)
    if not isinstance(folded, Call):
        return folded
    if folded.op == scalar.op and len(folded.args) == len(scalar.args):
        folded = scalar if all(map(is_, folded.args, scalar.args)) else folded
    if folded.op == "==" and folded.args[0] == folded.args[1]:
        return Const(True, BOOLEAN)
    if folded.op == "case":
        return _fold_case(folded)
    if folded.args and all(isinstance(arg, Const) for arg in folded.args):
        try:
            return Const(evaluate(folded, {}), folded.type)
        except ValueRangeError:
            return folded
    return folded


def _fold_case(scalar: Call) -> Scalar:
    """``CASE WHEN TRUE THEN a .. -> a``, ``CASE WHEN FALSE THEN a .. -> CASE ..``"""
    kept: list[Scalar] = []
    for condition, result in zip(scalar.args[0:-1:2], scalar.args[1::2], strict=True):
        if isinstance(condition, Const):
            if condition.value is not True:
                continue
            if not kept:
                return result
            return Call("case", (*kept, result), scalar.type)
        kept += [condition, result]
    if not kept:
        return scalar.args[-1]
    if len(kept) + 1 == len(scalar.args):
        return scalar
    return Call("case", (*kept, scalar.args[-1]), scalar.type)


def drop_unused(term: Term, needed: frozenset[str]) -> Term:
    """A let or lift whose variable nobody reads is 1; a column that nobody reads is not worth binding."""
    while True:
        uses = Counter([v.name for factor in term.factors for v in factor_variables(factor)])
        unused = {n for n, count in uses.items() if count == 1 and n not in needed and not n.startswith("@")}
        kept = tuple(
            _without_columns(factor, unused)
            for factor in term.factors
            if not (isinstance(factor, Let | Lift | Extremum) and factor.var.name in unused)
        )
        if len(kept) == len(term.factors) and all(map(is_, kept, term.factors)):
            return term
        term = replace(term, factors=kept)


def _without_columns(factor: Factor, unused: set[str]) -> Factor:
    match factor:
        case Rel(_, binds) | Delta(_, binds):
            kept = tuple(b for b in binds if not (isinstance(b[1], Var) and b[1].name in unused))
            return factor if len(kept) == len(binds) else replace(factor, binds=kept)
        case _:
            return factor
