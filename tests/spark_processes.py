"""Processes that tests of Spark start and kill: brokers, drivers, a cluster. Each is ended by its own id."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ports import free_port

from tidings import sync
from tidings.client import ConnectionFailed
from tidings.model import TidingsError

PATIENCE = 120.0
"""Seconds after which something that must happen has not; a busy machine needs some."""
END = (2**62, 0)


class Child:
    """A process, in a session of its own so that what it starts dies with it."""

    def __init__(self, words: list[str], log: Path, **more: Any) -> None:
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True, **more
            )
        self.log = log

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None


class BrokerProcess:
    """A broker that can be killed and started again, on the same port and the same disk."""

    def __init__(self, name: str, home: Path) -> None:
        self.name, self._home, self._port = name, home, free_port()
        self.url = f"tidings://127.0.0.1:{self._port}"
        self.data = home / name
        self.start()

    def start(self) -> None:
        words = ["serve", "--name", self.name, "--port", str(self._port), "--data", str(self.data)]
        self._child = Child([sys.executable, "-m", "tidings", *words], self._home / f"{self.name}.log")
        until(self._answers)

    def kill(self) -> None:
        self._child.kill()

    def _answers(self) -> bool:
        with contextlib.suppress(ConnectionFailed), sync.connect(self.url):
            return True
        return False

    def numbers(self) -> list[int]:
        """What its log holds."""
        with sync.connect(self.url) as client:
            pages = client.read_log((0, 0), END)
            return [envelope.notification["n"] for page in pages for envelope in page.envelopes]


def until(happened: Any, patience: float = PATIENCE, pause: float = 0.05) -> None:
    deadline = time.monotonic() + patience
    while not happened():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(pause)


def publish(url: str, numbers: range) -> None:
    """Publish, and again after a crash of the broker, until all of it is stored."""
    with sync.connect(url, name="publisher", own_numbers=True) as client:
        client.publish_many(({"n": n} for n in numbers), quality="stored", first=numbers.start + 1)


@contextlib.contextmanager
def cluster(home: Path, workers: int = 2) -> Iterator[str]:
    """A standalone cluster of Spark on loopback: a master and workers, each a process; the address of the master."""
    import pyspark

    from tidings.spark._java import find_java, java_home

    scripts = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home(find_java())),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        "SPARK_WORKER_DIR": str(home / "work"),
        "SPARK_LOCAL_DIRS": str(home / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    port = free_port()
    words = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    address = f"spark://127.0.0.1:{port}"
    children = [Child([str(scripts), *words], home / "master.log", env=environment)]
    try:
        until(lambda: _listens(port))
        for number in range(workers):
            words = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
            words += ["--cores", "1", "--memory", "700m", address]
            children.append(Child([str(scripts), *words], home / f"worker{number}.log", env=environment))
        said = home / "master.log"
        until(lambda: said.read_text().count("Registering worker") == workers)
        yield address
    finally:
        for child in reversed(children):
            child.kill()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def close(client: sync.Client) -> None:
    with contextlib.suppress(TidingsError):
        client.close()
