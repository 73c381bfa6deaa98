"""What can go wrong in a world, by name.

Each fault is a method, and `begin` and `end` bring about a fault of a plan. A name that is no broker or client of the
world is refused before anything happens, and so is what cannot be, such as the crash of a dead broker.
"""

from __future__ import annotations

import functools

from tidings.aggregation import Quenching
from tidings.broker import Durables
from tidings.mobility import Following
from tidings.model import ArgumentRefused

from ._arguments import MAX_SECONDS, seconds_of, shown
from ._connections import Connections
from ._fault_plan import Fault, Trouble
from ._network import Network
from ._processes import Processes
from ._reality import Border
from ._scheduler import Event

SILENCE = 35.0
"""Seconds after which both ends of a silent link give it up."""


class Mishaps:
    """The faults of a world."""

    def __init__(self, network: Network, connections: Connections, border: Border) -> None:
        self.network = network
        """The brokers, and the links between them."""
        self.processes = Processes()
        """The applications that were started by `start`."""
        self._connections = connections
        self._border = border
        self._cut: set[tuple[str, str]] = set()
        self._vanished: set[str] = set()
        self._silent: dict[tuple[str, str], Event] = {}
        """The links of those that have vanished, and when both ends give them up."""

    def cut(self, one: str, two: str) -> None:
        """Cut a link between two brokers, or a client off from a broker; both ends notice."""
        pair = self._pair(one, two)
        if pair in self._cut:
            raise ArgumentRefused(f"{one} and {two} are cut off from each other already; heal them first")
        self._cut.add(pair)
        if self._is_link(pair):
            self.network.cut(*pair)
        else:
            self._connections.cut(*pair)

    def heal(self, one: str, two: str | None = None) -> None:
        """Heal what `cut` has cut; or, with one name, bring back whoever has vanished."""
        if two is None:
            self._appear(one)
            return
        pair = self._pair(one, two)
        if pair not in self._cut:
            raise ArgumentRefused(f"{one} and {two} are not cut off from each other; there is nothing to heal")
        self._cut.discard(pair)
        if not self._is_link(pair):
            self._connections.heal(*pair)
        elif not {one, two} & self._vanished:  # else it comes back with whoever has vanished
            self.network.heal(*pair)

    def reset(self, name: str) -> None:
        """Break the connections that a broker has to clients now, or a client to its broker; they may connect again."""
        self._check(name, clients=True)
        self._connections.reset(name)

    def crash(self, name: str) -> None:
        """Kill a broker: its memory, its connections and its unsynced writes are lost. Or kill an application."""
        self._check(name, applications=True)
        if not self._lives(name):
            raise ArgumentRefused(
                f"{name} {'is dead already' if self._is_down(name) else 'has ended'}; restart it first"
            )
        if name in self.processes.names:
            self.processes.kill(name)
            return
        self._connections.crash(name)
        self.network.crash(name)

    def restart(self, name: str) -> None:
        """Start a dead broker again, with what its disk kept. Clients return by themselves.

        Or start an application again that was killed, or has ended.
        """
        self._check(name, applications=True)
        if self._lives(name):
            raise ArgumentRefused(f"{name} is alive; crash it first")
        if name in self.processes.names:
            self.processes.restart(name)
            return
        self.network.restart(name)
        self._opened(name)
        for one, two in self.network.links:
            if name in (one, two) and {one, two} & self._vanished:
                self.network.silence(one, two)

    def _lives(self, name: str) -> bool:
        return self.processes.lives(name) if name in self.processes.names else name in self.network.brokers

    def _is_down(self, name: str) -> bool:
        """Whether a fault has ended it; an application that has ended by itself is neither alive nor down."""
        return self.processes.was_killed(name) if name in self.processes.names else name not in self.network.brokers

    def _opened(self, broker: str) -> None:
        """A broker has started: clients may come, and their durable subscriptions are kept."""
        durables = Durables(self.network.brokers[broker], self.network.disk(broker))
        if isinstance(following := self.network.brokers[broker].features.get("following"), Following):
            following.serve(durables)
        if isinstance(quenching := self.network.brokers[broker].features.get("quench"), Quenching):
            quenching.kept_here = lambda: durables.filters
        self._connections.open(broker)

    def vanish(self, name: str) -> None:
        """Let nothing reach a broker or client, and nothing come from it. Nobody is told; the others notice by and by.

        What is sent meanwhile waits, as TCP would send it again, for those who have not given up.
        """
        self._check(name, clients=True)
        if name in self._vanished:
            raise ArgumentRefused(f"{name} has vanished already; heal it first")
        self._vanished.add(name)
        self._connections.vanish(name)
        for one, two in self.network.links:
            if name in (one, two) and (one, two) not in self._silent:
                self.network.trace.fault("cut", f"{one} - {two}")
                self.network.silence(one, two)
                give_up = functools.partial(self.network.give_up, one, two)
                self._silent[one, two] = self.network.scheduler.after(int(SILENCE * 1_000_000), give_up)

    def _appear(self, name: str) -> None:
        self._check(name, clients=True)
        if name not in self._vanished:
            raise ArgumentRefused(f"{name} has not vanished; there is nothing to heal")
        self._vanished.discard(name)
        for one, two in [link for link in self._silent if name in link]:
            if {one, two} & self._vanished:
                continue  # the other end has vanished, too
            self._silent.pop((one, two)).cancel()
            self.network.silence(one, two, silent=False)
            if (one, two) not in self._cut:
                self.network.heal(one, two)
        self._connections.vanish(name, gone=False)

    def slow_disk(self, broker: str, seconds: float | None) -> None:
        """Let each sync of a broker's disk take so long; None: as long as the weather says."""
        self._check(broker)
        usual = self.network.weather.sync_time
        time = usual if seconds is None else round(seconds_of(seconds, "seconds") * 1_000_000)
        self.network.disk(broker).sync_time = time

    def full_disk(self, broker: str, *, full: bool = True) -> None:
        """Let a broker's disk take nothing more, or let it take something again."""
        self._check(broker)
        self.network.fill(broker, full=full)

    def clock_jump(self, broker: str, seconds: float) -> None:
        """Let the clock of a broker jump, forwards or backwards; what it measures by timers stays as it is."""
        self._check(broker)
        if broker not in self.network.brokers:
            raise ArgumentRefused(f"{broker} is dead, and has no clock; restart it first")
        self.network.runtime(broker).skew += round(seconds_of(seconds, "seconds", least=-MAX_SECONDS) * 1_000_000)

    @property
    def standing(self) -> list[str]:
        """What is broken now, and would have to be mended before anything is owed to those whom it concerns."""
        names = self.network.names
        return [
            *(f"{one} and {two} are cut off from each other" for one, two in sorted(self._cut)),
            *(f"{name} has vanished" for name in sorted(self._vanished)),
            *(f"{name} is dead" for name in names if name not in self.network.brokers),
            *(f"the disk of {name} is full" for name in names if self.network.disk(name).full),
        ]

    # --- plans ----------------------------------------------------------------------------------------

    def begin(self, fault: Fault) -> None:
        """Let a fault of a plan begin, unless the application has brought about the same."""
        who = fault.who
        match fault.trouble:
            case Trouble.CUT if who not in self._cut:
                self.cut(*who)
            case Trouble.CRASH if self._lives(who[0]):
                self.crash(who[0])
            case Trouble.VANISH if who[0] not in self._vanished:
                self.vanish(who[0])
            case Trouble.SLOW_DISK:
                self.slow_disk(who[0], fault.amount)
            case Trouble.FULL_DISK:
                self.full_disk(who[0])
            case Trouble.CLOCK_JUMP if who[0] in self.network.brokers:
                self.clock_jump(who[0], fault.amount)

    def end(self, fault: Fault) -> None:
        """Let it end, unless the application has mended it."""
        who = fault.who
        match fault.trouble:
            case Trouble.CUT if who in self._cut:
                self.heal(*who)
            case Trouble.CRASH if self._is_down(who[0]):
                self.restart(who[0])
            case Trouble.VANISH if who[0] in self._vanished:
                self.heal(*who)
            case Trouble.SLOW_DISK:
                self.slow_disk(who[0], None)
            case Trouble.FULL_DISK:
                self.full_disk(who[0], full=False)
            case Trouble.CLOCK_JUMP if who[0] in self.network.brokers:
                self.clock_jump(who[0], -fault.amount)

    # --- names ----------------------------------------------------------------------------------------

    def _check(self, *names: str, applications: bool = False, clients: bool = False) -> None:
        """Raise for a name that is no broker of this world, nor an application or client where one will do."""
        self._border.require_closed()
        kinds, known = ["broker"], list(self.network.names)
        if applications:
            kinds, known = [*kinds, "application"], known + self.processes.names
        if clients:
            kinds, known = [*kinds, "client"], known + self._connections.clients
        for name in names:
            if name not in known:
                raise ArgumentRefused(
                    f"{shown(name)} is no {' or '.join(kinds)} of this world; it has {', '.join(known) or 'none'}"
                )

    def _is_link(self, pair: tuple[str, str]) -> bool:
        return pair in self.network.links

    def _pair(self, one: str, two: str) -> tuple[str, str]:
        """A link with its ends in order; or a client and its broker."""
        self._border.require_closed()
        for link in ((one, two), (two, one)):
            if self._is_link(link):
                return link
        for client, broker in ((one, two), (two, one)):
            if client in self._connections.clients and broker in self.network.names:
                return client, broker
        links = ", ".join(f"{a} - {b}" for a, b in self.network.links) or "none"
        raise ArgumentRefused(
            f"there is nothing between {shown(one)} and {shown(two)}; name a link ({links}), or a client and its broker"
        )
