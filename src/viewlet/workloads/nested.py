"""Data for the nested queries over ``r(a, b)``: domains so small that sums meet each other exactly.

The queries compare a share of the total with a group's sum or maximum by ``=``; over wide domains they would
never find anything.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewlet.workloads import draws


def tables(rows: int, *, groups: int = 4, values: int = 4, seed: int = 0) -> dict[str, pa.Table]:
    """``r`` with ``a`` in [0, groups) and ``b`` in [1, values].

    >>> tables(3)["r"].column_names
    ['a', 'b']
    """
    index = np.arange(rows)
    return {
        "r": pa.table(
            {
                "a": draws.integers(seed, "a", index, 0, groups),
                "b": draws.integers(seed, "b", index, 1, values + 1),
            }
        )
    }
