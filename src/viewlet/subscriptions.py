"""Who wants to know about the changes of which view, and telling them after each commit.

If a subscriber raises, the commit stays, the others are still called, and :class:`SubscriberError` reports
it: a reader must not be able to undo what a writer has written.

An early subscriber is told before the commit is written, and refuses it by raising: what it notes down is
there whenever the commit is, and also when the commit then fails. It must not use the database.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pyarrow as pa

from viewlet.backends.base import ArrowChanges, Bag
from viewlet.changes import feed, feed_of_arrow
from viewlet.core.types import Schema
from viewlet.errors import ViewletError


class SubscriberError(ViewletError):
    """A subscriber raised. The commit that it was told about, ``version``, has happened and stays."""

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version


class Subscription:
    """A callback on a view's changes, until it is closed."""

    def __init__(
        self, view: str, callback: Callable[[pa.Table], object], weights: bool, early: bool = False
    ) -> None:
        self.view = view
        self.callback = callback
        self.weights = weights
        self.early = early
        self.active = True

    def close(self) -> None:
        """No more calls from now on."""
        self.active = False

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<subscription to {self.view}, {'active' if self.active else 'closed'}>"


class Subscriptions:
    """The subscriptions of a database, and the news that are still to be delivered, in commit order."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []
        self._news: deque[tuple[Subscription, pa.Table, int]] = deque()
        self._delivering = False

    def add(self, subscription: Subscription) -> None:
        """Tell a subscriber from now on."""
        self._subscriptions.append(subscription)

    def close(self, view: str) -> None:
        """End the subscriptions to a view that goes away."""
        for subscription in self._subscriptions:
            if subscription.view == view:
                subscription.close()

    def watched(self) -> frozenset[str]:
        """The views that somebody wants to know about."""
        self._subscriptions = [subscription for subscription in self._subscriptions if subscription.active]
        return frozenset(subscription.view for subscription in self._subscriptions)

    def announce(self, view: str, change: Bag | ArrowChanges, columns: Schema, version: int) -> None:
        """Queue a view's own change for its subscribers; no change, no news."""
        for subscription in self._of(view, early=False) if change else ():
            self.tell(subscription, change, columns, version)

    def announce_early(self, view: str, change: Bag | ArrowChanges, columns: Schema, version: int) -> None:
        """Call the early subscribers with what a commit is about to change in a view."""
        for subscription in self._of(view, early=True) if change else ():
            subscription.callback(_table(subscription, change, columns, version))

    def _of(self, view: str, *, early: bool) -> list[Subscription]:
        return [s for s in self._subscriptions if s.view == view and s.early is early and s.active]

    def tell(
        self, subscription: Subscription, change: Bag | ArrowChanges, columns: Schema, version: int
    ) -> None:
        """Queue a change for one subscriber."""
        self._news.append((subscription, _table(subscription, change, columns, version), version))

    def deliver(self) -> None:
        """Call the subscribers; what their own commits announce is queued behind, so order is kept."""
        if self._delivering:
            return
        self._delivering = True
        failures: list[tuple[Subscription, int, Exception]] = []
        try:
            while self._news:
                subscription, table, version = self._news.popleft()
                if subscription.active:
                    try:
                        subscription.callback(table)
                    except Exception as failure:
                        failures.append((subscription, version, failure))
        finally:
            self._delivering = False
        if failures:
            raise _report(failures) from failures[0][2]


def _table(subscription: Subscription, change: Bag | ArrowChanges, columns: Schema, version: int) -> pa.Table:
    if isinstance(change, ArrowChanges):
        return feed_of_arrow(change, version, subscription.weights)
    return feed(change, columns, version, subscription.weights)


def _report(failures: list[tuple[Subscription, int, Exception]]) -> SubscriberError:
    subscription, version, reason = failures[0]
    what = f"{type(reason).__name__}: {reason}"
    more = f" (and {len(failures) - 1} more failures)" if len(failures) > 1 else ""
    who = f"a subscriber of view {subscription.view!r}"
    return SubscriberError(f"commit {version} is applied and stays, but {who} raised {what}{more}", version)
