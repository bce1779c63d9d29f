"""Blocks: statements that run in one place without a pause, as few blocks as data flow allows.

The algorithm of Figure 5.4 of the thesis: every statement starts as a block of its own; the first block takes
in each later one of the same mode that commutes with everything between them, until none does.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.backends.spark.nodes import Block, DistStatement, Transfer, relations


def fuse(statements: Sequence[DistStatement]) -> tuple[Block, ...]:
    """Statements in an order that works, packed into blocks.

    Driver blocks go first where both are possible: nothing waits for partitions that need not.
    """
    pending = [Block(statement.mode, (statement,)) for statement in statements]
    done: list[Block] = []
    while pending:
        head, *rest = pending
        merged, rest = _merge_into_head(head, rest)
        done.append(merged)
        pending = rest
    return tuple(done)


def one_by_one(statements: Sequence[DistStatement]) -> tuple[Block, ...]:
    """Every statement as a block of its own: what fusion is measured against."""
    return tuple(Block(statement.mode, (statement,)) for statement in statements)


def _merge_into_head(head: Block, rest: Sequence[Block]) -> tuple[Block, list[Block]]:
    """Take in what may move up to the head: it commutes with every block that stays behind before it."""
    kept: list[Block] = []
    for block in rest:
        if block.mode == head.mode and all(commute(stays, block) for stays in kept):
            head = Block(head.mode, head.statements + block.statements)
        else:
            kept.append(block)
    return head, kept


def commute(first: Block, second: Block) -> bool:
    """May two blocks change places? If neither reads or writes what the other writes."""
    return all(_commute(a, b) for a in first.statements for b in second.statements)


def _commute(a: DistStatement, b: DistStatement) -> bool:
    return (
        a.target not in reads(b)
        and b.target not in reads(a)
        and (a.target != b.target or _op(a) == _op(b) == "+=" or a.mode != b.mode)
    )


def _op(statement: DistStatement) -> str:
    return ":=" if isinstance(statement, Transfer) else statement.op


def reads(statement: DistStatement) -> frozenset[str]:
    """The relations that a statement reads."""
    return frozenset({statement.source}) if isinstance(statement, Transfer) else relations(statement.query)
