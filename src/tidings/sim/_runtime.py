"""What a simulated broker has of the world: one side of the seam that production has on real sockets and disks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeGuard

from tidings.broker import Link
from tidings.wire import Frame, Written

from ._bursts import Outbox, bursts
from ._disk import SimDisk
from ._pipes import LocalPipe, Pipe, Way
from ._scheduler import Event
from ._service import Workplace

if TYPE_CHECKING:
    from ._network import Network


class SimRuntime:
    """The `Runtime` of one simulated broker in one incarnation: clock, links, timers and disk."""

    def __init__(self, network: Network, name: str, epoch: int, disk: SimDisk | None) -> None:
        self._network = network
        self._name = name
        self._timers: set[Event] = set()
        self.epoch = epoch
        self.log = disk
        self.pipes: dict[Link, Way] = {}
        self._outbox = Outbox(network.scheduler, self._leave) if network.weather.bursts else None
        service = network.weather.service
        self.work = Workplace(network.scheduler, service) if service is not None else None
        """What it has to do, where work takes time."""
        self.skew = 0
        """Microseconds by which the clock of this broker is ahead."""

    def now(self) -> int:
        """Return the virtual time in microseconds, as this broker sees it."""
        return self._network.scheduler.now + self.skew

    def send(self, link: Link, frame: Frame) -> None:
        """Put a frame on the pipe of a link; a lost link drops it."""
        pipe = self.pipes.get(link)
        if pipe is None:
            return
        if self._outbox is not None and _carries_bytes(pipe):
            pipe.note(frame)
            self._outbox.put(link, frame)
            return
        if self._network.tap is not None:
            self._network.tap(self._name, link, frame)
        pipe.send(frame)

    def send_all(self, links: Iterable[Link], frame: Frame) -> None:
        """Put a frame on the pipe of each link."""
        for link in links:
            self.send(link, frame)

    def send_written(self, links: Iterable[Link], written: Written) -> None:
        """Put frames that are written already on the pipe of each link."""
        assert self._outbox is not None, "nothing is written where frames travel alone"
        for link in links:
            if _carries_bytes(self.pipes.get(link)):
                self._outbox.put(link, written)
            else:
                for frame in written.frames():
                    self.send(link, frame)

    def flush(self) -> None:
        """Let everything leave that waits for the end of this instant."""
        if self._outbox is not None:
            self._outbox.flush()

    def _leave(self, link: Link, what: list[Frame | Written]) -> None:
        """An instant is over: what was sent on a link in it leaves, unless the link is lost."""
        pipe = self.pipes.get(link)
        if not _carries_bytes(pipe):
            return
        if self._network.tap is not None:
            for one in what:
                for frame in one.frames() if isinstance(one, Written) else (one,):
                    self._network.tap(self._name, link, frame)
        for burst in bursts(self._network, what):
            pipe.send(burst)

    def open_local(self, link: Link, receive: Callable[[Frame], None]) -> None:
        """Let frames for this link reach a client inside the broker, at once."""
        self.pipes[link] = LocalPipe(self._network, receive)

    def close_local(self, link: Link) -> None:
        """Let nothing more reach it."""
        if isinstance(self.pipes.get(link), LocalPipe):
            del self.pipes[link]

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
        if self.work is not None:
            self.work.stop()
        for event in self._timers:
            event.cancel()
        for pipe in self.pipes.values():
            pipe.cut()
        self.pipes.clear()


def _carries_bytes(way: Way | None) -> TypeGuard[Pipe]:
    """Whether it leads out of the broker, to somebody who has no connection of its own."""
    return isinstance(way, Pipe) and not isinstance(way, LocalPipe)
