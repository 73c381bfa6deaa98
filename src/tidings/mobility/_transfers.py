"""Transfers: the scheme `reactive`. What a client missed is fetched from the broker that it left when it arrives.

Theory of operation
-------------------
While a client is away its broker buffers for it: the home copy of `_protocol`, and no other. When the client arrives at
another broker and announces what it subscribes to, the new broker holds these subscriptions: what comes for them is
kept, and nothing is delivered. As soon as all of them have settled it asks the old broker, by one message. That one
sends what it holds, deletes it, and ends its own subscriptions. The new broker delivers what it was sent, then what it
has kept and was not sent, and the subscriptions are like any others.

Nothing lies between the two. The question leaves the new broker behind the word that its filters have settled, and
travels, as that word did, behind every notification that had passed before on the same links of the tree. So whatever
an origin published before it knew the filter of the new broker has reached the old one before the question does, and
what it published later comes to the new one. If the tree changes meanwhile the question is lost, and the origins are
asked.

The positions of the client decide, as everywhere. An origin of which the old broker may lack something owes it: one
that owes the home copy something, has told it a gap, was overwritten in the buffer, or lies behind what the copy began
with. All of them do if the old broker has nothing, cannot be reached, does not answer in time, or has not noticed that
the client was gone. Where there are scopes or advertisements nothing is fetched in this way, and the origins are asked.

| subscriptions of a client that has come | event                         | then   | action                            |
|----------------------------------------|-------------------------------|--------|-----------------------------------|
| none, or they ask                      | another one, with positions   | wait   | hold it                           |
| wait                                   | another one, with positions   | wait   | hold it                           |
| wait                                   | all of them have settled      | ask    | ask the old broker for these      |
| ask                                    | the last part of the answer   | served | deliver it, then what was kept    |
| wait, or ask                           | new tree; time is up          | served | deliver what was kept, owe others |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from tidings.broker import Context, Hold, InnerClient, Link, Registration, Timer
from tidings.model import NOWHERE, Position, TidingsError
from tidings.wire import Deliver, Envelope, Frame, Unsubscribe, pack, unpacker

from ._copies import Wanted, Whose
from ._copy import Copy
from ._handing_over import Found, HandingOver
from ._homes import Homes
from ._neighbour_graph import Outcome
from ._woven import Woven

PATIENCE = 2_000_000
"""Microseconds for which a client waits for what its old broker has; then the origins are asked."""
PARTING = 10_000_000
"""Microseconds for which a broker keeps what it holds for a client that is elsewhere, and is not asked for it."""
PART_BYTES = 262_144
"""The bytes of bodies after which a part of an answer is closed."""
EXPECTED = 5_000_000
"""Microseconds within which a client that has come announces what it subscribes to."""


class Request(msgspec.Struct, frozen=True, array_like=True, tag="request"):
    """What is there for these subscriptions of a client that has come here?"""

    whose: Whose
    number: int
    """The answer repeats it."""
    wanted: tuple[Wanted, ...]


class Part(msgspec.Struct, frozen=True, array_like=True, tag="part"):
    """Some of it, in the order in which it came."""

    number: int
    held: tuple[tuple[Envelope, tuple[str, ...]], ...]
    last: bool
    whole: dict[str, Position] = {}
    """With the last part, by origin: the position behind which nothing is missing."""
    broken: tuple[str, ...] = ()
    """The origins of which something may be."""
    ids: tuple[str, ...] = ()
    """The subscriptions for which all this holds: those that were the same there."""


Transfer: TypeAlias = Request | Part


class Carried(msgspec.Struct, frozen=True, array_like=True):
    """One message between brokers."""

    said: Transfer


read_transfer = unpacker(Carried)


class Transfers:
    """Both ends of all transfers of one broker."""

    def __init__(self, feature: Woven, homes: Homes, handing: HandingOver, *, merge_dedup: bool = True) -> None:
        """`merge_dedup`: whether what came both ways is sent to the client once."""
        self._feature = feature
        self._homes = homes
        self._handing = handing
        self.merge_dedup = merge_dedup
        self._expected: dict[Link, _Expected] = {}
        """The clients that have come, and announce what they subscribe to."""
        self._asked: dict[int, _Waiting] = {}
        self._numbers = 0
        self._leaving: dict[str, tuple[Whose, Copy, Timer]] = {}
        """The home copies of clients that are elsewhere, by name, which have not been asked for everything yet."""
        self.fetched = 0
        """How many notifications have come from brokers that clients had left."""

    def __len__(self) -> int:
        return len(self._expected) + len(self._asked) + len(self._leaving)

    @property
    def context(self) -> Context:
        """The broker."""
        return self._feature.context

    # --- the broker that the client left --------------------------------------------------------------

    def left_behind(self, whose: Whose, copy: Copy) -> None:
        """A client of this broker is elsewhere, and may ask for what its home copy holds."""
        self._forget(whose.name)
        timer = self.context.call_later(PARTING, lambda: self._forget(whose.name))
        self._leaving[whose.name] = (whose, copy, timer)

    def take_back(self, name: str) -> Copy | None:
        """A client has come back; the home copy that nobody has asked for."""
        left = self._leaving.get(name)
        if left is None or left[1].handed:
            self._forget(name)
            return None
        del self._leaving[name]
        left[2].cancel()
        return left[1]

    def _forget(self, name: str) -> None:
        if (left := self._leaving.pop(name, None)) is not None:
            left[2].cancel()
            self._homes.drop(left[1])

    def _answer(self, source: str, request: Request) -> None:
        left = self._leaving.get(request.whose.name)
        if left is None or left[0] != request.whose or left[1].inner is None:
            self._say(source, Part(request.number, (), last=True))
            return
        copy, inner = left[1], left[1].inner
        there = {_as_asked(one) for one in self.context.subscribed(inner.link)}
        asked = {one.id for one in request.wanted if _as_asked(one) in there}
        held = [
            (envelope, chosen)
            for envelope, ids in copy.buffer.all_of(copy)
            if (chosen := tuple(id for id in ids if id in asked))
        ]
        broken = self._broken(copy, inner)
        whole: dict[str, Position] = {}
        for begins in map(copy.begins, asked):
            for origin, at in begins.items():
                whole[origin] = max(at, whole.get(origin, at), copy.overwritten.get(origin, at))
        whole = {origin: at for origin, at in whole.items() if origin not in broken}
        *parts, rest = _portions(held)
        for part in parts:
            self._say(source, Part(request.number, part, last=False))
        told = Part(request.number, rest, True, whole, broken=tuple(sorted(broken)), ids=tuple(sorted(asked)))
        self._say(source, told)
        copy.handed = True
        for id in asked:
            copy.buffer.release(copy, id)
            inner.send(Frame(Unsubscribe(id)))
        if asked.issuperset(one.id for one in self.context.subscribed(inner.link)):
            self._forget(request.whose.name)

    def _broken(self, copy: Copy, inner: InnerClient) -> set[str]:
        owed = {origin for one in self.context.subscribed(inner.link) for origin in self.context.owed(one)}
        return owed | copy.doubted | copy.torn.keys() | (copy.overwritten.keys() - copy.since.keys())

    # --- the broker to which it has come --------------------------------------------------------------

    @property
    def _applies(self) -> bool:
        return self.context.scoping.flat and not self.context.routing.advertisements

    def arrived(self, link: Link, whose: Whose, last: str) -> None:
        """A client has come from another broker."""
        if not self._applies:
            return
        expected = self._expected[link] = _Expected(whose, last, self.context.now())
        self.context.call_later(EXPECTED, lambda: self._not_expected(link, expected))

    def _not_expected(self, link: Link, expected: _Expected) -> None:
        if self._expected.get(link) is expected:
            del self._expected[link]
            if expected.waiting is None:
                self._handing.tell(link.name, Found(Outcome.MISS))

    def subscribed(self, registration: Registration) -> None:
        """A client subscribes; if it has come from another broker, this waits for what that one has."""
        link = registration.link
        expected = self._expected.get(link)
        if expected is None or not registration.after or registration.located or not self._applies:
            return
        try:
            self.context.holds.check_room(link)
        except TidingsError:
            return  # the origins are asked
        if expected.waiting is None or expected.waiting.asked:
            expected.waiting = _Waiting(self, link, expected, first=expected.waiting is None)
        expected.waiting.hold(registration)

    def gone(self, link: Link) -> None:
        """A client has gone."""
        self._expected.pop(link, None)

    def ask(self, waiting: _Waiting, wanted: tuple[Wanted, ...]) -> bool:
        """Ask the old broker; False: it cannot be reached."""
        self._numbers += 1
        waiting.number = self._numbers
        self._asked[self._numbers] = waiting
        return self._say(waiting.expected.last, Request(waiting.expected.whose, self._numbers, wanted))

    def served(self, waiting: _Waiting, outcome: Outcome, missed: int) -> None:
        """A client has what its old broker had."""
        self._asked.pop(waiting.number, None)
        self.fetched += missed
        if missed:
            self._handing.served.add(waiting.link)
        if waiting.first:
            pause = self.context.now() - waiting.expected.at
            self._handing.tell(waiting.link.name, Found(outcome, missed, pause))

    # --- messages -------------------------------------------------------------------------------------

    def hear(self, source: str, said: Transfer, claimed: Callable[[Whose, str], object]) -> None:
        """A broker asks or answers; `claimed` lets this one know that the client is there."""
        if isinstance(said, Request):
            claimed(said.whose, source)
            self._answer(source, said)
        elif (waiting := self._asked.get(said.number)) is not None and waiting.expected.last == source:
            waiting.heard(said)

    def _say(self, broker: str, said: Transfer) -> bool:
        return self.context.send_to(broker, pack(Carried(said)))


@dataclass(slots=True, eq=False)
class _Expected:
    """A client that has come from another broker."""

    whose: Whose
    last: str
    """That broker."""
    at: int
    waiting: _Waiting | None = None
    """Those of its subscriptions that wait, the latest."""


class _Waiting:
    """Subscriptions of one client that wait for what its old broker has; their holder."""

    def __init__(self, transfers: Transfers, link: Link, expected: _Expected, *, first: bool) -> None:
        self._transfers = transfers
        self._context = transfers.context
        self.link = link
        self.expected = expected
        self.first = first
        self.number = 0
        self.asked = False
        self._holds: dict[Registration, Hold] = {}
        self._parts: list[Part] = []
        self._over = False
        """Whether the old broker is not waited for any more."""

    def hold(self, registration: Registration) -> None:
        """Let a subscription wait."""
        if not self._holds:
            self._context.call_later(PATIENCE, self._time_is_up)
        self._holds[registration] = self._context.holds.begin(registration, self)

    def _time_is_up(self) -> None:
        self._over = True
        self.turn_ended()

    # --- what holds hear ------------------------------------------------------------------------------

    def turn_ended(self) -> None:
        """Something has happened: ask, or go on without an answer."""
        if self._over:
            self._go_on()
        elif not self.asked and all(self._is_ready(one) for one in reversed(self._holds)):
            self.asked = True
            wanted = tuple(
                Wanted(one.id, one.filter, one.receive_own, one.duplicates)
                for one in self._holds
                if one in self._context.holds
            )
            if not wanted or not self._transfers.ask(self, wanted):
                self._go_on()

    def _is_ready(self, registration: Registration) -> bool:
        """Whether a subscription has settled; one that has ended is not waited for."""
        return self._context.settling.is_settled(registration) or registration not in self._context.holds

    def has_kept(self) -> None:
        """It waits with the others."""

    def restarted(self) -> None:
        """A new tree: what was asked, or answered, is lost."""
        self._over = True

    def ended(self) -> None:
        """A subscription has ended."""

    # --- going on -------------------------------------------------------------------------------------

    def heard(self, part: Part) -> None:
        """The old broker answers."""
        self._parts.append(part)
        if part.last and not self._over:
            self._go_on(part)

    def _go_on(self, last: Part | None = None) -> None:
        """Let the subscriptions go: first what was fetched, then what was kept."""
        if not (holds := self._holds):
            return
        self._over, self._holds = True, {}
        whole = last.whole if last is not None else {}
        broken = last.broken if last is not None else ()
        fetched: dict[str, list[Envelope]] = {}
        for envelope, ids in (one for part in self._parts if last is not None for one in part.held):
            for id in ids:
                fetched.setdefault(id, []).append(envelope)
        missed, owed = 0, False
        for registration, hold in holds.items():
            if registration in self._context.holds:
                same = last is not None and registration.id in last.ids
                some, owes = self._release(
                    registration, hold, fetched.get(registration.id, []), whole if same else {}, broken if same else ()
                )
                missed, owed = missed + some, owed or owes
        outcome = Outcome.MISS if not whole else Outcome.EARLY if owed else Outcome.HIT
        self._transfers.served(self, outcome, missed)

    def _release(
        self,
        registration: Registration,
        hold: Hold,
        fetched: list[Envelope],
        whole: dict[str, Position],
        broken: Iterable[str],
    ) -> tuple[int, bool]:
        """Let one subscription go; how many it was sent of what was fetched, and whether something is owed."""
        context, after = self._context, registration.after or {}
        lacking = {origin: at for origin, at in after.items() if whole.get(origin, (at.epoch + 1, 0)) > at}
        lacking |= {origin: NOWHERE for origin in broken if origin not in after}
        lacking |= {origin: after.get(origin, NOWHERE) for origin in hold.backlog.forgotten}
        marks = {**context.marks_of([registration]), **_first(fetched), **after}
        certain = {origin: at for origin, at in marks.items() if origin in after or origin not in lacking}
        context.holds.release(hold, certain if context.settling.is_settled(registration) else None)
        reached = dict(after)
        late: dict[str, list[Envelope]] = {origin: [] for origin in lacking}
        sent = 0
        for envelope in fetched:
            origin, position = envelope.identity.origin, envelope.identity.position
            if origin not in late and position > reached.get(origin, NOWHERE) and context.crowded(self.link):
                late[origin] = []
                lacking[origin] = reached.get(origin, Position(position.epoch, position.seq - 1))
            if origin in late:
                late[origin].append(envelope)
            elif position > reached.get(origin, NOWHERE):
                reached[origin] = position
                sent += 1
                context.tell(self.link, Deliver(envelope, (registration.id,)))  # it has passed DELIVER before
        least = reached if self._transfers.merge_dedup else after
        for kept in hold.backlog:
            origin, position = kept.envelope.identity.origin, kept.position
            if origin in late:
                late[origin].append(kept.envelope)
            elif position > least.get(origin, NOWHERE):
                context.deliver(registration, kept.envelope)
        for origin, envelopes in late.items():
            context.owe(registration, origin, lacking[origin], envelopes)
        return sent, bool(late)


def _as_asked(one: Wanted | Registration) -> tuple[object, ...]:
    return (one.id, one.filter, one.receive_own, one.duplicates)


def _first(envelopes: list[Envelope]) -> dict[str, Position]:
    """By origin, the position before the first of these."""
    first: dict[str, Position] = {}
    for envelope in envelopes:
        position = envelope.identity.position
        first.setdefault(envelope.identity.origin, Position(position.epoch, position.seq - 1))
    return first


def _portions(
    held: list[tuple[Envelope, tuple[str, ...]]],
) -> list[tuple[tuple[Envelope, tuple[str, ...]], ...]]:
    """As many as go into one message each; at least one, which may be empty."""
    portions, portion, size = [], [], 0
    for one in held:
        portion.append(one)
        size += len(one[0].body)
        if size >= PART_BYTES:
            portions.append(tuple(portion))
            portion, size = [], 0
    return [*portions, tuple(portion)]
