"""The cheapest order in which to multiply a chain of matrices."""

from __future__ import annotations

from typing import TypeAlias

Order: TypeAlias = "int | tuple[Order, Order]"


def chain_order(dimensions: tuple[int, ...]) -> Order:
    """Parenthesize M_0 M_1 ... where M_i is dimensions[i] x dimensions[i + 1], with the fewest flops.

    The classic dynamic program, O(m^3) for m matrices.

    >>> chain_order((1000, 1000, 1000, 1))      # A (B x), not (A B) x
    (0, (1, 2))
    """
    count = len(dimensions) - 1
    best: dict[tuple[int, int], tuple[int, Order]] = {(i, i): (0, i) for i in range(count)}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length - 1
            best[i, j] = min(
                (
                    (
                        best[i, m][0]
                        + best[m + 1, j][0]
                        + dimensions[i] * dimensions[m + 1] * dimensions[j + 1],
                        (best[i, m][1], best[m + 1, j][1]),
                    )
                    for m in range(i, j)
                ),
                key=lambda choice: choice[0],
            )
    return best[0, count - 1][1]
