"""The passages of the documents that come from the code.

A page marks them: what stands between ``<!-- generated: NAME -->`` and ``<!-- end -->`` is what the function
NAME in ``PASSAGES`` returns. ``python docs/generated.py`` rewrites the pages; a test says when they are out
of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import viewlet
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.calculus.delta import delta
from viewlet.calculus.events import TupleEvent
from viewlet.calculus.simplify import simplify_term
from viewlet.calculus.text import show_query
from viewlet.core.names import Names
from viewlet.core.text import show as show_scalar
from viewlet.plan.scope import tables_of
from viewlet.plan.text import show as show_plan
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse
from viewlet.triggers.program import Program, Statement
from viewlet.triggers.text import show_map, show_statement
from viewlet.triggers.work import MATCHING, AllBut, order_of, scans
from viewlet.workloads import queries, schema

DOCS = Path(__file__).parent
MARK = re.compile(r"(<!-- generated: ([\w -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
WIDTH = 110


def fenced(language: str, text: str) -> str:
    """A code block."""
    return f"```{language}\n{text.rstrip()}\n```"


def wrapped(text: str) -> str:
    """Long products broken before a factor, the rest of them indented below."""
    return "\n".join(part for line in text.splitlines() for part in _broken(line))


def _broken(line: str) -> Iterator[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    first, *factors = _factors(line)
    for factor in factors:
        if len(first) + len(" * ") + len(factor) > WIDTH:
            yield first
            first = f"{indent}* {factor}"
        else:
            first += f" * {factor}"
    yield first


def _factors(line: str) -> list[str]:
    """A product cut at its own ``*``, not at those inside brackets."""
    cuts, depth = [0], 0
    for i, letter in enumerate(line):
        # "<" and ">" are brackets where they touch what they enclose, and comparisons where they do not
        depth += letter in "([{" or (letter == "<" and line[i + 1] != " ")
        depth -= letter in ")]}" or (letter == ">" and line[i - 1] != " ")
        if depth == 0 and line.startswith(" * ", i):
            cuts.append(i)
    return [line[a:b].removeprefix(" * ") for a, b in zip(cuts, [*cuts[1:], None], strict=True)]


# TPC-H Q3 on its way through the stages.

Q3 = queries("tpch")["q03"].strip().rstrip(";")


@cache
def tpch() -> Catalog:
    """The tables of TPC-H."""
    return Catalog(s.table for s in parse(schema("tpch")) if isinstance(s, CreateTable))


@cache
def q3() -> viewlet.CompiledProgram:
    """The program of Q3."""
    return viewlet.compile(Q3, schema("tpch"))


def q3_plan() -> str:
    """The relational algebra."""
    return fenced("text", wrapped(show_plan(compile_query(Q3, tpch()).plan)))


def q3_calculus() -> str:
    """The sum behind ``revenue``, as calculus."""
    return fenced("text", wrapped(show_map(q3().maps["result_2"])))


def q3_delta(table: str) -> str:
    """How the revenue changes with one row of a table, before anything is materialized."""
    target, names, lines = q3().maps["result_2"], Names(), []
    for term in delta(target.definition, TupleEvent(tpch()[table]), names):
        done = simplify_term(term, frozenset(), names, keys=target.keys)
        if done is not None:
            keys = ", ".join(show_scalar(done.bindings.get(key.name, key)) for key in target.keys)
            lines.append(f"d result_2[{keys}] = {show_query((done.term,))}")
    return fenced("text", wrapped("\n".join(lines)))


def q3_maps() -> str:
    """Every map of the program, by what it is over."""
    return fenced("text", wrapped("\n".join(show_map(definition) for definition in q3().maps.values())))


def q3_triggers() -> str:
    """What one row of each table does."""
    blocks = (
        "\n".join([f"on {table}:", *(f"  {show_statement(s)}" for s in trigger.statements)])
        for table, trigger in q3().triggers.items()
    )
    return fenced("text", wrapped("\n\n".join(blocks)))


def q3_loops() -> str:
    """The same, lowered to lookups and loops."""
    text = q3().source("loops")
    return fenced("text", wrapped(text[text.index("on customer:") : text.index("view result:")]))


# What is incremental: one row per construct, one per packaged query.

SCHEMA = "CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (a BIGINT, c BIGINT);"
CONSTRUCTS = {
    "SUM, COUNT, AVG, VARIANCE": "SELECT a, SUM(b), COUNT(*), AVG(b), VARIANCE(b) FROM r GROUP BY a",
    "MIN, MAX": "SELECT a, MIN(b), MAX(b) FROM r GROUP BY a",
    "MEDIAN, PERCENTILE": "SELECT a, MEDIAN(b), PERCENTILE(b, 0.9) FROM r GROUP BY a",
    "MODE": "SELECT a, MODE(b) FROM r GROUP BY a",
    "COUNT(DISTINCT)": "SELECT a, COUNT(DISTINCT b) FROM r GROUP BY a",
    "COUNT(DISTINCT) of a computed value": "SELECT COUNT(DISTINCT b) FILTER (WHERE a > 0) FROM r",
    "DISTINCT": "SELECT DISTINCT a FROM r",
    "HAVING against a constant": "SELECT a, SUM(b) FROM r GROUP BY a HAVING SUM(b) > 10",
    "ORDER BY, LIMIT": "SELECT a, SUM(b) AS n FROM r GROUP BY a ORDER BY n DESC LIMIT 3",
    "join, not aggregated": "SELECT r.a, b, c FROM r JOIN s ON r.a = s.a",
    "join, aggregated": "SELECT r.a, SUM(b * c) FROM r JOIN s ON r.a = s.a GROUP BY r.a",
    "join by a computed key": "SELECT r.a, c FROM r JOIN s ON r.b % 10 = s.a",
    "join by inequality": "SELECT COUNT(*) FROM r JOIN s ON r.b < s.c",
    "join by a distance": "SELECT COUNT(*) FROM r JOIN s ON ABS(r.b - s.c) <= 5",
    "LEFT JOIN": "SELECT r.a, b, c FROM r LEFT JOIN s ON r.a = s.a",
    "FULL JOIN": "SELECT r.a, b, c FROM r FULL JOIN s ON r.a = s.a",
    "EXISTS, IN": "SELECT SUM(b) FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
    "NOT EXISTS": "SELECT SUM(b) FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
    "UNION ALL": "SELECT a FROM r UNION ALL SELECT a FROM s",
    "UNION": "SELECT a FROM r UNION SELECT a FROM s",
    "INTERSECT": "SELECT a FROM r INTERSECT SELECT a FROM s",
    "EXCEPT": "SELECT a FROM r EXCEPT SELECT a FROM s",
    "aggregate correlated by =": "SELECT SUM(b) FROM r WHERE b < (SELECT SUM(c) FROM s WHERE s.a = r.a)",
    "aggregate correlated by <": "SELECT SUM(b) FROM r WHERE 9 < (SELECT SUM(c) FROM s WHERE s.a < r.a)",
    "against a total": "SELECT SUM(b) FROM r WHERE b < (SELECT AVG(c) FROM s)",
    "rows against a total": "SELECT a, b FROM r WHERE b > (SELECT AVG(b) FROM r)",
    "EXISTS correlated by <": "SELECT SUM(b) FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a < r.a)",
    "MAX correlated by <": "SELECT SUM(b) FROM r WHERE b < (SELECT MAX(c) FROM s WHERE s.a < r.a)",
    "against the greatest sum": "SELECT s.c, t FROM s JOIN (SELECT a, SUM(b) AS t FROM r GROUP BY a) x "
    "ON x.a = s.a WHERE t = (SELECT MAX(u) FROM (SELECT SUM(b) AS u FROM r GROUP BY a))",
    "HAVING against a total": "SELECT a, SUM(b) FROM r GROUP BY a HAVING SUM(b) > (SELECT AVG(b) FROM r)",
    "aggregate OVER a partition": "SELECT a, b, SUM(b) OVER (PARTITION BY a) AS s FROM r",
    "running total, RANK": "SELECT a, b, RANK() OVER (PARTITION BY a ORDER BY b DESC) AS place FROM r",
    "the greatest rows of each group": "SELECT a, b FROM r "
    "WHERE NOT EXISTS (SELECT 1 FROM r AS y WHERE y.a = r.a AND y.b > r.b)",
    "the first rows of each group": "SELECT a, b FROM r "
    "QUALIFY RANK() OVER (PARTITION BY a ORDER BY b DESC) <= 3",
}


def kept(query: str, tables: str) -> Program:
    """The program that the reference engine runs for a query: it has every access path there is."""
    catalog = Catalog(s.table for s in parse(tables) if isinstance(s, CreateTable))
    compiled = compile_query(query, catalog)
    engine = ReferenceEngine()
    engine.create("result", compiled, catalog, {table: {} for table in tables_of(compiled.plan)}, "auto")
    return engine.program


COMPILED = AllBut(frozenset())
"""Ordered access paths along every map, as compiled programs have them."""


def work(program: Program, table: str) -> str:
    """What one changed row of a table costs, in a word or two: the worst of its statements."""
    trigger = program.triggers.get(table)
    if trigger is None:
        return "nothing"
    if any(scans(statement.query) for statement in trigger.recomputations):
        whole = [loop for s in trigger.recomputations for loop in _loops(s) if not loop.startswith("log ")]
        return "per group" if all(loop.startswith("groups of ") for loop in whole) else "**recomputed**"
    loops = [loop for statement in trigger.statements for loop in _loops(statement)]
    partly = [loop for loop in loops if loop.endswith(MATCHING)]
    if any(not loop.startswith("log ") and loop not in partly for loop in loops):
        return "scan"
    deep = any(" x log " in order_of(s.query, COMPILED) for s in trigger.statements)
    return "matches" if partly else "O(log² n)" if deep else "O(log n)" if loops else "O(1)"


def _loops(statement: Statement) -> list[str]:
    order = order_of(statement.query, COMPILED)
    return [] if order == "O(1)" else re.split(r" x | \+ ", order[2:-1])


def constructs() -> str:
    """A table of constructs, with the cost of a change of either table."""
    lines = ["| construct | example | a row of r | a row of s |", "|---|---|---|---|"]
    for name, query in CONSTRUCTS.items():
        program = kept(query, SCHEMA)
        costs = (work(program, table) if table in program.tables else "" for table in ("r", "s"))
        lines.append(f"| {name} | `{query}` | {' | '.join(costs)} |")
    return "\n".join(lines)


def suite(name: str) -> str:
    """A table of the queries of a suite, with the cost of a change of each of their tables."""
    lines = ["| query | maps | cost of one changed row, by table |", "|---|---|---|"]
    for query, text in queries(name).items():
        program = kept(text, schema(name))
        costs = "; ".join(f"{cost}: {', '.join(tables)}" for cost, tables in _by_cost(program))
        lines.append(f"| {query} | {len(program.maps)} | {costs} |")
    return "\n".join(lines)


def _by_cost(program: Program) -> Iterator[tuple[str, list[str]]]:
    for cost in ("O(1)", "O(log n)", "O(log² n)", "matches", "per group", "scan", "**recomputed**"):
        tables = [table for table in program.triggers if work(program, table) == cost]
        if tables:
            yield cost, tables


def peers() -> str:
    """The figures of the last run of ``benchmarks/peers.py``, with the command that made them."""
    path = DOCS.parent / "benchmarks" / "results" / "peers" / "figures.json"
    run = json.loads(path.read_text(encoding="utf-8"))
    own = [row for row in run["figures"] if row["engine"].startswith("Viewlet")]
    ours = {row["query"]: row["ms per batch"] for row in own}
    lines = [f"`{run['command']}`, {run['date']}, {run['machine']}:", ""]
    lines += ["| query | engine | ms per batch | times Viewlet's |", "|---|---|---|---|"]
    for row in run["figures"]:
        ratio = row["ms per batch"] / ours[row["query"]]
        lines.append(f"| {row['query']} | {row['engine']} | {row['ms per batch']:.2f} | {ratio:.1f} |")
    return "\n".join(lines)


def measured(suite: str, heading: str) -> str:
    """The part of a benchmark's report under a heading, with the command that made it.

    Pictures stay behind: they lie beside the report.
    """
    report = DOCS.parent / "benchmarks" / "results" / suite / "README.md"
    if not report.exists():
        return f"Not measured yet: `viewlet bench {suite}`."
    text = report.read_text(encoding="utf-8")
    command = next(line for line in text.splitlines() if line.startswith("`python "))
    (part,) = re.findall(
        rf"^## {re.escape(heading)}[^\n]*\n+(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    words = re.sub(r"^!\[.*\n?", "", part, flags=re.MULTILINE)
    return f"{command}\n\n{words.strip()}"


PASSAGES: dict[str, Callable[[], str]] = {
    "q3 sql": lambda: fenced("sql", Q3),
    "q3 plan": q3_plan,
    "q3 calculus": q3_calculus,
    "q3 delta orders": partial(q3_delta, "orders"),
    "q3 delta lineitem": partial(q3_delta, "lineitem"),
    "q3 maps": q3_maps,
    "q3 triggers": q3_triggers,
    "q3 loops": q3_loops,
    "constructs": constructs,
    "finance": partial(suite, "finance"),
    "nested": partial(suite, "nested"),
    "tpch": partial(suite, "tpch"),
    "nexmark": partial(suite, "nexmark"),
    "peers": peers,
    "finance at the end": partial(measured, "finance", "At the end of the stream"),
    "finance whole": partial(measured, "finance", "The whole stream"),
    "tpch at the end": partial(measured, "tpch", "At the end of the stream"),
    "tpch whole": partial(measured, "tpch", "The whole stream"),
}


def regenerated(page: str) -> str:
    """The text of a page with every generated passage as it should be today."""
    return MARK.sub(lambda found: f"{found[1]}\n{PASSAGES[found[2]]()}\n\n{found[3]}", page)


def pages() -> list[Path]:
    """The pages that have generated passages."""
    return [page for page in sorted(DOCS.rglob("*.md")) if MARK.search(page.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for path in pages():
        path.write_text(regenerated(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {path}")
