"""Compile C sources to a shared library once, and find it again by content.

The library's name is a hash of compiler, flags, machine and source text, in a directory that only this
user can read or write, so a stale or foreign file is never loaded.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from viewlet.errors import BackendError

FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno")


def build(sources: Sequence[Path], headers: Sequence[Path] = (), flags: Sequence[str] = FLAGS) -> Path:
    """The shared library of ``sources``: compiled now, or found where an earlier call left it.

    ``headers`` are what they include from their own directory.

    Raises :class:`~viewlet.errors.BackendError` where there is no compiler or it refuses the source.
    """
    compiler = find_compiler()
    digest = hashlib.sha256(repr((compiler, tuple(flags), platform.processor(), _cpu_flags())).encode())
    for source in (*sources, *headers):
        digest.update(source.read_bytes())
    target = cache_directory() / f"signals-{digest.hexdigest()[:24]}.so"
    if not target.exists():
        _compile(compiler, sources, flags, target)
    return target


def find_compiler() -> str:
    """The C compiler: ``$CC``, then ``cc``, ``gcc``, ``clang``."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    raise BackendError("no C compiler found: set CC, or install gcc or clang")


def cache_directory() -> Path:
    """A directory of mode 0700 owned by this user; any other is refused."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(root) / "viewlet"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.getuid():
        raise BackendError(f"{path} belongs to another user; set XDG_CACHE_HOME to a directory of your own")
    if stat.S_IMODE(found.st_mode) != 0o700:
        path.chmod(0o700)
    return path


def _compile(compiler: str, sources: Sequence[Path], flags: Sequence[str], target: Path) -> None:
    handle, name = tempfile.mkstemp(suffix=".so", dir=target.parent)
    os.close(handle)
    command = [compiler, *flags, *map(str, sources), "-o", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        os.unlink(name)
        raise BackendError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
    os.replace(name, target)  # atomic: a process that builds at the same time never sees half a library


def _cpu_flags() -> str:
    """What ``-march=native`` depends on, so that a home shared between machines stays safe."""
    if not sys.platform.startswith("linux"):
        return platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
