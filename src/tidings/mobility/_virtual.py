"""Virtual clients: what listens for a client at the places where it may go next, all the time.

Theory of operation
-------------------
A subscription with `myloc` means something else at each place, so the copy of a client that rests until its client is
away has nothing to listen to that the client's positions could speak of. In its stead a *virtual client* stands at the
neighbour: a client inside the broker that subscribes to the same templates, which mean its own place, from the moment
when the record of the copy comes. It holds what it gets, up to a limit of its own and one for all of them together; at
either the oldest is forgotten, as if it had begun later.

    the record comes, or changes    listen to what it has more, no longer to what it lacks
    the record goes                 close
    the client arrives              hand over, subscription by subscription; what nobody asks for within a while goes

The client that arrives begins a new stretch: it brings no positions. Without a past it gets everything that its virtual
client holds, with the gaps that this was told, then what is live, as if it had been there since (S16). With a past it
gets that and no more: the virtual client's subscription becomes the client's and is held, and whoever looks after the
past takes what is held here (`Foreseen`), alone if it is enough for the bound, else together with the history.

How long a virtual client had listened when its client arrived is the *lead* (delta_t of the documents).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidings.broker import Context, Foreseen, Guard, InnerClient, Link, Registration
from tidings.model import Position, TidingsError
from tidings.wire import Deliver, Envelope, Frame, Gap, Refused, Settled, Subscribe, Unsubscribe

from ._buffer import Holder, SharedBuffer
from ._copies import Wanted, Whose
from ._options import MobilityOptions
from ._room import Room
from ._woven import Woven

SUFFIX = "/~place"
"""Behind the name of the client, the name of the client inside the broker that listens here for it."""
MAX_GAPS = 100
"""The most gaps that one virtual client remembers; at the limit it begins anew behind them."""
CLOCKS = 1_000_000
"""Microseconds by which the clocks of brokers may differ, when what was published since is compared with a bound."""
HANDING_TIME = 5_000_000
"""Microseconds after the arrival of a client within which it announces what it subscribes to."""


class Virtual(Holder):
    """What listens at one place for one client."""

    def __init__(self, whose: Whose, buffer: SharedBuffer, now: Callable[[], int], most: int) -> None:
        """`most` is how many bytes it may hold."""
        super().__init__(whose.owner)
        self.whose = whose
        self.most = most
        self._buffer = buffer
        self._now = now
        self.since = now()
        self.inner: InnerClient | None = None
        self.wanted: dict[str, Wanted] = {}
        self.settled: dict[str, int] = {}
        """When each of its subscriptions was known everywhere."""
        self.gaps: list[tuple[int, Gap]] = []
        """What it was told to be lost, each with the number of what it held last."""
        self.refused = 0

    def receive(self, frame: Frame) -> None:
        """The broker sends something."""
        message = frame.message
        if self.inner is None:
            return  # it is being closed
        if type(message) is Deliver:
            self._buffer.add(message.envelope, self, message.subscriptions)
        elif isinstance(message, Settled) and not message.advertisement:
            self.settled.setdefault(message.id, self._now())
        elif isinstance(message, Gap):
            if len(self.gaps) >= MAX_GAPS:
                self._buffer.release(self)
                self.gaps.clear()
            self.gaps.append((self._buffer.latest, message))
        elif isinstance(message, Refused):
            self.refused += 1

    def forget(self, id: str) -> None:
        """It does not listen to this any more, or to something else under the same id."""
        self._buffer.release(self, id)
        self.settled.pop(id, None)
        self.gaps = [(at, gap) for at, gap in self.gaps if id not in gap.subscriptions]

    def held(self, id: str) -> list[Envelope | Gap]:
        """What came for one subscription, in this order."""
        gaps = [(at, gap) for at, gap in self.gaps if id in gap.subscriptions]
        held: list[Envelope | Gap] = []
        for number, envelope in self._buffer.numbered(self, id):
            while gaps and gaps[0][0] < number:
                held.append(gaps.pop(0)[1])
            held.append(envelope)
        return [*held, *(gap for _, gap in gaps)]

    def close(self) -> None:
        """Listen no longer, and hold nothing. In a turn."""
        if (inner := self.inner) is not None:
            self.inner = None
            inner.close()
        self._buffer.release(self)


@dataclass(slots=True, eq=False)
class _Arriving:
    """A client that has come, and what has listened for it."""

    virtual: Virtual
    link: Link


class VirtualClients:
    """The virtual clients at one broker."""

    def __init__(
        self, feature: Woven, options: MobilityOptions, room: Room, *, guard_of: Callable[[str], Guard | None]
    ) -> None:
        self._feature = feature
        self._options = options
        self._guard_of = guard_of
        self.buffer = SharedBuffer(options.virtual_buffer_bytes, room)
        self.clients: dict[str, Virtual] = {}
        self._arriving: dict[str, _Arriving] = {}
        self._numbers = 0
        self.used = 0
        """How many subscriptions clients have taken over when they arrived."""
        self.lead = 0
        """For how many microseconds these had listened before, together."""
        self.refused = 0
        """How many could not be opened."""

    def __len__(self) -> int:
        return len(self.clients) + len(self._arriving)

    @property
    def _context(self) -> Context:
        return self._feature.context

    def follow(self, whose: Whose, wanted: tuple[Wanted, ...]) -> None:
        """Listen for what a client wants where it is, and for nothing else of it. In a turn."""
        if not wanted or self._context.place is None:
            self.drop(whose.name)
            return
        virtual = self.clients.get(whose.name)
        if virtual is not None and virtual.whose.owner != whose.owner:
            self.drop(whose.name)
            virtual = None
        virtual = virtual or self._open(whose)
        if virtual is None or virtual.inner is None:
            return
        virtual.whose = whose
        new = {one.id: one for one in wanted}
        for id in virtual.wanted.keys() - new.keys():
            virtual.forget(id)
            virtual.inner.send(Frame(Unsubscribe(id)))
        for id, one in new.items():
            if virtual.wanted.get(id) != one:
                virtual.forget(id)
                self._numbers += 1
                message = Subscribe(
                    id,
                    one.filter,
                    receive_own=one.receive_own,
                    meta=one.meta,
                    number=self._numbers,
                    duplicates=one.duplicates,
                )
                virtual.inner.send(Frame(message))
        virtual.wanted = new

    def _open(self, whose: Whose) -> Virtual | None:
        context = self._context
        virtual = Virtual(whose, self.buffer, context.now, self._options.virtual_bytes)
        try:
            guard = self._guard_of(whose.owner)
            virtual.inner = context.open_client(whose.name + SUFFIX, virtual.receive, whose.name, guard)
        except TidingsError:
            self.refused += 1
            return None
        self.clients[whose.name] = virtual
        return virtual

    def drop(self, name: str) -> None:
        """Nobody expects a client here any more. In a turn."""
        if (virtual := self.clients.pop(name, None)) is not None:
            virtual.close()

    # --- handing over to a client that arrives --------------------------------------------------------

    def arrived(self, link: Link, epoch: int) -> None:
        """A client has been attached; what it subscribes to follows."""
        self._finish(link.name)
        virtual = self.clients.pop(link.name, None)
        if virtual is None:
            return
        if virtual.whose.owner != link.owner or virtual.whose.epoch >= epoch:
            virtual.close()
            return
        arriving = self._arriving[link.name] = _Arriving(virtual, link)
        self._context.call_later(HANDING_TIME, lambda: self._time_is_up(arriving))

    def _time_is_up(self, arriving: _Arriving) -> None:
        if self._arriving.get(arriving.link.name) is arriving:
            self._finish(arriving.link.name)

    def gone(self, link: Link) -> None:
        """A client goes: what was not handed over is not wanted any more."""
        if (arriving := self._arriving.get(link.name)) is not None and arriving.link is link:
            self._finish(link.name)

    def _finish(self, name: str) -> None:
        if (arriving := self._arriving.pop(name, None)) is not None:
            arriving.virtual.close()

    def stand_in(self, link: Link, message: Subscribe) -> Registration | None:
        """A client that has arrived subscribes to something here; what it adopts of what has listened for it."""
        context = self._context
        arriving = self._arriving.get(link.name)
        if arriving is None or arriving.link is not link or arriving.virtual.inner is None:
            return None
        virtual, inner = arriving.virtual, arriving.virtual.inner
        registration = next((one for one in context.subscribed(inner.link) if one.id == message.id), None)
        same = (message.filter, message.receive_own, message.duplicates)
        if registration is None or (registration.filter, registration.receive_own, registration.duplicates) != same:
            return None
        if context.scoping.gateways or registration in context.holds or context.owed(registration):
            return None
        held = [one for one in virtual.held(message.id) if isinstance(one, Gap) or _passes(registration, one)]
        origins = {one.identity.origin for one in held if isinstance(one, Envelope)}
        if not context.may_owe(link, len(origins)):
            return None
        past = message.past is not None and not message.past.bound.asks_for_nothing
        registration.foreseen = _foreseen(virtual, message.id, held) if past else None
        virtual.forget(message.id)
        context.adopt(inner.link, link, [registration])
        if not past:
            self._hand_over(link, registration, held)
        self.used += 1
        self.lead += context.now() - virtual.since
        return registration

    def _hand_over(self, link: Link, registration: Registration, held: list[Envelope | Gap]) -> None:
        """Send a client what was held for it, as far as it has room; the rest is owed."""
        context = self._context
        late: dict[str, list[Envelope]] = {}
        for one in held:
            if isinstance(one, Gap):
                told = Gap(one.origin, one.epoch, one.first, one.last, (registration.id,))
                context.tell(link, told)
                continue
            origin = one.identity.origin
            if origin not in late and context.crowded(link):
                late[origin] = []
            if origin in late:
                late[origin].append(one)
            else:
                context.tell(link, Deliver(one, (registration.id,)))  # it has passed DELIVER before
        for origin, envelopes in late.items():
            first = envelopes[0].identity
            context.owe(registration, origin, Position(first.epoch, first.seq - 1), envelopes)


def _passes(registration: Registration, envelope: Envelope) -> bool:
    """What was on its way when the filter changed may not."""
    return registration.filter.matches(envelope.notification)


def _foreseen(virtual: Virtual, id: str, held: list[Envelope | Gap]) -> Foreseen:
    envelopes = tuple(one for one in held if isinstance(one, Envelope))
    whole = id in virtual.settled and len(envelopes) == len(held) and not virtual.overwritten
    return Foreseen(envelopes, virtual.settled[id] + CLOCKS if whole else None)
