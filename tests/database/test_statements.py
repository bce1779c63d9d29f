"""Statements that change data, at random, against DuckDB running the same texts.

DuckDB's tables have no keys: whether a statement may leave what it leaves is asked of the result, so that an
order in which rows happen to change decides nothing.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.errors import CatalogError, DataError, SqlError, ViewletError

TABLES = {
    "t": "k INT {key}, a BIGINT, d DECIMAL(6, 2), s VARCHAR NOT NULL",
    "u": "k INT, a BIGINT, s VARCHAR",
}
COLUMNS = {"t": ["k", "a", "d", "s"], "u": ["k", "a", "s"]}
VIEWS = {
    "by_s": "SELECT s, sum(a) AS total, count(*) AS n, max(d) AS most FROM t GROUP BY s",
    "pairs": "SELECT t.k, u.s FROM t JOIN u ON t.k = u.k",
    "wide": "SELECT max(n) AS n FROM by_s",
}


class Writer:
    """Writes statements that mean the same to both."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def integer(self, alias: str, depth: int = 2) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.3:
            return self.random.choice([f"{alias}.k", f"{alias}.a", "0", "1", "2", "(-1)", "NULL", "5"])
        if pick < 0.7:
            op = self.random.choice("+-*")
            return f"({self.integer(alias, depth - 1)} {op} {self.integer(alias, depth - 1)})"
        if pick < 0.85:
            branches = (self.integer(alias, depth - 1), self.integer(alias, depth - 1))
            return f"CASE WHEN {self.condition(alias, depth - 1)} THEN {branches[0]} ELSE {branches[1]} END"
        table, inner = self.random.choice(["t", "u"]), f"{alias}{depth}"
        return f"(SELECT max({inner}.a) FROM {table} AS {inner} WHERE {inner}.k <= {alias}.k)"

    def condition(self, alias: str, depth: int = 2) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.5:
            op = self.random.choice(["=", "<>", "<", ">="])
            return f"{self.integer(alias, 0)} {op} {self.integer(alias, 1)}"
        if pick < 0.6:
            return f"{alias}.s {self.random.choice(['=', '<>'])} '{self.random.choice('xyz')}'"
        if pick < 0.7:
            return f"{alias}.a IS {self.random.choice(['', 'NOT '])}NULL"
        table, inner = self.random.choice(["t", "u"]), f"{alias}{depth}"
        if pick < 0.8:
            negated = self.random.choice(["", "NOT "])
            return f"{alias}.k {negated}IN (SELECT {inner}.a FROM {table} AS {inner})"
        if pick < 0.9:
            return f"EXISTS (SELECT 1 FROM {table} AS {inner} WHERE {inner}.k = {alias}.a)"
        word = self.random.choice(["AND", "OR"])
        return f"({self.condition(alias, depth - 1)} {word} {self.condition(alias, depth - 1)})"

    def text(self, alias: str) -> str:
        return self.random.choice([f"{alias}.s", "'x'", "'y'", "'z'", f"({alias}.s || 'x')", "NULL"])

    def decimal(self, alias: str) -> str:
        return self.random.choice(["1.25", "NULL", "0", "9999.99", "12345.5", f"{self.integer(alias, 0)}"])

    def value(self, column: str, alias: str) -> str:
        match column:
            case "s":
                return self.text(alias)
            case "d":
                return self.decimal(alias)
            case "k":
                return self.random.choice([f"{alias}.k + 1", f"{alias}.k", f"10 - {alias}.k", "3"])
            case _:
                return self.integer(alias)

    def update(self) -> str:
        table = self.random.choice(["t", "u"])
        alias = self.random.choice([table, "w"])
        columns = self.random.sample(COLUMNS[table], self.random.randint(1, 2))
        sets = ", ".join(f"{column} = {self.value(column, alias)}" for column in columns)
        named = table if alias == table else f"{table} AS {alias}"
        return f"UPDATE {named} SET {sets}{self.where(alias)}"

    def where(self, alias: str) -> str:
        return "" if self.random.random() < 0.2 else f" WHERE {self.condition(alias)}"

    def delete(self) -> str:
        table = self.random.choice(["t", "u"])
        return f"DELETE FROM {table} WHERE {self.condition(table)} AND {self.condition(table)}"

    def insert(self) -> str:
        table = self.random.choice(["t", "u"])
        source = self.random.choice(["t", "u"])
        columns = [c for c in COLUMNS[table] if c in "ks" or self.random.random() < 0.6]
        self.random.shuffle(columns)
        if self.random.random() < 0.4:
            cells = ", ".join({"k": str(self.random.randint(0, 30)), "s": "'x'"}.get(c, "7") for c in columns)
            return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({cells})"
        shifted = f"w.k + {self.random.randint(0, 20)}"
        values = ", ".join(shifted if c == "k" else self.value(c, "w") for c in columns)
        return (
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {source} AS w{self.where('w')}"
        )

    def merge(self) -> tuple[str, str]:
        """A MERGE, and a query for the target rows that several source rows match."""
        target, other = self.random.choice([("t", "u"), ("u", "t")])
        grouped = "SELECT k, max(a) AS a, max(s) AS s FROM {} GROUP BY k"
        source = self.random.choice([grouped, grouped, "SELECT k, a, s FROM {}"]).format(other)
        on = self.random.choice(["q.k = w.k", "q.k = w.k", "q.k = w.a", "q.k = w.k AND q.a >= w.a"])
        clauses, kinds = [], self.random.sample(["MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"], 2)
        only_deletes = True
        for kind in kinds:
            alias = "w" if kind == "NOT MATCHED" else "q"
            if self.random.random() < 0.5:
                condition = f"{alias}.a {self.random.choice(['<', '>='])} {self.random.randint(0, 9)}"
                clauses.append(f"WHEN {kind} AND {condition} THEN {self.action(kind, target)}")
                only_deletes &= kind != "MATCHED"
            clauses.append(f"WHEN {kind} THEN {self.action(kind, target)}")
            only_deletes &= kind != "MATCHED" or clauses[-1].endswith("DELETE")
        text = f"MERGE INTO {target} AS q USING ({source}) AS w ON {on} {' '.join(clauses)}"
        pairs = f"{target} AS q JOIN ({source}) AS w ON {on}"
        several = f"SELECT q.rowid FROM {pairs} GROUP BY q.rowid HAVING count(*) > 1"
        return text, "SELECT 1 WHERE false" if only_deletes else several

    def action(self, kind: str, target: str) -> str:
        if kind == "NOT MATCHED":
            k = self.random.choice(["w.k", "w.k + 100", "w.a"])
            a = self.random.choice(["w.a", "NULL", "4"])
            return f"INSERT (s, k, a) VALUES (coalesce(w.s, 'n'), {k}, {a})"
        if self.random.random() < 0.3:
            return "DELETE"
        sources = ["q.a + 1", "NULL", "q.k * 2"] + ["w.a", "w.a - q.k"] * (kind == "MATCHED")
        text = self.random.choice(["'m'", "q.s || 'y'"])
        return f"UPDATE SET a = {self.random.choice(sources)}, s = {text}"

    def statement(self) -> tuple[str, str]:
        """A statement, and a query whose rows say that it must be refused."""
        write = self.random.choice([self.update, self.update, self.delete, self.insert, self.merge])
        written = write()
        return written if isinstance(written, tuple) else (written, "SELECT 1 WHERE false")


