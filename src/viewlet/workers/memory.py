"""A partition in the memory of one process."""

from __future__ import annotations

import pickle
from typing import assert_never

from viewlet.errors import ViewletError
from viewlet.workers.operations import (
    NOTHING,
    NOTHING_DONE,
    Answer,
    Behind,
    Done,
    Load,
    Operation,
    Read,
    Refused,
    Restore,
    Run,
)
from viewlet.workers.state import Code, State


class Partition:
    """A state, the number of the last operation that it has seen, and the answer to that."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.state: State = code.open()
        self.sequence = NOTHING
        self.answer: Answer = NOTHING_DONE

    def perform(self, sequence: int, operation: Operation) -> Answer:
        """Carry out an operation by its number, or say why not."""
        match operation:
            case Restore(then=then):
                self.restore(operation)
                return NOTHING_DONE if then is None else self.perform(sequence, then)
            case Read(what, whole):
                if self.sequence != sequence:
                    return Behind(self.sequence)
                try:
                    return Done(self.saved() if whole else self.state.read(what))
                except ViewletError as reason:
                    return Refused(reason)
            case Run() | Load():
                if self.sequence == sequence:
                    return self.answer
                if self.sequence != sequence - 1:
                    return Behind(self.sequence)
                return self.carry_out(sequence, operation)
            case _:
                assert_never(operation)

    def carry_out(self, sequence: int, operation: Run | Load) -> Answer:
        """Run an operation whatever its number."""
        try:
            if isinstance(operation, Load):
                self.state.load(operation.contents)
                self.answer = NOTHING_DONE
            else:
                self.answer = Done(self.state.run(operation.operation))
        except ViewletError as reason:
            self.answer = Refused(reason)
        self.sequence = sequence
        return self.answer

    def saved(self) -> bytes:
        """What a partition is restored from: a pickled :class:`Load` of everything."""
        return pickle.dumps(Load(self.state.contents()), pickle.HIGHEST_PROTOCOL)

    def restore(self, operation: Restore) -> None:
        """Make the state again from what the driver has kept."""
        self.state = self.code.open()
        self.carry_out(operation.sequence, pickle.loads(operation.base))
        for sequence, blob in enumerate(operation.since, operation.sequence + 1):
            self.carry_out(sequence, pickle.loads(blob))
