"""Options of the whole test suite, and the one Spark session of it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from spark.packages import jars

settings.register_profile("viewlet", deadline=None)  # a slow machine is no reason to fail
settings.load_profile("viewlet")

# Programs of tests are compiled in half the time; those of tests/oracle as they are shipped.
os.environ.setdefault("VIEWLET_CFLAGS", "-Og -fno-inline")


# Compiling makes many small objects and no cycles; looking for cycles among them takes a tenth of the time.
gc.set_threshold(100_000, 20, 50)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="rewrite the expected parts of golden files from today's output"
    )


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    """One session for all tests, which are in xdist_group("spark"): starting Java takes longer than most."""
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.jars", ",".join(jars("kafka")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark(spark_session: Any) -> Any:
    return spark_session


@pytest.fixture(scope="session")
def spark_with(spark_session: Any) -> Callable[..., Any]:
    """A session with settings and temporary views of its own, on the same Java process."""

    def session(settings: dict[str, str]) -> Any:
        own = spark_session.newSession()
        for name, value in settings.items():
            own.conf.set(name, value)
        return own

    return session
