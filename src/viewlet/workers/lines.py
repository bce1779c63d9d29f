"""Reaching partitions by lines: a process on the executor holds each of them and listens to the driver.

One Spark job starts the processes; from then on a round is a message to each and an answer, which takes a
millisecond where a job takes fifty. A process is forked from the Python worker that runs the task and
outlives it, so that no task slot is taken. It calls the driver, since executors can reach the driver wherever
Spark runs, and both prove that they know the key that came with the job.

A process keeps nothing on disk. It ends when its line does, or when its executor ends; the driver notices the
end of a line, has another process started where Spark wants it, and restores the partition there.
"""

from __future__ import annotations

import os
import pickle
import secrets
import signal
import socket
import struct
import sys
import time
import traceback
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from typing import Any, NoReturn, TypeAlias

from viewlet.errors import BackendError
from viewlet.workers.jobs import Executors, Task, code_here, drain
from viewlet.workers.memory import Partition
from viewlet.workers.operations import Refused
from viewlet.workers.state import Code

Address: TypeAlias = tuple[str, int]

CALLING_SECONDS = 30.0
CALLED = b"called"
HANDSHAKE_SECONDS = struct.pack("ll", 10, 0)
FOREVER = struct.pack("ll", 0, 0)


class LineLostError(ConnectionError):
    """A process that held a partition has ended."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a process needs to call the driver."""

    address: Address
    key: bytes


