"""C source to a shared library on disk: find a compiler, compile once, verify before every load.

The cache is content-addressed. A library's key is the hash of everything that decides its bytes (source,
headers, compiler and its version, flags, and the processor when the flags say ``native``), and its file
name carries the hash of the bytes themselves::

    <cache>/<key>/<sha256 of the library>.so

A library enters the cache by one ``rename`` of a finished, synced file, so a process killed at any moment
leaves either nothing or a whole library, and any number of builders may race. The directory belongs to the
user alone (0700); a file with the wrong owner, mode or hash is never handed out.

>>> source = '__attribute__((visibility("default"))) int answer(void) { return 42; }'
>>> path = compile_library(source, includes=())
>>> path == compile_library(source, includes=())
True
>>> import ctypes
>>> ctypes.CDLL(str(path)).answer()
42
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from viewlet.errors import BackendError

RUNTIME = Path(__file__).parent / "runtime"
"""The folder of hand-written headers that emitted programs include."""

BASELINE_FLAGS = (
    *("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"),
    *("-ffp-contract=off", "-fno-asynchronous-unwind-tables"),
)
"""For code that is shipped to other machines: the compiler's own baseline processor.

``gnu11`` rather than ``c11`` keeps trigraphs off; contraction is off so that ``a * b + c`` rounds twice,
as it does in every other engine. Nothing unwinds the stack of a program: a fifth of its bytes would say how.
"""

DEFAULT_FLAGS = (*BASELINE_FLAGS, "-march=native")
"""For code that runs where it is compiled."""

LEFT_OUT = tuple(
    f"-fno-{name}"
    for name in (
        *("ipa-icf", "ipa-cp", "ipa-sra", "tree-pre", "gcse", "ivopts", "tree-vrp", "schedule-insns2"),
        *("tree-slsr", "code-hoisting"),
    )
)
"""Passes of GCC that take a quarter of its time and give lookups in hash tables next to nothing."""

LEFT_OUT_OF_SEARCHES = tuple(
    f"-fno-{name}"
    for name in (
        *("ipa-icf", "ipa-sra", "tree-pre", "tree-vrp", "tree-slsr", "tree-slp-vectorize"),
        *("tree-dominator-opts", "code-hoisting", "schedule-insns2"),
    )
)
"""Passes that take a fifth of the time for a program that searches ordered indexes, and give its triggers
nothing: those of Q17, of TPC-H, run 3 % fewer instructions without them."""

LEFT_OUT_OF_MANY = (
    "-fira-region=one",
    *(
        f"-fno-{name}"
        for name in (
            *("tree-dominator-opts", "tree-pta", "tree-ch", "tree-loop-optimize", "tree-sink"),
            *("ipa-modref", "ipa-pure-const", "ipa-reference", "ipa-reference-addressable"),
            *("move-loop-invariants", "dse", "cprop-registers", "forward-propagate", "shrink-wrap"),
            *("tree-copy-prop", "if-conversion", "if-conversion2"),
        )
    ),
)
"""And those that take another third of the time for a program of many statements, which mostly calls.

To give registers out loop by loop takes a fifth of it by itself.
"""

LEFT_OUT_OF_HUGE = tuple(
    f"-fno-{name}" for name in ("expensive-optimizations", "rerun-cse-after-loop", "thread-jumps", "tree-fre")
)
"""And those that take an eighth of the time for hundreds of statements, which run as fast without."""

Effort: TypeAlias = Literal["speed", "searches", "lookups", "quick", "small"]
"""How much the compiler is asked to do: all; what searches gain by; what lookups do; less of that; little."""

_FORMAT = "viewlet-native-1"
_STALE_SECONDS = 3600.0
_NO_COMPILER = "no C compiler found: install gcc or clang, set CC, or install the extra viewlet[zig]"


class CompilerError(BackendError):
    """The C compiler is missing, failed, or rejected a program; the message carries what it said."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A command that compiles C, with the version text that makes its output what it is."""

    command: tuple[str, ...]
    version: str


