"""The table of rules: what each clause allows has a test, and so has what it refuses.

A case that is allowed is tried against random data, also with more fragments than needed; one that is refused
has a counterexample (``test_safety.py``, ``test_reuse.py``) or a reason (``test_safety_texts.py``). That
groups by a primary key determine every attribute (S2) is ``test_key_determines``, on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from sketches import test_reuse, test_safety, test_safety_texts

ALLOWED: tuple[Mapping[str, object], ...] = (
    test_safety.SAFE,
    test_safety.NEGATIVE_SAFE,
    test_safety_texts.SAFE_TEXTS,
    test_reuse.SERVED,
    test_reuse.TOGETHER,
)
REFUSED: tuple[Mapping[str, object], ...] = (
    test_safety.UNSAFE,
    test_safety.SIGNED,
    test_safety.NEGATIVE_UNSAFE,
    test_safety_texts.REFUSED,
    test_safety_texts.NOT_UNDERSTOOD,
    test_reuse.REFUSED,
    test_reuse.APART,
)
RULES = {
    "S1 every attribute of a table that is read": (
        ("S1 rows", "S1 join", "S1 self join", "S1 distinct", "S1 union"),
        ("S1 missing table",),
    ),
    "S2 an attribute of the groups, for any aggregate": (
        ("S2 avg", "S2 equality", "S2 top"),
        ("S2 not determined",),
    ),
    "S2 one that is joined with an attribute of the groups": (
        ("S2 joined attribute",),
        ("S2 joined with another attribute",),
    ),
    "S3 count": (
        ("S3 count", "S3 count distinct"),
        ("S3 count, wrong way", "S3 count distinct, wrong way", "S3 equality"),
    ),
    "S3 sum of values of one sign": (
        ("S3 sum", "S3 sum of negatives"),
        ("S3 sum, wrong way", "S3 sum of negatives, wrong way", "S3 signed sum"),
    ),
    "S3 max and min": (("S3 max", "S3 min"), ("S3 max, wrong way", "S3 min, wrong way")),
    "S3 no avg": ((), ("S3 avg", "S3 avg, other way")),
    "S3 AND and OR": (
        ("S3 both", "S3 either"),
        ("S3 both, one the wrong way", "S3 either, one the wrong way"),
    ),
    "S4 count": (
        ("S4 count", "S4 count distinct"),
        ("S4 count ascending", "S4 count distinct ascending"),
    ),
    "S4 sum of values of one sign": (
        ("S4 sum", "S4 sum of negatives"),
        ("S4 sum ascending", "S4 sum of negatives, wrong way"),
    ),
    "S4 max and min": (("S4 max", "S4 min"), ("S4 max ascending", "S4 min descending")),
    "S4 no avg": ((), ("S4 avg",)),
    "S4 plain rows": (("S4 rows",), ()),
    "S5 from the inside out": (
        ("S5 nested", "S5 nested sum"),
        ("S5 nested, not closed", "S5 distinct of values that move", "S5 groups by values that move"),
    ),
    "S6 EXCEPT and INTERSECT": (
        ("S6 except, left side", "S6 except, aligned", "S6 except all", "S6 intersect"),
        ("S6 except, right side", "S6 except, not aligned"),
    ),
    "S6 NOT EXISTS": (("S6 not exists, outside",), ("S6 not exists, inside",)),
    "S6 outer joins": (("S6 left join",), ("S6 left join", "S6 full join")),
    "S7 windows over whole partitions": (
        (
            "S7 average",
            "S7 each row and its partition",
            "S7 closed",
            "S7 of a join",
            "S7 two windows",
            "S7 nested",
        ),
        (
            "S7 not the partition's attribute",
            "S7 not closed",
            "S7 ordered",
            "S7 ranked",
            "S7 one partition",
            "S7 all columns",
            "S7 groups",
        ),
    ),
    "S8 several attributes": (
        ("S8 both determined", "S8 neither determined", "S8 one of each, closed"),
        ("S8 mixed",),
    ),
    "S9 no global aggregate": (("S9 groups, not a global aggregate",), ("S9 global aggregate",)),
    "S9 nested queries": (
        ("S9 nested query of another table", "S9 nested value of another table"),
        ("S9 nested query", "S9 exists"),
    ),
    "S9 LIMIT needs a total order": (("S9 limit with a total order",), ("S9 limit without order",)),
    "S9 no volatile function": ((), ("S9 volatile function",)),
    "R1 a stricter condition on groups": (
        ("R1 stricter threshold", "R1 both sides", "R1 other attribute", "R1 or"),
        ("R1 wider threshold", "R1 another aggregate"),
    ),
    "R2 a stricter WHERE on groups": (
        ("R2 stricter WHERE on groups", "R2 beside another condition"),
        ("R2 wider WHERE",),
    ),
    "R3 a stricter WHERE on other attributes": (
        ("R3 count", "R3 sum"),
        ("R3 avg", "R3 count below", "R3 lower threshold", "R3 signed sum"),
    ),
    "R4 a smaller LIMIT": (("R4 fewer",), ("R4 more", "R4 stricter WHERE", "R4 another order")),
    "R5 other columns": (("R5 other columns",), ()),
    "R5 the union of sketches": (
        (
            "R5 either side",
            "R5 adjacent ranges",
            "R5 three of them",
            "R5 listed values",
            "R5 rows of a join",
        ),
        ("R5 a gap", "R5 below the groups", "R5 other ranges"),
    ),
}


def listed(place: int, rule: str = "") -> list[str]:
    """The cases of all clauses of a rule: 0 for what is allowed, 1 for what is refused."""
    return [case for clause, cases in RULES.items() if clause.startswith(rule) for case in cases[place]]


def named(cases: Iterable[Iterable[str]]) -> set[str]:
    """The cases whose names begin with a rule."""
    return {name for names in cases for name in names if name[0] in "SR" and name[1:2].isdigit()}


@pytest.mark.parametrize("rule", [*(f"S{n}" for n in range(1, 10)), *(f"R{n}" for n in range(1, 6))])
def test_both_sides(rule: str) -> None:
    assert listed(0, rule), "no test of what it allows"
    assert listed(1, rule), "no test of what it refuses"


def test_table_is_complete() -> None:
    """It names every case, and no other, each of them once."""
    for place, cases in enumerate((ALLOWED, REFUSED)):
        assert set(listed(place)) == named(cases)
        assert len(set(listed(place))) == len(listed(place))
