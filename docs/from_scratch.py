"""Incremental view maintenance from scratch, in one file.

You know Python and SQL. You have a query whose answer you want to keep, and its tables keep changing. Running
the query again after every change is always right and always slow. This file builds the other way: from the
query, *derive* a program that updates the answer, and with it everything that the program itself needs to
read. It ends with a working compiler for joins, GROUP BY, SUM, COUNT and nested aggregates; every answer is
compared with SQLite after every single change.

Run it: ``python docs/from_scratch.py``. It needs nothing but Python 3.11.
"""

from __future__ import annotations

import operator
import random
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, count

# %% [markdown]
# ## 1. A table is a dict
#
# SQL tables are bags: a row may occur twice. So let a table be a dict from rows to how often they occur,
# their *multiplicity*. An insertion adds 1, a deletion adds -1, and a row whose multiplicity reaches 0 is
# gone.
#
# This is the whole trick with deletions: **a change is a table too**, one whose multiplicities may be
# negative, and to apply a change is to add. Nothing below treats deletions as a special case.

Row = tuple
Table = dict


def add(table: Table, row: Row, change: float) -> None:
    """Add to the multiplicity of a row; zeros are not stored."""
    total = table.get(row, 0) + change
    if total:
        table[row] = total
    else:
        table.pop(row, None)


colours: Table = {}
for colour, change in [("red", 1), ("blue", 1), ("red", 1), ("blue", -1)]:
    add(colours, (colour,), change)
assert colours == {("red",): 2}

# %% [markdown]
# ## 2. A query is a polynomial
#
# If tables hold numbers, then operations of SQL become operations on numbers:
#
# | SQL                                | arithmetic                                              |
# |------------------------------------|---------------------------------------------------------|
# | `UNION ALL`                        | `+`, row by row                                         |
# | `JOIN`                             | `*` : 2 equal rows here, 3 matching there, 6 in the join |
# | `WHERE price > 10`                 | `* {price > 10}`, which is 1 or 0                       |
# | `SUM(price)`                       | `* <price>`: count the row not once but `price` times   |
# | `GROUP BY a`                       | add up over all variables except `a`                    |
#
# So a query is a sum of products, like a polynomial in school. `SELECT a, SUM(c) FROM r JOIN s USING (b)
# GROUP BY a` is `r(a, b) * s(b, c) * <c>`, added up for each `a`. Sharing the variable `b` *is* the join.
#
# Variables are strings, constants are numbers, and `("*", x, y)` is an expression.

Scalar = str | float | tuple


@dataclass(frozen=True)
class Rel:
    """``R(x, y)``: a table, or a map that we keep; gives the multiplicity, and binds its variables."""

    name: str
    args: tuple[Scalar, ...]


@dataclass(frozen=True)
class Cond:
    """``{x < y}``: 1 or 0."""

    op: str
    left: Scalar
    right: Scalar


@dataclass(frozen=True)
class Value:
    """``<e>``: a number as a multiplicity."""

    scalar: Scalar


@dataclass(frozen=True)
class Lift:
    """``x := sum(Q)``: a nested query as a value. ``outer``: the variables shared with the outside."""

    var: str
    outer: tuple[str, ...]
    query: Query


Factor = Rel | Cond | Value | Lift


@dataclass(frozen=True)
class Term:
    """A number times a product."""

    factors: tuple[Factor, ...]
    coefficient: int = 1


Query = tuple[Term, ...]

# %% [markdown]
# A nested aggregate such as `WHERE x > (SELECT SUM(...) ...)` needs one thing that polynomials lack: a way
# to use a *sum* where a *value* is expected. That is `Lift`. It is also the one factor that will resist us
# later.
#
# Names starting with `@` will be the fields of the row that changes; they are known from outside.

OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARISONS = {"=": operator.eq, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


def scalar_names(scalar: Scalar) -> set[str]:
    """The names in an expression: variables and fields of the event."""
    match scalar:
        case str(name):
            return {name}
        case (_, left, right):
            return scalar_names(left) | scalar_names(right)
        case _:
            return set()


def names(factor: Factor) -> set[str]:
    """The names that a factor shares with its neighbours."""
    match factor:
        case Rel(_, args):
            return set().union(*map(scalar_names, args))
        case Cond(_, left, right):
            return scalar_names(left) | scalar_names(right)
        case Value(scalar):
            return scalar_names(scalar)
        case Lift(var, outer, _):
            return {var, *outer}


def variables(factor: Factor) -> set[str]:
    """The names that are still to be bound."""
    return {name for name in names(factor) if not name.startswith("@")}


# %% [markdown]
# ## 3. What a query means
#
# The definition that everything else must agree with: walk through the factors, each time with the
# variables bound so far, and multiply what they give. A table binds variables; conditions, values and
# nested queries wait until theirs are bound.

Env = dict
VISITED = count()  # entries looked at, to compare costs without a clock


def evaluate(scalar: Scalar, env: Env) -> float:
    """The value of an expression."""
    match scalar:
        case str(name):
            return env[name]
        case (op, left, right):
            return OPERATORS[op](evaluate(left, env), evaluate(right, env))
        case number:
            return number


def matches(rel: Rel, env: Env, db: dict[str, Table]) -> Iterator[tuple[Env, float]]:
    """The entries of a table that fit what is bound. (Real engines keep an index where we scan.)"""
    table = db[rel.name]
    if all(not isinstance(arg, str) or arg in env for arg in rel.args):
        next(VISITED)
        if number := table.get(tuple(evaluate(arg, env) for arg in rel.args)):
            yield env, number
        return
    for row, number in table.items():
        next(VISITED)
        found = dict(env)
        if all(
            found.setdefault(arg, v) == v if isinstance(arg, str) else arg == v
            for arg, v in zip(rel.args, row, strict=True)
        ):
            yield found, number


def assignments(factors: list[Factor], env: Env, db: dict[str, Table]) -> Iterator[tuple[Env, float]]:
    """Every way to satisfy a product, with its multiplicity."""
    if not factors:
        yield env, 1
        return
    ready = (
        f for f in factors if not isinstance(f, Rel) and variables(f) - {getattr(f, "var", "")} <= env.keys()
    )
    factor = next(ready, None) or next(f for f in factors if isinstance(f, Rel))
    rest = [f for f in factors if f is not factor]
    match factor:
        case Rel():
            found = matches(factor, env, db)
        case Cond(op, left, right):
            found = [(env, int(COMPARISONS[op](evaluate(left, env), evaluate(right, env))))]
        case Value(scalar):
            found = [(env, evaluate(scalar, env))]
        case Lift(var, _, query):
            found = [(env | {var: sums(query, (), env, db).get((), 0)}, 1)]
    for extended, number in found:
        if number:
            yield from ((done, number * more) for done, more in assignments(rest, extended, db))


def sums(query: Query, keys: tuple[Scalar, ...], env: Env, db: dict[str, Table]) -> Table:
    """The meaning of a query: for each value of the keys, the sum over everything else."""
    result: Table = {}
    for term in query:
        for found, number in assignments(list(term.factors), env, db):
            add(result, tuple(evaluate(key, found) for key in keys), term.coefficient * number)
    return result


# %% [markdown]
# Our first example: revenue per customer, `SELECT cust, SUM(rate * price) FROM orders JOIN lines USING (id)
# GROUP BY cust`.

REVENUE: Query = (
    Term(
        (Rel("orders", ("id", "cust", "rate")), Rel("lines", ("id", "price")), Value("rate"), Value("price"))
    ),
)
tiny = {"orders": {(1, "Ann", 2): 1, (2, "Bob", 1): 1}, "lines": {(1, 10): 1, (1, 5): 2, (2, 7): 1}}
assert sums(REVENUE, ("cust",), {}, tiny) == {("Ann",): 40, ("Bob",): 7}

# %% [markdown]
# ## 4. How a query changes
#
# The rules are those of finite differences, and they come straight from the distributive law:
#
#     d(c)     = 0
#     d(a + b) = da + db
#     d(a * b) = da * b  +  a * db  +  da * db
#
# The last term is not optional. A derivative would drop it as "infinitely small"; a row is not.
#
# What is `dR` when one row `(@0, @1)` arrives or leaves? A table with that single row: `@sign * (x := @0) *
# (y := @1)`. Better still, the assignments can be *substituted* into the rest of the term at once, and with
# that the change of a table has vanished from the delta: `d(r(a, b) * s(b, c) * <c>)` on a row of `r`, for
# the group `@0`, is `@sign * s(@1, c) * <c>`. The delta is simpler than the query: one table fewer.


def parameters(table: str) -> tuple[str, ...]:
    """The fields of an event on a table."""
    return tuple(f"@{i}" for i in range(len(COLUMNS[table])))


def substituted(thing: object, binding: dict[str, Scalar]) -> object:
    """Replace variables, everywhere."""
    match thing:
        case str(name):
            return binding.get(name, name)
        case tuple(items):
            return tuple(substituted(item, binding) for item in items)
        case Rel(name, args):
            return Rel(name, substituted(args, binding))
        case Cond(op, left, right):
            return Cond(op, substituted(left, binding), substituted(right, binding))
        case Value(scalar):
            return Value(substituted(scalar, binding))
        case Lift(var, outer, query):
            return Lift(var, substituted(outer, binding), substituted(query, binding))
        case Term(factors, coefficient):
            return Term(substituted(factors, binding), coefficient)
        case _:
            return thing


def bound_to_event(rels: tuple[Rel, ...], fixed: set[str]) -> tuple[dict[str, Scalar], list[Factor]]:
    """Match some occurrences of a table with the one changed row: a substitution, and conditions.

    A variable that has a value already (``fixed`` from outside, or matched before) gives a condition.
    """
    binding: dict[str, Scalar] = {}
    conditions: list[Factor] = []
    for rel in rels:
        for arg, field in zip(rel.args, parameters(rel.name), strict=True):
            if isinstance(arg, str) and arg not in fixed and not arg.startswith("@") and arg not in binding:
                binding[arg] = field
            elif binding.get(arg, arg) != field:
                conditions.append(Cond("=", binding.get(arg, arg), field))
    return binding, conditions


def delta(query: Query, table: str, fixed: frozenset[str]) -> list[tuple[Term, dict[str, Scalar]]]:
    """How a query changes when one row of a table does: terms, each with what it substituted.

    ``d(lin * lift) = d(lin) * new(lift) + lin * (new(lift) - old(lift))``
    """
    result = []
    for term in query:
        changing = [f for f in term.factors if isinstance(f, Rel) and f.name == table]
        lifts = {f: new for f in term.factors if isinstance(f, Lift) and (new := lifted(f, table)) != f}
        after = tuple(lifts.get(f, f) for f in term.factors)
        # d(R * R) = dR * R + R * dR + dR * dR: every non-empty choice of the occurrences that change
        for size in range(1, len(changing) + 1):
            for chosen in combinations(changing, size):
                binding, conditions = bound_to_event(chosen, set(fixed))
                rest = tuple(f for f in after if not any(f is c for c in chosen))
                sign = (Value("@sign"),) * size
                changed = Term((*rest, *conditions, *sign), term.coefficient)
                result.append((substituted(changed, binding), binding))
        if lifts:
            result.append((replace(term, factors=after), {}))
            result.append((replace(term, coefficient=-term.coefficient), {}))
    return result


def lifted(lift: Lift, table: str) -> Lift:
    """A nested query after the event: ``Q + dQ`` in place of ``Q``."""
    change = tuple(term for term, _ in delta(lift.query, table, frozenset(lift.outer)))
    return replace(lift, query=lift.query + change)


# %% [markdown]
# For a `Lift` there is no clever rule: the new value minus the old one, `f(a + da) - f(a)`. Right, but it
# reads all of `a`. Section 6 shows what that costs and what can be saved.
#
# ## 5. Materialize what the delta reads, and repeat
#
# The delta on `orders` for our example is `@sign * <@2> * lines(@0, price) * <price>`: it still reads a
# table. First-order maintenance stops here and evaluates this on every change. The higher-order idea is one
# step further: `lines(x, price) * <price>`, summed for each `x`, is *itself a query*. Keep its result as a
# map `M[x]`, and the update of the view is one lookup: `view[@1] += @sign * @2 * M[@0]`.
#
# Who keeps `M` fresh? The same procedure: take its delta, materialize what that reads, and so on. It ends,
# because every delta has one table fewer, until there is nothing left to read.
#
# What exactly becomes a map? Of each term, every group of tables that are connected by shared variables,
# together with the values and conditions that concern only them. Its keys are whatever is visible from
# outside. Groups *not* connected go to separate maps: storing their cross product would be madness.


@dataclass(frozen=True)
class Statement:
    """``target[keys] += query``"""

    target: str
    keys: tuple[Scalar, ...]
    query: Query


class Compiler:
    """From one query to maps and triggers."""

    def __init__(self, name: str, keys: tuple[str, ...], query: Query) -> None:
        self.maps: dict[str, tuple[tuple[str, ...], Query]] = {name: (keys, query)}
        self.triggers: dict[str, list[Statement]] = {table: [] for table in COLUMNS}
        self.known: dict[Query, str] = {}
        pending = [name]
        while pending:
            target = pending.pop(0)
            before = set(self.maps)
            for table in COLUMNS:
                self.triggers[table] += self.maintain(target, table)
            pending += [new for new in self.maps if new not in before]

    def maintain(self, target: str, table: str) -> list[Statement]:
        """The statements that keep one map true when a row of one table changes."""
        keys, query = self.maps[target]
        statements = []
        for term, binding in delta(query, table, frozenset()):
            own = tuple(binding.get(key, key) for key in keys)
            needed = {key for key in own if not key.startswith("@")}
            statements.append(Statement(target, own, (self.materialized(term, needed),)))
        return statements

    def materialized(self, term: Term, needed: set[str]) -> Term:
        """Replace every connected group of tables by a map, at every depth."""
        factors: list[Factor] = [
            replace(f, query=tuple(self.materialized(t, set(f.outer)) for t in f.query))
            if isinstance(f, Lift)
            else f
            for f in term.factors
        ]
        for group in connected([f for f in factors if isinstance(f, Rel) and f.name in COLUMNS]):
            inside = set().union(*map(variables, group))
            local = [f for f in factors if isinstance(f, Value | Cond) and set() != names(f) <= inside]
            rest = [f for f in factors if f not in group and f not in local]
            visible = needed.union(*map(variables, rest)) & inside
            factors = [*rest, self.reference(group, local, visible)]
        return Term(tuple(factors), term.coefficient)

    def reference(self, group: list[Rel], local: list[Factor], visible: set[str]) -> Rel:
        """The map that holds a group, named by its definition, so that equal definitions are one map.

        Where a table is read at a field of the event or a constant, the map has a key and is read there.
        """
        fresh = (f"x{i}" for i in count())
        known: dict[Scalar, str] = {}
        access: dict[str, Scalar] = {}
        body: list[Factor] = []
        for rel in group:
            args = []
            for arg in rel.args:
                own = known.get(arg) or known.setdefault(arg, next(fresh))
                args.append(own)
                if arg in visible or arg not in variables(rel):
                    access[own] = arg
            body.append(Rel(rel.name, tuple(args)))
        definition = (Term((*body, *(substituted(f, known) for f in local))),)
        name = self.known.get((tuple(access), definition))
        if name is None:
            name = self.known[tuple(access), definition] = f"M{len(self.maps)}"
            self.maps[name] = (tuple(access), definition)
        return Rel(name, tuple(access.values()))


def connected(rels: list[Rel]) -> list[list[Rel]]:
    """Groups of tables that share variables, directly or through others."""
    groups: list[list[Rel]] = []
    for rel in rels:
        touching = [g for g in groups if any(variables(rel) & variables(other) for other in g)]
        groups = [g for g in groups if g not in touching] + [[r for g in touching for r in g] + [rel]]
    return groups


# %% [markdown]
# Running a program: all statements read the state as it was before the event, then all of them write.


class Engine:
    """Maps that stay fresh."""

    def __init__(self, compiler: Compiler) -> None:
        self.triggers = compiler.triggers
        self.maps: dict[str, Table] = {name: {} for name in compiler.maps}

    def change(self, table: str, row: Row, sign: int) -> None:
        """Insert (+1) or delete (-1) a row."""
        event = dict(zip(parameters(table), row, strict=True)) | {"@sign": sign}
        changes = [(s.target, sums(s.query, s.keys, event, self.maps)) for s in self.triggers[table]]
        for target, change in changes:
            for key, number in change.items():
                add(self.maps[target], key, number)


# %% [markdown]
# And a way to read programs, for us.


def shown(thing: object) -> str:
    """Queries and statements as text."""
    match thing:
        case Rel(name, args):
            left, right = "()" if name in COLUMNS else "[]"
            return f"{name}{left}{', '.join(map(shown, args))}{right}"
        case Cond(op, left, right):
            return f"{{{shown(left)} {op} {shown(right)}}}"
        case Value(scalar):
            return shown(scalar)
        case Lift(var, _, query):
            return f"({var} := sum({shown(query)}))"
        case Term(factors, coefficient):
            parts = ([] if coefficient == 1 else [str(coefficient)]) + [shown(f) for f in factors]
            return " * ".join(parts) or "1"
        case Statement(target, keys, query):
            return f"{shown(Rel(target, keys))} += {shown(query)}"
        case (Term(), *_):
            return " + ".join(map(shown, thing))
        case (op, left, right):
            return f"({shown(left)} {op} {shown(right)})"
        case _:
            return str(thing)


def show_program(compiler: Compiler) -> None:
    """Print maps and triggers."""
    for name, (keys, query) in compiler.maps.items():
        print(f"  {shown(Rel(name, keys))} := {shown(query)}")
    for table, statements in compiler.triggers.items():
        if statements:
            print(f"  on {table}({', '.join(f'@{i} {c}' for i, c in enumerate(COLUMNS[table]))}):")
            for statement in statements:
                print(f"    {shown(statement)}")


# %% [markdown]
# ## 6. Does it work?
#
# The judge is SQLite: the same changes, and after each of them the same query from scratch. The stream
# inserts and deletes at random, with duplicates, and with lines that arrive before their order does.


def check(
    sql: str, name: str, keys: tuple[str, ...], query: Query, tables: dict[str, list], events: int
) -> None:
    """Compile, run a random stream, compare after every event; print the program and what it cost."""
    compiler = Compiler(name, keys, query)
    engine, judge = Engine(compiler), sqlite3.connect(":memory:")
    base: dict[str, Table] = {table: {} for table in tables}
    for table in tables:
        judge.execute(f"CREATE TABLE {table} ({', '.join(COLUMNS[table])})")
    draw = random.Random(7)
    incremental = again = 0
    for _ in range(events):
        table = draw.choice(list(tables))
        if base[table] and draw.random() < 0.3:
            row, sign = draw.choice(list(base[table])), -1
            where = " AND ".join(f"{column} = ?" for column in COLUMNS[table])
            judge.execute(f"DELETE FROM {table} WHERE rowid = (SELECT rowid FROM {table} WHERE {where})", row)
        else:
            row, sign = tuple(draw.choice(values) for values in tables[table]), 1
            judge.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        add(base[table], row, sign)

        start = next(VISITED)
        engine.change(table, row, sign)
        middle = next(VISITED)
        recomputed = sums(query, keys, {}, base)
        incremental, again = incremental + middle - start - 1, again + next(VISITED) - middle - 1

        assert engine.maps[name] == recomputed
        expected = {row[:-1]: row[-1] for row in judge.execute(sql) if row[-1]}
        assert engine.maps[name] == expected, (engine.maps[name], expected)
    print(f"\n{sql}\n")
    show_program(compiler)
    print(
        f"\n  {events} events agree with SQLite; entries visited per event: {incremental / events:.1f}, ",
        end="",
    )
    print(f"recomputing: {again / events:.1f}")


COLUMNS = {
    "orders": ("id", "cust", "rate"),
    "lines": ("id", "price"),
    "bids": ("price", "volume"),
    "edges": ("a", "b"),
}

if __name__ == "__main__":
    check(
        "SELECT cust, SUM(rate * price) FROM orders JOIN lines USING (id) GROUP BY cust",
        "revenue",
        ("cust",),
        REVENUE,
        {"orders": [range(40), ["Ann", "Bob", "Cid"], range(1, 4)], "lines": [range(40), range(1, 100)]},
        events=250,
    )

# %% [markdown]
# The program it prints has three maps. No statement reads a table: each looks up an entry and adds to
# another. One asks for all customers of an order, `M2[@0, cust]`; our scan visits the whole map there, an
# index on the first key would visit one entry, and then no cost per event would depend on how much data
# there is.
#
# A self-join makes the `da * db` term matter: the number of paths of length two in a graph. A new edge may
# continue old edges, precede old edges, or, if it is a loop, continue itself.

PATHS: Query = (Term((Rel("edges", ("x", "y")), Rel("edges", ("y", "z")))),)

if __name__ == "__main__":
    check(
        "SELECT COUNT(*) FROM edges e JOIN edges f ON e.b = f.a",
        "paths",
        (),
        PATHS,
        {"edges": [range(8), range(8)]},
        events=150,
    )

# %% [markdown]
# Now a nested aggregate, the query that finance people call VWAP: price times volume, summed over the bids
# for which less than a quarter of the total volume is bid at higher prices. The inner sum depends on the
# outer row by an *inequality*: no join on equality can undo that nesting.

VWAP: Query = (
    Term(
        (
            Rel("bids", ("price", "volume")),
            Lift("all", (), (Term((Rel("bids", ("p1", "v1")), Value("v1"))),)),
            Lift(
                "above",
                ("price",),
                (Term((Rel("bids", ("p2", "v2")), Cond(">", "p2", "price"), Value("v2"))),),
            ),
            Cond(">", ("*", 0.25, "all"), "above"),
            Value("price"),
            Value("volume"),
        )
    ),
)

if __name__ == "__main__":
    check(
        "SELECT SUM(b.price * b.volume) FROM bids b WHERE 0.25 * (SELECT SUM(b1.volume) FROM bids b1)"
        " > (SELECT COALESCE(SUM(b2.volume), 0) FROM bids b2 WHERE b2.price > b.price)",
        "vwap",
        (),
        VWAP,
        {"bids": [range(1, 13), range(1, 50)]},
        events=100,
    )

# %% [markdown]
# It works, and it shows the limit of the plain method. A new bid may move the boundary for every other bid,
# so the trigger loops over a map of prices, and for each price over the map again. That is quadratic in the
# number of *distinct prices*; recomputing is quadratic in the number of *bids*. Better, not good.
#
# ## 7. What a real engine adds
#
# Everything above is the core of Viewlet, and the folder names follow it: `calculus/` is sections 2 to 4,
# `triggers/` is section 5, `backends/reference/` is the engine. What the real engine adds to this:
#
# - The rest of SQL: NULL and three-valued logic, MIN and MAX under deletions, outer joins, EXISTS, DISTINCT,
#   exact decimals (`sql/`, `plan/`). In SQL a sum over no rows is NULL; here it is 0, which is why the
#   queries for SQLite above say COALESCE.
# - *Domains*: where a nested query is correlated by equality, its delta is restricted to the groups that
#   the event touches, and `f(a + da) - f(a)` becomes cheap (`calculus/domain.py`).
# - Batches: a delta with respect to many rows at once (`calculus/events.py`).
# - Indexes for lookups by a part of the key, and ordered trees with subtree sums, with which the inner loops
#   of VWAP become one descent of a tree (`indexes/`).
# - Native code: the statements above, as C (`loops/`, `backends/native/`).
#
# The same idea keeps the results of matrix programs fresh (`linalg/`: the delta is a product of thin
# matrices), and those of signal queries (`signals/`: what the delta reads is the tail of a window).
