"""Every command as a user types it: exit codes, standard output, standard error."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from viewlet.cli import COMMANDS, main
from viewlet.pipelines.definitions import PipelineError
from viewlet.pipelines.load import load

SCHEMA = "CREATE TABLE sales (shop VARCHAR, amount BIGINT);"


@pytest.mark.parametrize("command", [command.NAME for command in COMMANDS])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main([command, "--help"])
    assert leaving.value.code == 0
    assert f"usage: viewlet {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", [[Path(sys.executable).with_name("viewlet")], [sys.executable, "-m", "viewlet"]]
)
def test_the_command_is_installed_and_says_its_version(command: list[str]) -> None:
    done = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("viewlet ")


def test_without_a_command_the_help_is_shown_and_usage_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "see views stay fresh" in capsys.readouterr().err
    with pytest.raises(SystemExit) as leaving:
        main(["explan"])
    assert leaving.value.code == 2


def test_explain_shows_queries_and_views(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "q.sql"
    file.write_text(
        SCHEMA + "INSERT INTO sales VALUES ('a', 1);\n"
        "CREATE MATERIALIZED VIEW total AS SELECT sum(amount) AS s FROM sales;\n"
        "SELECT shop, max(amount) AS m FROM sales GROUP BY shop"
    )
    assert main(["explain", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(found["name"], found["line"]) for found in document["queries"]] == [
        ("total", 2),
        ("statement 4", 3),
    ]
    assert all("sales" in found["program"] and found["error"] is None for found in document["queries"])


def test_explain_takes_a_schema_file_or_a_packaged_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, query = tmp_path / "schema.sql", tmp_path / "q.sql"
    schema.write_text(SCHEMA)
    query.write_text("SELECT sum(amount) AS s FROM sales")
    assert main(["explain", str(query), "--schema", str(schema)]) == 0
    assert "sales" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT sum(volume) AS v FROM bids"))
    assert main(["explain", "-", "--schema", "finance"]) == 0
    assert "bids" in capsys.readouterr().out


def test_a_refused_query_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "q.sql"
    file.write_text(
        f"SELECT FROM WHERE; SELECT nope\n  FROM nowhere; {SCHEMA} {SCHEMA}SELECT sum(amount) AS s FROM sales"
    )
    assert main(["explain", str(file), "--json"]) == 1
    refused = json.loads(capsys.readouterr().out)["queries"]
    assert [(found["name"], found["error"] is None) for found in refused] == [
        ("statement 1", False),
        ("statement 2", False),
        ("statement 4", False),
        ("statement 5", True),
    ]
    assert "nowhere" in refused[1]["error"]
    assert "line 2, column 8" in refused[1]["error"]
    assert "exists already" in refused[2]["error"]


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "no-such-file.sql"]) == 1
    assert "no-such-file.sql" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text(SCHEMA + "SELECT sum(amount) AS s FROM sales;" * 20)
    command = f"{sys.executable} -m viewlet.cli explain {file} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(sys.stdin, "read", interrupted)
    assert main(["explain", "-"]) == 130


@pytest.mark.parametrize(
    ("arguments", "library", "extra"),
    [(["shell", "-c", "SELECT 1 AS a"], "duckdb", "duckdb"), (["serve", "--port", "0"], "uvicorn", "serve")],
)
def test_a_library_that_is_not_installed_is_named(
    arguments: list[str],
    library: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    assert main(arguments) == 2
    assert f"pip install 'viewlet[{extra}]'" in capsys.readouterr().err


WRONG_INPUT = [
    (["explain", "."], 1, "'.' is a folder, not a file"),
    (["explain", "latin.sql"], 1, "'latin.sql' is not text in UTF-8: unexpected end of data at byte 7"),
    (["explain", "good.sql", "--dialect", "klingon"], 1, "there is no dialect 'klingon'; existing: athena, "),
    (["explain", "good.sql", "--schema", "tcph"], 1, "no packaged schema of that name; there are tpch, "),
    (["shell", "."], 1, "it is a folder, not a file"),
    (["shell", "-c", ".wach"], 1, "no command .wach; did you mean '.watch'? there are .tables, "),
    (["shell", "-c", ".explain volumes"], 1, "there is no table or view 'volumes'; existing: none"),
    (["shell", "-c", ".read"], 1, ".read needs the name of a file"),
    (["shell", "--rows", "-3"], 2, "-3 is not at least 0"),
    (["shell", "--read", "nowhere.sql"], 1, "there is no file 'nowhere.sql'"),
    (["serve", "--port", "99999"], 2, "99999 is not between 0 and 65535"),
    (["serve", "--port", "http"], 2, "'http' is not a whole number"),
    (["serve", "--pg-port", "-1"], 2, "-1 is not between 0 and 65535"),
    (["serve", "--certificate", "nowhere.pem"], 1, "there is no file 'nowhere.pem'"),
    (["serve", "--certificate", "good.sql"], 1, "'good.sql' are not a certificate and its key in PEM"),
    (["serve", "--key", "good.sql"], 2, "--key needs --certificate"),
    (["serve", "--follow", "orders"], 2, "--follow orders: write TABLE=PATH"),
    (["bench", "nosuch"], 2, "there is no suite 'nosuch'; there are "),
    (["serve", "--token-file", "nowhere"], 1, "there is no file 'nowhere'"),
    (["demo", "--seconds", "-1"], 2, "'-1' is not a number of seconds above 0"),
    (["demo", "--batch", "0"], 2, "0 is not at least 1"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), WRONG_INPUT, ids=lambda part: str(part)[:40])
def test_wrong_input_is_named(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "good.sql").write_text(SCHEMA)
    (tmp_path / "latin.sql").write_bytes(b"SELECT \xe9")
    monkeypatch.chdir(tmp_path)
    try:
        ended = main(arguments)
    except SystemExit as leaving:
        ended = int(str(leaving.code))
    shown = capsys.readouterr().err
    assert (ended, said in shown) == (code, True), shown
    assert "Errno" not in shown


@pytest.mark.parametrize("option", ["--port", "--pg-port"])
def test_a_port_that_is_taken_is_named(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--port", "0", option, port]) == 1
    told = capsys.readouterr().err
    assert f"cannot listen at 127.0.0.1 port {port}" in told
    assert "Address already in use" in told
    assert "Errno" not in told


def test_errors_of_the_system_name_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise OSError(28, "No space left on device", "report.html")

    monkeypatch.setattr("viewlet.cli.explain.run", fail)
    assert main(["explain", "views.sql"]) == 1
    assert capsys.readouterr().err == "viewlet explain: report.html: No space left on device\n"


def test_warnings_are_one_line(tmp_path: Path) -> None:
    """As without a C compiler: the line of Viewlet's own code that warns is of no use at a prompt."""
    statements = "CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t"
    done = subprocess.run(
        [sys.executable, "-m", "viewlet", "shell", "-c", statements],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": str(tmp_path), "CC": "", "HOME": str(tmp_path)},
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith("viewlet shell: note: no C compiler found")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nraise ValueError(3)\n", "line 2: ValueError: 3"),
        ("CREATE TABLE t", "SyntaxError: invalid syntax"),
        ("\nimport nowhere_at_all", "line 2: ModuleNotFoundError: No module named 'nowhere_at_all'"),
    ],
)
def test_a_pipeline_that_does_not_run_is_named_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "pipe.py").write_text(text)
    with pytest.raises(PipelineError) as refused:
        load(tmp_path / "pipe.py")
    assert str(tmp_path / "pipe.py") in str(refused.value)
    assert said in str(refused.value)


def test_commands_and_statements_alternate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", "-c", SCHEMA, "-c", ".tables", "-c", "SELECT count(*) AS n FROM sales"]) == 0
    assert capsys.readouterr().out.split()[:3] == ["ok", "name", "kind"]


def test_values_of_a_table_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", "-c", "SELECT 'a\nb' AS x, '\x1b[2J' AS y, '日本' AS z, 1 AS n"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "x     y        z     n",
        "----  -------  ----  -",
        "a\\nb  \\x1b[2J  日本  1",
    ]
