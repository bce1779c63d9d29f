"""The process that Python workers are forked from, with what partitions need imported already.

Where workers are killed all the time, it is imports that take the time (``faulty.py``).
"""

from __future__ import annotations

from pyspark.daemon import manager

import viewlet.backends.spark.partition

__all__ = ["viewlet"]

if __name__ == "__main__":
    manager()
