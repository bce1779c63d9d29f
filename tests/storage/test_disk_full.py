"""A full disk refuses batches and loses none; work goes on when there is room again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import viewlet

SCRIPT = """
import json, resource, sys, viewlet
path = sys.argv[1]
db = viewlet.connect(path, checkpoint_bytes=1 << 40)
db.execute("CREATE TABLE r (a BIGINT, b VARCHAR)")
db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, max(a) AS m FROM r")
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
acknowledged, refused = 0, []
for number in range(60):
    try:
        db.insert("r", [(number, "x" * 20_000)])
        acknowledged += 1
    except viewlet.errors.StorageError as reason:
        refused.append(str(reason))
    assert db.view("n").rows()[0][0] == acknowledged == len(db.table("r"))
try:
    db.checkpoint()
    checkpoint = "written"
except viewlet.errors.StorageError:
    checkpoint = "refused"
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
db.insert("r", [(1000, "room again")])
rows = [a for a, _ in db.table("r").rows()]
print(json.dumps({"rows": rows, "refused": refused, "checkpoint": checkpoint}))
sys.stdout.flush()
import os; os._exit(0)
"""


def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.viewlet"
    done = subprocess.run([sys.executable, "-c", SCRIPT, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["refused"], "the limit was never reached"
    assert all("cannot be written" in reason for reason in result["refused"])
    assert result["rows"][-1] == 1000
    with viewlet.connect(path) as db:
        assert [a for a, _ in db.table("r").rows()] == result["rows"]
        assert db.view("n").rows() == [(len(result["rows"]), 1000)]
        db.checkpoint()
    with viewlet.connect(path) as db:
        assert [a for a, _ in db.table("r").rows()] == result["rows"]
