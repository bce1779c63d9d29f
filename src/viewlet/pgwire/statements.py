"""What clients may ask for: reads, subscriptions, and the small talk of sessions; the rest is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlglot import exp

TransactionWord: TypeAlias = Literal["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "ROLLBACK TO"]


@dataclass(frozen=True, slots=True)
class Read:
    """A query over tables, views and the system catalog."""

    query: exp.Query


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The changes of a view from now on; with ``snapshot`` its present rows come first."""

    view: str
    snapshot: bool
    weights: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """The rows of a read or subscription as lines of text, which clients show as they come."""

    source: Read | Subscribe
    form: Literal["text", "csv"] = "text"
    header: bool = False


@dataclass(frozen=True, slots=True)
class Explain:
    """How a view is kept, by its name; or how a query would be."""

    target: str | exp.Query


@dataclass(frozen=True, slots=True)
class Transaction:
    """Transactions change nothing here, but clients want them answered."""

    word: TransactionWord


@dataclass(frozen=True, slots=True)
class SetParameter:
    """Give a parameter of the session a value; ``None`` is its default."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Show:
    """The value of a parameter of the session."""

    name: str


@dataclass(frozen=True, slots=True)
class Declare:
    """A portal by SQL: rows of a query, fetched by name."""

    name: str
    query: exp.Query


@dataclass(frozen=True, slots=True)
class Fetch:
    """The next rows of a portal; ``count`` of zero is all."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """Forget a portal, or all of them."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Deallocate:
    """Forget a prepared statement, or all of them."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Discard:
    """Forget everything about the session."""


@dataclass(frozen=True, slots=True)
class Unlisten:
    """Nobody listens here; pools of connections say so all the same before they reuse one."""


Statement: TypeAlias = (
    Read
    | Subscribe
    | Copy
    | Explain
    | Transaction
    | SetParameter
    | Show
    | Declare
    | Fetch
    | CloseCursor
    | Deallocate
    | Discard
    | Unlisten
)
