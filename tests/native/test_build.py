"""The library cache: hits, keys, verification, races, killed builders, clear errors."""

from __future__ import annotations

import ctypes
import doctest
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from viewlet.backends import engine_for
from viewlet.backends.native import build
from viewlet.backends.native.build import CompilerError, find_compiler
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.errors import BackendError

pytestmark = pytest.mark.native


def source(answer: int) -> str:
    return f'__attribute__((visibility("default"))) int answer(void) {{ return {answer}; }}\n'


def compile_library(text, includes=(), **options):
    """Without the runtime's headers, so that the cache key depends on nothing but the test."""
    return build.compile_library(text, includes=includes, **options)


def call(path) -> int:
    return ctypes.CDLL(str(path)).answer()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VIEWLET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_examples_run():
    assert doctest.testmod(build).failed == 0


def test_an_identical_program_is_compiled_once(monkeypatch):
    path = compile_library(source(1))
    monkeypatch.setattr(build, "_build", lambda *_: pytest.fail("compiled again"))
    assert compile_library(source(1)) == path
    assert call(path) == 1


def test_source_flags_and_headers_each_change_the_key(tmp_path):
    header = tmp_path / "value.h"
    header.write_text("#define VALUE 1\n")
    text = '#include "value.h"\n__attribute__((visibility("default"))) int answer(void) { return VALUE; }'
    first = compile_library(text, includes=(tmp_path,))
    assert compile_library(text, includes=(tmp_path,), flags=build.BASELINE_FLAGS).parent != first.parent
    header.write_text("#define VALUE 2\n")
    second = compile_library(text, includes=(tmp_path,))
    assert (call(first), call(second)) == (1, 2)


def test_flags_of_the_environment_come_last(monkeypatch):
    text = '__attribute__((visibility("default"))) int answer(void) { return VALUE; }'
    monkeypatch.setenv("VIEWLET_CFLAGS", "-DVALUE=3 '-UNONE SUCH'")
    assert call(compile_library(text, includes=())) == 3
    monkeypatch.setenv("VIEWLET_CFLAGS", "-DVALUE=4")
    assert call(compile_library(text, includes=())) == 4


@pytest.mark.parametrize("damage", ["bytes", "mode", "link"])
def test_a_tampered_library_is_never_handed_out(damage, tmp_path):
    path = compile_library(source(2))
    good = path.read_bytes()
    match damage:
        case "bytes":
            path.chmod(0o700)
            path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        case "mode":
            path.chmod(0o777)
        case "link":
            elsewhere = tmp_path / "elsewhere.so"
            elsewhere.write_bytes(good)
            path.unlink()
            path.symlink_to(elsewhere)
    again = compile_library(source(2))
    assert not again.is_symlink()
    assert again.stat().st_mode & 0o077 == 0
    assert again.read_bytes() == good
    assert call(again) == 2


def test_an_open_cache_directory_is_refused(cache):
    cache.mkdir(mode=0o755)
    cache.chmod(0o755)
    with pytest.raises(CompilerError, match="chmod 700"):
        compile_library(source(3))


def test_the_compilers_words_reach_the_user(cache):
    with pytest.raises(CompilerError, match="undeclared_name") as error:
        compile_library("int f(void) { return undeclared_name; }")
    assert isinstance(error.value, BackendError)
    assert not list(cache.glob("*/*"))


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerError, match="no-such-compiler"):
        find_compiler()
    monkeypatch.delenv("CC")
    monkeypatch.setattr(build, "_probe", lambda _: None)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda _: None)
    assert find_compiler() is None
    with pytest.raises(CompilerError, match="install gcc"):
        compile_library(source(4))


def test_cc_may_carry_arguments(monkeypatch):
    compiler = find_compiler()
    assert compiler is not None
    monkeypatch.setenv("CC", f"{compiler.command[0]} -DANSWER=11")
    text = '__attribute__((visibility("default"))) int answer(void) { return ANSWER; }'
    assert call(compile_library(text)) == 11


@pytest.mark.parametrize("quoted", [False, True])
def test_cc_may_be_a_path_with_spaces(quoted, tmp_path, monkeypatch):
    compiler = find_compiler()
    assert compiler is not None
    spaced = tmp_path / "my tools" / "cc"
    spaced.parent.mkdir()
    spaced.write_text(f'#!/bin/sh\nexec {shlex.join(compiler.command)} "$@"\n')
    spaced.chmod(0o755)
    monkeypatch.setenv("CC", f"{shlex.quote(str(spaced))} -DANSWER=12" if quoted else str(spaced))
    assert call(compile_library(source(12).replace("12", "ANSWER") if quoted else source(12))) == 12


@pytest.mark.parametrize("variable", ["CC", "VIEWLET_CFLAGS"])
def test_words_that_no_shell_can_read_are_named(variable, monkeypatch):
    monkeypatch.setenv(variable, "gcc 'unfinished")
    with pytest.raises(CompilerError, match=rf"\${variable} is .*unfinished"):
        compile_library(source(13))


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("VIEWLET_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(build.Path, "home", no_home)
    with pytest.raises(CompilerError, match="VIEWLET_CACHE"):
        compile_library(source(14))


@pytest.mark.parametrize("missing", ["compiler", "headers"])
def test_without_a_compiler_or_headers_views_are_interpreted_and_it_is_said(missing, tmp_path, monkeypatch):
    match missing:
        case "compiler":
            monkeypatch.setattr(build, "find_compiler", lambda: None)
        case "headers":
            monkeypatch.setattr(build, "python_headers", lambda: tmp_path)
    word = {"compiler": "no C compiler", "headers": r"no Python\.h"}[missing]
    with pytest.warns(RuntimeWarning, match=f"{word}.*reference engine"):
        assert isinstance(engine_for("auto", "auto"), ReferenceEngine)
    with pytest.raises(BackendError, match=f"'native': {word}"):
        engine_for("native", "auto")


def test_many_builders_at_once():
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: compile_library(source(5)), range(8)))
    assert {call(path) for path in paths} == {5}


def test_a_killed_builder_leaves_no_poison(tmp_path, cache):
    """Kill -9 while the compiler runs: the next build starts over and its library is whole."""
    slow = tmp_path / "slow-cc"
    real = find_compiler()
    assert real is not None
    shell = '#!/bin/sh\ncase "$*" in *--version*) echo slow;; *) {}; esac\n'
    compile_only = f'{real.command[0]} "$@";'
    slow.write_text(shell.format(f"{compile_only} touch {tmp_path}/built; sleep 60;"))
    slow.chmod(0o755)
    script = textwrap.dedent(f"""
        from viewlet.backends.native.build import compile_library
        compile_library({source(6)!r}, includes=())
    """)
    environment = {**os.environ, "CC": str(slow)}
    child = subprocess.Popen([sys.executable, "-c", script], env=environment, start_new_session=True)
    deadline = time.time() + 120
    while not (tmp_path / "built").exists() and time.time() < deadline:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert not list(cache.glob("*/*.so"))
    (leftover,) = cache.glob("*/build-*")
    os.utime(leftover, (0, 0))
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *--version*) echo slow;; *) exec {real.command[0]} "$@";; esac\n'
    )
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    assert not leftover.exists()
    (library,) = cache.glob("*/*.so")
    assert call(library) == 6
