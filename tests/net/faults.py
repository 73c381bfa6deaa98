"""Brokers as processes of their own, everything between them breakable, and clients whose traces the checker judges."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from net.proxy import Proxy

import tidings
from tidings.client._settings import Settings
from tidings.model import EventKey, Filter, Notification
from tidings.sim import Op, Trace, check, describe
from tidings.wire import Answer, Deliver, Extension, Frame, Gap, HistoryReport, Quality, Refused, Settled, Welcome

SETTINGS = """
[limits]
heartbeat = 1.5
broker_resume = 1.5
client_resume = 5.0
"""


ADVERTISED = f"{SETTINGS}\n[routing]\nadvertisements = true\n"


class Clock:
    """Real time, as a trace wants it."""

    @property
    def now(self) -> int:
        return time.monotonic_ns() // 1_000


class Process:
    """One broker in a process of its own."""

    def __init__(self, name: str, directory: Path, neighbours: tuple[str, ...], settings: str = SETTINGS) -> None:
        self.name = name
        self._settings = settings
        self._directory = directory / name
        self._neighbours = neighbours
        self._process: asyncio.subprocess.Process | None = None
        self.port = 0

    async def start(self) -> None:
        self._directory.mkdir(exist_ok=True)
        config = self._directory / "broker.toml"
        config.write_text(self._settings)
        links = [part for url in self._neighbours for part in ("--neighbour", url)]
        with (self._directory / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tidings", "serve", "--json", "--config", str(config), "--log-level", "info"),
                *("--name", self.name, "--port", "0", "--data", str(self._directory / "data"), *links),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONWARNINGS": "default"},
            )
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, self.log
        self.port = json.loads(line)["port"]

    @property
    def log(self) -> str:
        return (self._directory / "log").read_text()

    def send_signal(self, number: signal.Signals) -> None:
        """Stop the broker, or let it go on: SIGSTOP, SIGCONT."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9: the broker hears nothing of it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)

    async def end(self, *, gently: bool = False) -> int:
        """Wait for its end; its exit code."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM if gently else signal.SIGKILL)
        assert self._process.stdout is not None
        await self._process.stdout.read()
        return await self._process.wait()


class Cluster:
    """Brokers and links; each link and each way of the clients to a broker goes through a proxy."""

    def __init__(self, trace: Trace, directory: Path, settings: str = SETTINGS) -> None:
        self.trace = trace
        self._settings = settings
        self._directory = directory
        self.processes: dict[str, Process] = {}
        self.links: dict[str, Proxy] = {}
        """By "a - b"; b dials a."""
        self.ways: dict[str, Proxy] = {}
        """The way of the clients to each broker."""
        self.broken: dict[str, str] = {}
        """What is broken now: a broker or link, and how."""

    async def start(self, names: Iterable[str], links: Iterable[str]) -> None:
        links = list(links)
        for one, two in links:
            self.links[f"{one} - {two}"] = Proxy(0)
        for name in names:
            self.ways[name] = Proxy(0)
        for any_proxy in (*self.links.values(), *self.ways.values()):
            await any_proxy.start()
        for name in self.ways:
            dialled = tuple(self.links[f"{one} - {two}"].url for one, two in links if two == name)
            self.processes[name] = Process(name, self._directory, dialled, self._settings)
        await asyncio.gather(*(process.start() for process in self.processes.values()))
        for name in self.processes:
            self._aim(name)

    def _aim(self, name: str) -> None:
        port = self.processes[name].port
        self.ways[name].target = port
        for pair, link in self.links.items():
            if pair.startswith(f"{name} - "):
                link.target = port

    async def stop(self) -> None:
        for any_proxy in (*self.links.values(), *self.ways.values()):
            await any_proxy.stop()
        await asyncio.gather(*(process.end() for process in self.processes.values()))

    # --- faults ---------------------------------------------------------------------------------------

    async def crash(self, name: str) -> None:
        self.broken[name] = "crash"
        self.trace.fault("crash", name)
        self.processes[name].port = 0  # another program may get its port meanwhile
        self._aim(name)
        self.processes[name].kill()
        await self.processes[name].end()

    async def restart(self, name: str) -> None:
        await self.processes[name].start()
        self._aim(name)
        self.trace.fault("restart", name)
        del self.broken[name]

    def cut(self, pair: str) -> None:
        """Lose a link until it is healed."""
        self.broken[pair] = "cut"
        self.trace.fault("cut", pair)
        self.links[pair].closed = True
        self.links[pair].cut()

    def heal(self, pair: str) -> None:
        self.links[pair].closed = False
        self.trace.fault("heal", pair)
        del self.broken[pair]

    def blink(self, where: str) -> None:
        """Reset connections that may be opened again at once: nobody should notice."""
        (self.links.get(where) or self.ways[where]).cut()

    def stall(self, pair: str) -> None:
        """Half open: nothing goes through, and nobody is told. To the trace it is a cut."""
        self.broken[pair] = "stall"
        self.trace.fault("cut", pair)
        self.links[pair].stall()

    def unstall(self, pair: str) -> None:
        self.links[pair].cut()
        self.links[pair].flow()
        self.heal(pair)

    async def mend(self, what: str) -> None:
        how = self.broken[what]
        if how == "crash":
            await self.restart(what)
        elif how == "cut":
            self.heal(what)
        else:
            self.unstall(what)

    async def torment(self, rng: random.Random, seconds: float, every: tuple[float, float]) -> None:
        """Break and mend things one after the other; in the end everything is mended."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        await self.crash(rng.choice(sorted(self.processes)))  # whatever else is drawn, somebody dies
        while loop.time() < end:
            await asyncio.sleep(rng.uniform(*every))
            if self.broken and (len(self.broken) > 2 or rng.random() < 0.5):
                await self.mend(rng.choice(sorted(self.broken)))
                continue
            healthy = sorted({*self.processes, *self.links} - set(self.broken))
            where = rng.choice(healthy)
            if where in self.links:
                rng.choice((self.cut, self.blink, self.blink, self.stall))(where)
            elif rng.random() < 0.3:
                self.blink(where)
            else:
                await self.crash(where)
        for what in sorted(self.broken):
            await self.mend(what)