def find_compiler() -> Compiler | None:
    """``$CC``, else the first of cc, gcc, clang on the path, else the ``ziglang`` package, else None.

    ``$CC`` is a command with arguments, quoted as for a shell, or a path as it is, spaces included. One that
    cannot be run is an error, not a reason to look further.
    """
    wanted = os.environ.get("CC", "").strip()
    if wanted:
        compiler = _probe((wanted,)) or _probe(_words("CC"))
        if compiler is None:
            raise CompilerError(f"$CC is {wanted!r}, but that cannot be run; unset CC or name a C compiler")
        return compiler
    for command in (("cc",), ("gcc",), ("clang",)):
        if compiler := _probe(command):
            return compiler
    if importlib.util.find_spec("ziglang") is not None:
        return _probe((sys.executable, "-m", "ziglang", "cc"))
    return None


def obstacle() -> str | None:
    """Why programs cannot be compiled here, and what would help; None if they can.

    >>> obstacle()
    """
    if find_compiler() is None:
        return _NO_COMPILER
    if not (python_headers() / "Python.h").exists():
        return f"no Python.h in {python_headers()}: install its package (python3-dev, python3-devel)"
    return None


@lru_cache(maxsize=1)
def python_headers() -> Path:
    """Where the headers of this Python are, if they are installed."""
    return Path(sysconfig.get_paths()["include"])


def _words(variable: str) -> tuple[str, ...]:
    """The words of an environment variable, split as a shell does."""
    text = os.environ.get(variable, "")
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise CompilerError(f"${variable} is {text!r}, which a shell cannot read: {error}") from error


def flags_for(effort: Effort, flags: Sequence[str]) -> tuple[str, ...]:
    """With fewer passes, and those of ``-O1`` or for small code, where that is enough effort.

    >>> flags_for("quick", ("-O0", "-g"))
    ('-O0', '-g')
    """
    if "-O2" not in flags or effort == "speed":
        return tuple(flags)
    level = {"searches": "-O2", "lookups": "-O2", "quick": "-O1", "small": "-Os"}[effort]
    chosen = tuple(level if flag == "-O2" else flag for flag in flags)
    compiler = find_compiler()
    is_gnu = compiler is not None and "Free Software Foundation" in compiler.version
    if not is_gnu:
        return chosen
    if effort == "searches":
        return (*chosen, *LEFT_OUT_OF_SEARCHES)
    left_out = {"lookups": (), "quick": LEFT_OUT_OF_MANY, "small": (*LEFT_OUT_OF_MANY, *LEFT_OUT_OF_HUGE)}
    return (*chosen, *LEFT_OUT, *left_out[effort])