class Lines:
    """See :class:`viewlet.workers.cluster.Way`."""

    def __init__(self, executors: Executors) -> None:
        self._executors = executors
        self._listening, address = _listen(executors)
        self.call = Call(address, secrets.token_bytes(32))
        self._lines: dict[int, Connection[Any, Any]] = {}
        self._end = weakref.finalize(self, _end, self._listening, self._lines)

    def ask(self, sequence: int, blobs: Sequence[bytes | None]) -> dict[int, bytes]:
        """A message to every partition that something is said to, and their answers."""
        said = {p: blob for p, blob in enumerate(blobs) if blob is not None}
        self._start([p for p in said if p not in self._lines])
        try:
            return self._exchange(sequence, said)
        except LineLostError:
            raise
        except BaseException:  # interrupted: an answer may be on its way that nobody waits for
            self._hang_up(list(self._lines))
            raise

    def close(self) -> None:
        """End the processes; so does whoever forgets this object, or the end of the driver."""
        self._end()

    def processes(self) -> dict[int, int]:
        """The process of each partition, for tests that end them."""
        found = {}
        for partition, line in self._lines.items():
            line.send_bytes(pickle.dumps(None))
            found[partition] = int(line.recv())
        return found

    def _exchange(self, sequence: int, said: Mapping[int, bytes]) -> dict[int, bytes]:
        """All are told before the first is heard: they work at the same time."""
        lost = []
        for partition, blob in said.items():
            try:
                self._lines[partition].send_bytes(pickle.dumps(sequence))
                self._lines[partition].send_bytes(blob)
            except OSError:
                lost.append(partition)
        heard = {}
        for partition in said.keys() - {*lost}:
            try:
                heard[partition] = self._lines[partition].recv_bytes()
            except (EOFError, OSError):
                lost.append(partition)
        self._hang_up(lost)
        if lost:
            raise LineLostError(f"the processes of partitions {sorted(lost)} have ended")
        return heard

    def _start(self, missing: Sequence[int]) -> None:
        """Have processes started by a job, and wait for their calls."""
        if not missing:
            return
        self._executors.code.value  # noqa: B018  # fails here, with a clear message, if the session is stopped
        task = _starting(self._executors.name, self._executors.code, self.call, frozenset(missing))
        for outcome in self._executors.job(task).values():
            if outcome != CALLED:
                host, port = self.call.address
                raise BackendError(
                    f"a process on an executor cannot reach the driver at {host}:{port} "
                    f"({outcome.decode()}): open that port (spark.viewlet.port chooses it), "
                    "or set spark.viewlet.lines to false to reach partitions by Spark jobs"
                )
        while any(partition not in self._lines for partition in missing):
            self._accept()

    def _accept(self) -> None:
        try:
            accepted, _ = self._listening.accept()
        except TimeoutError:
            raise LineLostError("a process ended before it called") from None
        kept = accepted.dup()  # its options are set while the line has the other descriptor
        line = _connection(accepted)
        try:
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, HANDSHAKE_SECONDS)
            deliver_challenge(line, self.call.key)
            answer_challenge(line, self.call.key)
            partition = int(line.recv_bytes())
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, FOREVER)
        except (EOFError, OSError, ValueError, AuthenticationError):  # a stranger, or a process that ended
            line.close()
            return
        finally:
            kept.close()
        self._hang_up([partition])
        self._lines[partition] = line

    def _hang_up(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            line = self._lines.pop(partition, None)
            if line is not None:
                line.close()


def _end(listening: socket.socket, lines: dict[int, Connection[Any, Any]]) -> None:
    for line in lines.values():
        line.close()
    lines.clear()
    listening.close()


def _listen(executors: Executors) -> tuple[socket.socket, Address]:
    conf = executors.context.getConf()
    local = executors.context.master.split("[")[0] == "local"
    host = "127.0.0.1" if local else conf.get("spark.driver.host")
    bind = host if local else conf.get("spark.driver.bindAddress", host)
    port = int(conf.get("spark.viewlet.port", "0"))
    listening = socket.create_server((bind, port), backlog=executors.partitions + 8)
    listening.settimeout(CALLING_SECONDS)
    return listening, (host, listening.getsockname()[1])


def _connection(raw: socket.socket) -> Connection[Any, Any]:
    raw.settimeout(None)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(raw.detach())


# On an executor.


def _starting(name: str, broadcast: Any, call: Call, missing: frozenset[int]) -> Task:
    def task(partition: int, rows: Iterator[int]) -> Iterator[tuple[int, bytes]]:
        drain(rows)
        if partition not in missing:
            return iter(())
        return iter([(partition, start(code_here(name, broadcast), call, partition))])

    return task


def start(code: Code, call: Call, partition: int) -> bytes:
    """Fork a process that holds a partition; says whether it has called the driver, or what went wrong."""
    reading, writing = os.pipe()
    executor = os.getppid()
    child = os.fork()
    if child == 0:
        if os.fork() == 0:  # twice, so that nobody has to wait for its end
            _hold(code, call, partition, writing, executor)
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as told:
        return told.read() or b"it ended at once"


def _hold(code: Code, call: Call, partition: int, telling: int, executor: int) -> NoReturn:
    """The life of a process that holds a partition."""
    status = 1
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(telling, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # above all the worker's own line to its executor
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        try:
            raw = socket.create_connection(call.address, CALLING_SECONDS)
            os.write(3, CALLED)
        except OSError as reason:
            os.write(3, str(reason).encode())
            os._exit(1)
        os.close(3)
        line = _connection(raw)
        answer_challenge(line, call.key)
        deliver_challenge(line, call.key)
        line.send_bytes(str(partition).encode())
        _listen_and_answer(line, Partition(code), os.pidfd_open(executor))
        status = 0
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(status)


def _listen_and_answer(line: Connection[Any, Any], partition: Partition, executor: int) -> None:
    while executor not in wait([line, executor]):
        try:
            sequence = pickle.loads(line.recv_bytes())
            if sequence is None:
                line.send(os.getpid())
                continue
            operation = pickle.loads(line.recv_bytes())
        except EOFError:
            return
        began = time.perf_counter()
        try:
            answer = partition.perform(sequence, operation)
        except Exception:
            answer = Refused(BackendError(f"a partition failed: {traceback.format_exc()}"))
        line.send_bytes(pickle.dumps((answer, time.perf_counter() - began), pickle.HIGHEST_PROTOCOL))
