"""The file beside a container that says which process has it open, and what that process has acknowledged.

The kernel gives the lock up when the process ends, however it ends. After a crash the file is still there,
and its *mark* is a lower bound for what the container must hold: SQLite ends its write-ahead log silently at
the first damaged frame, and only the mark can tell that from a log that was never longer.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import weakref
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from viewlet.errors import StorageError

_LINE = re.compile(r"viewlet pid (\d+) boot (\S+) durability (\w+) acknowledged (\d+) check ([0-9a-f]{8})\n")

ORPHAN_SECONDS = 2.0
"""A child that was just made to copy memory closes the lock, but its parent may be killed before it does."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a process acknowledged last: the sequence number in the log."""

    pid: int
    boot: str
    durability: str
    acknowledged: int

    def line(self) -> bytes:
        """The mark as the one line of the file, always of the same length.

        >>> Mark(7, "b", "full", 12).line()
        b'viewlet pid 0000000007 boot b durability full acknowledged 00000000000000000012 check 9f3ddeba\\n'
        """
        text = (
            f"viewlet pid {self.pid:010} boot {self.boot} durability {self.durability} "
            f"acknowledged {self.acknowledged:020}"
        )
        return f"{text} check {zlib.crc32(text.encode()):08x}\n".encode()


def read_mark(line: bytes, path: Path) -> Mark | None:
    """The mark that a process left; ``None`` if the file is empty, as after a power failure it may be."""
    if not line.strip(b"\0"):
        return None
    found = _LINE.fullmatch(line.decode("ascii", "replace"))
    if found is not None:
        mark = Mark(int(found[1]), found[2], found[3], int(found[4]))
        if mark.line() == line:
            return mark
    raise StorageError(f"{path} is damaged; if you know that no acknowledged batch is missing, remove it")


def boot_id() -> str:
    """A name for the time since the machine started: what was written since then is not lost by a crash."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


class LockFile:
    """Holds a container for this process, from construction to :meth:`release`."""

    def __init__(self, container: Path, durability: str) -> None:
        self.path = container.with_name(container.name + "-lock")
        self._descriptor = self._acquire(container)
        self._close = weakref.finalize(self, os.close, self._descriptor)
        try:
            self.left_behind = read_mark(os.pread(self._descriptor, 4096, 0), self.path)
        except BaseException:
            self._close()
            raise
        self._mark = Mark(os.getpid(), boot_id(), durability, 0)

    def _acquire(self, container: Path) -> int:
        until = time.monotonic() + ORPHAN_SECONDS
        while True:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as reason:
                why = f"{reason.strerror} ({self.path.name} must be written beside it)"
                raise StorageError(f"{container} cannot be opened: {why}") from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), os.stat(self.path)):
                    return descriptor
            except FileNotFoundError:
                pass  # the holder released it, and removed it, between our open and our lock: again
            except BlockingIOError:
                holder = re.match(rb"viewlet pid (\d+)", os.pread(descriptor, 64, 0))
                if holder is None or _is_alive(int(holder[1])) or time.monotonic() > until:
                    os.close(descriptor)
                    raise StorageError(_held(container, int(holder[1]) if holder else None)) from None
                time.sleep(0.001)
            os.close(descriptor)

    def acknowledge(self, sequence: int) -> None:
        """Note that everything up to a sequence number is in the log and about to be acknowledged."""
        self._mark = Mark(self._mark.pid, self._mark.boot, self._mark.durability, sequence)
        # A commit that is in the log cannot be refused any more because its mark could not be written.
        with suppress(OSError):
            os.pwrite(self._descriptor, self._mark.line(), 0)

    def release(self) -> None:
        """Give the container up; the file goes, for everything is in the container now."""
        self.path.unlink(missing_ok=True)
        self._close()

    def leave(self) -> None:
        """Close the file as it is: for a forked child, whose parent goes on, or an opening that failed."""
        self._close()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def _held(container: Path, pid: int | None) -> str:
    if pid == os.getpid():
        return f"{container} is open in this process already: use that database, or close it first"
    holder = "another process" if pid is None else f"process {pid}"
    return f"{container} is open in {holder}: one process at a time may use it"
