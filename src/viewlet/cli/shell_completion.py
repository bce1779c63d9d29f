"""print a script that completes viewlet's commands and options at your shell's prompt.

bash:  viewlet completion bash > ~/.local/share/bash-completion/completions/viewlet
zsh:   viewlet completion zsh > "${fpath[1]}/_viewlet"
fish:  viewlet completion fish > ~/.config/fish/completions/viewlet.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from viewlet.cli.outcome import DONE

NAME = "completion"


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command: its spellings, what it is for, and the values that it can have, if few."""

    spellings: tuple[str, ...]
    about: str
    choices: tuple[str, ...]
    takes_value: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its options, and the words that may follow it, if few."""

    name: str
    about: str
    options: tuple[Option, ...]
    choices: tuple[str, ...]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="which shell")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    from viewlet.cli import parser  # it imports this command

    print(script(options.shell, tuple(commands(parser()))))
    return DONE


def commands(whole: argparse.ArgumentParser) -> Iterator[Command]:
    """What the grammar of the command line says about each command."""
    (action,) = [a for a in whole._actions if isinstance(a, argparse._SubParsersAction)]
    abouts = {choice.dest: choice.help or "" for choice in action._choices_actions}
    for name, own in action.choices.items():
        options = [_option(a) for a in own._actions if a.option_strings]
        words = [str(w) for a in own._actions if not a.option_strings for w in a.choices or ()]
        yield Command(name, abouts.get(name, ""), tuple(options), tuple(words))


def _option(action: argparse.Action) -> Option:
    about = (action.help or "").split(" (default", 1)[0]
    choices = tuple(str(choice) for choice in action.choices or ())
    return Option(tuple(action.option_strings), about, choices, action.nargs != 0)


def script(shell: str, known: tuple[Command, ...]) -> str:
    """The script for a shell.

    >>> tiny = Command("demo", "show it", (Option(("--quick",), "shorter", (), False),), ())
    >>> print(script("fish", (tiny,)))
    complete -c viewlet -n __fish_use_subcommand -f -a demo -d 'show it'
    complete -c viewlet -n '__fish_seen_subcommand_from demo' -l quick -d shorter
    """
    return _SCRIPTS[shell](known)


def _bash(known: tuple[Command, ...]) -> str:
    cases = []
    for command in known:
        for option in command.options:
            if option.choices:
                spelled = "|".join(f"{command.name}:{s}" for s in option.spellings)
                cases.append(f'    {spelled}) words="{" ".join(option.choices)}" ;;')
            elif option.takes_value:
                spelled = "|".join(f"{command.name}:{s}" for s in option.spellings)
                cases.append(f"    {spelled}) files=1 ;;")
        spellings = [s for option in command.options for s in option.spellings]
        cases.append(f'    {command.name}:*) words="{" ".join([*command.choices, *spellings])}"; files=1 ;;')
    names = " ".join(command.name for command in known)
    return "\n".join(
        [
            "_viewlet() {",
            '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            '  local words="" files=""',
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f'    COMPREPLY=($(compgen -W "{names}" -- "$current"))',
            "    return",
            "  fi",
            '  case "${COMP_WORDS[1]}:$before" in',
            *cases,
            "  esac",
            "  local IFS=$' \\n'",
            '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
            '  if [ -n "$files" ] && [[ "$current" != -* ]]; then',
            "    IFS=$'\\n'",  # names of files may hold blanks
            '    COMPREPLY+=($(compgen -f -- "$current"))',
            "  fi",
            "}",
            "complete -o filenames -F _viewlet viewlet",
        ]
    )


def _zsh(known: tuple[Command, ...]) -> str:
    lines = ["#compdef viewlet", "_viewlet() {", "  if (( CURRENT == 2 )); then", "    local -a commands=("]
    lines += [f"      {_quoted(f'{command.name}:{command.about}')}" for command in known]
    lines += ["    )", "    _describe command commands", "    return", "  fi", '  case "$words[2]" in']
    for command in known:
        specs = []
        for option in command.options:
            about = option.about.replace("[", "(").replace("]", ")").replace(":", " ")
            values = f": :({' '.join(option.choices)})" if option.choices else ": :_files"
            for spelling in option.spellings:
                specs.append(_quoted(f"{spelling}[{about}]" + (values if option.takes_value else "")))
        rest = f"*: :({' '.join(command.choices)})" if command.choices else "*: :_files"
        lines.append(
            f"    {command.name}) shift words; (( CURRENT-- )); _arguments {' '.join(specs)} '{rest}' ;;"
        )
    # Found in $fpath, the file is the function itself when it is first needed, and has to complete at once.
    first = 'if [[ "$funcstack[1]" = _viewlet ]]; then _viewlet "$@"; else compdef _viewlet viewlet; fi'
    return "\n".join([*lines, "  esac", "}", first])


def _fish(known: tuple[Command, ...]) -> str:
    lines = []
    for command in known:
        at_start = "complete -c viewlet -n __fish_use_subcommand -f"
        lines.append(f"{at_start} -a {command.name} -d {_quoted(command.about)}")
    for command in known:
        inside = f"complete -c viewlet -n '__fish_seen_subcommand_from {command.name}'"
        if command.choices:
            lines.append(f"{inside} -f -a {_quoted(' '.join(command.choices))}")
        for option in command.options:
            spelled = " ".join(
                f"-{'l' if s.startswith('--') else 's'} {s.lstrip('-')}" for s in option.spellings
            )
            value = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r"
            lines.append(
                f"{inside} {spelled}{value if option.takes_value else ''} -d {_quoted(option.about)}"
            )
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A word for a shell."""
    if text and all(letter.isalnum() or letter in "-_" for letter in text):
        return text
    return "'" + text.replace("'", "’") + "'"


_SCRIPTS: dict[str, Callable[[tuple[Command, ...]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
