"""Holders of blocks in this process, to which accidents happen: lost blocks, rounds that run twice."""

from __future__ import annotations

import pickle
import random
import shutil
import tempfile
from pathlib import Path

from viewlet.linalg.spark.operations import perform
from viewlet.linalg.spark.store import Store


class SimulatedHolders:
    """Partitions with directories of their own; ``mishaps`` is how often a partition loses its files."""

    def __init__(self, arrays, partitions, mishaps=0.0, seed=0):
        self.partitions, self.mishaps = partitions, mishaps
        self.home = Path(tempfile.mkdtemp(prefix="viewlet-simulated-"))
        self.durable = self.home / "durable"
        self.luck = random.Random(seed)
        self.arrays = arrays
        self.lost = 0

    def run(self, operations):
        load = pickle.dumps((self.arrays, list(operations)))
        return [self.task(partition, load) for partition in range(self.partitions)]

    def task(self, partition, load):
        near = self.home / str(partition)
        if self.luck.random() < self.mishaps:
            self.lost += near.exists()
            shutil.rmtree(near, ignore_errors=True)
        answers = perform(Store(near, self.durable, partition), *pickle.loads(load))
        if self.luck.random() < self.mishaps:  # the answer got lost: the task runs again
            answers = perform(Store(near, self.durable, partition), *pickle.loads(load))
        return answers

    def close(self):
        shutil.rmtree(self.home, ignore_errors=True)
