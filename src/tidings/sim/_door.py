"""The door of a simulated broker: where the real client comes in.

Theory of operation
-------------------
A client's connection ends here. The door speaks the protocol of docs/protocol.md: a hello is answered by a welcome, and
frames go in numbered parts that both sides acknowledge. A *guest* is a client that was let in: its link at the broker,
and its session. A guest whose connection is lost keeps both for `RESUME_SECONDS`; if it comes back in time, the session
goes on where it was. A broker that dies forgets all its guests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidings.broker import Link, LinkKind, Role
from tidings.mobility import Admitted, Denied, Evacuation, Hosts, Newcomer, Verdict
from tidings.model import TidingsError
from tidings.wire import (
    ARRIVALS,
    BEATS,
    EVACUATED,
    EVACUATION,
    GROUP_LOOKS,
    GROUPS,
    REQUESTS,
    SERIALISERS,
    VERSION,
    WORK,
    Frame,
    Hello,
    Part,
    PeerRole,
    Reject,
    Serialiser,
    Session,
    Stream,
    Welcome,
    WireError,
    ack_number,
    decode_words,
    encode_words,
    part,
    read_times,
    times,
)

from ._guest import Guest

if TYPE_CHECKING:
    from ._network import Network

RESUME_SECONDS = 30.0
"""For how long a guest that has lost its connection is waited for."""
HEARTBEAT = 10.0
"""Seconds of silence after which a client is asked whether it is there; after three times that, it is not."""


class Door(Stream):
    """One connection of a client, from its hello on."""

    def __init__(self, doors: Doors) -> None:
        super().__init__()
        self._doors = doors
        self._guest: Guest | None = None
        self.client = ""
        """Who has said hello."""
        self.on_greeting: Callable[[], None] = lambda: None
        """Called when it is known."""
        self._overlap = False
        self._heartbeat = HEARTBEAT
        self._watch = self.loop.call_later(HEARTBEAT, self._look)

    def parts_received(self, parts: list[tuple[int, bytes]]) -> None:
        """Handle the parts of a read."""
        if self._guest is None:
            kind, payload = parts.pop(0)
            if self.client or kind != Part.HELLO:
                return  # it has its answer
            self._greet(decode_words(payload, Hello))
        if parts and self._guest is not None:
            self._take(self._guest, parts)

    def _take(self, guest: Guest, parts: list[tuple[int, bytes]]) -> None:
        arrived = 0
        for kind, payload in parts:
            if guest.door is not self:
                return
            if kind == Part.DATA:
                arrived += 1
                self._doors.receive(guest, guest.serialiser.decode_sparingly(payload))
            elif kind == Part.ACK:
                guest.acknowledged(ack_number(payload))
            elif kind == Part.PING:
                asked = read_times(payload)
                self.pong(times(*asked, self._doors.now()) if len(asked) == 1 else b"")
            elif kind == Part.BYE:
                self._doors.end(guest, said_goodbye=True)
                return
        if arrived:
            self._doors.count(arrived)
            guest.arrived(arrived)

    def _greet(self, hello: Hello) -> None:
        doors = self._doors
        if VERSION not in hello.versions:
            self.reject(Reject("version", f"this broker speaks version {VERSION} of the protocol"))
            return
        serialiser = next((SERIALISERS[name] for name in hello.serialisers if name in SERIALISERS), None)
        if serialiser is None:
            self.reject(Reject("serialiser", f"this broker speaks {', '.join(sorted(SERIALISERS))}"))
            return
        if hello.role is not PeerRole.CLIENT:
            self.reject(Reject("role", "brokers of a world are linked by World.link; only clients connect"))
            return
        if doors.role is Role.INNER:
            self.reject(Reject("role", f"'{doors.broker}' is an inner broker; clients use a border broker"))
            return
        if hello.evacuated and doors.is_evacuated:
            self.reject(Reject(EVACUATED, f"'{doors.broker}' is being evacuated, too", retry=True))
            return
        self.client = hello.name or doors.new_name()
        self._overlap = hello.overlap
        if hello.silence:
            self._heartbeat = hello.silence / BEATS
            self._watch.cancel()
            self._watch = self.loop.call_later(self._heartbeat, self._look)
        self.on_greeting()
        if doors.is_cut_off(self.client):
            self.abort()
            return
        guest = doors.find(hello.session)
        if guest is not None and guest.link.name == self.client:
            if guest.door is not None:
                guest.door.abort()  # the client gave that connection up before this side noticed
            self._let_in(guest, resumed=True)
            guest.resume(hello.received)
            doors.back(guest)
        else:
            doors.enter(hello, self.client, lambda verdict: self._decided(serialiser, verdict))

    def _decided(self, serialiser: Serialiser, verdict: Verdict) -> None:
        """Whether the client may begin a session is known."""
        doors = self._doors
        if self.transport is None or self.transport.is_closing():
            return  # it did not wait
        if isinstance(verdict, Denied):
            self.reject(Reject(verdict.code, verdict.reason, retry=verdict.code in ("duplicate", "busy")))
            return
        if (known := doors.known(self.client)) is not None:
            known.end(f"client '{self.client}' started a new session")
        guest = doors.admit(self.client, serialiser)
        guest.attached = verdict.epoch
        self._let_in(guest, resumed=False)
        doors.attach(guest, verdict, overlap=self._overlap)

    def _let_in(self, guest: Guest, *, resumed: bool) -> None:
        doors = self._doors
        self._guest, guest.door = guest, self
        if guest.expiry is not None:
            guest.expiry.cancel()
            guest.expiry = None
        words = Welcome(
            VERSION,
            doors.broker,
            guest.session.id,
            resumed=resumed,
            received=guest.session.received,
            serialiser=guest.serialiser.name,
            epoch=doors.epoch,
            heartbeat=self._heartbeat,
            published=doors.published(self.client),
            client=self.client,
            attached=guest.attached,
            features=doors.features,
            place=doors.place,
        )
        doors.count(1)
        self.write(part(Part.WELCOME, encode_words(words)))

    def reject(self, why: Reject) -> None:
        """Tell the client why this ends, and end it."""
        self.client = self.client or "?"
        self.write(part(Part.REJECT, encode_words(why)))
        self.close()

    def bad_input(self, error: WireError) -> None:
        """Say what was wrong, and close."""
        self.reject(Reject("protocol", str(error)))
        if self._guest is not None:
            self._doors.end(self._guest)

    def lost(self, error: Exception | None) -> None:
        """The connection is gone; the session waits."""
        self._watch.cancel()
        if self._guest is not None and self._guest.door is self:
            self._doors.wait_for(self._guest)

    def _look(self) -> None:
        silence = self.loop.time() - self.last_heard
        if silence >= BEATS * self._heartbeat and not self.paused:
            self.abort()
            return
        if silence >= self._heartbeat:
            self.write(part(Part.PING))
        self._watch = self.loop.call_later(self._heartbeat / 2, self._look)


class Doors:
    """All connections of clients to one broker, in one of its incarnations."""

    def __init__(
        self,
        network: Network,
        broker: str,
        *,
        count: Callable[[int], None],
        new_name: Callable[[], str],
        is_cut_off: Callable[[str, str], bool],
        left: Callable[[Guest, bool], None],
        broke: Callable[[Exception], None],
    ) -> None:
        self._network = network
        self.broker = broker
        self._broker = network.brokers[broker]
        self.role = self._broker.role
        self.epoch = self._broker.epoch
        self.count = count
        """Called with the number of frames that are sent or have come: something is going on."""
        self.new_name = new_name
        self._is_cut_off = is_cut_off
        self._left = left
        self._broke = broke
        hosts = self._broker.features.get("hosts")
        self._hosts = hosts if isinstance(hosts, Hosts) else None
        self.features = tuple(
            one for one in (ARRIVALS, GROUPS, GROUP_LOOKS, REQUESTS, WORK) if one in self._broker.features
        )
        """What clients may ask of it."""
        self.place = str(self._broker.place) if self._broker.place is not None else ""
        self._guests: dict[str, Guest] = {}
        self._sessions: dict[str, Guest] = {}
        self._admitted = 0

    @property
    def guests(self) -> list[Guest]:
        """Those who are connected or waited for."""
        return list(self._guests.values())

    @property
    def is_evacuated(self) -> bool:
        """Whether this broker is about to stop."""
        feature = self._broker.features.get(EVACUATION)
        return isinstance(feature, Evacuation) and feature.running

    def is_cut_off(self, client: str) -> bool:
        """Whether this client cannot reach this broker now."""
        return self._is_cut_off(client, self.broker)

    def reach(self) -> frozenset[str]:
        """The brokers that this one reaches now."""
        return frozenset({self.broker, *self._broker.adjacency.tree.hops})

    def now(self) -> int:
        """The clock of this broker."""
        return self._network.runtime(self.broker).now()

    def published(self, client: str) -> int:
        """The largest number that this client is known to have published with."""
        return self._broker.publications.latest(client)

    def find(self, session: str | None) -> Guest | None:
        """The guest of a session."""
        return self._sessions.get(session) if session else None

    def known(self, client: str) -> Guest | None:
        """The guest of this name."""
        return self._guests.get(client)

    def admit(self, client: str, serialiser: Serialiser) -> Guest:
        """Let a client in."""
        self._admitted += 1
        session = Session(f"{self.broker}/{self.epoch}/{self._admitted}")
        guest = Guest(self, Link(client, LinkKind.CLIENT), session, serialiser)
        self._guests[client] = self._sessions[session.id] = guest
        return guest

    def enter(self, hello: Hello, client: str, decide: Callable[[Verdict], None]) -> None:
        """Find out whether a client may begin a session, which may take a while."""
        if self._hosts is not None:
            fresh = not hello.name
            self._hosts.enter(
                Newcomer(client, client, hello.attached, hello.last, hello.take_over, fresh=fresh), decide
            )
        elif (known := self.known(client)) is not None and known.door is not None:
            decide(Denied("duplicate", f"client '{client}' is already connected"))
        else:
            decide(Admitted(0))

    def attach(self, guest: Guest, admitted: Admitted, *, overlap: bool = False) -> None:
        """Tell the broker of a new guest."""
        self._network.runtime(self.broker).pipes[guest.link] = guest
        self._turn(lambda: self._broker.attach(guest.link))
        if self._hosts is not None:
            self._hosts.host(guest.link, admitted, overlap=overlap)

    def receive(self, guest: Guest, frame: Frame) -> None:
        """Hand a frame to the broker."""
        work = self._network.runtime(self.broker).work
        if work is not None:
            work.submit(frame, lambda: self._hand_over(guest, frame))
        else:
            self._turn(lambda: self._broker.receive(guest.link, frame))

    def _hand_over(self, guest: Guest, frame: Frame) -> None:
        """It is the turn of a frame that has waited; its guest may have gone meanwhile."""
        if self._guests.get(guest.link.name) is guest:
            try:
                self._turn(lambda: self._broker.receive(guest.link, frame))
            except WireError as error:
                if guest.door is not None:
                    guest.door.bad_input(error)

    def _turn(self, action: Callable[[], None]) -> None:
        try:
            action()
        except TidingsError as error:
            raise WireError(str(error)) from error
        except Exception as error:
            self._broke(error)

    def wait_for(self, guest: Guest) -> None:
        """A guest has lost its connection, and may come back."""
        guest.door = None
        self._turn(lambda: self._broker.away(guest.link))
        guest.expiry = asyncio.get_running_loop().call_later(RESUME_SECONDS, self.end, guest)

    def back(self, guest: Guest) -> None:
        """A guest has come back in time."""
        self._turn(lambda: self._broker.back(guest.link))

    def end(self, guest: Guest, *, said_goodbye: bool = False) -> None:
        """A guest leaves for good."""
        if self._guests.get(guest.link.name) is not guest:
            return
        del self._guests[guest.link.name], self._sessions[guest.session.id]
        door, guest.door = guest.door, None
        guest.cut()
        self._network.runtime(self.broker).pipes.pop(guest.link, None)
        self._turn(lambda: self._broker.detach(guest.link))
        self._left(guest, said_goodbye)
        if door is not None:
            door.close()

    def crash(self) -> None:
        """The broker is dead: forget everybody."""
        guests, self._guests = self.guests, {}
        self._sessions.clear()
        for guest in guests:
            guest.cut()
            self._left(guest, False)
