"""Completion at a shell's prompt: the scripts, and what a real bash makes of them."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import termios
from pathlib import Path

import pytest

from viewlet.cli import COMMANDS, main, parser
from viewlet.cli.shell_completion import commands, script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_there(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    known = list(commands(parser()))
    assert [command.name for command in known] == [command.NAME for command in COMMANDS]
    for command in known:
        for option in command.options:
            for spelling in option.spellings:
                assert spelling.lstrip("-") in text, f"{command.name} {spelling}"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["viewlet", "sh"], {"shell"}),
        (["viewlet", ""], {command.NAME for command in COMMANDS}),
        (["viewlet", "shell", "--dia"], {"--dialect"}),
        (["viewlet", "shell", "--backend", "n"], {"native"}),
        (["viewlet", "completion", ""], {"bash", "zsh", "fish", "-h", "--help"}),
        (["viewlet", "explain", "q"], {"queries.sql"}),
    ],
)
def test_bash_completes(typed: list[str], expected: set[str], tmp_path: Path) -> None:
    text = script("bash", tuple(commands(parser())))
    words = " ".join(f"'{word}'" for word in typed)
    asked = f"COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; _viewlet"
    program = "\n".join([text, asked, "printf '%s\\n' \"${COMPREPLY[@]}\""])
    (tmp_path / "queries.sql").touch()
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)
    found = set(done.stdout.split())
    assert expected <= found
    assert found <= expected | {"queries.sql"}


TYPED = [
    ("viewlet sh", "shell"),
    ("viewlet shell --dia", "--dialect"),
    ("viewlet shell --backend na", "native"),
    ("viewlet completion zs", "zsh"),
    ("viewlet explain quer", "queries.sql"),
]


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
@pytest.mark.parametrize(("typed", "expected"), TYPED)
def test_fish_completes(typed: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "queries.sql").touch()
    (tmp_path / "viewlet.fish").write_text(script("fish", tuple(commands(parser()))))
    asked = ["fish", "-c", f"source viewlet.fish; complete -C '{typed}'"]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(
        asked, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=20
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [expected]
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
@pytest.mark.parametrize(("typed", "expected"), TYPED)
def test_zsh_completes(typed: str, expected: str, tmp_path: Path) -> None:
    """At a prompt, for zsh completes nowhere else: Tab, then a key that writes down what stands there."""
    (tmp_path / "queries.sql").touch()
    (tmp_path / "_viewlet").write_text(script("zsh", tuple(commands(parser()))))
    show = "show() { print -r -- $BUFFER > line; exit }; zle -N show; bindkey '^T' show"
    # Keys that wait behind a Tab would make it one of text: they are typed faster than it completes.
    show += "; zstyle ':completion:*' insert-tab false"
    (tmp_path / ".zshrc").write_text(
        f"fpath=($PWD $fpath); autoload -U compinit; compinit -u; {show}; PS1=ready:\n"
    )
    environment = {**os.environ, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "vt100"}
    here, there = pty.openpty()
    termios.tcsetwinsize(there, (24, 80))
    with subprocess.Popen(
        ["zsh", "-i"], cwd=tmp_path, env=environment, stdin=there, stdout=there, stderr=there, close_fds=True
    ) as process:
        os.close(there)
        seen = b""
        while b"ready:" not in seen:
            seen += os.read(here, 1024)
        os.write(here, f"{typed}\t\x14".encode())
        process.wait(timeout=20)
        os.close(here)
    assert (tmp_path / "line").read_text().split()[-1] == expected, seen


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_read_without_complaint(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    text = script(shell, tuple(commands(parser())))
    subprocess.run([shell, "-n"], input=text, check=True, text=True, timeout=20)
