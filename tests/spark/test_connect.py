"""Spark Connect: everything works as well where this process has a connection to Spark, and no Java.

The server runs in the JVM of the session that all tests share; the client is a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from serving import serving
from spark.audit_world import World
from spark_processes import free_port
from spark_world import archived

from tidings import sync
from tidings.model import Filter
from tidings.net import Options
from tidings.store.archive import ArchiveReader

CHILD = Path(__file__).with_name("connect_child.py")
FILTER = Filter.parse("price > 50 AND n < 250")


@pytest.fixture
def server(spark: SparkSession) -> Iterator[str]:
    """A server of Spark Connect, on this machine only."""
    port = free_port()
    conf = spark._jsc.sc().conf()
    conf.set("spark.connect.grpc.binding.address", "127.0.0.1").set("spark.connect.grpc.binding.port", str(port))
    service, none = spark._jvm.org.apache.spark.sql.connect.service.SparkConnectService, spark._jvm.scala.Option.empty
    service.start(spark._jsc.sc())
    yield f"sc://127.0.0.1:{port}"
    service.stop(none(), none())


@pytest.mark.soak
def test_a_process_with_a_connection_does_all_that_one_with_java_does(
    server: str, audited: World, tmp_path: Path
) -> None:
    archive = archived(tmp_path, 300)
    expected = [one.identity.seq for one in ArchiveReader(archive).query(FILTER)]
    with serving(Options(name="hub", port=0, data=tmp_path / "hub")) as url:
        data = [str(audited.home / name) for name in "ab"]
        words = [sys.executable, "-W", "error::UserWarning", str(CHILD), server, url, str(archive), str(tmp_path)]
        environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
        ran = subprocess.run([*words, *data], capture_output=True, text=True, timeout=170, check=False, env=environment)
        with sync.connect(url) as client:
            published = [one.notification for page in client.read_log((0, 0), (2**62, 0)) for one in page.envelopes]
    assert (ran.returncode, ran.stderr) == (0, "")
    assert dict(map(json.loads, ran.stdout.splitlines())) == {
        "not installed": "Spark says: [PACKAGE_NOT_INSTALLED] grpcio >= 1.48.1 must be installed; however, it was not "
        "found.; install what Spark Connect needs: pip install 'pyspark[connect]'",
        "nobody there": "no Spark Connect server answers at sc://127.0.0.1:9: [Errno 111] Connection refused; start "
        "one there, or name another",
        "kind": "pyspark.sql.connect.session",
        "one session": True,
        "native": [len(expected)] * 2,
        "column": len(expected),
        "source": len(expected),
        "pushed": True,
        "query": expected[:5],
        "audit": [["loss", "bob", 7], ["loss", "bob", 33], ["loss", "carol", 33]],
        "views": [100, 200],
        "progress": 3,
        "no archive": "there is no archive in '/nowhere/at/all'; name the directory that a broker archives to",
        "bad row": "a row cannot be published: attribute 'price': nan cannot be compared; leave the attribute out",
        "no broker": "the broker at tidings://127.0.0.1:9 could not be reached for 0.1 seconds: tidings://127.0.0.1:9: "
        "nothing listens there (connection refused). Is the server running? `tidings serve` starts one here.",
    }
    assert Counter(one["n"] for one in published if "n" in one) == dict.fromkeys(range(50), 1)
    assert Counter(one["m"] for one in published if "m" in one) == dict.fromkeys(range(2, 601, 2), 1)
