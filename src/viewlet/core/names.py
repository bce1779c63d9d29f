"""Fresh names that are the same on every run."""

from __future__ import annotations


class Names:
    """Hands out names that were not handed out before: ``x``, ``x_2``, ``x_3``, ...

    >>> names = Names()
    >>> names.fresh("price"), names.fresh("price"), names.fresh("volume")
    ('price', 'price_2', 'volume')
    """

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """A name that starts with ``stem`` and is new."""
        name, n = stem, self._next.get(stem, 1)
        while name in self._taken:
            n += 1
            name = f"{stem}_{n}"
        self._next[stem] = n
        self._taken.add(name)
        return name