class Twin:
    """A database and DuckDB, which run the same statements."""

    def __init__(self, db: Any) -> None:
        self.db, self.duck = db, duckdb.connect()
        for name, columns in TABLES.items():
            db.execute(f"CREATE TABLE {name} ({columns.format(key='PRIMARY KEY')})")
            self.duck.execute(f"CREATE TABLE {name} ({columns.format(key='NOT NULL')})")
        self.feeds: dict[str, list[Any]] = {name: [] for name in VIEWS}
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            db.view(name).subscribe(self.feeds[name].append, snapshot=True, weights=True)
            self.duck.execute(f"CREATE VIEW {name} AS {query}")

    def run(self, text: str, forbidden: str = "SELECT 1 WHERE false") -> bool:
        """Run a statement on both, unless some row is ``forbidden``; was it allowed?"""
        ambiguous = self.duck.execute(forbidden).fetchall()
        self.duck.execute("BEGIN")
        try:
            touched = self.duck.execute(text).fetchall()
        except duckdb.Error:
            allowed = False
        else:
            ((repeated,),) = self.duck.execute("SELECT count(*) - count(DISTINCT k) FROM t").fetchall()
            allowed = not repeated and not ambiguous
        self.duck.execute("COMMIT" if allowed else "ROLLBACK")
        version = self.db.version
        told = {name: len(feed) for name, feed in self.feeds.items()}
        if allowed:
            result = self.db.execute(text)
            assert (result, [(result.rows,)]) == (version + 1, touched), text
        else:
            with pytest.raises(DataError):
                self.db.execute(text)
            assert self.db.version == version, text
        for name, feed in self.feeds.items():
            assert len(feed) - told[name] <= allowed, f"{text}: {name} was told in several steps"
        self.compare(text)
        return allowed

    def compare(self, text: str) -> None:
        for name in (*TABLES, *VIEWS):
            relation = self.db.view(name) if name in VIEWS else self.db.table(name)
            expected = Counter(self.duck.execute(f"SELECT * FROM {name}").fetchall())
            assert Counter(relation.rows()) == expected, f"{name} after {text}"
        for name, feed in self.feeds.items():
            total: Counter[Any] = Counter()
            for change in feed:
                for *row, weight in zip(*(column.to_pylist() for column in change.columns), strict=True):
                    total[tuple(row)] += weight
            rows = Counter(self.db.view(name).rows())
            assert {row: n for row, n in total.items() if n} == rows, f"changes of {name} after {text}"


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 16))]
)
@pytest.mark.parametrize("backend", ["reference", pytest.param("native", marks=pytest.mark.native)])
def test_statements_do_what_they_do_in_duckdb(backend: str, seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    writer = Writer(random)
    file = tmp_path / "statements.viewlet"
    with viewlet.connect(file, backend=backend, durability="off") as db:
        twin = Twin(db)
        twin.run("INSERT INTO t VALUES (1, 10, 1.5, 'x'), (2, NULL, NULL, 'y'), (3, 5, 0.25, 'x')")
        twin.run("INSERT INTO u VALUES (1, 10, 'x'), (1, 10, 'x'), (NULL, 2, NULL), (3, NULL, 'z')")
        allowed = sum(twin.run(*writer.statement()) for _ in range(60))
        assert allowed >= 20, "too few statements say anything"
        rows = {name: db.table(name).rows() for name in TABLES}
        version = db.version
    with viewlet.connect(file, backend=backend) as again:
        assert again.version == version
        assert {name: again.table(name).rows() for name in TABLES} == rows
        twin.db, twin.feeds = again, {}
        twin.compare("opening the file again")


@pytest.fixture
def db() -> Any:
    made = viewlet.connect(backend="reference")
    made.execute("""
        CREATE TABLE t (k INT PRIMARY KEY, x BIGINT, y DECIMAL(6, 2), z VARCHAR NOT NULL);
        CREATE TABLE s (a INT, b DOUBLE);
        CREATE STREAM e (a INT);
        CREATE MATERIALIZED VIEW v AS SELECT z, sum(x) AS x FROM t GROUP BY z;
        CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM e;
        INSERT INTO t VALUES (1, 10, 1.5, 'a'), (2, NULL, 2, 'b'), (3, 7, NULL, 'a');
        INSERT INTO s VALUES (1, 0.5), (1, 0.5), (2, NULL)
    """)
    return made


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("UPDATE t SET k = 3 WHERE k < 3", DataError, "the key k = 3 would occur twice"),
        ("UPDATE t SET z = NULL WHERE k = 1", DataError, "column 'z': NULL in a NOT NULL column"),
        ("UPDATE t SET y = 10000", DataError, r"column 'y': .* out of range for DECIMAL\(6,2\)"),
        ("UPDATE t SET k = k + 2147483647", DataError, "out of range"),
        ("UPDATE t SET x = x / 0", DataError, "division by zero"),
        ("UPDATE t SET x = (SELECT a FROM s)", DataError, "more than one row"),
        ("UPDATE t SET w = 1", CatalogError, "'t' has no column 'w'; its columns: k INT NOT NULL"),
        ("UPDATE t SET x = w", SqlError, "no column 'w'.* line 1, column 18"),
        ("UPDATE t AS q SET x = t.x", SqlError, "no table or alias 't'"),
        ("UPDATE t SET s.x = 1", SqlError, "SET changes 't', not 's'"),
        ("UPDATE t SET x = sum(x)", SqlError, r"SUM\(x\) in SET .* subquery"),
        ("UPDATE t SET x = 1 WHERE rank() OVER (ORDER BY k) = 1", SqlError, "WHERE of UPDATE .* subquery"),
        ("UPDATE t SET x = DATE '2020-01-01'", SqlError, "column 'x': DATE cannot be cast to BIGINT"),
        ("UPDATE v SET x = 1", CatalogError, "'v' is a view"),
        ("UPDATE e SET a = 1", CatalogError, "stream 'e' keeps no rows"),
        ("DELETE FROM e", CatalogError, "stream 'e' keeps no rows"),
        ("DELETE FROM s WHERE a IN (SELECT a FROM e)", CatalogError, "stream 'e' keeps no rows"),
        ("INSERT INTO t (k, x) SELECT a + 10, 1 FROM s WHERE a = 2", DataError, "column 'z': NULL in a NOT"),
        ("INSERT INTO t (k, z) SELECT a + 10, 'q' FROM s", DataError, "k = 11 would occur twice"),
        ("INSERT INTO t (k, k) VALUES (1, 2)", CatalogError, "'k' is named twice"),
        ("INSERT INTO t (q) SELECT 1", CatalogError, "no column 'q'"),
        ("INSERT INTO s SELECT a FROM s", SqlError, "gives 1 columns for 2"),
        ("INSERT INTO s BY NAME SELECT 1 AS c", CatalogError, "no column 'c'"),
        (
            "INSERT INTO s SELECT k, y > 1 FROM t; INSERT INTO s SELECT 1, DATE '2020-01-01'",
            SqlError,
            "'b': DATE",
        ),
    ],
)
def test_refused_statements_leave_no_trace(
    db: Any, text: str, error: type[ViewletError], message: str
) -> None:
    first, _, last = text.rpartition(";")
    if first:
        db.execute(first)
    before = {name: db.table(name).rows() for name in ("t", "s")}, db.view("v").rows(), db.version
    with pytest.raises(error, match=message):
        db.execute(last)
    assert ({name: db.table(name).rows() for name in ("t", "s")}, db.view("v").rows(), db.version) == before


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "USING s ON t.k = s.a WHEN MATCHED THEN UPDATE SET x = s.a",
            DataError,
            r"2 rows .* match the row \(1, 10,",
        ),
        (
            "USING s ON t.k = s.a WHEN MATCHED AND t.x > 99 THEN DELETE",
            DataError,
            "2 rows of the source match",
        ),
        (
            "USING s ON k = a WHEN NOT MATCHED THEN INSERT (k) VALUES (k)",
            SqlError,
            "no column 'k'.* column 72",
        ),
        (
            "USING s ON k = a WHEN NOT MATCHED THEN DELETE",
            SqlError,
            "'DELETE' behind WHEN NOT MATCHED .* INSERT",
        ),
        ("USING s ON k = a WHEN MATCHED THEN DO NOTHING", SqlError, "DO NOTHING"),
        (
            "USING s ON k = a WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE",
            SqlError,
            "only the last WHEN MATCHED",
        ),
        ("USING s ON k = a WHEN NOT MATCHED BY SOURCE THEN UPDATE SET x = a", SqlError, "no column 'a'"),
        (
            "USING (SELECT 1 AS k) AS q ON t.k = q.k WHEN MATCHED THEN UPDATE SET *",
            SqlError,
            "no column 'x' of 'q'",
        ),
        (
            "USING (SELECT 5 AS a) AS q ON k = a WHEN NOT MATCHED THEN INSERT (k) VALUES (a, 2)",
            SqlError,
            "2 values",
        ),
        (
            "USING (SELECT 5 AS a) AS q ON k = a WHEN NOT MATCHED THEN INSERT (k) VALUES (a)",
            DataError,
            "NULL in a NOT",
        ),
        (
            "USING (SELECT 5 AS a) AS q ON k = a WHEN NOT MATCHED THEN INSERT (k, z) VALUES (3, 'q')",
            DataError,
            "twice",
        ),
        ("USING (SELECT 5 AS a) ON k = a WHEN MATCHED THEN DELETE", SqlError, "a subquery with an alias"),
        ("USING s USING (a) WHEN MATCHED THEN DELETE", SqlError, "MERGE needs ON"),
        ("USING e ON k = e.a WHEN MATCHED THEN DELETE", CatalogError, "stream 'e' keeps no rows"),
        ("USING s ON k = max(a) WHEN MATCHED THEN DELETE", SqlError, r"MAX\(a\) in ON of MERGE"),
    ],
)
def test_refused_merges_leave_no_trace(db: Any, text: str, error: type[ViewletError], message: str) -> None:
    before = db.table("t").rows(), db.view("v").rows(), db.version
    with pytest.raises(error, match=message):
        db.execute(f"MERGE INTO t {text}")
    assert (db.table("t").rows(), db.view("v").rows(), db.version) == before


