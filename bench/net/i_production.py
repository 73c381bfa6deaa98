"""A broker as it is run in earnest (`production.toml`), beside one with a store and TLS alone."""

from __future__ import annotations

import datetime
import functools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ._bench import Bench, median
from ._load import Sample
from ._processes import CannotRun, Running, free_port, running

CONFIGURATION = Path(__file__).with_name("production.toml")
SHARE = 0.99
"""How much of publications and notifications the plane has to take."""
CPU = 1.3
"""How much more CPU of the broker a publication may take than with a store and TLS alone."""
SCENARIO = "i  production"


class Said(msgspec.Struct):
    """What the application says."""

    published: int
    at: float
    lookups: int
    fed: int
    why: str
    heard: dict[str, int]


class Measured(NamedTuple):
    """One run."""

    sample: Sample
    share: float
    why: str


def run(bench: Bench) -> None:
    """Measure."""
    ways = {"store and TLS alone": False, "everything": True}
    runs = bench.repeat({way: functools.partial(_once, full, bench.seconds) for way, full in ways.items()})
    medians = {}
    for way, found in runs.items():
        if not found.usable(ours=True):
            bench.report.missing(SCENARIO, f"tidings, {way}", found.why, target="no loss")
            continue
        sample = medians[way] = median([one.sample for one in found.results])
        bench.report.figure(SCENARIO, f"tidings, {way}", f"{sample.rate:>9,.0f}/s {sample.total_cpu:6.2f} µs")
    if len(medians) == len(ways):
        alone, everything = (medians[way].total_cpu for way in ways)
        bench.report.limit(SCENARIO, "tidings, everything / alone", everything / alone, "x", at_most=CPU)
        worst = min(runs["everything"].results, key=lambda one: one.share)
        more = f" taken as bytes{f' ({worst.why})' if worst.why else ''}"
        bench.report.floor(SCENARIO, "tidings, everything", worst.share, "", at_least=SHARE, more=more)


def _once(full: bool, seconds: float) -> Measured:
    with tempfile.TemporaryDirectory(prefix="bench-net-") as made, _brokers(Path(made), full) as brokers:
        command = [sys.executable, "-m", "bench.net._production", str(brokers[0].port), str(Path(made) / "ca.pem")]
        command += ["--seconds", str(seconds), *(["--neighbour", str(brokers[1].port)] if full else [])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as application:
            assert application.stdout is not None
            marks = [(msgspec.json.decode(line, type=Said), brokers[0].cpu()) for line in application.stdout]
            _, complaint = application.communicate(timeout=60)
        if len(marks) != 2:
            raise CannotRun(complaint.decode().strip().splitlines()[-1] if complaint else "no result")
    (begin, before), (end, after) = marks
    if missing := [who for who, heard in end.heard.items() if not heard]:
        raise CannotRun(f"nothing has come for {', '.join(missing)}")
    count = end.published - begin.published
    sample = Sample(count / (end.at - begin.at), ((after - before) * 1e6 / count,))
    return Measured(sample, (end.fed - begin.fed) / (end.lookups - begin.lookups), end.why)


@contextmanager
def _brokers(directory: Path, full: bool) -> Iterator[list[Running]]:
    """The broker, and its neighbour if everything is measured."""
    _certificate(directory)
    with ExitStack() as stack:
        found: list[Running] = []
        for name in ("b1", "b2") if full else ("b1",):
            home = directory / name
            home.mkdir()
            for file in ("ca.pem", "broker.pem", "broker.key"):
                shutil.copy(directory / file, home)
            text = CONFIGURATION.read_text().replace('name = "b1"', f'name = "{name}"', 1)
            if found:
                text = f'neighbours = ["tidings+tls://localhost:{found[0].port}"]\n{text}'
                text = f'neighbour_token = "production-{name}-of-the-benchmark"\n{text}'
            (home / "broker.toml").write_text(text)
            port = free_port()
            serve = ["serve", "--config", str(home / "broker.toml"), "--port", str(port)]
            found.append(stack.enter_context(running([sys.executable, "-m", "tidings", *serve], port)))
        yield found


def _certificate(directory: Path) -> None:
    """A certificate for this machine that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    for file in ("ca.pem", "broker.pem"):
        (directory / file).write_bytes(public)
    plain = serialization.NoEncryption()
    (directory / "broker.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
