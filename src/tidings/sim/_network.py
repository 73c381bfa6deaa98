"""The simulated network: production brokers on virtual links, with everything that can go wrong.

Theory of operation
-------------------
A `Network` owns a seeded random generator and a scheduler; nothing else decides what happens. Links are FIFO: each
frame takes a random latency and the time that the link's bandwidth needs for it, but never overtakes the frame
before it. Cutting a link loses what is under way on it. Crashing a broker loses its memory, its links and what its
disk had not synced. Its clients come back a while after it has, most of them to it and some to another broker, and
subscribe again, as a client library would.

Every action of an application and everything that reaches it is recorded in the trace, which the checker judges.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tidings.broker import Broker, Feature, Link, LinkKind, Role, RoutingOptions
from tidings.model import TidingsError, TopologyError
from tidings.scopes import Answer, AnyChange, Ask, Mode, Scopes
from tidings.wire import Envelope, Frame, Settled, decode, encode

from ._client import SimClient
from ._disk import SimDisk
from ._scheduler import Event, Scheduler
from ._trace import Op, Trace

RETURN_SECONDS = 10.0
"""Clients of a broker that has restarted find a broker within this time."""
FAIL_OVER = 0.25
"""The share of them that find another one."""
MAX_UNREST = 3_600_000_000
"""Microseconds of virtual time in which a network must come to rest."""


class NeverQuiet(TidingsError):
    """The network never comes to rest: something keeps it busy for ever."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How links and disks behave. Times are in microseconds."""

    latency: tuple[int, int] = (500, 5_000)
    """The least and the most that a frame takes, chosen anew for each."""
    bandwidth: int | None = None
    """Bytes per second of a link; None: any number."""
    sync_time: int = 2_000
    through_wire: bool = False
    """Encode and decode every frame, as a real link does."""


class _Pipe:
    """One direction of a link."""

    __slots__ = ("_free_at", "_last", "_network", "_under_way", "deliver")

    def __init__(self, network: Network, deliver: Callable[[Frame], None]) -> None:
        self._network = network
        self.deliver = deliver
        self._last = 0
        self._free_at = 0
        self._under_way: set[Event] = set()

    def send(self, frame: Frame) -> None:
        network = self._network
        weather, scheduler = network.weather, network.scheduler
        network.frames += 1
        depart = scheduler.now
        if weather.through_wire or weather.bandwidth is not None:
            data = encode(frame)
            network.bytes += len(data)
            if weather.through_wire:
                frame = decode(data)
            if weather.bandwidth is not None:
                depart = max(depart, self._free_at)
                self._free_at = depart = depart + len(data) * 1_000_000 // weather.bandwidth
        self._last = max(self._last, depart + network.random.randint(*weather.latency))
        event = scheduler.at(self._last, lambda: self._arrive(event, frame))
        self._under_way.add(event)

    def _arrive(self, event: Event, frame: Frame) -> None:
        self._under_way.discard(event)
        self.deliver(frame)

    def cut(self) -> None:
        for event in self._under_way:
            event.cancel()
        self._under_way.clear()


class _ClientPipe(_Pipe):
    """The direction from a broker to a client. It notes how far the broker reached when it said what has settled."""

    __slots__ = ("_broker", "_client")

    def __init__(self, network: Network, client: SimClient, link: Link, broker: str) -> None:
        super().__init__(network, lambda frame: client.receive(link, frame))
        self._client = client
        self._broker = broker

    def send(self, frame: Frame) -> None:
        if type(frame.message) is Settled:
            tree = self._network.brokers[self._broker].adjacency.tree
            self._client.broker_settled(frozenset({self._broker, *tree.hops}))
        super().send(frame)


class SimRuntime:
    """The `Runtime` of one simulated broker in one incarnation: clock, links, timers and disk."""

    def __init__(self, network: Network, name: str, epoch: int, disk: SimDisk | None) -> None:
        self._network = network
        self._name = name
        self._timers: set[Event] = set()
        self.epoch = epoch
        self.log = disk
        self.pipes: dict[Link, _Pipe] = {}

    def now(self) -> int:
        """Return the virtual time in microseconds."""
        return self._network.scheduler.now

    def send(self, link: Link, frame: Frame) -> None:
        """Put a frame on the pipe of a link; a lost link drops it."""
        pipe = self.pipes.get(link)
        if pipe is not None:
            if self._network.tap is not None:
                self._network.tap(self._name, link, frame)
            pipe.send(frame)

    def send_all(self, links: Iterable[Link], frame: Frame) -> None:
        """Put a frame on the pipe of each link."""
        for link in links:
            self.send(link, frame)

    def call_later(self, delay: int, action: Callable[[], None]) -> Event:
        """Set a timer in virtual time; it dies with the broker."""

        def fire() -> None:
            self._timers.discard(event)
            action()

        event = self._network.scheduler.after(delay, fire)
        self._timers.add(event)
        return event

    def stop(self) -> None:
        """Stop for good, because the broker is dead: no timer fires, and nothing in transit arrives."""
        for event in self._timers:
            event.cancel()
        for pipe in self.pipes.values():
            pipe.cut()
        self.pipes.clear()


