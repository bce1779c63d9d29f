"""Completion and history at the prompt, where Python has readline."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from viewlet.cli.session import Session

HISTORY_LINES = 10_000

WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT DISTINCT AS AND OR NOT NULL IS IN EXISTS BETWEEN "
    "LIKE CASE WHEN THEN ELSE END JOIN LEFT RIGHT FULL INNER OUTER CROSS ON USING UNION ALL INTERSECT "
    "EXCEPT WITH INSERT INTO VALUES UPDATE SET DELETE TRUNCATE MERGE MATCHED "
    "SHOW DESCRIBE CREATE REPLACE TABLE STATIC STREAM MATERIALIZED VIEW "
    "REFRESH AUTO INCREMENTAL STRICT DROP EXPLAIN PRIMARY KEY BIGINT INT DOUBLE DECIMAL VARCHAR DATE "
    "TIMESTAMP BOOLEAN SUM COUNT AVG MIN MAX COALESCE CAST EXTRACT SUBSTRING"
)


def candidates(session: Session, prefix: str) -> list[str]:
    """What a prefix may become: commands, names of relations and columns, words of SQL in its own case.

    >>> import viewlet
    >>> from viewlet.cli.output import TextOutput
    >>> db = viewlet.connect()
    >>> db.execute("CREATE TABLE sales (seller VARCHAR, amount BIGINT)")
    >>> candidates(Session(db, TextOutput(print)), "se")
    ['seller', 'select', 'set']
    """
    if prefix.startswith("."):
        return [name for name in session.commands if name.startswith(prefix)]
    names = {table.name for table in session.db.catalog.values()}
    names |= {column.name for table in session.db.catalog.values() for column in table.columns}
    words = (WORDS if prefix.isupper() else WORDS.lower()).split()
    found = sorted(name for name in names if name.startswith(prefix.lower()))
    return found + sorted(word for word in words if word.startswith(prefix))


def _completion(session: Session, prefix: str, number: int) -> str | None:
    """The candidate of a number, for readline; the only candidate comes with the blank that follows it."""
    found = candidates(session, prefix)
    if number >= len(found):
        return None
    return found[number] if len(found) > 1 else f"{found[number]} "


def history_file() -> Path:
    """Where the history is kept: ``$XDG_STATE_HOME/viewlet/history`` or the usual place for it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "viewlet" / "history"


Remember = Callable[[str], None]
"""Takes a statement that was typed in several lines: history should give it back as one."""


@contextmanager
def with_readline(session: Session) -> Iterator[Remember]:
    """Complete while the context lasts, and keep the history; without readline, a plain prompt."""
    try:
        import readline
    except ImportError:
        yield lambda statement: None
        return

    def remember(statement: str) -> None:
        lines = [line for line in statement.split("\n") if line]
        length = readline.get_current_history_length()
        typed = [readline.get_history_item(length - i) for i in reversed(range(len(lines)))]
        if len(lines) > 1 and typed == lines:
            for i in range(1, len(lines) + 1):
                readline.remove_history_item(length - i)
            readline.add_history(" ".join(map(str.strip, lines)))

    readline.set_completer_delims(" \t\n,;()=<>+-*/")
    readline.set_completer(lambda prefix, number: _completion(session, prefix, number))
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    path = history_file()
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield remember
    finally:
        readline.set_completer(None)
        # A history that cannot be written is not worth an error on the way out.
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            readline.set_history_length(HISTORY_LINES)
            readline.write_history_file(path)
