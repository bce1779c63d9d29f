"""A PostgreSQL server of our own, started from the machine's binaries."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def server_or_skip(settings: str = "") -> Iterator[str]:
    """A running server, or a skipped test where there is nothing to run one with or as."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    folder, user = binaries(), account()
    if folder is None:
        pytest.skip("this machine has no PostgreSQL binaries")
    if user is None:
        pytest.skip("there is no user but root to run PostgreSQL as")
    with server(folder, user, settings) as text:
        yield text


def binaries() -> Path | None:
    """The folder with initdb and postgres, if the machine has one."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += [Path(place) for place in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    return next((place for place in places if (place / "postgres").exists()), None)


def account() -> str | None:
    """The user to run the server as: it refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


@contextmanager
def server(folder: Path, user: str, settings: str = "") -> Iterator[str]:
    """A running server without network, and the text that connects to it; ``settings`` as ``-c a=b``."""
    data = Path(tempfile.mkdtemp(prefix="pg"))
    try:
        if os.geteuid() == 0:
            shutil.chown(data, user)
        switch = {"user": user, "group": pwd.getpwnam(user).pw_gid} if os.geteuid() == 0 else {}

        def run(*command: str) -> None:
            done = subprocess.run(command, capture_output=True, text=True, cwd=data, **switch)
            assert done.returncode == 0, done.stderr

        run(
            str(folder / "initdb"),
            "-D",
            f"{data}/db",
            "-U",
            "tester",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
        )
        options = (
            f"-c listen_addresses='' -c unix_socket_directories='{data}' -c fsync=off -c shared_buffers=64MB "
            + settings
        )
        run(str(folder / "pg_ctl"), "-D", f"{data}/db", "-l", f"{data}/log", "-w", "-o", options, "start")
        try:
            yield f"host={data} user=tester dbname=postgres"
        finally:
            run(str(folder / "pg_ctl"), "-D", f"{data}/db", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(data, ignore_errors=True)