@lru_cache(maxsize=16)
def _probe(command: tuple[str, ...]) -> Compiler | None:
    executable = shutil.which(command[0])
    if executable is None:
        return None
    resolved = (executable, *command[1:])
    try:
        answer = subprocess.run([*resolved, "--version"], capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Compiler(resolved, answer.stdout) if answer.returncode == 0 else None


def compile_library(
    source: str,
    *,
    includes: Sequence[Path] = (RUNTIME,),
    flags: Sequence[str] = DEFAULT_FLAGS,
    compiler: Compiler | None = None,
) -> Path:
    """The shared library of ``source``, from the cache when an identical one was built before.

    ``includes`` are searched for ``#include "..."`` only, and every header in them counts for the cache
    key; system directories go into ``flags``. What ``$VIEWLET_CFLAGS`` says comes last, so that ``-Og -g``
    there gives programs to step through. Raises :class:`CompilerError` with the compiler's message.
    """
    compiler = compiler or find_compiler()
    if compiler is None:
        raise CompilerError(_NO_COMPILER)
    flags = (*flags, *_words("VIEWLET_CFLAGS"))
    shelf = cache_directory() / library_key(source, includes, flags, compiler)
    if (cached := _verified(shelf)) is not None:
        return cached
    return _build(shelf, source, includes, flags, compiler)


def cache_directory() -> Path:
    """``$VIEWLET_CACHE``, else ``viewlet`` in the XDG cache folder; created with mode 0700 and checked."""
    chosen = os.environ.get("VIEWLET_CACHE")
    try:
        if chosen:
            directory = Path(chosen)
        else:
            directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "viewlet"
    except RuntimeError as error:  # a user without a home
        raise CompilerError(f"no place for compiled programs: {error} Set VIEWLET_CACHE") from error
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        raise CompilerError(
            f"cannot use {directory} for compiled programs: {error}; set VIEWLET_CACHE"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CompilerError(
            f"{directory} must be a directory that only its user can enter, because programs are loaded "
            f"from it: run chmod 700 {directory}, or set VIEWLET_CACHE to another place"
        )
    return directory


def library_key(source: str, includes: Iterable[Path], flags: Sequence[str], compiler: Compiler) -> str:
    """The hash of everything that decides the library's bytes."""
    parts = [_FORMAT, sys.platform, platform.machine(), *compiler.command, compiler.version, *flags]
    if any(flag.endswith("=native") for flag in flags):
        parts.append(_processor())
    for folder in includes:
        for header in sorted(folder.glob("*.h")):
            parts += [header.name, header.read_text(encoding="utf-8")]
    digest = hashlib.sha256()
    for part in (*parts, source):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _processor() -> str:
    """What ``-march=native`` looks at, so that a home directory shared by machines stays safe."""
    wanted = ("model name", "flags", "features", "cpu part")
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.lower().startswith(wanted)}))


def _verified(shelf: Path) -> Path | None:
    """A library on the shelf with the right owner, mode and hash; what fails the test is removed."""
    try:
        entries = sorted(shelf.glob("*.so"))
    except OSError:
        return None
    for path in entries:
        try:
            found = path.lstat()
            sound = (
                stat.S_ISREG(found.st_mode)
                and found.st_uid == os.getuid()
                and not found.st_mode & 0o022
                and hashlib.sha256(path.read_bytes()).hexdigest() == path.stem
            )
        except FileNotFoundError:
            continue
        if sound:
            return path
        path.unlink(missing_ok=True)
    return None


def _build(
    shelf: Path, source: str, includes: Sequence[Path], flags: Sequence[str], compiler: Compiler
) -> Path:
    shelf.mkdir(mode=0o700, exist_ok=True)
    _remove_stale(shelf)
    with tempfile.TemporaryDirectory(prefix=f"build-{os.getpid()}-", dir=shelf) as folder:
        program, library = Path(folder, "program.c"), Path(folder, "program.so")
        program.write_text(source, encoding="utf-8")
        paths = [flag for include in includes for flag in ("-iquote", str(include))]
        command = [*compiler.command, *flags, *paths, "-o", str(library), str(program)]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=folder)
        except OSError as error:
            raise CompilerError(f"cannot run {compiler.command[0]}: {error}") from error
        if answer.returncode != 0:
            said = answer.stderr.strip() or f"exit status {answer.returncode}, no message"
            raise CompilerError(f"{' '.join(compiler.command)} rejected the program:\n{_head(said)}")
        data = library.read_bytes()
        library.chmod(0o500)
        with library.open("rb") as file:
            os.fsync(file.fileno())
        final = shelf / f"{hashlib.sha256(data).hexdigest()}.so"
        library.replace(final)
    return final


def _head(text: str, lines: int = 40) -> str:
    """The first lines: one mistake in C makes hundreds."""
    every = text.splitlines()
    return "\n".join(every[:lines] + ([f"... and {len(every) - lines} more lines"] if every[lines:] else []))


def _remove_stale(shelf: Path) -> None:
    """Folders that a killed builder left behind.

    They are old, for another machine may share the cache, and their process is gone, for clocks jump.
    """
    for folder in shelf.glob("build-*"):
        try:
            is_old = time.time() - folder.lstat().st_mtime > _STALE_SECONDS
        except FileNotFoundError:
            continue
        if is_old and not Path("/proc", folder.name.split("-")[1]).exists():
            shutil.rmtree(folder, ignore_errors=True)
