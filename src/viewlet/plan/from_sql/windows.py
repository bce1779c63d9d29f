"""Window functions: what a row is told about the other rows of its partition is a correlated nested query.

With D the rows that the SELECT would have without its window functions, d one of them, e and f its peers:

    f(x) OVER (PARTITION BY p)             =  (SELECT f(e.x) FROM D e WHERE e.p <=> d.p)
    f(x) OVER (PARTITION BY p ORDER BY o)  =  (SELECT f(e.x) FROM D e WHERE e.p <=> d.p AND e.o <= d.o)
    RANK() OVER (..)                       =  (SELECT 1 + COUNT(*) FROM D e WHERE e.p <=> d.p AND e.o < d.o)
    DENSE_RANK() OVER (..)                 =  the same over the distinct p, o of D
    CUME_DIST() OVER (..)                  =  (SELECT COUNT(*) .. e.o <= d.o) / (SELECT COUNT(*) ..)
    PERCENT_RANK() OVER (..)               =  (RANK() - 1) / ((SELECT COUNT(*) ..) - 1), or 0
    QUALIFY c                              =  WHERE c, around all this

where ``<`` is the order that ORDER BY asks for (:mod:`.window_frames`). Where no two rows share p and o:

    ROW_NUMBER() OVER (..)                 =  RANK() OVER (..)
    LAG(x) OVER (..)                       =  (SELECT MAX(e.x) FROM D e WHERE e.p <=> d.p AND e.o <=>
                                                  (SELECT MAX(f.o) FROM D f WHERE f.p <=> d.p AND f.o < d.o))

    LAG(x, n) OVER (..)                    =  the same at the last e.o from which on n rows come before d
    NTILE(n) OVER (..)                     =  ROW_NUMBER() among n parts, of which the first may have one more

and so on for LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE. Such queries are what aggregate indexes are for:
one change costs a search for each row of its partition, not for each pair, unless the key of ORDER BY may be
NULL or a neighbour is asked for. What depends on the order of rows that ORDER BY leaves open is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp, parse_one

from viewlet.plan.from_sql.blocks import result_name
from viewlet.plan.from_sql.unique import unique_rows
from viewlet.plan.from_sql.window_frames import TOTAL, Column, Order, same, seen
from viewlet.sql.catalog import Catalog
from viewlet.sql.position import invalid, unsupported

MINE, PEER, NEXT, COUNTED = "__row", "__peer", "__next", "__counted"
HINT = (
    "there are aggregates, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, ROW_NUMBER, NTILE, LAG, LEAD, "
    "FIRST_VALUE, LAST_VALUE and NTH_VALUE"
)

CUME_DIST = "CASE WHEN m > 0 THEN i / m END"
PERCENT_RANK = "CASE WHEN m > 1 THEN i / (m - 1) ELSE 0e0 END"
PART = """CASE WHEN i < (m % n) * (m DIV n + 1) THEN i DIV (m DIV n + 1) + 1
               WHEN m >= n THEN (i - m % n) DIV (m DIV n) + 1 END"""
"""NULL for a row that is not among the m, as triggers meet it before it is there."""

INSIDE = ("from_", "joins", "laterals", "where", "group", "having", "sample", "pivots")
"""The clauses that make the rows over which window functions run."""

OUTSIDE = ("with_", "distinct", "limit", "offset")


def without_windows(query: exp.Query, catalog: Catalog) -> exp.Query:
    """The same query with nested queries in place of window functions; itself if it has none.

    >>> from sqlglot import parse_one
    >>> query = parse_one("SELECT a, RANK() OVER (ORDER BY a NULLS LAST) AS r FROM t")
    >>> print(without_windows(query, Catalog()).sql(pretty=True))
    SELECT
      __row.__1 AS "a",
      (
        SELECT
          1 + COUNT(*)
        FROM (
          SELECT
            a AS "__1"
          FROM t
        ) AS __peer
        WHERE
          __peer.__1 < __row.__1 OR (
            __row.__1 IS NULL AND NOT __peer.__1 IS NULL
          )
      ) AS "r"
    FROM (
      SELECT
        a AS "__1"
      FROM t
    ) AS __row
    """
    if query.find(exp.Window) is None:
        return query
    around = exp.Paren(this=query.copy())  # so that the outermost SELECT has a parent too
    shadowed = {item.alias.lower() for item in around.find_all(exp.CTE)}
    for select in reversed(list(around.find_all(exp.Select))):  # inner ones first: they are copied
        if any(window.parent_select is select for window in select.find_all(exp.Window)):
            select.replace(_Block(select, catalog, shadowed).rewritten())
    plain: exp.Query = around.this
    return plain


class _Block:
    """One SELECT with window functions on its way to one without."""

    def __init__(self, select: exp.Select, catalog: Catalog, shadowed: set[str]) -> None:
        self._select, self._catalog, self._shadowed = select, catalog, shadowed
        self._inner: dict[exp.Expr, str] = {}
        self._stars: list[exp.Expr] = []
        self._waiting: list[exp.Subquery] = []

    def rewritten(self) -> exp.Select:
        select = self._select
        items = [self._item(item) for item in select.expressions]
        outer = exp.Select(expressions=items, from_=exp.From(this=self._rows(MINE)))
        qualify = select.args.get("qualify")
        if qualify:
            outer.set("where", exp.Where(this=self._outer(self._unaliased(qualify.this))))
        order = select.args.get("order")
        if order:
            outer.set("order", exp.Order(expressions=[self._ordered(item) for item in order.expressions]))
        for clause in OUTSIDE:
            outer.set(clause, select.args.get(clause))
        self._fill()
        for star in outer.find_all(exp.Star):
            if star in items:
                star.set("except_", [exp.to_identifier(name) for name in self._inner.values()])
        return outer

    def _fill(self) -> None:
        """Say what the rows are, now that all that is read of them is known."""
        columns = [_named(node.copy(), name) for node, name in self._inner.items()]
        inner = exp.Select(expressions=[*self._stars, *columns])
        for clause in INSIDE:
            inner.set(clause, self._select.args.get(clause))
        for place in self._waiting:
            place.set("this", inner.copy())

    def _rows(self, alias: str) -> exp.Subquery:
        place = exp.Subquery(alias=exp.TableAlias(this=exp.to_identifier(alias)))
        self._waiting.append(place)
        return place

    def _column(self, node: exp.Expr, alias: str) -> exp.Column:
        """What an expression over FROM is worth for one row."""
        name = self._inner.setdefault(node, f"__{len(self._inner) + 1}")
        return exp.column(name, table=alias)

    def _mine(self, node: exp.Expr) -> exp.Column:
        return self._column(node, MINE)

    def _peer(self, node: exp.Expr) -> exp.Column:
        return self._column(node, PEER)

    def _item(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Star) and not self._stars and not node.args.get("except_"):
            self._stars.append(node.copy())
            return exp.Star()
        if node.is_star:
            raise unsupported(node, f"{node.sql()} beside window functions", "list the columns, or use one *")
        return _named(self._outer(node.unalias()), result_name(node))

    def _ordered(self, node: exp.Ordered) -> exp.Ordered:
        """ORDER BY names columns of the result first of all."""
        named = {result_name(item): item.unalias() for item in self._select.expressions}
        key = node.this
        changed = node.copy()
        is_result = isinstance(key, exp.Column) and not key.table and key.name.lower() in named
        if is_result or isinstance(key, exp.Literal):
            return changed
        shown = [name for name, item in named.items() if item == key]
        changed.set(
            "this", exp.column(exp.to_identifier(shown[0], quoted=True)) if shown else self._outer(key)
        )
        return changed

    def _unaliased(self, node: exp.Expr) -> exp.Expr:
        """A condition of QUALIFY, which may name columns of the result that no column of FROM hides."""
        aliased = {item.alias.lower(): item.this for item in self._select.expressions if item.alias}

        def meant(part: exp.Expr) -> exp.Expr:
            found = (
                aliased.get(part.name.lower()) if isinstance(part, exp.Column) and not part.table else None
            )
            return part if found is None or self._is_of_from(part) else found.copy()

        return node.copy().transform(meant)

    def _is_of_from(self, column: exp.Expr) -> bool:
        """Has FROM a column of this name? Refused where it is not known."""
        first = [self._select.args["from_"]] if self._select.args.get("from_") else []
        for source in (clause.this for clause in [*first, *(self._select.args.get("joins") or [])]):
            name = source.name.lower()
            if isinstance(source, exp.Table) and name in self._catalog and name not in self._shadowed:
                names = set(self._catalog[name].column_names)
            elif isinstance(source, exp.Subquery) and not source.alias_column_names:
                names = {found.lower() for found in source.named_selects}
            else:
                names = {"*"}
            if column.name.lower() in names:
                return True
            if "*" in names:
                raise unsupported(column, f"{column.name} in QUALIFY", "write out what it stands for")
        return False

    def _outer(self, node: exp.Expr) -> exp.Expr:
        """An expression of the SELECT list over the rows that it now stands outside of."""
        if isinstance(node, exp.Window):
            return self._nested(node)
        if isinstance(node, exp.AggFunc) and node.find(exp.Window):
            raise unsupported(node, "a window function inside of an aggregate", "use a derived table")
        if node.find(exp.Window) is None:
            reads = node.find(exp.Column, exp.AggFunc, exp.Query) is not None
            return self._mine(node) if reads else node.copy()
        return _with_children(node, self._outer)

    def _nested(self, window: exp.Window) -> exp.Expr:
        window = self._described(window)
        function = window.this
        match function:
            case exp.Rank() | exp.RowNumber() | exp.DenseRank():
                return self._rank(window)
            case exp.PercentRank() | exp.CumeDist():
                return self._share(window)
            case exp.Ntile():
                return self._part(window)
            case exp.Lag() | exp.Lead() | exp.FirstValue() | exp.LastValue() | exp.NthValue():
                return self._neighbour(window)
            case exp.AggFunc() | exp.Filter() | exp.WithinGroup():
                reached = self._seen(window)
                return _query(self._argued(function), self._rows(PEER), [*self._alike(window), *reached])
        raise unsupported(window, f"{function.sql()} OVER", HINT)

    def _seen(self, window: exp.Window, alias: str = PEER) -> list[exp.Expr]:
        """The conditions of a window's frame on a peer."""

        def number(row: Column) -> exp.Expr:
            upto = Order(self._keys(window), lambda key: self._column(key, COUNTED), row).upto()
            return self._count(window, [upto], COUNTED)

        return list(seen(window, self._order(window, alias), lambda: self._is_total(window), number))

    def _count(
        self, window: exp.Window, conditions: Sequence[exp.Expr] = (), alias: str = PEER
    ) -> exp.Subquery:
        """How many rows of the partition there are for which conditions hold."""
        here = [*self._alike(window, alias), *conditions]
        return _query(exp.Count(this=exp.Star()), self._rows(alias), here)

    def _keys(self, window: exp.Window) -> list[exp.Ordered]:
        return window.args["order"].expressions if window.args.get("order") else []

    def _order(self, window: exp.Window, alias: str = PEER) -> Order:
        return Order(self._keys(window), lambda key: self._column(key, alias), self._mine)

    def _alike(self, window: exp.Window, alias: str = PEER) -> list[exp.Expr]:
        """Is a peer of the same partition?"""
        partition = window.args.get("partition_by") or []
        return [same(self._column(key, alias), self._mine(key)) for key in partition]

    def _rank(self, window: exp.Window) -> exp.Expr:
        order = self._order(window)
        if not order.keys:
            raise unsupported(window, f"{window.this.sql()} without an order", "add ORDER BY")
        if isinstance(window.this, exp.RowNumber):
            self._require_total(window)
        is_dense = isinstance(window.this, exp.DenseRank)
        rows = self._distinct(_places(window)) if is_dense else self._rows(PEER)
        value = exp.Add(this=exp.Literal.number(1), expression=exp.Count(this=exp.Star()))
        return _query(value, rows, [*self._alike(window), order.before()])

    def _require_total(self, window: exp.Window, within: exp.Expr | None = None) -> None:
        if not self._is_total(window, within):
            raise unsupported(window, f"{window.this.sql()} over rows whose order is not decided", TOTAL)

    def _share(self, window: exp.Window) -> exp.Expr:
        """How much of the partition comes before a row, or up to it."""
        if not self._keys(window):
            raise unsupported(window, f"{window.this.sql()} without an order", "add ORDER BY")

        def reached() -> exp.Expr:
            order = self._order(window)
            is_closed = isinstance(window.this, exp.CumeDist)
            return self._count(window, [order.upto() if is_closed else order.before()])

        formula = CUME_DIST if isinstance(window.this, exp.CumeDist) else PERCENT_RANK
        return _filled(formula, {"i": reached, "m": lambda: self._count(window)})

    def _part(self, window: exp.Window) -> exp.Expr:
        """With i of m rows before it, among n parts."""
        parts = window.this.this
        if not isinstance(parts, exp.Literal) or not parts.is_int or int(parts.name) < 1:
            raise unsupported(window, f"{window.this.sql()} OVER", "write the number of parts")
        self._require_total(window)

        def before() -> exp.Expr:
            return self._count(window, [self._order(window).before()])

        return _filled(
            PART, {"i": before, "m": lambda: self._count(window), "n": lambda: exp.Literal.number(parts.name)}
        )

    def _neighbour(self, window: exp.Window) -> exp.Expr:
        """The value of a row that is found by its place: the one before or after, the first or the last."""
        function, keys = window.this, self._order(window).keys
        if not keys:
            raise unsupported(window, f"{function.sql()} without an order", "add ORDER BY")
        if len(keys) > 1:
            raise unsupported(window, f"{function.sql()} along several keys", "let ORDER BY have one key")
        self._require_total(window, keys[0].this)
        there = [*self._alike(window), exp.EQ(this=self._peer(keys[0].this), expression=self._place(window))]
        value = _query(exp.Max(this=self._peer(function.this)), self._rows(PEER), there)
        default = function.args.get("default")
        if default is None:
            return value
        nothing = exp.Is(this=self._place(window), expression=exp.Null())
        return exp.Case(ifs=[exp.If(this=nothing, true=self._outer(default))], default=value)

    def _place(self, window: exp.Window) -> exp.Subquery:
        """Where that row is: the last key before this row, or the first one after, or of the frame."""
        order, function = self._order(window, NEXT), window.this
        (key,) = order.keys
        match function:
            case exp.Lag():
                reached = [order.before()]
            case exp.Lead():
                reached = [order.after()]
            case _:
                reached = self._seen(window, NEXT)
        offset = _offset(window)
        if offset != 1:
            reached += self._far_enough(window, offset)
        is_late = isinstance(function, exp.Lag | exp.LastValue) != bool(key.args.get("desc"))
        last = (exp.Max if is_late else exp.Min)(this=order.peer(key.this))
        return _query(last, self._rows(NEXT), [*self._alike(window, NEXT), *reached])

    def _far_enough(self, window: exp.Window, offset: int) -> list[exp.Expr]:
        """Are there so many rows from the end at which a function begins to that one?"""
        function, order = window.this, self._order(window, COUNTED)
        spec = window.args.get("spec")
        if isinstance(function, exp.NthValue) and spec is not None and spec.args["start"] != "UNBOUNDED":
            raise unsupported(
                window, f"the frame {spec.sql()} of {function.sql()}", "begin it UNBOUNDED PRECEDING"
            )
        to = Order(order.keys, order.peer, lambda key: self._column(key, NEXT))
        match function:
            case exp.Lag():
                between = [to.onward(), order.before()]
            case exp.Lead():
                between = [to.upto(), order.after()]
            case _:
                between = [to.upto()]
        counted = self._count(window, between, COUNTED)
        return [exp.GTE(this=counted, expression=exp.Literal.number(offset))]

    def _described(self, window: exp.Window) -> exp.Window:
        """A window with what the WINDOW clause says of it, if it has a name there."""
        name = window.alias.lower()
        if not name:
            return window
        known = {named.name.lower(): named for named in self._select.args.get("windows") or ()}
        if name not in known:
            raise invalid(
                window, f"there is no window {name!r}; the WINDOW clause has {', '.join(known) or 'none'}"
            )
        described = window.copy()
        for part in ("partition_by", "order", "spec"):
            described.set(part, window.args.get(part) or known[name].args.get(part))
        return described

    def _argued(self, node: exp.Expr) -> exp.Expr:
        """A call of an aggregate over the rows of the peers."""
        return _with_children(node, self._argument)

    def _argument(self, node: exp.Expr) -> exp.Expr:
        around = exp.Where | exp.Distinct | exp.Order | exp.Ordered
        if isinstance(node, around) or isinstance(node.parent, exp.Filter | exp.WithinGroup):
            return self._argued(node)
        return node.copy() if isinstance(node, exp.Star | exp.Literal) else self._peer(node)

    def _distinct(self, keys: Sequence[exp.Expr]) -> exp.Subquery:
        """The combinations of keys that there are, each once."""
        columns = [_named(self._peer(key), self._peer(key).name) for key in dict.fromkeys(keys)]
        once = exp.Select(expressions=columns, distinct=exp.Distinct(), from_=exp.From(this=self._rows(PEER)))
        return exp.Subquery(this=once, alias=exp.TableAlias(this=exp.to_identifier(PEER)))

    def _is_total(self, window: exp.Window, within: exp.Expr | None = None) -> bool:
        """Do no two rows share a place, by columns that tell all rows apart, of which one is part?

        That one is compared by ``=``, so then none of them may be NULL.
        """
        unique = unique_rows(self._select, self._catalog, self._shadowed)
        if unique is None:
            return False
        source = self._select.args["from_"].this.alias_or_name
        columns = [place for place in _places(window) if isinstance(place, exp.Column)]
        named = {place.name.lower() for place in columns if place.table in ("", source)}
        is_part = within is None or (
            unique.never_null and isinstance(within, exp.Column) and within.name.lower() in unique.columns
        )
        return unique.columns <= named and is_part


