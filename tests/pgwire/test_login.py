"""Who gets in: SCRAM-SHA-256 and TLS with real clients."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess
from pathlib import Path

import pytest

from pgwire.served import market, serving
from viewlet.errors import BackendError
from viewlet.pgwire.errors import FatalError
from viewlet.pgwire.scram import Exchange, verifier

psycopg = pytest.importorskip("psycopg", reason="needs psycopg")

USERS = {"ann": "s3cret", "bob": "p\u00e4\u00a0ss\u00ad\u2168"}


def test_passwords_are_asked_and_checked() -> None:
    with market() as db, serving(db, users=USERS) as served:
        host = f"host=127.0.0.1 port={served.server.port} dbname=market"
        for user, password in USERS.items():
            with psycopg.connect(host, user=user, password=password) as connection:
                assert connection.execute("SELECT current_user").fetchone() == (user,)
        for user, password in ("ann", "S3cret"), ("ann", ""), ("eve", "s3cret"):
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(host, user=user, password=password)
        assert served.server.sessions == 0


def test_both_sides_prove_themselves() -> None:
    """The example of RFC 7677, with the server's random part as given there."""
    exchange = Exchange(verifier("pencil", b"[m\x99h\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81"))
    exchange.challenge("n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    exchange._nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange._signed = (
        "n=user,r=rOprNGfwEbeRWgbNEkqO,"
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    proof = "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    answer = exchange.finish(f"c=biws,r={exchange._nonce},{proof}")
    assert answer == "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    with pytest.raises(FatalError, match="password"):
        exchange.finish(f"c=biws,r={exchange._nonce},p={'A' * 43}=")


def test_strangers_need_a_password() -> None:
    import asyncio

    from viewlet.pgwire import start

    with market() as db, pytest.raises(BackendError, match="give users"):
        asyncio.run(start(db, "0.0.0.0", 0))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls_is_spoken_and_required(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with market() as db, serving(db, users=USERS, tls=context) as served:
        with psycopg.connect(
            served.dsn, password="s3cret", sslmode="verify-full", sslrootcert=str(certificate)
        ) as connection:
            assert connection.pgconn.ssl_in_use
            assert connection.execute("SELECT n FROM brokers").fetchall() == [(1,), (1,)]
        with pytest.raises(psycopg.OperationalError, match="encryption"):
            psycopg.connect(served.dsn, password="s3cret", sslmode="disable")
        injected = struct.pack("!ii", 8, 80877103) + b"in clear, behind the request to encrypt"
        with socket.create_connection(("127.0.0.1", served.server.port), timeout=10) as raw:
            raw.sendall(injected)
            assert raw.recv(1) == b"E"
