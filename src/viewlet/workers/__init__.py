"""State on the executors of a Spark application: versioned, held partition by partition, never applied twice.

Anything that keeps a result fresh on Spark has the same needs: a state in each partition, operations that
change it exactly once whatever processes die, a way back from a batch that failed, and short rounds. This
layer has them and knows nothing of what the state is; SQL views hold maps here, others may hold blocks of
matrices or windows of signals. What it takes is two small classes (``state.py``)::

    class Block:                       # a State: one partition
        def load(self, contents): ...  # begin with these contents
        def contents(self): ...        # all of it, to load elsewhere
        def run(self, operation): ...  # change it, and give a result: the same every time
        def read(self, what): ...      # look only

    @dataclass(frozen=True)
    class BlockCode:                   # a Code: travels to the executors, so it can be pickled
        def prepare(self): ...         # once in every process: compile, import
        def open(self): return Block()

    workers = Workers(spark, BlockCode(), partitions=4)
    workers.load([contents of each partition])
    results = workers.run([operation of each partition])  # one round, logged, in effect once
    found = workers.read([question to each partition])    # one round, not logged
    workers.abort()                                       # back to where the last batch began
    workers.close()

A batch may take several rounds: ``run(..., begins=False)`` goes on with it. Operations and results are
pickled; large arrays in them are best NumPy or Arrow. An operation that raises a
:class:`~viewlet.errors.ViewletError` refuses: ``run`` raises it on the driver, and ``abort`` leads every
partition back. A process or an executor that dies is replaced, and its partition restored from the last
checkpoint and the operations since, which the driver keeps.

``operations.py`` has what the driver says, ``memory.py`` a partition in one process, ``log.py`` one that
outlives its processes, ``jobs.py`` and ``lines.py`` two ways to reach them: a Spark job per round, or a
process per partition that keeps a line to the driver. ``cluster.py`` is the driver's side.
"""

from viewlet.workers.cluster import Traffic, Workers
from viewlet.workers.state import Code, State

__all__ = ["Code", "State", "Traffic", "Workers"]
