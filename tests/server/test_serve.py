"""``viewlet serve`` as a process: it says where it is, answers, and ends when told to."""

from __future__ import annotations

import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import viewlet

pytest.importorskip("uvicorn")


def serve(*arguments: str, token: str | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "viewlet.cli", "serve", "--backend", "reference", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", **({"VIEWLET_TOKEN": token} if token else {})},
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_durable_database_is_served_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "d.viewlet"
    with viewlet.connect(path, backend="reference") as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM r")
        db.insert("r", [(1,), (2,)])
    with serve(str(path), "--port", "0") as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("console: ").strip()
        with urllib.request.urlopen(url + "api/relations/n/rows", timeout=20) as answer:
            assert b'"rows":[[2]]' in answer.read()
        process.send_signal(number)
        assert process.wait(timeout=20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    viewlet.connect(path, backend="reference").close()


def test_the_printed_address_carries_the_token(tmp_path: Path) -> None:
    script = tmp_path / "schema.sql"
    script.write_text("CREATE TABLE r (a BIGINT); INSERT INTO r VALUES (1)")
    secret = "a token with + and &"
    with serve("--read", str(script), "--port", "0", token=secret) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("console: ").strip()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url.partition("?")[0], timeout=20)
        refused.value.close()
        assert refused.value.code == 401
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(url, timeout=20) as page:
            assert b"<title>" in page.read()
        process.terminate()
        assert process.wait(timeout=20) == 0


def test_an_open_door_is_refused() -> None:
    with serve("--host", "0.0.0.0") as process:
        assert process.wait(timeout=20) == 1
        assert process.stderr is not None
        assert "a token is needed" in process.stderr.read()


def test_files_come_in_and_psycopg_reads_the_view(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    (tmp_path / "in").mkdir()
    (tmp_path / "schema.sql").write_text(
        "CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW total AS SELECT sum(a) AS a FROM r"
    )
    arguments = ["--read", str(tmp_path / "schema.sql"), "--follow", f"r={tmp_path / 'in'}"]
    secret = "the token is the password"
    with serve(*arguments, "--port", "0", "--pg-port", "0", token=secret) as process:
        assert process.stdout is not None
        conninfo = process.stdout.readline().removeprefix("psql: ").strip()
        assert process.stdout.readline().startswith("console: http://127.0.0.1:")
        (tmp_path / "in" / "part").write_text("a\n40\n2\n")
        (tmp_path / "in" / "part").rename(tmp_path / "in" / "1.csv")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(conninfo, password="wrong")
        with psycopg.connect(conninfo, password=secret, autocommit=True) as connection:
            end = time.monotonic() + 30
            while connection.execute("SELECT a FROM total").fetchone() != (42,):
                assert time.monotonic() < end
                time.sleep(0.1)
        (tmp_path / "in" / "2.csv").write_text("a\nnonsense\n")
        assert process.wait(timeout=30) == 1
        assert process.stderr is not None
        assert "nonsense" in process.stderr.read()


def test_https_with_a_certificate(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    subprocess.run([openssl, *made, *names], check=True, capture_output=True)
    with serve("--port", "0", "--certificate", str(certificate), "--key", str(key)) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("console: ").strip()
        assert url.startswith("https://")
        trusted = ssl.create_default_context(cafile=certificate)
        with urllib.request.urlopen(url + "health", timeout=20, context=trusted) as answer:
            assert answer.read() == b"ok\n"
        process.terminate()
        assert process.wait(timeout=20) == 0
