"""The SQL prompt: statements, dot commands, scripts, completion."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewlet
from viewlet.cli import main
from viewlet.cli.completion import candidates, history_file, with_readline
from viewlet.cli.output import TextOutput
from viewlet.cli.panel import Panel
from viewlet.cli.session import Leave, Session
from viewlet.cli.shell import converse
from viewlet.errors import CatalogError, SqlError
from viewlet.sql.script import split

SETUP = """
CREATE TABLE sales (shop VARCHAR, amount BIGINT);
CREATE MATERIALIZED VIEW totals AS SELECT shop, sum(amount) AS total FROM sales GROUP BY shop;
"""


@pytest.fixture
def shown() -> list[str]:
    return []


@pytest.fixture
def session(shown: list[str]) -> Iterator[Session]:
    with viewlet.connect() as db:
        made = Session(db, TextOutput(shown.append))
        made.run(SETUP)
        shown.clear()
        yield made


def test_statements_show_what_they_give(session: Session, shown: list[str]) -> None:
    session.run(
        "INSERT INTO sales VALUES ('a', 1), ('b', 20), (NULL, 3); SELECT * FROM totals ORDER BY total;"
    )
    assert shown == ["commit 1", "shop  total\n----  -----\na         1\nNULL      3\nb        20"]


def test_tables_and_views_are_listed_with_sizes(session: Session, shown: list[str]) -> None:
    session.run("CREATE STREAM clicks (page VARCHAR); INSERT INTO sales VALUES ('a', 1)")
    shown.clear()
    session.run(".tables")
    session.run(".views")
    tables, views = (text.splitlines()[2:] for text in shown)
    assert [line.split()[:3] for line in tables] == [["sales", "table", "1"], ["clicks", "stream", "NULL"]]
    assert [line.split()[:4] for line in views] == [["totals", "materialized", "view", "1"]]


def test_watch_shows_the_view_and_then_its_changes(session: Session, shown: list[str]) -> None:
    session.run(".watch totals")
    assert shown == ["shop  total\n----  -----"]
    session.run("INSERT INTO sales VALUES ('a', 1)")
    session.run("INSERT INTO sales VALUES ('a', 4)")
    assert shown[1:] == [
        "totals at commit 1:\n   shop  total\n-  ----  -----\n+  a         1",
        "commit 1",
        "totals at commit 2:\n   shop  total\n-  ----  -----\n-  a         1\n+  a         5",
        "commit 2",
    ]
    session.run(".unwatch totals")
    shown.clear()
    session.run("INSERT INTO sales VALUES ('a', 1)")
    assert shown == ["commit 3"]


def test_on_a_terminal_watched_views_are_drawn_again_in_place(shown: list[str]) -> None:
    with viewlet.connect() as db:
        screen: list[str] = []
        session = Session(db, TextOutput(shown.append), panel=Panel(screen.append, lambda: (30, 12)))
        session.run(SETUP)
        session.run(".watch totals")
        session.run("INSERT INTO sales VALUES ('a', 1), ('b', 2), ('c', 3), ('d', 4)")
        assert [line.split("\x1b[2K")[-1] for line in screen[-1].split("\n")] == [
            "\x1b[7mtotals: 4 rows, commit 1\x1b[0m",
            "shop  total",
            "----  -----",
            "a         1",
            "b         2",
            "(2 more rows)\x1b[7;12r\x1b8",
        ]
        drawn = len(screen)
        session.run("CREATE TABLE other (a BIGINT); INSERT INTO other VALUES (1)")
        assert len(screen) == drawn
        session.run(".unwatch totals")
        assert screen[-1] == "\x1b7\x1b[r\x1b8"
        assert shown == ["ok", "ok", "commit 1", "ok", "commit 2"]


def test_a_large_view_is_watched_by_some_of_its_rows() -> None:
    with viewlet.connect() as db:
        screen: list[str] = []
        session = Session(db, TextOutput(str), panel=Panel(screen.append, lambda: (60, 12)))
        session.run("CREATE STREAM n (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT DISTINCT a FROM n")
        session.run(".watch v")
        db.insert("n", [(i,) for i in range(5_000)])
        assert "v: 5,000 rows, commit 1" in screen[-1]
        assert "(4,998 more rows)" in screen[-1]


def test_explain_and_stats_and_help(session: Session, shown: list[str]) -> None:
    session.run(".explain totals")
    session.run(".explain SELECT max(amount) AS m FROM sales;")
    session.run(".stats")
    session.run(".help")
    assert all("sales" in text for text in shown[:3])
    assert all(command in shown[3] for command in session.commands)


@pytest.mark.parametrize("bad", [".nothing", ".explain", ".unwatch totals"])
def test_bad_commands_are_refused(session: Session, bad: str) -> None:
    with pytest.raises(SqlError):
        session.run(bad)


def test_watching_a_table_is_refused(session: Session) -> None:
    with pytest.raises(CatalogError, match="sales"):
        session.run(".watch sales")


def test_long_results_are_cut_and_counted(shown: list[str]) -> None:
    with viewlet.connect() as db:
        session = Session(db, TextOutput(shown.append, 2))
        session.run("CREATE TABLE r (a BIGINT); INSERT INTO r VALUES (1), (2), (3), (4); SELECT a FROM r;")
    assert shown[-1].splitlines()[2:] == ["1", "2", "(2 more rows)"]


def test_a_conversation_survives_errors_and_interrupts(
    session: Session, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["SELECT nope;", KeyboardInterrupt, "SELECT sum(amount) AS s", "FROM sales;", ".quit"])
    prompts, typed = [], []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        line = next(lines)
        if not isinstance(line, str):
            raise line
        return line

    assert converse(session, ask, typed.append) == 0
    assert "error: " in capsys.readouterr().err
    assert shown == ["s\n----\nNULL"]
    assert typed == ["SELECT nope;", "SELECT sum(amount) AS s\nFROM sales;", ".quit"]
    assert prompts == ["viewlet> "] * 3 + ["    ...> ", "viewlet> "]


def test_the_end_of_input_ends_a_conversation(session: Session) -> None:
    def ask(_: str) -> str:
        raise EOFError

    assert converse(session, ask, lambda statement: None) == 0


def test_scripts_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        SETUP + "INSERT INTO sales VALUES ('a;b', 2);\n.views\nSELECT total FROM totals;\n.quit\nSELECT nope;"
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["shell"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].strip() == "2"


def test_the_first_error_of_a_script_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT nope FROM nowhere;\nSELECT 1 AS one;"))
    assert main(["shell"]) == 1
    said = capsys.readouterr()
    assert "nowhere" in said.err
    assert "one" not in said.out


def test_files_and_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "setup.sql"
    file.write_text(SETUP)
    query = "INSERT INTO sales VALUES ('x', 7); SELECT total FROM totals"
    assert main(["shell", "--read", str(file), "-c", query]) == 0
    assert capsys.readouterr().out.split() == ["ok", "ok", "commit", "1", "total", "-----", "7"]


def test_a_durable_database_is_there_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "shop.viewlet")
    assert main(["shell", file, "-c", SETUP + "INSERT INTO sales VALUES ('x', 7)"]) == 0
    capsys.readouterr()
    assert main(["shell", file, "-c", "SELECT total FROM totals"]) == 0
    assert capsys.readouterr().out.split() == ["total", "-----", "7"]


def test_quit_leaves(session: Session) -> None:
    with pytest.raises(Leave):
        session.run(".quit")


def test_completion_offers_commands_names_and_words(session: Session) -> None:
    assert candidates(session, ".w") == [".watch"]
    assert candidates(session, "tot") == ["total", "totals"]
    assert candidates(session, "SA") == ["sales"]
    assert candidates(session, "MATER") == ["MATERIALIZED"]
    assert candidates(session, "mater") == ["materialized"]


def test_readline_gets_completions_and_whole_statements(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readline = pytest.importorskip("readline")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    readline.clear_history()
    with with_readline(session) as remember:
        complete = readline.get_completer()
        assert [complete("tot", i) for i in range(3)] == ["total", "totals", None]
        assert complete("sal", 0) == "sales "
        for line in ("SELECT *", "  FROM sales;"):
            readline.add_history(line)
        remember("SELECT *\n  FROM sales;")
    assert history_file().read_text().splitlines()[-1:] == ["SELECT * FROM sales;"]
    assert readline.get_current_history_length() == 1
    readline.clear_history()


def test_history_is_kept_where_state_belongs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file() == tmp_path / "viewlet" / "history"


def test_unreadable_text_is_refused() -> None:
    with pytest.raises(SqlError):
        split("SELECT 'never closed")


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "CREATE TABLE r (a BIGINT, d DECIMAL(4,2)); INSERT INTO r VALUES (1, 2.5), (2, NULL); "
        "SELECT a, a, d FROM r ORDER BY a; EXPLAIN SELECT sum(a) AS s FROM r"
    )
    assert main(["shell", "--json", "-c", script]) == 0
    made, committed, rows, explained = map(json.loads, capsys.readouterr().out.splitlines())
    assert (made, committed) == ({"note": "ok"}, {"commit": 1})
    assert rows["rows"] == [[1, 1, "2.50"], [2, 2, None]]
    assert "incremental" in explained["note"]
    assert main(["shell", "--json", "-c", "SELECT"]) == 1