class Network:
    """Brokers, clients and links in virtual time.

    >>> network = Network(seed=7)
    >>> network.add_brokers("abc", links=["ab", "bc"])
    >>> alice, bob = network.add_client("alice", "a"), network.add_client("bob", "c")
    >>> _ = bob.subscribe("price > 100")
    >>> network.run()
    >>> _ = alice.publish(symbol="SAP", price=182.4)
    >>> network.run()
    >>> bob.received
    [Notification(symbol='SAP', price=182.4)]
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        routing: RoutingOptions | None = None,
        weather: Weather | None = None,
        features: Callable[[str], Iterable[Feature]] = lambda broker: (),
        strict_topology: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.scheduler = Scheduler()
        self.routing = routing or RoutingOptions()
        self.weather = weather or Weather()
        self.trace = Trace(self.scheduler)
        self.brokers: dict[str, Broker] = {}
        self.clients: dict[str, SimClient] = {}
        self.frames = 0
        self.bytes = 0
        self.tap: Callable[[str, Link, Frame], None] | None = None
        """Called with every frame that a broker sends: the broker's name, the link, the frame."""
        self._features = features
        self._strict = strict_topology
        self._roles: dict[str, Role] = {}
        self._disks: dict[str, SimDisk] = {}
        self._runtimes: dict[str, SimRuntime] = {}
        self._links: dict[frozenset[str], tuple[Link, Link] | None] = {}
        """Configured links; None while a link is down."""
        self._cut: set[frozenset[str]] = set()

    # --- building -------------------------------------------------------------------------------------

    def add_brokers(self, names: Iterable[str], links: Iterable[Sequence[str]] = ()) -> None:
        """Add brokers and links between them; a link is a pair of names."""
        for name in names:
            self.add_broker(name)
        for one, two in links:
            self.connect(one, two)

    def add_broker(self, name: str, role: Role = Role.BORDER) -> Broker:
        """Add a broker with a disk."""
        self._roles[name] = role
        self._disks[name] = SimDisk(self.scheduler, self.weather.sync_time)
        return self._start(name)

    def _start(self, name: str) -> Broker:
        disk = self._disks[name]
        disk.incarnations += 1
        runtime = self._runtimes[name] = SimRuntime(self, name, disk.incarnations, disk)
        broker = self.brokers[name] = Broker(
            name,
            runtime,
            routing=self.routing,
            role=self._roles[name],
            strict_topology=self._strict,
            features=self._features(name),
        )
        if "history" in broker.features:
            self._watch_publications(broker)
        if isinstance(scopes := broker.features.get("scopes"), Scopes):
            self._watch(name, broker, scopes)
        return broker

    def _watch_publications(self, broker: Broker) -> None:
        """Record which identity a broker gives to each publication."""
        remember = broker.publications.remember

        def taken(envelope: Envelope) -> None:
            identity = envelope.identity
            self.trace.add(
                Op.TAKEN,
                publication=identity.publisher_seq,
                publisher=identity.publisher,
                detail=(*identity.key, identity.published_at, identity.graph_epoch),
            )
            remember(envelope)

        broker.publications.remember = taken  # type: ignore[method-assign]

    def _watch(self, name: str, broker: Broker, scopes: Scopes) -> None:
        """Record by which versions of the scope graph a broker judges."""

        def activated(version: int) -> None:
            self.trace.add(Op.ACTIVE, name, detail=(version, scopes.versions.plan(version).graph))

        broker.scoping.activated = activated
        activated(broker.scoping.active.version)

    def change(self, broker: str, changes: tuple[AnyChange, ...], mode: Mode = Mode.RELAXED) -> list[Answer]:
        """Ask a broker for a change of the scope graph; the answer is appended to the returned list."""
        answers: list[Answer] = []
        scopes = self.brokers[broker].features["scopes"]
        assert isinstance(scopes, Scopes)

        def done(answer: Answer) -> None:
            answers.append(answer)
            self.trace.add(Op.CHANGE, broker, detail=(request, answer.version, answer.error, answer.reason))

        template = Ask("", changes, mode)
        request = f"change {len(self.trace.records)}"
        self.trace.add(Op.CHANGE, broker, detail=(request, mode, *changes))
        scopes.ask(changes, done, administrator=True, template=template)
        return answers

    def connect(self, one: str, two: str) -> None:
        """Configure a link between two brokers and bring it up."""
        pair = frozenset((one, two))
        if pair in self._links:
            raise TopologyError(f"{one} and {two} are connected already")
        self._links[pair] = None
        if self.trace.records:
            self.trace.fault("connect", f"{min(pair)} - {max(pair)}")
        try:
            self._up(pair)
        except TopologyError:
            del self._links[pair]
            raise

    def add_client(self, name: str, broker: str) -> SimClient:
        """Add a client and attach it to a broker."""
        client = self.clients[name] = SimClient(self, name)
        client.attach(broker)
        return client

    # --- what goes wrong ------------------------------------------------------------------------------

    def cut(self, one: str, two: str) -> None:
        """Cut a link; everything in transit on it is lost, and both ends notice."""
        pair = frozenset((one, two))
        self._cut.add(pair)
        self.trace.fault("cut", f"{min(pair)} - {max(pair)}")
        self._down(pair)

    def heal(self, one: str, two: str) -> None:
        """Bring a link back."""
        pair = frozenset((one, two))
        self._cut.discard(pair)
        self.trace.fault("heal", f"{min(pair)} - {max(pair)}")
        self._up(pair)

    def crash(self, name: str) -> None:
        """Kill a broker: its memory, its links and its unsynced writes are lost."""
        self.trace.fault("crash", name)
        del self.brokers[name]
        self._runtimes.pop(name).stop()
        self._disks[name].crash()
        for pair in self._links:
            if name in pair:
                self._down(pair)
        for client in self.clients.values():
            if client.broker == name:
                client.lost()

    def restart(self, name: str, *, clients_within: float = RETURN_SECONDS) -> Broker:
        """Start a killed broker again, with what its disk kept; its links come back at once.

        Each of its clients comes back within this many seconds, to this broker or to another; with 0, at once and here.
        """
        self.trace.fault("restart", name)
        broker = self._start(name)
        for pair in self._links:
            if name in pair and pair not in self._cut:
                self._up(pair)
        for client in self.clients.values():
            if client.broker == name:
                self._return(client, name, clients_within)
        return broker

    def fill(self, name: str, *, full: bool = True) -> None:
        """Let the disk of a broker be full, so that it takes no more publications, or let it take them again."""
        self.trace.fault("fill" if full else "empty", name)
        self._disks[name].full = full

    def _return(self, client: SimClient, home: str, within: float) -> None:
        if not within:
            client.attach(home)
            return
        elsewhere = self.random.random() < FAIL_OVER

        def find_broker() -> None:
            if client.connected or client.broker != home or home not in self.brokers:
                return  # it has moved meanwhile, or its broker has died again: then the next restart brings it back
            others = [name for name in self.brokers if name != home and self._roles[name] is Role.BORDER]
            client.attach(self.random.choice(others) if elsewhere and others else home)

        self.scheduler.after(self.random.randint(0, int(within * 1_000_000)), find_broker)

    def _up(self, pair: frozenset[str]) -> None:
        one, two = sorted(pair)
        if self._links[pair] is not None or one not in self.brokers or two not in self.brokers:
            return
        ends = Link(two, LinkKind.BROKER), Link(one, LinkKind.BROKER)
        self._runtimes[one].pipes[ends[0]] = _Pipe(self, lambda frame: self._receive(two, ends[1], frame))
        self._runtimes[two].pipes[ends[1]] = _Pipe(self, lambda frame: self._receive(one, ends[0], frame))
        self._links[pair] = ends
        try:
            self.brokers[one].link_up(ends[0])
            self.brokers[two].link_up(ends[1])
        except TopologyError:
            self._down(pair)
            raise

    def _down(self, pair: frozenset[str]) -> None:
        ends = self._links[pair]
        if ends is None:
            return
        self._links[pair] = None
        for name, link in zip(sorted(pair), ends, strict=True):
            if name in self.brokers:
                self._break(name, link)

    def _break(self, name: str, link: Link) -> None:
        pipe = self._runtimes[name].pipes.pop(link, None)
        if pipe is not None:
            pipe.cut()
        if self.brokers[name].has_link(link):
            self.brokers[name].link_down(link)

    def _receive(self, name: str, link: Link, frame: Frame) -> None:
        broker = self.brokers.get(name)
        if broker is not None and link in self._runtimes[name].pipes:
            broker.receive(link, frame)

    # --- clients' links -------------------------------------------------------------------------------

    def attach_client(self, client: SimClient, broker: str) -> tuple[Link, _Pipe]:
        """Connect a client to a broker; return the broker's link and the pipe towards the broker."""
        link = Link(client.name, LinkKind.CLIENT)
        self.brokers[broker].attach(link)
        self._runtimes[broker].pipes[link] = _ClientPipe(self, client, link, broker)
        return link, _Pipe(self, lambda frame: self._receive(broker, link, frame))

    def detach_client(self, broker: str, link: Link) -> None:
        """Disconnect a client for good."""
        pipe = self._runtimes[broker].pipes.pop(link)
        pipe.cut()
        self.brokers[broker].detach(link)

    # --- time -----------------------------------------------------------------------------------------

    def run(self, seconds: float | None = None) -> None:
        """Let time pass: this many seconds, or until nothing is left to happen (`NeverQuiet` after an hour)."""
        if seconds is not None:
            self.scheduler.run(self.scheduler.now + int(seconds * 1_000_000))
            return
        if not self.scheduler.drain(self.scheduler.now + MAX_UNREST):
            raise NeverQuiet(
                "the network has not come to rest for an hour of virtual time; something keeps it busy for ever"
            )
        self.trace.quiesce()