def test_two_source_rows_may_delete_one_row(db: Any) -> None:
    assert db.execute("MERGE INTO t USING s ON t.k = s.a WHEN MATCHED THEN DELETE").rows == 2
    assert db.table("t").rows() == [(3, 7, None, "a")]


def test_a_star_of_merge_takes_the_columns_of_that_name(db: Any) -> None:
    source = "SELECT z, 0.5 AS y, k + 1 AS k, NULL AS x, 1 AS more FROM t WHERE k > 1"
    db.execute(
        f"MERGE INTO t USING ({source}) AS q ON t.k = q.k WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    half = Decimal("0.50")
    assert db.table("t").rows()[1:] == [
        (2, None, Decimal(2), "b"),
        (3, None, half, "b"),
        (4, None, half, "a"),
    ]


def test_what_there_is_can_be_listed(db: Any) -> None:
    names = [{"namespace": "", "tableName": name, "isTemporary": False} for name in ("e", "n", "s", "t", "v")]
    assert db.execute("SHOW TABLES").to_pylist() == names
    assert db.execute("SHOW TABLES LIKE 'T|n*'").column("tableName").to_pylist() == ["n", "t"]
    assert db.execute("show views").column("viewName").to_pylist() == ["n", "v"]
    assert db.execute("SHOW VIEWS '.'").num_rows == 0
    assert db.execute("DESCRIBE TABLE t").to_pydict() == {
        "col_name": ["k", "x", "y", "z"],
        "data_type": ["INT", "BIGINT", "DECIMAL(6,2)", "VARCHAR"],
        "comment": ["NOT NULL, PRIMARY KEY", None, None, "NOT NULL"],
    }
    assert db.execute("DESC n").to_pydict() == {
        "col_name": ["n"],
        "data_type": ["BIGINT"],
        "comment": ["NOT NULL"],
    }
    for text, message in [
        ("SHOW COLUMNS IN t", "SHOW COLUMNS .* SHOW TABLES and SHOW VIEWS"),
        ("SHOW", "SHOW alone"),
        ("SHOW TABLES LIKE", "a pattern in quotes"),
        ("SHOW TABLES IN main", "a pattern in quotes must follow, found 'IN' at line 1, column 13"),
        ("DESCRIBE EXTENDED t", "nothing may follow, found 'T'"),
    ]:
        with pytest.raises(SqlError, match=message):
            db.execute(text)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_what_there_is_can_be_listed_in_other_dialects(dialect: str) -> None:
    with viewlet.connect(backend="reference", dialect=dialect) as db:
        db.execute("CREATE TABLE t (a INT)")
        assert db.execute("SHOW TABLES").column("tableName").to_pylist() == ["t"]
        assert db.execute("SHOW TABLES LIKE 'u'").num_rows == 0
        assert db.execute("DESCRIBE t").column("col_name").to_pylist() == ["a"]
        assert "recomputed" not in db.execute("EXPLAIN SELECT count(*) AS n FROM t")


def test_truncated_tables_are_empty(db: Any) -> None:
    assert db.execute("TRUNCATE TABLE t").rows == 3
    assert (db.table("t").rows(), db.view("v").rows()) == ([], [])
    with pytest.raises(CatalogError, match="'v' is a view"):
        db.execute("TRUNCATE TABLE v")
    with pytest.raises(CatalogError, match="keeps no rows"):
        db.execute("TRUNCATE TABLE e")
    with pytest.raises(SqlError, match="TRUNCATE of several tables"):
        db.execute("TRUNCATE TABLE t, s")


def test_columns_of_an_insert_go_by_place_or_by_name(db: Any) -> None:
    db.execute("INSERT INTO s (b, a) SELECT 2.5, 9")
    db.execute("INSERT INTO s BY NAME SELECT x AS b, 8 AS a FROM v WHERE z = 'a'")
    db.execute("WITH c AS (SELECT 7 AS a) INSERT INTO s (a) SELECT a FROM c")
    db.execute("INSERT INTO s TABLE s")
    assert Counter(db.table("s").rows()) == {
        row: 2 * n
        for row, n in [((1, 0.5), 2), ((2, None), 1), ((9, 2.5), 1), ((8, 17.0), 1), ((7, None), 1)]
    }
    db.execute("INSERT INTO e SELECT a FROM s")
    assert db.view("n").value == 12


def test_rows_of_a_query_come_in_its_order_where_rows_replace_one_another() -> None:
    with viewlet.connect(backend="reference") as db:
        db.execute(
            "CREATE TABLE last (k INT PRIMARY KEY, v INT) ON CONFLICT REPLACE; CREATE TABLE log (v INT)"
        )
        db.execute("INSERT INTO log VALUES (3), (1), (2)")
        assert db.execute("INSERT INTO last SELECT 1 AS k, v FROM log ORDER BY v DESC").rows == 1
        assert db.table("last").rows() == [(1, 1)]
        db.execute("INSERT INTO last SELECT 1 AS k, v FROM log ORDER BY v")
        assert db.table("last").rows() == [(1, 3)]
        db.execute("INSERT INTO last VALUES (2, 5)")
        with pytest.raises(DataError, match="k = 1 would occur twice"):  # which of the two would be last?
            db.execute("UPDATE last SET k = 1")


def test_keys_that_are_enforced_hold_after_an_update() -> None:
    with viewlet.connect(backend="reference") as db:
        db.execute("""
            CREATE TABLE p (k INT PRIMARY KEY, v INT);
            CREATE TABLE c (k INT REFERENCES p (k) ON DELETE RESTRICT, w INT);
            INSERT INTO p VALUES (1, 0), (2, 0), (3, 0);
            INSERT INTO c VALUES (1, 5), (NULL, 6)
        """)
        db.execute("UPDATE c SET k = 2")
        with pytest.raises(DataError, match="can neither go nor change"):
            db.execute("UPDATE p SET v = 1")
        with pytest.raises(DataError, match="is not there"):
            db.execute("UPDATE c SET k = w")
        db.execute("UPDATE p SET v = 1 WHERE k NOT IN (SELECT k FROM c)")
        assert db.table("p").rows() == [(1, 1), (2, 0), (3, 1)]
        assert db.table("c").rows() == [(2, 5), (2, 6)]


def test_a_table_of_arrow_batches_is_updated(db: Any) -> None:
    import pyarrow as pa

    rows = 3_000
    db.insert("s", pa.table({"a": range(rows), "b": [0.5] * rows}))
    assert db.execute("UPDATE s SET b = a WHERE a >= 10").rows == rows - 10
    assert db.sql("SELECT count(*) AS n, sum(b) AS b FROM s WHERE a >= 10").to_pylist() == [
        {"n": rows - 10, "b": sum(range(10, rows))}
    ]
