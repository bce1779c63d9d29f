"""Canonical text: equal for two queries exactly when they differ by names and order alone.

Each variable is coloured by the factors it occurs in, the colours are refined, factors are sorted by what
remains of them when variables are replaced by colours, and variables are numbered by first occurrence. Ties
are broken by trying the orders of the tied factors (up to a limit) and taking the least text. Missing an
equality because of the limit costs a duplicate map, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, islice, permutations, product
from typing import TypeGuard

from viewlet.calculus.nodes import (
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    MapRef,
    Nested,
    Query,
    Rel,
    Term,
    Value,
    arguments,
    is_parameter,
)
from viewlet.core.scalar import FLIPPED, Call, Const, Scalar, Var

ROUNDS = 3
LIMIT = 120
COMMUTATIVE = frozenset({"+", "*", "=", "<>", "==", "and", "or"})

Naming = Callable[[Var], str]


@dataclass(frozen=True, slots=True)
class Canonical:
    """The canonical text, and the orders of the keys that give it: several where keys are symmetric."""

    text: str
    orders: tuple[tuple[Var, ...], ...]

    @property
    def keys(self) -> tuple[Var, ...]:
        """The keys in the order in which the text numbers them."""
        return self.orders[0]


def canonical_form(query: Query, keys: tuple[Var, ...]) -> Canonical:
    """The canonical form of ``keys -> query``.

    What is remembered may be that of a query that differs by names alone, as most of a program's do: it tells
    the places of keys, and the keys with their names and types are those given.

    >>> from viewlet.core.types import BIGINT, VARCHAR
    >>> [str(canonical_form((), (Var(*key),)).keys[0].type) for key in (("a", BIGINT), ("b", VARCHAR))]
    ['BIGINT', 'VARCHAR']
    """
    text, orders = _canonical_places(_Spelled(_spelling(query, keys), query, keys))
    return Canonical(text, tuple([tuple([keys[i] for i in order]) for order in orders]))


@dataclass(frozen=True, slots=True)
class _Spelled:
    """``keys -> query``, equal to any other that is spelled alike."""

    spelling: str
    query: Query = field(compare=False)
    keys: tuple[Var, ...] = field(compare=False)


def _spelling(query: Query, keys: tuple[Var, ...]) -> str:
    """The text of a query as it stands, each variable called after where it first occurs."""
    names = {key.name: f"k{i}" for i, key in enumerate(keys)}
    spelled = [names[key.name] for key in keys]
    numbers = dict(names)
    for term in query:
        spelled.append(f"{term.coefficient} * {_in_order(term.factors, numbers, len(names))}")
    return " + ".join(spelled)


@lru_cache(maxsize=50_000)
def _canonical_places(spelled: _Spelled) -> tuple[str, tuple[tuple[int, ...], ...]]:
    query, keys = spelled.query, spelled.keys
    place = {key.name: i for i, key in enumerate(keys)}
    texts: dict[str, list[tuple[int, ...]]] = {}
    for order in islice(_key_orders(query, keys), LIMIT):
        found = texts.setdefault(numbered_text(query, order), [])
        found.append(tuple(place[key.name] for key in order))
    best = min(texts)
    return best, tuple(texts[best])


def numbered_text(query: Query, keys: tuple[Var, ...]) -> str:
    """The canonical text with the keys numbered in the order given."""
    return _query_text(query, {key.name: f"k{i}" for i, key in enumerate(keys)})


def named_text(query: Query, keys: tuple[Var, ...]) -> str:
    """The canonical text with the keys under their own names."""
    return _query_text(query, {key.name: key.name for key in keys})


def collect_alike(query: Query, keys: tuple[Var, ...]) -> Query:
    """Add up terms that differ by the names of their own variables and the order of factors alone.

    >>> x, y = (Term((Value(Var(name)),)) for name in "xy")
    >>> collect_alike((x, y), ())[0].coefficient
    2
    """
    if len(query) < 2:
        return query
    found: dict[str, Term] = {}
    for term in query:
        text = named_text((Term(term.factors),), keys)
        known = found.get(text)
        coefficient = term.coefficient + (known.coefficient if known else 0)
        found[text] = Term((known or term).factors, coefficient)
    return tuple(term for term in found.values() if term.coefficient)


def strip_values(query: Query) -> Query:
    """The query without values and coefficients: what decides which entries exist."""
    return tuple(
        dict.fromkeys(Term(tuple(f for f in term.factors if not isinstance(f, Value))) for term in query)
    )


def _key_orders(query: Query, keys: tuple[Var, ...]) -> Iterator[tuple[Var, ...]]:
    """Orders of the keys that sort by colour; tied keys in every order."""
    if len(keys) < 2:
        yield keys
        return
    names = {key.name for key in keys}
    colours: dict[str, str] = dict.fromkeys(names, "k")
    placed = [_term_places(term) for term in query]
    for _ in range(ROUNDS):
        signatures: dict[str, list[str]] = {name: [] for name in names}
        for places in placed:
            local = _refine(places, colours)
            for name, found in _signatures(places, names, local).items():
                signatures[name].append(found)
        colours = _ranked({name: repr(sorted(found)) for name, found in signatures.items()}, "k")
    ordered = sorted(keys, key=lambda key: colours[key.name])
    groups = [list(group) for _, group in groupby(ordered, key=lambda key: colours[key.name])]
    for choice in product(*(permutations(group) for group in groups)):
        yield tuple(key for group in choice for key in group)


def _query_text(query: Query, names: Mapping[str, str]) -> str:
    return " + ".join(sorted(_term_text(term, names) for term in query)) or "0"


def _term_text(term: Term, names: Mapping[str, str]) -> str:
    """The least text over the orders of factors that look alike."""
    colours = _refine(_term_places(term), names)
    colouring = _colouring(colours)
    looks = {id(factor): (_rank(factor), _factor_text(factor, colouring)) for factor in term.factors}
    ordered = sorted(term.factors, key=lambda factor: looks[id(factor)])
    groups = [list(group) for _, group in groupby(ordered, key=lambda factor: looks[id(factor)])]
    texts = (
        _numbered([factor for group in choice for factor in group], names)
        for choice in islice(product(*(permutations(group) for group in groups)), LIMIT)
    )
    return f"{term.coefficient} * {min(texts)}"


def _rank(factor: Factor) -> int:
    """Atoms first: they number the variables by column, so that no scalar's order of arguments matters."""
    match factor:
        case Rel() | Delta() | MapRef():
            return 0
        case Lift() | Extremum() | Exists():
            return 1
        case Let():
            return 2
        case Cond() | Value():
            return 3


