"""Packages that Spark does not ship, as scripts/spark_jars.sh fetches them, and a broker made of them."""

from __future__ import annotations

import base64
import os
import re
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
num.partitions=2
"""


def jars(name: str) -> list[str]:
    """The files of a package, or none if it was not fetched."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "viewlet"
    folder = Path(os.environ.get("VIEWLET_DATA") or root) / "jars" / name
    return sorted(str(path) for path in folder.glob("*.jar"))


def needed(name: str) -> list[str]:
    """The files of a package; without them the test is skipped."""
    return jars(name) or pytest.skip(
        f"no jars of {name}: scripts/spark_jars.sh {name.split('-')[0]} fetches them"
    )


def made_for(files: list[str]) -> str | None:
    """The version of Spark that Delta's name says, such as 4.2."""
    found = [m[1] for file in files if (m := re.search(r"delta-spark_(\d+\.\d+)_2\.13", file))]
    return found[0] if found else None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """A broker of Kafka of one node on this host, and its address."""
    java = ["java", "-Xmx256m", "-cp", os.pathsep.join(needed("kafka-broker"))]
    port, settings = free_port(), folder / "server.properties"
    settings.write_text(SETTINGS.format(port=port, controller=free_port(), folder=folder))
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    tool = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(settings)]
    subprocess.run(tool, check=True, capture_output=True)
    with subprocess.Popen(
        [*java, "kafka.Kafka", str(settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(port, process)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()  # what it holds goes with the folder


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(2000):
        assert process.poll() is None, "the broker ended"
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the broker does not listen")
