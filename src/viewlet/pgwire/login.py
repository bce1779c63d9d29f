"""How a connection begins: encryption if it is asked for, then who is there."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from viewlet.pgwire import messages
from viewlet.pgwire.errors import FatalError
from viewlet.pgwire.messages import (
    AUTHENTICATED,
    SCRAM_OFFER,
    Body,
    CancelRequest,
    GssRequest,
    Password,
    Startup,
    TlsRequest,
)
from viewlet.pgwire.scram import Exchange, Verifier, nobody
from viewlet.pgwire.wire import MAX_MESSAGE, Wire


@dataclass(frozen=True, slots=True)
class Access:
    """Who may connect: ``users`` of ``None`` is everybody, ``tls`` makes encryption a must."""

    users: Mapping[str, Verifier] | None
    tls: ssl.SSLContext | None
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def verifier(self, user: str) -> Verifier | None:
        """What proves a user; ``None`` where nothing is asked."""
        if self.users is None:
            return None
        return self.users.get(user) or nobody(user, self._secret)


async def begin(wire: Wire, access: Access) -> Startup | CancelRequest:
    """The message with which a client begins, after it has proved who it is."""
    while True:
        match await wire.first():
            case TlsRequest() if access.tls is not None and not wire.encrypted:
                await wire.encrypt(access.tls)
            case TlsRequest() | GssRequest():
                wire.write(b"N")
                await wire.drain()
            case CancelRequest() as request:
                return request
            case Startup() as startup:
                await _admit(wire, access, startup)
                return startup


async def _admit(wire: Wire, access: Access, startup: Startup) -> None:
    if access.tls is not None and not wire.encrypted:
        raise FatalError("28000", "this server wants encryption: connect with sslmode=require")
    if "user" not in startup.parameters:
        raise FatalError("28000", "the client does not say who the user is")
    if startup.parameters.get("replication", "false") not in ("false", "off", "no", "0"):
        raise FatalError("0A000", "replication is not spoken here: use SUBSCRIBE")
    unknown = [name for name in startup.parameters if name.startswith("_pq_.")]
    if startup.minor or unknown:
        wire.write(messages.negotiate(unknown))
    keys = access.verifier(startup.parameters["user"])
    if keys is not None:
        await _prove(wire, Exchange(keys))
    wire.write(AUTHENTICATED)
    wire.limit = MAX_MESSAGE


async def _prove(wire: Wire, exchange: Exchange) -> None:
    wire.write(SCRAM_OFFER)
    await wire.drain()
    body = Body(await _password(wire))
    if body.text() != "SCRAM-SHA-256":
        raise FatalError("28000", "the only way to authenticate is SCRAM-SHA-256")
    first = _decoded(body.take(body.int32()))
    wire.write(messages.scram_continue(exchange.challenge(first).encode()))
    await wire.drain()
    last = _decoded(await _password(wire))
    wire.write(messages.scram_final(exchange.finish(last).encode()))


async def _password(wire: Wire) -> bytes:
    message = await wire.receive()
    if not isinstance(message, Password):
        raise FatalError("08P01", "a password is expected")
    return message.data


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FatalError("08P01", "the SCRAM message is not UTF-8") from None
