"""SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: listening or asking tells nobody the password.

With ``salted = Hi(password, salt, n)``, the server stores ``H(HMAC(salted, "Client Key"))`` and
``HMAC(salted, "Server Key")``. The client proves that it has the first key by sending it xor a signature of
the whole conversation; the server proves that it has the second.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass

from viewlet.pgwire.errors import FatalError

ITERATIONS = 4096

_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


@dataclass(frozen=True, slots=True)
class Verifier:
    """What the server keeps in place of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def verifier(password: str, salt: bytes | None = None) -> Verifier:
    """What to keep for a password."""
    salt = salt or secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", prepared(password), salt, ITERATIONS)
    stored = hashlib.sha256(_mac(salted, b"Client Key")).digest()
    return Verifier(salt, ITERATIONS, stored, _mac(salted, b"Server Key"))


def nobody(user: str, secret: bytes) -> Verifier:
    """A verifier that no password fits, the same at each try: whether a user exists is not told."""
    salt = _mac(secret, user.encode())[:16]
    return Verifier(salt, ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))


def prepared(password: str) -> bytes:
    """SASLprep (RFC 4013); a password that it prohibits stays as it is, as in PostgreSQL.

    >>> prepared("a\\u00a0b\\u00ad"), prepared("\\u2168")
    (b'a b', b'IX')
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    if not normal or any(table(c) for c in normal for table in _PROHIBITED):
        return password.encode()
    return normal.encode()


class Exchange:
    """One authentication: the client's first message, our challenge, its proof, our proof."""

    def __init__(self, keys: Verifier) -> None:
        self._keys = keys
        self._nonce = ""
        self._header = b""
        self._signed = ""

    def challenge(self, first: str) -> str:
        """Answer the client's first message: nonce, salt, iterations."""
        if first.startswith("p="):
            raise FatalError("08P01", "channel binding was not offered")
        flag, name, *bare = first.split(",")
        if flag not in ("n", "y") or name or len(bare) < 2 or not bare[1].startswith("r="):
            raise FatalError("08P01", "the first SCRAM message is malformed")
        self._header = f"{flag},,".encode()
        self._nonce = bare[1][2:] + secrets.token_urlsafe(18)
        salt = base64.b64encode(self._keys.salt).decode()
        ours = f"r={self._nonce},s={salt},i={self._keys.iterations}"
        self._signed = f"{','.join(bare)},{ours}"
        return ours

    def finish(self, last: str) -> str:
        """Check the client's proof and give our own."""
        without_proof, _, proof = last.rpartition(",p=")
        fields = without_proof.split(",")
        expected = f"c={base64.b64encode(self._header).decode()}"
        if len(fields) < 2 or fields[0] != expected or fields[1] != f"r={self._nonce}":
            raise FatalError("08P01", "the last SCRAM message does not belong to the first")
        signed = f"{self._signed},{without_proof}".encode()
        signature = _mac(self._keys.stored_key, signed)
        try:
            given = base64.b64decode(proof, validate=True)
        except (binascii.Error, ValueError):
            raise FatalError("08P01", "the SCRAM proof is malformed") from None
        key = bytes(a ^ b for a, b in zip(given, signature, strict=False))
        if len(given) != 32 or not hmac.compare_digest(hashlib.sha256(key).digest(), self._keys.stored_key):
            raise FatalError("28P01", "password authentication failed")
        return f"v={base64.b64encode(_mac(self._keys.server_key, signed)).decode()}"


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()
