"""Writes until the file may grow no more, checks that whole batches were refused, then goes on with room.

    python full_disk.py PATH DURABILITY

The limit is RLIMIT_FSIZE: to SQLite it looks like a disk without space. Prints one line of JSON, and ends
without closing the database.
"""

from __future__ import annotations

import json
import os
import resource
import sys

import viewlet
from viewlet.errors import StorageError

LIMIT = 700_000
SEEN = 5_000
"""Groups of a stream: what a view holds of them is in no table."""


def main(path: str, durability: str) -> None:
    db = viewlet.connect(path, durability=durability, checkpoint_bytes=1 << 40)  # type: ignore[arg-type]
    db.execute("CREATE TABLE r (a BIGINT, b VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, max(a) AS m FROM r")
    db.execute("CREATE STREAM s (a BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW seen AS SELECT a, count(*) AS n FROM s GROUP BY a")
    db.insert("s", [(number,) for number in range(SEEN)])
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    acknowledged, refused = [], []
    for number in range(60):
        try:
            db.insert("r", [(number, "x" * 20_000)])
            acknowledged.append(number)
        except StorageError as reason:
            refused.append(str(reason))
        assert db.view("n").rows()[0][0] == len(acknowledged) == len(db.table("r"))
    try:
        db.checkpoint()
        checkpoint = "written"
    except StorageError as reason:
        checkpoint = f"refused: {reason}"
    assert len(db.view("seen")) == SEEN
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    db.insert("r", [(1000, "room again")])
    print(
        json.dumps({"rows": [*acknowledged, 1000], "refused": refused, "checkpoint": checkpoint}), flush=True
    )
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
