"""Completion at a shell's prompt: the scripts, and what a real bash makes of them."""

from __future__ import annotations

import shutil
import subprocess
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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_read_without_complaint(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    text = script(shell, tuple(commands(parser())))
    subprocess.run([shell, "-n"], input=text, check=True, text=True, timeout=20)
