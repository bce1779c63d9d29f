"""One Spark session for all tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from agree.agreement import QUICK


@pytest.fixture(scope="session", autouse=True)
def compiled_quickly() -> Iterator[None]:
    """Nothing is timed here, and partitions get their flags from the driver."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("viewlet.backends.spark.native.DEFAULT_FLAGS", QUICK)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
