"""Evacuation: the clients of a broker go to other brokers before it stops.

Theory of operation
-------------------
An administrator asks for it, at whichever broker; that one passes it on to the broker that is meant. From then on the
broker asks its clients to go, `AT_ONCE` at a time, so that their next brokers are not overrun. It names no other
broker: a client goes to one of the addresses that its application gave it, with its token, and to no other. It enters
there before it leaves (`tidings.client._crossing`), so this broker learns of each departure as it always does, by the
claim of the next broker. A client that has no other address, or that nobody else lets in, stays, is served as before,
and says so. One that says nothing for `PATIENCE` is of an older version, or hangs: it stays, too.

    queue     it is to be asked                 staying   it has said so, or is away, or does not answer
    asked     it is on its way, or tries        gone      its link has ended: to whom, if a broker has claimed it

Two brokers may be evacuated at the same time. A client that is asked to go says so where it comes, and a broker that is
evacuated itself does not let it in: it tries its next address, or stays. So nobody is sent to and fro, nor comes back
by another address of the same broker.

An evacuation goes on for `LEASE` after somebody last looked at it, and a client that comes meanwhile is asked as well.
Then it is forgotten: a broker that is not stopped after all is a broker like others. Those who look are not asked
themselves.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from tidings.broker import Advice, Feature, Joinpoint, Link, Timer
from tidings.model import TidingsError
from tidings.wire import (
    EVACUATION,
    MAX_STAYING,
    UNREADABLE,
    EvacuationStatus,
    GoElsewhere,
    StayingStatus,
    Stays,
    WireError,
    decode_evacuation,
    encode_evacuation,
    pack,
    read_evacuation,
    unpacker,
)

from ._hosted import Moved
from ._hosts import Hosts

AT_ONCE = 32
"""Clients that are on their way at a time."""
PATIENCE = 15_000_000
"""Microseconds within which a client goes, or says that it stays."""
LEASE = 60_000_000
"""Microseconds for which an evacuation goes on after somebody last looked at it."""
LOOK = 200_000
"""Microseconds between two looks for clients that have come, or do not answer."""
ANSWER_TIME = 5_000_000
"""Microseconds within which another broker answers."""
AWAY = "its connection is lost, and it may come back"


class _Order(msgspec.Struct, frozen=True, array_like=True, tag="order"):
    """A broker asks another one for an evacuation, or how far it is."""

    number: int
    begin: bool


class _Report(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    number: int
    status: bytes


_read = unpacker(_Order | _Report)  # type: ignore[arg-type]


@dataclass(slots=True)
class _Running:
    """An evacuation."""

    began: int
    until: int
    queue: deque[Link] = field(default_factory=deque)
    """The clients that are to be asked."""
    asked: dict[Link, int] = field(default_factory=dict)
    """Those that are on their way, and when they were asked."""
    staying: dict[Link, str] = field(default_factory=dict)
    """Those that stay, and why."""
    gone: dict[str, str] = field(default_factory=dict)
    """Those that have left, and to which broker; "": nobody has said."""
    bound: dict[str, str] = field(default_factory=dict)
    """Where clients go whose links are about to end."""


class Evacuation(Feature):
    """Sends the clients of this broker elsewhere, if an administrator wants that."""

    name = EVACUATION
    fail_stop = False

    def __init__(self, hosts: Hosts) -> None:
        self._running: _Running | None = None
        self._spared: set[str] = set()
        self._number = 0
        self._waiting: dict[int, tuple[str, Timer, Callable[[EvacuationStatus | TidingsError], None]]] = {}
        """Who waits for another broker, by the number of the question."""
        hosts.on_move.append(self._moved)

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Note who goes."""
        return {Joinpoint.DETACH: self._on_detach}

    # --- for administrators ---------------------------------------------------------------------------

    def order(
        self, broker: str, asker: str, done: Callable[[EvacuationStatus | TidingsError], None], *, begin: bool
    ) -> None:
        """Evacuate a broker, or only tell how far that is; `asker` is the client that asks, "" if it is none.

        `TidingsError` if the broker cannot be reached; `done` gets one if it does not answer.
        """
        context = self.context
        if broker == context.name:
            if asker:
                self._spared.add(asker)
            done(self._obey(begin=begin))
            return
        self._number += 1
        number = self._number
        if not context.send_to(broker, pack(_Order(number, begin))):
            known = ", ".join(sorted({context.name, *context.tree.hops}))
            raise TidingsError(f"broker '{broker}' cannot be reached; those that can are {known}")

        def late() -> None:
            del self._waiting[number]
            done(TidingsError(f"broker '{broker}' has not answered; ask again, or connect to it"))

        self._waiting[number] = broker, context.call_later(ANSWER_TIME, late), done

    def _obey(self, *, begin: bool) -> EvacuationStatus:
        now = self.context.now()
        if begin:
            if self._running is None:
                self._running = _Running(now, now + LEASE)
                self.context.call_later(LOOK, self._look)
            self._running.staying.clear()  # those who stay are asked once more
        if self._running is not None:
            self._running.until = now + LEASE
            self._gather(self._running)
        return self.status()

    @property
    def running(self) -> bool:
        """Whether this broker is about to stop: it takes no clients that another one has sent elsewhere."""
        return self._running is not None

    def status(self) -> EvacuationStatus:
        """How far it is."""
        running, here = self._running, self.context.name
        if running is None:
            return EvacuationStatus(broker=here)
        stays = [StayingStatus(client=link.name, reason=reason) for link, reason in running.staying.items()]
        gone = Counter(running.gone.values())
        ended = gone.pop("", 0)
        return EvacuationStatus(
            broker=here,
            began=running.began,
            gone=dict(gone),
            ended=ended,
            waiting=len(running.queue) + len(running.asked),
            staying=tuple(stays[:MAX_STAYING]),
            left_out=max(0, len(stays) - MAX_STAYING),
        )

    # --- other brokers --------------------------------------------------------------------------------

    def on_routed(self, source: str, body: bytes) -> None:
        """The administrator of another broker asks, or another broker answers."""
        try:
            said: _Order | _Report = _read(body)
            status = decode_evacuation(said.status) if isinstance(said, _Report) else None
        except (*UNREADABLE, WireError):
            self.context.refused()
            return
        if isinstance(said, _Order):
            self.context.send_to(source, pack(_Report(said.number, encode_evacuation(self._obey(begin=said.begin)))))
        elif status is not None and (waiting := self._waiting.get(said.number)) is not None and waiting[0] == source:
            del self._waiting[said.number]
            waiting[1].cancel()
            waiting[2](status)

    # --- clients --------------------------------------------------------------------------------------

    def on_message(self, link: Link, body: bytes) -> None:
        """A client stays."""
        running = self._running
        try:
            said = read_evacuation(body) if link.is_client else None
        except WireError:
            said = None
        if not isinstance(said, Stays) or not link.is_client:
            self.context.refused()
            return
        if running is None or said.number != running.began or self.context.client(link.name) is not link:
            return
        running.asked.pop(link, None)
        others = f"its other address{'es' * (said.tried > 1)}"
        running.staying[link] = f"no broker at {others} lets it in" if said.tried else "it has no other address"
        self._go_on(running)

    def _concerned(self, link: Link) -> bool:
        return not link.is_inside and link.name not in self._spared

    def _look(self) -> None:
        running, now = self._running, self.context.now()
        if running is None:
            return
        if now >= running.until:
            self._running = None
            self._spared.clear()
            return
        for link, asked in list(running.asked.items()):
            if self.context.is_away(link) or now >= asked + PATIENCE:
                del running.asked[link]
                running.staying[link] = AWAY if self.context.is_away(link) else "it does not answer"
        for link in [
            one for one, reason in running.staying.items() if reason == AWAY and not self.context.is_away(one)
        ]:
            del running.staying[link]
        self._gather(running)
        self.context.call_later(LOOK, self._look)

    def _gather(self, running: _Running) -> None:
        """Find those who have not been asked."""
        known = {*running.queue, *running.asked, *running.staying}
        for link in self.context.clients:
            if link not in known and self._concerned(link):
                running.gone.pop(link.name, None)  # it has come back
                running.queue.append(link)
        self._go_on(running)

    def _go_on(self, running: _Running) -> None:
        """Ask as many as may be on their way."""
        while running.queue and len(running.asked) < AT_ONCE:
            link = running.queue.popleft()
            if self.context.client(link.name) is not link:
                continue
            if self.context.is_away(link):
                running.staying[link] = AWAY
                continue
            running.asked[link] = self.context.now()
            self.context.send(link, pack(GoElsewhere(running.began)))

    def _moved(self, moved: Moved) -> None:
        if self._running is not None and moved.old == self.context.name:
            self._running.bound[moved.client] = moved.new

    def _on_detach(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        running = self._running
        if running is None or not self._concerned(link):
            return
        running.asked.pop(link, None)
        running.staying.pop(link, None)
        running.gone[link.name] = running.bound.pop(link.name, "")
        self._go_on(running)
