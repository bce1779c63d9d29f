"""A database in a folder of files: checkpoints are adopted while commits go on, and no step is lost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from viewlet.spark_journal import FolderContainer
from viewlet.storage.chain import Head, Part


class Files:
    """A folder in memory, with the operations of :class:`viewlet.spark_journal.Folder`."""

    uri = "memory:/folder"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def names(self) -> dict[str, int]:
        return {name: len(data) for name, data in self.files.items()}

    def read(self, name: str) -> bytes:
        return self.files[name]

    def write(self, name: str, data: bytes) -> None:
        assert name not in self.files, f"{name} is written again"
        self.files[name] = data

    def put(self, name: str, path: str) -> None:
        self.files[name] = Path(path).read_bytes()

    def remove(self, name: str) -> None:
        del self.files[name]


class Interrupted(FolderContainer):
    """Whoever asks for the head while ``waiting`` is interrupted by a commit of another thread."""

    waiting = False
    commits: list[threading.Thread]

    @property
    def head(self) -> Head:
        seen = self._head
        if self.waiting:
            self.waiting = False
            number = len(self.commits) + 2
            thread = threading.Thread(target=self.append, args=("commit", number, f"token {number}", [b""]))
            self.commits.append(thread)
            thread.start()
            thread.join(0.2)  # it may have to wait for whoever asks here
        return seen

    @head.setter
    def head(self, head: Head) -> None:
        self._head = head


def test_a_commit_while_a_checkpoint_is_adopted_stays() -> None:
    folder: Any = Files()
    container = Interrupted(folder, "spark")
    container.commits = []
    container.append("commit", 1, "token 1", [b""])
    for generation in (1, 2, 3):
        start = container.head
        digest = container.write_part(generation, Part("table", "r", b"{}"), "")
        container.waiting = True
        container.adopt(generation, digest, start)
        for thread in container.commits:
            thread.join()
        container.discard()
    again = FolderContainer(folder, "spark")
    assert (again.head.sequence, again.head.version, again.head.generation) == (4, 4, 3)
    assert [again.version_of(f"token {n}") for n in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert again.count() == 1


def test_commits_while_the_head_is_replaced_stay() -> None:
    """The commit comes between reading the head after the checkpoint was written, and replacing it."""
    folder: Any = Files()
    container = Interrupted(folder, "spark")
    container.commits = []
    container.append("commit", 1, None, [b""])
    written = folder.write

    def write(name: str, data: bytes) -> None:
        written(name, data)
        container.waiting = name.startswith("head-")

    folder.write = write
    start = container.head
    container.adopt(1, container.write_part(1, Part("table", "r", b"{}"), ""), start)
    for thread in container.commits:
        thread.join()
    container.append("commit", 3, None, [b""])
    assert container.head.sequence == 3
    assert FolderContainer(folder, "spark").count() == 2
