"""show how the queries of a file would be kept fresh.

For every query and every materialized view of the file, it prints the maps that the view needs, and what
each change of a table does to them. CREATE TABLE statements declare the tables, in the file itself
or in the file given by --schema. No data is read: statements that change or list data are skipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from viewlet.cli.files import read_text
from viewlet.cli.options import add_engine_options, open_database
from viewlet.cli.outcome import DONE, FAILED
from viewlet.database import Database
from viewlet.errors import ViewletError
from viewlet.sql import parse
from viewlet.sql.script import StatementText, split
from viewlet.workloads import SUITES, schema

NAME = "explain"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What there is to say about one statement: a program, or why there is none."""

    name: str
    line: int
    sql: str
    program: str | None
    error: str | None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", metavar="FILE.sql", help="SQL text; - reads standard input")
    known = ", ".join(SUITES)
    parser.add_argument(
        "--schema", metavar="FILE", help=f"CREATE TABLE statements, or a packaged schema: {known}"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    add_engine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Explain every query of the file; a query that is refused does not stop the others."""
    text = sys.stdin.read() if options.file == "-" else read_text(options.file)
    with open_database(options) as db:
        if options.schema:
            packaged = f"and no packaged schema of that name; there are {', '.join(SUITES)}"
            suite = options.schema in SUITES
            db.execute(schema(options.schema) if suite else read_text(options.schema, packaged))
        explanations = list(explain_script(db, text, options.dialect))
    if options.json:
        document = {"file": options.file, "queries": [asdict(found) for found in explanations]}
        print(json.dumps(document, indent=2))
    else:
        print("\n\n".join(_shown(found) for found in explanations) or "no query to explain")
    return FAILED if any(found.error for found in explanations) else DONE


def explain_script(db: Database, text: str, dialect: str) -> Iterator[Explanation]:
    """The explanations of a script's queries and views, in order; its DDL runs on ``db``."""
    for number, part in enumerate(split(text, dialect), 1):
        name = f"statement {number}"
        try:
            (statement,) = parse.parse(part.placed, dialect)
            name = _name(statement) or name
            program = _program(db, statement, part)
        except ViewletError as reason:
            yield Explanation(name, part.line, part.text, None, str(reason))
            continue
        if program is not None:
            yield Explanation(name, part.line, part.text, program, None)


def _name(statement: parse.Statement) -> str | None:
    match statement:
        case parse.CreateView(name) | parse.Explain(str(name)):
            return name
        case _:
            return None


def _program(db: Database, statement: parse.Statement, part: StatementText) -> str | None:
    """How a statement's query is kept; ``None`` if it has none."""
    match statement:
        case parse.CreateTable() | parse.Drop():
            db.execute(part.placed)
            return None
        case parse.CreateView(name):
            db.execute(part.placed)
            return db.explain(name)
        case parse.Explain():
            return str(db.execute(part.placed))
        case parse.Select():
            return db.explain(part.placed)
        case _:
            return None


def _shown(found: Explanation) -> str:
    body = found.program if found.error is None else f"refused: {found.error}"
    return f"-- {found.name} (line {found.line})\n{body}"