def _numbered(factors: Iterable[Factor], names: Mapping[str, str]) -> str:
    return _in_order(factors, dict(names), len(names))


def _in_order(factors: Iterable[Factor], numbers: dict[str, str], given: int) -> str:
    """The factors in this order; names beyond those ``given`` are numbered as they come, and noted."""

    def name(var: Var) -> str:
        if is_parameter(var):
            return var.name
        return numbers.setdefault(var.name, f"x{len(numbers) - given}")

    return " * ".join([_factor_text(factor, name) for factor in factors])


def _refine(term: list[_Places], names: Mapping[str, str]) -> dict[str, str]:
    """Colours for the term's own variables, from the factors they occur in; given names are colours."""
    own = {name for places in term for _, name in places.variables if name not in names}
    colours = {**names, **dict.fromkeys(own, "?")}
    distinct = 0
    for _ in range(ROUNDS):
        ranked = _ranked(_signatures(term, own, colours), "?")
        colours = {**names, **ranked}
        if distinct == (distinct := len(set(ranked.values()))):
            break
    return colours


def _signatures(term: list[_Places], names: Set[str], colours: Mapping[str, str]) -> dict[str, str]:
    """For each name, where it stands in which factors, and the colours of what stands beside it."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for places in term:
        beside = str(sorted([(place, colours.get(name, "?")) for place, name in places.variables]))
        for name, own in places.own:
            if name in found:
                found[name].append(own + beside)
    return {name: repr(sorted(texts)) for name, texts in found.items()}


@dataclass(frozen=True, slots=True)
class _Places:
    """The place of each variable in a factor; and of each its own places, behind the factor's bare text."""

    variables: tuple[tuple[str, str], ...]
    own: tuple[tuple[str, str], ...]


def _term_places(term: Term) -> list[_Places]:
    """The places of each factor that has variables."""
    return [places for factor in term.factors if (places := _places(factor)).variables]


