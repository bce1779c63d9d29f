"""A database in a folder of files: checkpoints are adopted while commits go on, and no step is lost."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from viewlet.spark_journal import FolderContainer
from viewlet.storage.container import Part

STEPS = 400


class Files:
    """A folder in memory, with the operations of :class:`viewlet.spark_journal.Folder`."""

    uri = "memory:/folder"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def names(self) -> dict[str, int]:
        return {name: len(data) for name, data in list(self.files.items())}

    def read(self, name: str) -> bytes:
        return self.files[name]

    def write(self, name: str, data: bytes) -> None:
        assert name not in self.files, f"{name} is written again"
        self.files[name] = data

    def put(self, name: str, path: str) -> None:
        self.files[name] = Path(path).read_bytes()

    def remove(self, name: str) -> None:
        del self.files[name]


@pytest.fixture
def eager_threads() -> Any:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_commits_go_on_while_checkpoints_are_adopted() -> None:
    folder: Any = Files()
    container = FolderContainer(folder, "spark")

    def commit() -> None:
        for n in range(STEPS):
            container.append("commit", n + 1, f"token {n}", b"body")

    writer = threading.Thread(target=commit)
    writer.start()
    generation = 0
    while writer.is_alive():
        generation += 1
        start = container.head
        digest = container.write_part(generation, Part("table", "r", b"{}"), "")
        container.adopt(generation, digest, start)
        container.discard()
    writer.join()
    again = FolderContainer(folder, "spark")
    assert (again.head.sequence, again.head.version) == (STEPS, STEPS)
    assert all(again.version_of(f"token {n}") == n + 1 for n in range(STEPS))
    assert again.count() == STEPS - again.head.log_start
