"""The simulated network: production brokers on virtual links, with everything that can go wrong.

Theory of operation
-------------------
A `Network` owns a seeded random generator and a scheduler; nothing else decides what happens. Links are pairs of pipes
(see `_pipes`). Cutting a link loses what is under way on it. Crashing a broker loses its memory, its links and what its
disk had not synced. Its clients come back a while after it has, most of them to it and some to another broker, and
subscribe again, as a client library would.

Every action of an application and everything that reaches it is recorded in the trace, which the checker judges.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from tidings.broker import Broker, Feature, Link, LinkKind, Role, RoutingOptions
from tidings.history import CacheLimits
from tidings.mobility import Admitted, Denied, Hosts, Newcomer, Verdict
from tidings.model import Location, TidingsError, TopologyError
from tidings.scopes import Answer, AnyChange, Ask, Mode, Scopes
from tidings.wire import Frame, Written

from ._bursts import Outbox, Reader, bursts
from ._client import SimClient
from ._couriers import Couriers
from ._details import Answered, Asked
from ._disk import SimDisk
from ._pipes import ClientPipe, Pipe, Weather
from ._recording import record
from ._runtime import SimRuntime
from ._scheduler import Scheduler
from ._trace import Op, Trace

RETURN_SECONDS = 10.0
"""Clients of a broker that has restarted find a broker within this time."""
FAIL_OVER = 0.25
"""The share of them that find another one."""
SILENT_SECONDS = 5.0
"""A broker notices within this time that a client has vanished."""
KEPT_SECONDS = 10.0
"""And gives it up within this time."""
MAX_UNREST = 3_600_000_000
"""Microseconds of virtual time in which a network must come to rest."""


class NeverQuiet(TidingsError):
    """The network never comes to rest: something keeps it busy for ever."""


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
        client_weather: Weather | None = None,
        features: Callable[[str], Iterable[Feature]] = lambda broker: (),
        strict_topology: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.scheduler = Scheduler()
        self.routing = routing or RoutingOptions()
        self.weather = weather or Weather()
        self.client_weather = client_weather
        """That of the links of clients, if it is another one."""
        self._weathers: dict[frozenset[str], Weather] = {}
        """Of links between brokers that have a weather of their own."""
        self.trace = Trace(self.scheduler)
        self.brokers: dict[str, Broker] = {}
        self.clients: dict[str, SimClient] = {}
        self.frames = 0
        self.bytes = 0
        self.lost = self.doubled = 0
        """Frames that were lost, and that came twice, below the transport."""
        self.tap: Callable[[str, Link, Frame], None] | None = None
        """Called with every frame that a broker sends: the broker's name, the link, the frame."""
        self.planes = True
        """Whether brokers read bursts with their data plane, if they have one; False: frame by frame."""
        self.noticed_within = SILENT_SECONDS
        """Seconds within which a broker notices that a client has vanished."""
        self.timed_epochs = False
        """Whether the epoch of a broker is the time at which it starts, as in production, or its next incarnation."""
        self._features = features
        self._strict = strict_topology
        self._roles: dict[str, Role] = {}
        self._places: dict[str, Location | None] = {}
        self._disks: dict[str, SimDisk] = {}
        self._runtimes: dict[str, SimRuntime] = {}
        self._links: dict[frozenset[str], tuple[Link, Link] | None] = {}
        """Configured links; None while a link is down."""
        self._cut: set[frozenset[str]] = set()
        self._couriers = Couriers(self)

    # --- building -------------------------------------------------------------------------------------

    def add_brokers(self, names: Iterable[str], links: Iterable[Sequence[str]] = ()) -> None:
        """Add brokers and links between them; a link is a pair of names."""
        for name in names:
            self.add_broker(name)
        for one, two in links:
            self.connect(one, two)

    def add_broker(self, name: str, role: Role = Role.BORDER, place: Location | None = None) -> Broker:
        """Add a broker with a disk, and with a place if that is given."""
        self._roles[name] = role
        self._places[name] = place
        self._disks[name] = SimDisk(self.scheduler, self.weather.sync_time)
        return self._start(name)

    def _start(self, name: str) -> Broker:
        disk = self._disks[name]
        epoch = disk.begin(self.scheduler.now if self.timed_epochs else None)
        runtime = self._runtimes[name] = SimRuntime(self, name, epoch, disk)
        broker = self.brokers[name] = Broker(
            name,
            runtime,
            routing=self.routing,
            role=self._roles[name],
            strict_topology=self._strict,
            place=self._places[name],
            features=self._features(name),
        )
        record(self.trace, broker, self._couriers)
        if isinstance(hosts := broker.features.get("hosts"), Hosts):
            hosts.end = lambda link, reason: self._end_soon(name, link, reason)
            hosts.ping = lambda link: self._ping(name, link)
        return broker

    def _end_soon(self, name: str, link: Link, reason: str) -> None:
        self.scheduler.after(0, lambda: self._end_client(name, link, reason))

    def _end_client(self, name: str, link: Link, reason: str) -> None:
        """A broker ends the connection of a client, because another one hosts it."""
        broker = self.brokers.get(name)
        if broker is None or broker.client(link.name) is not link:
            return
        if (way := self._runtimes[name].pipes.pop(link, None)) is not None:
            way.end(reason)
        if broker.client(link.name) is link:
            broker.detach(link)

    def _ping(self, name: str, link: Link) -> Callable[[], bool | None]:
        """Ask a client whether it is there."""
        way = self._runtimes[name].pipes.get(link)
        return way.ping() if way is not None else lambda: False

    def change(self, broker: str, changes: tuple[AnyChange, ...], mode: Mode = Mode.RELAXED) -> list[Answer]:
        """Ask a broker for a change of the scope graph; the answer is appended to the returned list."""
        answers: list[Answer] = []
        scopes = self.brokers[broker].features["scopes"]
        assert isinstance(scopes, Scopes)

        def done(answer: Answer) -> None:
            answers.append(answer)
            self.trace.add(Op.CHANGE, broker, detail=Answered(request, answer.version, answer.error, answer.reason))

        template = Ask("", changes, mode)
        request = f"change {len(self.trace.records)}"
        self.trace.add(Op.CHANGE, broker, detail=Asked(request, mode, changes))
        scopes.ask(changes, done, administrator=True, template=template)
        return answers

    def connect(self, one: str, two: str) -> None:
        """Configure a link between two brokers and bring it up."""
        pair = frozenset((one, two))
        if pair in self._links:
            raise TopologyError(f"{one} and {two} are connected already")
        self._links[pair] = None
        self.trace.fault("connect" if self.trace.begun else "link", f"{min(pair)} - {max(pair)}")
        try:
            self._up(pair)
        except TopologyError:
            del self._links[pair]
            raise

    def set_weather(self, one: str, two: str, weather: Weather) -> None:
        """Let a link between two brokers have a weather of its own, from now on."""
        pair = frozenset((one, two))
        self._weathers[pair] = weather
        for name, link in zip(sorted(pair), self._links.get(pair) or (), strict=False):
            if isinstance(pipe := self._runtimes[name].pipes[link], Pipe):
                pipe.weather = weather

    def add_client(self, name: str, broker: str, *, remember: CacheLimits | None = None) -> SimClient:
        """Add a client and attach it to a broker. With `remember`, its local broker answers for the past."""
        client = self.clients[name] = SimClient(self, name, remember)
        client.attach(broker)
        return client

    @property
    def names(self) -> list[str]:
        """All brokers, dead or alive."""
        return list(self._roles)

    @property
    def links(self) -> list[tuple[str, str]]:
        """The configured links between brokers, up or down."""
        return [(min(pair), max(pair)) for pair in self._links]

    def runtime(self, name: str) -> SimRuntime:
        """What a living broker has of the world."""
        return self._runtimes[name]

    def disk(self, name: str) -> SimDisk:
        """The disk of a broker, dead or alive."""
        return self._disks[name]

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

    def silence(self, one: str, two: str, *, silent: bool = True) -> None:
        """Let nothing through a link, so that neither end notices until it gives up; or let it through again."""
        pair = frozenset((one, two))
        if (ends := self._links[pair]) is not None:
            for name, link in zip(sorted(pair), ends, strict=True):
                if isinstance(pipe := self._runtimes[name].pipes.get(link), Pipe):
                    pipe.silence(silent)

    def give_up(self, one: str, two: str) -> None:
        """Both ends of a silent link notice that nothing comes: it is down, with everything in transit."""
        self._cut.add(frozenset((one, two)))
        self._down(frozenset((one, two)))

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
        weather = self._weathers.get(pair)
        self._runtimes[one].pipes[ends[0]] = self._pipe_to(two, ends[1], weather)
        self._runtimes[two].pipes[ends[1]] = self._pipe_to(one, ends[0], weather)
        self._links[pair] = ends
        try:
            self.brokers[one].link_up(ends[0])
            self.brokers[two].link_up(ends[1])
        except TopologyError:
            self._down(pair)
            raise
        self._couriers.link_up()

    def _pipe_to(self, name: str, link: Link, weather: Weather | None) -> Pipe:
        """A pipe to a broker, which gets what comes out of it on a link of its own."""
        return Pipe(self, lambda frame: self._receive(name, link, frame), weather, Reader(self, name, link).read)

    def _down(self, pair: frozenset[str]) -> None:
        ends = self._links[pair]
        if ends is None:
            return
        self._links[pair] = None
        self._couriers.link_down()
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
        runtime = self._runtimes.get(name)
        if runtime is not None and runtime.work is not None:
            runtime.work.submit(frame, lambda: self._handle(name, link, frame))
        else:
            self._handle(name, link, frame)

    def _handle(self, name: str, link: Link, frame: Frame) -> None:
        if self.is_linked(name, link):
            self.brokers[name].receive(link, frame)

    def is_linked(self, name: str, link: Link) -> bool:
        """Whether a broker is there and has this link."""
        return name in self.brokers and link in self._runtimes[name].pipes

    # --- clients' links -------------------------------------------------------------------------------

    def attach_client(self, client: SimClient, broker: str) -> tuple[Link, Callable[[Frame], None]]:
        """Connect a client to a broker; return the broker's link and what sends a frame to the broker."""
        admitted = self._admitted(client, broker)
        if (known := self.brokers[broker].client(client.name)) is not None:
            self.brokers[broker].detach(known)  # it has vanished before, and nobody has given it up yet
        link = Link(client.name, LinkKind.CLIENT, attributes=client.attributes)
        self.brokers[broker].attach(link)
        self._runtimes[broker].pipes[link] = ClientPipe(self, client, link, broker)
        if admitted is not None and isinstance(hosts := self.brokers[broker].features.get("hosts"), Hosts):
            client.hosted = (admitted.epoch, broker)
            hosts.host(link, admitted)
        pipe = self._pipe_to(broker, link, self.client_weather)
        if not self.weather.bursts:
            return link, pipe.send

        def leave(_: Link, what: list[Frame | Written]) -> None:
            for burst in bursts(self, what):
                pipe.send(burst)

        outbox = Outbox(self.scheduler, leave)
        return link, lambda frame: outbox.put(link, frame)

    def _admitted(self, client: SimClient, broker: str) -> Admitted | None:
        """What a broker says to a client that shows its epoch, or has never been anywhere; None: names have no host."""
        verdicts: list[Verdict] = []
        if isinstance(hosts := self.brokers[broker].features.get("hosts"), Hosts):
            epoch, last = client.hosted
            hosts.enter(Newcomer(client.name, client.name, epoch, last, fresh=not epoch), verdicts.append)
        for verdict in verdicts:
            if isinstance(verdict, Denied):
                raise TopologyError(verdict.reason)
            return verdict
        return None

    def vanish_client(self, name: str, link: Link, *, noticed: float | None = None, kept: float | None = None) -> None:
        """Let the connection of a client be gone without a word: what is under way in either direction is lost.

        Its broker notices after so many seconds, and waits so many more for it to come back; drawn, if not given.
        """
        broker, runtime = self.brokers[name], self._runtimes[name]
        runtime.pipes.pop(link).cut()
        silence = self.random.uniform(0, self.noticed_within) if noticed is None else noticed
        patience = self.random.uniform(0, KEPT_SECONDS) if kept is None else kept

        def is_there() -> bool:
            return self.brokers.get(name) is broker and broker.client(link.name) is link

        def notice() -> None:
            if is_there():
                broker.away(link)
                self.scheduler.after(int(patience * 1_000_000), give_up)

        def give_up() -> None:
            if is_there():
                broker.detach(link)

        self.scheduler.after(int(silence * 1_000_000), notice)

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