@lru_cache(maxsize=50_000)
def _places(factor: Factor) -> _Places:
    def blank(var: Var) -> str:
        return var.name if is_parameter(var) else "?"

    match factor:
        case Rel(_, binds) | Delta(_, binds):
            found = [(column, arg.name) for column, arg in binds if _is_own(arg)]
        case MapRef():
            found = [(str(i), arg.name) for i, arg in enumerate(arguments(factor)) if _is_own(arg)]
        case Cond(scalar) | Value(scalar):
            found = list(_scalar_places(scalar, ""))
        case Let(var, scalar):
            found = [(":=", var.name), *_scalar_places(scalar, "")]
        case Lift() | Extremum() | Exists():
            given = [] if isinstance(factor, Exists) else [(":=", factor.var.name)]
            found = given + [(f"key{_orbit(factor, key)}", key.name) for key in factor.keys if _is_own(key)]
    skeleton = _factor_text(factor, blank)
    at: dict[str, list[str]] = {}
    for place, name in found:
        at.setdefault(name, []).append(place)
    return _Places(tuple(found), tuple((name, f"{skeleton}{sorted(own)}") for name, own in at.items()))


def _is_own(argument: Var | Const) -> TypeGuard[Var]:
    return isinstance(argument, Var) and not is_parameter(argument)


def _scalar_places(scalar: Scalar, place: str) -> Iterator[tuple[str, str]]:
    """The variables with the path to each: operators, and positions where their order matters."""
    match scalar:
        case Var():
            if not is_parameter(scalar):
                yield place, scalar.name
        case Call(op, args):
            if op in (">", ">="):
                op, args = FLIPPED[op], args[::-1]
            for i, arg in enumerate(args):
                yield from _scalar_places(arg, f"{place}/{op}" if op in COMMUTATIVE else f"{place}/{op}{i}")


def _orbit(factor: Nested, key: Var) -> int:
    """The first position that a key takes in the canonical orders of a nested query's keys."""
    keys = (factor.of, *factor.keys) if isinstance(factor, Extremum) else factor.keys
    return min(order.index(key) for order in canonical_form(factor.query, keys).orders)


def _ranked(signatures: Mapping[str, str], prefix: str) -> dict[str, str]:
    ranks = {text: i for i, text in enumerate(sorted(set(signatures.values())))}
    return {name: f"{prefix}{ranks[text]}" for name, text in signatures.items()}


def _colouring(colours: Mapping[str, str]) -> Naming:
    def name(var: Var) -> str:
        return var.name if is_parameter(var) else colours.get(var.name, "?")

    return name


def _factor_text(factor: Factor, name: Naming) -> str:
    match factor:
        case Rel(table, binds):
            return f"{table}({_binds_text(binds, name)})"
        case Delta(table, binds, absolute):
            return f"{'|d|' if absolute else 'd'}{table}({_binds_text(binds, name)})"
        case MapRef(map_name):
            return f"{map_name}[{','.join(_scalar_text(key, name) for key in arguments(factor))}]"
        case Cond(scalar):
            return f"{{{_scalar_text(scalar, name)}}}"
        case Value(scalar):
            return f"<{_scalar_text(scalar, name)}>"
        case Let(var, scalar):
            return f"{name(var)} := {_scalar_text(scalar, name)}"
        case Lift(var, keys, query):
            return f"{name(var)} := sum{_nested_text(query, keys, name)}"
        case Extremum(var, op, of, keys, query):
            inner = _nested_text(query, (of, *keys), lambda key: "v" if key == of else name(key))
            return f"{name(var)} := {op}{inner}"
        case Exists(keys, query, negated):
            return f"{'N' if negated else 'E'}{_nested_text(query, keys, name)}"


def _binds_text(binds: tuple[tuple[str, Var | Const], ...], name: Naming) -> str:
    return ",".join(
        f"{column}:{_scalar_text(argument, name)}" for column, argument in sorted(binds, key=_column)
    )


def _column(bind: tuple[str, Var | Const]) -> str:
    return bind[0]


def _nested_text(query: Query, keys: tuple[Var, ...], name: Naming) -> str:
    """A nested query's own canonical text, and what its keys are called out here."""
    form = canonical_form(query, keys)
    called = min([name(key) for key in order] for order in form.orders)
    return f"({form.text})<{','.join(called)}>"


def _scalar_text(scalar: Scalar, name: Naming) -> str:
    match scalar:
        case Var():
            return name(scalar)
        case Const(value):
            return f"{value!r}:{scalar.type}"
        case Call(op, (left, right)) if op in (">", ">="):
            return f"{FLIPPED[op]}({_scalar_text(right, name)},{_scalar_text(left, name)})"
        case Call(op, args):
            texts = [_scalar_text(arg, name) for arg in args]
            if op in COMMUTATIVE:
                texts.sort()
            return f"{op}({','.join(texts)}):{scalar.type}"
