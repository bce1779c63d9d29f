"""Who may ask: closed unless the request shows the token, or comes from this machine where none is set.

Without a token only requests that *name* this machine are answered: a page from elsewhere that has its own
host name resolve to 127.0.0.1 still sends that name. A request that a page of another origin makes is refused
in any case, so no web page can use the reader's access.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote, unquote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN_PATHS = frozenset({"/health", "/ready"})  # they tell a probe yes or no, and nothing else
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Access:
    """ASGI middleware that answers for ``app`` only if the request may be answered."""

    app: ASGIApp
    token: str | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it; every answer carries the security headers."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        answer = _entered(scope, self.token) or self._refusal(scope)
        if answer is None:
            await self.app(scope, receive, _secured(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4403, "reason": "refused"})
        else:
            await answer(scope, receive, _secured(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return _refused(403, f"a page of {origin} may not ask here")
        if self.token is None:
            if host_name(host) in LOOPBACK:
                return None
            return _refused(403, "without a token only localhost is answered")
        if scope["path"] in OPEN_PATHS or any(_equal(shown, self.token) for shown in _shown(scope)):
            return None
        return _refused(401, "a token is needed: open the page with ?token=..., or send it as a Bearer token")


def host_name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> host_name("localhost:8080"), host_name("[::1]:8080"), host_name("example.com")
    ('localhost', '::1', 'example.com')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _cookie(scope: Scope) -> str:
    """The name of the cookie: cookies do not tell ports apart, and two consoles may run on one machine."""
    server = scope.get("server")
    return f"viewlet_token_{server[1]}" if server else "viewlet_token"


def _shown(scope: Scope) -> list[str]:
    """The tokens that a request shows."""
    headers = Headers(scope=scope)
    found = []
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found.append(credentials.strip())
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return found
    name = _cookie(scope)
    return [*found, unquote(cookies[name].value)] if name in cookies else found


def _equal(shown: str, token: str) -> bool:
    """Compared in a time that does not tell how much of it was right."""
    return hmac.compare_digest(shown.encode(), token.encode())


def _entered(scope: Scope, token: str | None) -> Response | None:
    """The page with ``?token=`` moves the token to a cookie, so that it stands in no history and no log."""
    if token is None or scope["type"] != "http" or scope["path"] != "/":
        return None
    shown = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
    if not _equal(shown, token):
        return None
    answer = RedirectResponse("/", status_code=303)
    secure = scope["scheme"] == "https"
    answer.set_cookie(_cookie(scope), quote(token, safe=""), httponly=True, samesite="strict", secure=secure)
    return answer


def _refused(status: int, reason: str) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": reason}, status_code=status, headers=headers)


def _secured(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(SECURITY_HEADERS)
        await send(message)

    return sending