def _places(window: exp.Window) -> list[exp.Expr]:
    """All that decides where in the order a row comes."""
    order = window.args["order"].expressions if window.args.get("order") else []
    return [*(window.args.get("partition_by") or []), *(key.this for key in order)]


def _offset(window: exp.Window) -> int:
    """How many rows away LAG, LEAD and NTH_VALUE look; the others find the nearest."""
    offset = window.this.args.get("offset")
    if offset is None:
        return 1
    if not isinstance(offset, exp.Literal) or not offset.is_int or int(offset.name) < 1:
        raise unsupported(window, f"{window.this.sql()} OVER", "write a number of rows above 0")
    return int(offset.name)


def _filled(formula: str, values: Mapping[str, Callable[[], exp.Expr]]) -> exp.Expr:
    """A formula with expressions for its names: a new one each time, as each has rows of its own."""

    def fill(node: exp.Expr) -> exp.Expr:
        return values[node.name]() if isinstance(node, exp.Column) else _with_children(node, fill)

    return exp.Paren(this=fill(parse_one(formula, read="spark")))


def _with_children(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    changed = node.copy()
    pairs = zip(list(changed.iter_expressions()), list(node.iter_expressions()), strict=True)
    for place, child in pairs:
        place.replace(change(child))
    return changed


def _named(node: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _query(value: exp.Expr, rows: exp.Subquery, conditions: Sequence[exp.Expr]) -> exp.Subquery:
    select = exp.Select(expressions=[value], from_=exp.From(this=rows))
    if conditions:
        select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    return exp.Subquery(this=select)
