"""Every command as a user types it: exit codes, standard output, standard error."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from viewlet.cli import COMMANDS, main

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


def test_no_command_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as leaving:
        main([])
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
