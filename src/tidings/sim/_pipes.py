"""Pipes: the ways of frames in a simulated network, one for each direction of a link.

A pipe is FIFO: each frame takes a random latency and the time that the bandwidth needs for it, but never overtakes the
frame before it. Cutting a pipe loses what is under way in it; silencing it keeps everything back, unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidings.broker import Link
from tidings.model import ArgumentRefused
from tidings.wire import Frame, Settled, decode, encode

from ._bursts import Burst, Receiver
from ._channel import transmitted
from ._scheduler import Event
from ._service import Service

if TYPE_CHECKING:
    from ._client import SimClient
    from ._network import Network


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
    bursts: bool = False
    """Send what belongs together as bytes, which brokers read with their data plane; see `_bursts`."""
    service: Service | None = None
    """How long brokers work on each frame, one after the other; None: no time at all."""
    loss: float = 0.0
    """The share of frames that is lost below the transport, which sends them again: they come later, and in order."""
    duplication: float = 0.0
    """The share that arrives twice below the transport, which drops the second: it takes its share of the bandwidth."""
    resend_after: int = 200_000
    """How long the transport waits before it sends again what was lost; twice as long each further time."""

    def __post_init__(self) -> None:
        """Raise `ArgumentRefused` for a share that is none."""
        for name in ("loss", "duplication"):
            if not 0 <= getattr(self, name) < 1:
                raise ArgumentRefused(f"{name}={getattr(self, name)}; give a share from 0 to below 1")
        if self.bursts and self.service is not None:
            raise ArgumentRefused(f"bursts with service={self.service}; a burst is read at once: leave one of them out")


class Way(Protocol):
    """Where a broker puts the frames of one of its links."""

    def send(self, frame: Frame) -> None:
        """Send a frame behind those before it."""
        ...

    def cut(self) -> None:
        """Lose what is under way."""
        ...

    def ping(self) -> Callable[[], bool | None]:
        """Ask whoever is at the other end whether it is there; what this returns says so, None: not yet."""
        ...

    def end(self, reason: str) -> None:
        """The broker ends it, because another one hosts the client."""
        ...


class Pipe:
    """One direction of a link."""

    __slots__ = ("_free_at", "_held", "_last", "_network", "_read", "_under_way", "deliver", "weather")

    def __init__(
        self,
        network: Network,
        deliver: Callable[[Frame], None],
        weather: Weather | None = None,
        read: Callable[[bytes], None] | None = None,
    ) -> None:
        """`weather` is that of this link, if it has one of its own; `read` takes the bytes of bursts."""
        self._network = network
        self.deliver = deliver
        self._read = read
        self.weather = weather
        self._last = 0
        self._free_at = 0
        self._under_way: dict[Event, Frame | Burst] = {}
        self._held: list[Frame | Burst] | None = None
        """What nobody gets as long as the pipe is silent; None: it is not."""

    def note(self, frame: Frame) -> None:
        """A frame is about to be sent, perhaps with others."""

    def send(self, frame: Frame | Burst) -> None:
        if self._held is not None:
            self._held.append(frame)
            return
        network = self._network
        weather, scheduler = self.weather or network.weather, network.scheduler
        network.frames += frame.frames if isinstance(frame, Burst) else 1
        depart = scheduler.now
        packet = transmitted(weather, network.random)
        network.lost += packet.lost
        network.doubled += packet.twice
        if weather.through_wire or weather.bandwidth is not None:
            data = frame.data if isinstance(frame, Burst) else encode(frame)
            network.bytes += len(data) * (packet.before + packet.after)
            if weather.through_wire and not isinstance(frame, Burst):
                frame = decode(data)
            if weather.bandwidth is not None:
                once = len(data) * 1_000_000 // weather.bandwidth
                depart = max(depart, self._free_at) + packet.before * once
                self._free_at = depart + packet.after * once
        self._last = max(self._last, depart + packet.pause + network.random.randint(*weather.latency))
        event = scheduler.at(self._last, lambda: self._arrive(event, frame))
        self._under_way[event] = frame

    def _arrive(self, event: Event, frame: Frame | Burst) -> None:
        del self._under_way[event]
        if not isinstance(frame, Burst):
            self.deliver(frame)
        elif self._read is not None:
            self._read(frame.data)

    @property
    def silent(self) -> bool:
        """Whether nothing comes through for the moment, and nobody has noticed."""
        return self._held is not None

    def latest(self) -> int:
        """When something without a length would arrive at the latest that were sent now; nothing is drawn for it."""
        weather, now = self.weather or self._network.weather, self._network.scheduler.now
        return max(self._last, max(self._free_at, now) + weather.latency[1])

    def cut(self) -> None:
        for event in self._under_way:
            event.cancel()
        self._under_way.clear()
        if self._held is not None:
            self._held.clear()

    def ping(self) -> Callable[[], bool | None]:
        """Whoever has this pipe is there: it is taken away when a client vanishes."""
        return lambda: True

    def end(self, reason: str) -> None:
        self.cut()

    def silence(self, silent: bool) -> None:
        """Let nothing through, or let it through again, with what has waited meanwhile, in the order of sending."""
        if silent:
            waiting, held = list(self._under_way.values()), self._held or []
            self.cut()
            self._held = held + waiting
        else:
            held, self._held = self._held or [], None
            for frame in held:
                self.send(frame)


class ClientPipe(Pipe):
    """The direction from a broker to a client. It notes how far the broker reached when it said what has settled."""

    __slots__ = ("_broker", "_client", "_link")

    def __init__(self, network: Network, client: SimClient, link: Link, broker: str) -> None:
        self._link = link

        def receive(frame: Frame) -> None:
            client.receive(link, frame)

        super().__init__(network, receive, network.client_weather, Receiver(receive).read)
        self._client = client
        self._broker = broker

    def note(self, frame: Frame) -> None:
        if type(frame.message) is Settled:
            tree = self._network.brokers[self._broker].adjacency.tree
            self._client.broker_settled(frozenset({self._broker, *tree.hops}))

    def send(self, frame: Frame | Burst) -> None:
        if not isinstance(frame, Burst):
            self.note(frame)
        super().send(frame)

    def end(self, reason: str) -> None:
        super().end(reason)
        self._client.taken_over(self._link)


class LocalPipe(Pipe):
    """The way to a client inside the broker: it takes no time."""

    __slots__ = ()

    def send(self, frame: Frame | Burst) -> None:
        assert isinstance(frame, Frame), "bytes are for those who are outside"
        self.deliver(frame)