class TracedClient(tidings.Client):
    """A client that records what it does and what reaches it."""

    def __init__(self, trace: Trace, urls: list[str], name: str) -> None:
        super().__init__(Settings(urls, name=name, max_unacknowledged=500))
        self.trace = trace
        self._current: Deliver | None = None
        self._reach: frozenset[str] = frozenset()
        self._attached = False
        self._link.traffic.receive = self._traced
        assert self._local.observer is not None
        self._told = self._local.observer
        self._local.observer = self

    async def record_publication(self, quality: Quality, **attributes: object) -> None:
        notification = Notification(attributes)
        receipt = await self.publish(notification, quality=quality)
        self.trace.add(
            Op.PUB,
            self.name,
            publication=receipt.number,
            publisher=self.name,
            notification=notification,
            detail=(quality,),
        )

    async def record_advertisement(self, filter: str) -> None:
        id = await self.advertise(filter)
        self.trace.add(Op.ADV, self.name, subscription=id, filter=Filter.parse(filter))

    def record_subscription(self, filter: str, *, receive_own: bool = True) -> tidings.Subscription:
        names: list[str] = []
        subscription = self.subscribe(filter, callback=lambda n: self._notified(names[0], n), receive_own=receive_own)
        names.append(subscription.id)
        self.trace.add(
            Op.SUB, self.name, subscription=subscription.id, filter=subscription.filter, detail=(receive_own,)
        )
        return subscription

    def record_change(self, subscription: tidings.Subscription, filter: str) -> None:
        subscription.update(filter)
        self.trace.add(Op.SUB, self.name, subscription=subscription.id, filter=subscription.filter, detail=(True,))

    def _notified(self, id: str, notification: Notification) -> None:
        assert self._current is not None
        identity = self._current.envelope.identity
        self.trace.add(
            Op.NOTIFY,
            self.name,
            subscription=id,
            publication=identity.publisher_seq,
            publisher=identity.publisher,
            notification=notification,
            detail=(identity.origin, identity.epoch, identity.seq, self._current.envelope.routes[0].version),
        )

    # --- what the link and the local broker call ------------------------------------------------------

    def _traced(self, frame: Frame) -> None:
        message = frame.message
        self._current = message if isinstance(message, Deliver) else None
        if isinstance(message, Settled):
            self._reach = frozenset(message.marks)
        self._local.receive(frame)

    def _renewed(self, welcome: Welcome) -> None:
        if self._attached:
            self.trace.add(Op.LOST, self.name)
        self._attached = True
        self.trace.add(Op.ATTACH, self.name, detail=(welcome.name, welcome.epoch))
        super()._renewed(welcome)

    def settled(self, id: str, advertisement: bool) -> None:
        self.trace.add(Op.SETTLED, self.name, subscription=id, detail=(advertisement, self._reach))
        self._told.settled(id, advertisement)

    def acknowledged(self, seq: int, key: EventKey, quality: Quality) -> None:
        self.trace.add(Op.ACK, self.name, publication=seq, publisher=self.name, detail=(*key, quality))
        self._told.acknowledged(seq, key, quality)

    def refused(self, refusal: Refused) -> None:
        self.trace.add(Op.REFUSED, self.name, detail=(refusal.error, refusal.reason, refusal.reference))
        self._told.refused(refusal)

    def gap(self, gap: Gap) -> None:
        for id in gap.subscriptions:
            self.trace.add(Op.GAP, self.name, subscription=id, detail=(gap.origin, gap.epoch, gap.first, gap.last))
        self._told.gap(gap)

    def remembered(self, report: HistoryReport) -> None:
        self._told.remembered(report)

    def answered(self, reply: Answer) -> None:
        self._told.answered(reply)

    def progressed(self) -> None:
        self._told.progressed()

    def extended(self, message: Extension) -> None:
        self._told.extended(message)


@contextlib.asynccontextmanager
async def cluster(
    directory: Path, names: Iterable[str], links: Iterable[str], settings: str = SETTINGS
) -> AsyncIterator[Cluster]:
    """Running brokers."""
    one = Cluster(Trace(Clock()), directory, settings)  # type: ignore[arg-type]
    try:
        await one.start(names, links)
        yield one
    finally:
        await one.stop()


async def judged(cluster: Cluster, patience: float, *, advertisements: bool = False) -> None:
    """Wait until every promise is kept; what is still broken then is an error."""
    trace = cluster.trace
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while True:
        before = len(trace.records)
        await asyncio.sleep(1.0)
        if len(trace.records) != before and loop.time() < end:
            continue
        trace.quiesce()
        # In a thread: the proxies and clients of this process must not fall silent meanwhile.
        violations = await asyncio.to_thread(check, list(trace.records), advertisements=advertisements)
        if not violations:
            return
        if loop.time() > end:
            break
        trace.records.remove(next(record for record in reversed(trace.records) if record.op is Op.QUIESCE))
    faults = [describe(record) for record in trace.records if record.op is Op.FAULT]
    raise AssertionError("\n".join([f"{len(violations)} violations", *map(str, violations[:8]), *faults]))
