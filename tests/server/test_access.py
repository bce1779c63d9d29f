"""The console is closed by default."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import pytest

import viewlet
from viewlet.server import ServerError, background

pytest.importorskip("uvicorn")

TOKEN = "0123456789 äöü+/=&"


@pytest.fixture(scope="module")
def database() -> Iterator[viewlet.Database]:
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        yield db


@pytest.fixture(scope="module")
def open_url(database: viewlet.Database) -> Iterator[str]:
    with background(database) as url:
        yield url


@pytest.fixture(scope="module")
def guarded_url(database: viewlet.Database) -> Iterator[str]:
    with background(database, token=TOKEN) as url:
        yield url


def ask(
    url: str, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": "Bearer " + token.encode().decode("latin-1")}


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/overview", "/api/graph", "/static/console.js"])
def test_with_a_token_nothing_is_told_without_it(guarded_url: str, path: str) -> None:
    for headers in [
        {},
        bearer("wrong"),
        {"Cookie": f"viewlet_token_{urlsplit(guarded_url).port}=wrong"},
        {"Authorization": "Basic x"},
    ]:
        status, answered, body = ask(guarded_url, path, headers)
        assert status == 401
        assert answered["WWW-Authenticate"] == "Bearer"
        assert list(json.loads(body)) == ["error"]


def test_probes_need_no_token_and_tell_nothing(guarded_url: str) -> None:
    assert ask(guarded_url, "/health")[::2] == (200, "ok\n")
    assert ask(guarded_url, "/ready")[2] in ("ready\n", "not ready\n")


def test_the_page_with_the_token_sets_a_cookie_that_scripts_cannot_read(guarded_url: str) -> None:
    from urllib.parse import quote

    status, headers, _ = ask(guarded_url, f"/?token={quote(TOKEN, safe='')}")
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert cookie.startswith(f"viewlet_token_{urlsplit(guarded_url).port}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    shown = {"Cookie": cookie.partition(";")[0]}
    assert ask(guarded_url, "/api/overview", shown)[0] == 200
    assert ask(guarded_url, "/?token=wrong")[0] == 401


def test_a_bearer_token_opens(database: viewlet.Database) -> None:
    plain = "a-token-of-letters"
    with background(database, token=plain) as url:
        assert ask(url, "/metrics", bearer(plain))[0] == 200
        assert ask(url, "/metrics", {"Authorization": f"bearer  {plain}"})[0] == 200
        assert ask(url, "/metrics", bearer(plain[:-1]))[0] == 401
        assert ask(url, "/metrics", {**bearer(plain), "Host": "viewlet.example"})[0] == 200


def test_without_a_token_only_this_machine_by_its_own_name_is_answered(open_url: str) -> None:
    port = urlsplit(open_url).port
    for name in ["127.0.0.1", "localhost", "[::1]"]:
        assert ask(open_url, "/api/overview", {"Host": f"{name}:{port}"})[0] == 200
    for name in ["attacker.example", "127.0.0.1.attacker.example", "", "[", "localhost@x"]:
        assert ask(open_url, "/api/overview", {"Host": f"{name}:{port}"})[0] in (400, 403), name


def test_pages_of_other_origins_are_refused(open_url: str, guarded_url: str) -> None:
    own = open_url.rstrip("/")
    assert ask(open_url, "/api/overview", {"Origin": own})[0] == 200
    for origin in ["https://attacker.example", "null", own + "1"]:
        assert ask(open_url, "/api/overview", {"Origin": origin})[0] == 403
    assert ask(guarded_url, "/health", {"Origin": "https://attacker.example"})[0] == 403


@pytest.mark.parametrize("path", ["/", "/health", "/static/console.css", "/api/overview", "/nowhere"])
def test_every_answer_carries_the_security_headers(open_url: str, path: str) -> None:
    _, headers, _ = ask(open_url, path)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Server"] is None


def test_websockets_are_guarded_too(guarded_url: str, open_url: str) -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect
    from websockets.typing import Origin

    with pytest.raises(InvalidStatus), connect(guarded_url.replace("http", "ws") + "api/live"):
        pass
    address, foreign = open_url.replace("http", "ws") + "api/live", Origin("https://attacker.example")
    with pytest.raises(InvalidStatus), connect(address, origin=foreign):
        pass
    with connect(address, origin=Origin(open_url.rstrip("/"))) as socket:
        assert "overview" in str(socket.recv(timeout=20))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(open_url: str, method: str) -> None:
    for path in ["/", "/api/overview", "/api/graph", "/api/relations/r/rows"]:
        assert ask(open_url, path, method=method)[0] == 405


def test_other_machines_need_a_long_token(database: viewlet.Database) -> None:
    for host in ["0.0.0.0", "::", "192.0.2.1", "example.com"]:
        with pytest.raises(ServerError, match="a token is needed"), background(database, host):
            pass
    with pytest.raises(ServerError, match="16 or more"), background(database, token="short"):
        pass


def test_a_taken_port_is_an_error_that_says_so(database: viewlet.Database, open_url: str) -> None:
    taken = urlsplit(open_url).port
    assert taken is not None
    with pytest.raises(ServerError, match=f"port {taken}"), background(database, port=taken):
        pass


def test_files_outside_of_the_page_are_not_given_out(open_url: str) -> None:
    for path in ["/static/../api.py", "/static/%2e%2e/api.py", "/static/..%2fapi.py", "/static/", "/static"]:
        assert ask(open_url, path)[0] in (404, 405, 307), path


def test_a_missing_package_is_named(database: viewlet.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ServerError, match=r"uvicorn: pip install 'viewlet\[serve\]'"), background(database):
        pass
