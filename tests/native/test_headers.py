"""Each header stands alone without a warning, and the example of the guide runs."""

from __future__ import annotations

import ctypes
import re
import subprocess

import numpy as np
import pytest

from native.conftest import WARNINGS
from viewlet.backends.native.build import RUNTIME, compile_library, find_compiler

pytestmark = pytest.mark.native

ALONE = ("status", "arena", "hash", "pool", "map", "ahead", "text", "interned", "number", "calendar")
OPEN = """
VL_EXPORT vl_arena *open_program(uint64_t limit) {
    static vl_arena a;
    static const uint8_t hash[32] = {0};
    return vl_arena_create(&a, limit, hash) || program_create(&a) ? NULL : &a;
}
VL_EXPORT vl_errors take_errors(vl_arena *a) { vl_errors e = a->errors; a->errors = 0; return e; }
VL_EXPORT int64_t groups(vl_arena *a) {
    program *p = vl_at(a, vl_head(a)->roots[0]);
    return (int64_t)p->revenue.count;
}
VL_EXPORT int64_t revenue_of(vl_arena *a, int64_t orderkey) {
    program *p = vl_at(a, vl_head(a)->roots[0]);
    revenue_record *r = revenue_find(a, &p->revenue, &(revenue_key){orderkey});
    return r ? (int64_t)r->total : -1;
}
"""


@pytest.mark.parametrize("header", ALONE)
def test_a_header_alone_gives_no_warning(header, tmp_path):
    compiler = find_compiler()
    assert compiler is not None
    program = tmp_path / "alone.c"
    program.write_text(f'#include "{header}.h"\n#include "{header}.h"\n')
    command = [
        *compiler.command,
        *WARNINGS,
        "-std=c11",
        "-iquote",
        str(RUNTIME),
        "-c",
        "-o",
        str(tmp_path / "alone.o"),
    ]
    answer = subprocess.run([*command, str(program)], capture_output=True, text=True)
    assert answer.stderr == ""


@pytest.fixture(scope="module")
def guide():
    text = (RUNTIME / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```c\n(#include.*?)```", text, re.DOTALL)
    assert example is not None
    library = ctypes.CDLL(str(compile_library(example[1] + OPEN)))
    library.open_program.restype = ctypes.c_void_p
    library.open_program.argtypes = (ctypes.c_uint64,)
    library.on_lineitem.argtypes = (ctypes.c_void_p, *[ctypes.c_void_p] * 3, ctypes.c_uint64)
    library.on_lineitem.restype = ctypes.c_uint64
    library.revenue_of.argtypes = (ctypes.c_void_p, ctypes.c_int64)
    library.groups.argtypes = library.take_errors.argtypes = (ctypes.c_void_p,)
    library.revenue_of.restype = library.groups.restype = ctypes.c_int64
    return library


def apply(library, arena, rows: np.ndarray) -> int:
    columns = [np.ascontiguousarray(column, dtype=np.int64) for column in rows.T]
    return library.on_lineitem(arena, *(column.ctypes.data for column in columns), len(rows))


def test_the_example_of_the_guide_maintains_revenue(guide):
    arena = guide.open_program(0)
    rng = np.random.default_rng(1)
    rows = np.stack([rng.integers(0, 500, 5000), rng.integers(-99, 99, 5000), np.ones(5000, int)], axis=1)
    gone = rows[:3000] * [1, 1, -1]
    assert apply(guide, arena, rows) == 5000
    assert apply(guide, arena, gone) == 3000
    left = rows[3000:]
    assert guide.take_errors(arena) == 0
    assert guide.groups(arena) == len(np.unique(left[:, 0]))
    for key in range(500):
        mine = left[left[:, 0] == key]
        assert guide.revenue_of(arena, key) == (mine[:, 1].sum() if len(mine) else -1)


def test_a_batch_over_the_memory_limit_is_undone_by_its_inverse(guide):
    """The error protocol of the guide: stop at the row, apply the inverse, go on as if nothing happened."""
    arena = guide.open_program(1 << 20)
    start = np.array([[key, key * 2, 1] for key in range(100)])
    assert apply(guide, arena, start) == 100
    flood = np.array([[key + 1000, 7, 1] for key in range(200_000)])
    applied = apply(guide, arena, flood)
    assert 0 < applied < len(flood)
    assert guide.take_errors(arena) == 1 << 8
    assert apply(guide, arena, flood[:applied][::-1] * [1, 1, -1]) == applied
    assert guide.take_errors(arena) == 0
    assert guide.groups(arena) == 100
    assert [guide.revenue_of(arena, key) for key in range(100)] == [key * 2 for key in range(100)]
    assert apply(guide, arena, np.add(start, [100, 0, 0])) == 100
    assert guide.groups(arena) == 200
