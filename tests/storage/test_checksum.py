"""Native code computes the CRC-32 that zlib computes, of any length, from any start."""

from __future__ import annotations

import random
import zlib

import pyarrow as pa
import pytest

from viewlet.storage import checksum as checksums
from viewlet.storage.checksum import checksum, crc32


@pytest.mark.native
def test_the_native_checksum_is_that_of_zlib() -> None:
    rng, native = random.Random(1), crc32()
    for size in [*range(300), *(rng.randrange(100_000) for _ in range(50))]:
        data, start = rng.randbytes(size), rng.choice([0, rng.getrandbits(32)])
        assert native(pa.py_buffer(data), start) == zlib.crc32(data, start), size
        assert native(pa.py_buffer(data).slice(size // 3), start) == zlib.crc32(data[size // 3 :], start)


@pytest.mark.parametrize("long", [1, 1 << 16])
def test_pieces_are_one_body(long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "LONG_BYTES", long)
    rng = random.Random(2)
    pieces = [rng.randbytes(rng.choice([0, 1, 70, 3_000])) for _ in range(40)]
    whole = b"".join(pieces)
    expected = zlib.crc32(whole).to_bytes(4, "little") + len(whole).to_bytes(8, "little")
    assert checksum([pa.py_buffer(piece) if rng.random() < 0.5 else piece for piece in pieces]) == expected
