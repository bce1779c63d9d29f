"""Fresh names that are the same on every run."""

from __future__ import annotations

from viewlet.errors import ProgramSizeError


class Names:
    """Hands out names that were not handed out before: ``x``, ``x_2``, ``x_3``, ...

    >>> names = Names()
    >>> names.fresh("price"), names.fresh("price"), names.fresh("volume")
    ('price', 'price_2', 'volume')

    With ``most``, names are also the measure of a program that grows without end: every copy of a nested
    query takes new ones, whatever the machine, so the same query is refused everywhere.
    """

    def __init__(self, taken: frozenset[str] = frozenset(), most: int | None = None) -> None:
        self._taken = set(taken)
        self._most = most
        self._discount = 0
        self._next: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """A name that starts with ``stem`` and is new."""
        name, n = stem, self._next.get(stem, 1)
        while name in self._taken:
            n += 1
            name = f"{stem}_{n}"
        self.check(len(self._taken) - self._discount + 1)
        self._next[stem] = n
        self._taken.add(name)
        return name

    def discount(self, count: int) -> None:
        """So many of the names handed out are no measure of anything."""
        self._discount += count

    def check(self, count: int) -> None:
        """Refuse what has that many names, new ones or not."""
        if self._most is not None and count > self._most:
            raise ProgramSizeError(
                f"the changes of the query take more than {self._most:,} names to write down: split it into "
                "several views, or have it recomputed (REFRESH FULL)"
            )

    def snapshot(self) -> Names:
        """What was handed out so far, for :meth:`restore`.

        >>> names = Names()
        >>> before = names.snapshot()
        >>> names.fresh("price")
        'price'
        >>> names.restore(before)
        >>> names.fresh("price")
        'price'
        """
        kept = Names(frozenset(self._taken), self._most)
        kept._discount, kept._next = self._discount, dict(self._next)
        return kept

    def restore(self, earlier: Names) -> None:
        """Take back what was handed out since: nobody may use it."""
        self._taken, self._discount, self._next = earlier._taken, earlier._discount, earlier._next
