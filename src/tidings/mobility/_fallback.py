"""The fallback: where there was no copy, those that listened for a client are asked beside the origins.

Theory of operation
-------------------
A client that comes to a broker without a copy of it is owed what it missed by the origins, which are asked at once, by
a wave as far as the farthest of them. Its old broker is mostly nearer, and has listened meanwhile: its home copy holds
what came since the client was missed. The copies at its neighbours hold more, since the client last acknowledged
anything. So the new broker says to the old one, right behind the filters of the client, what is owed (`Seek`). The old
one answers with what it has (`Lent`), and passes the rest of the question on to the nearest broker with a copy that
listens, which answers in the same way. Whoever answers first pays, origin by origin; what comes later finds nothing
owed. Nobody waits for this, and nothing rests on it.

Nothing lies between what is lent and what comes by itself. Let J be the broker where the ways from an origin to the two
of them part. What passes J before the filters of the client are there reaches the lender before the question does,
because that passes J later, and links are FIFO. What passes J afterwards comes to the client. It does pass J, because
the lender has wanted it all the time, by the same filter. If the tree changes meanwhile, question or answer is lost.
Where there are scopes or advertisements filters may follow a question, and nothing is lent.

A lender has everything of an origin behind a position if the origin owes it nothing, has told it no gap, and was
neither overwritten behind that position nor begun later: the rule by which a copy is ready.

For that, the old broker lets go a little later (`PARTING`) of a client that finds no copy at its new broker.

| at the old broker               | event                       | then    | action                           |
|---------------------------------|-----------------------------|---------|----------------------------------|
| it is away, and copies listen   | it moves where no copy is   | leaving | keep the copies as they are      |
| leaving                         | a question for what is owed | gone    | answer, pass the rest on, let go |
| leaving                         | the client comes back       | here    | let go of the copies, hand over  |
| leaving                         | time is up                  | gone    | let go                           |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.broker import Context, InnerClient, Link, Registration, Timer
from tidings.model import Position, TidingsError
from tidings.wire import Envelope, pack

from ._buffer import SharedBuffer
from ._copies import Lent, Saying, Seek, Sought, Wanted, Whose
from ._copy import Copy
from ._woven import Woven

PARTING = 1_000_000
"""Microseconds for which a broker keeps what it has for a client that is elsewhere, and may ask for it."""
PATIENCE = 2_000_000
"""Microseconds after which an answer is not expected any more."""
EXPECTED = 5_000_000
"""Microseconds within which a client that has come announces what it subscribes to."""
LENT_BYTES = 393_216
"""The most bytes that are lent at a time; origins whose share does not fit pay themselves."""
ENVELOPE_BYTES = 256
"""What a notification counts for beside its body."""
MAX_SAID = 524_288
"""The most bytes of a message: a longer question is not asked."""
MAX_ASKED = 1_000
"""The most questions of one broker that are under way."""
MAX_SOUGHT = 1_000
"""The most subscriptions in one question."""


@dataclass(slots=True, eq=False)
class _Expected:
    """A client that has come, and announces what it subscribes to."""

    whose: Whose
    last: str
    asking: bool = False
    """Whether what it is owed will be asked for in another turn."""
    asked: set[Registration] = field(default_factory=set)


class _Leaving(NamedTuple):
    """A client of this broker that is elsewhere, and may ask for what is here."""

    whose: Whose
    home: Copy
    holders: tuple[str, ...]
    """The brokers with copies that listen."""
    over: Callable[[], None]
    """Lets go of all that."""
    timer: Timer


class _Asked(NamedTuple):
    """A question under way."""

    link: Link
    registrations: dict[str, Registration]
    owed: dict[str, dict[str, Position]]
    """By subscription and origin, the position behind which it was owed."""


class Fallback:
    """Who asks, who is asked, and who is passed a question, at one broker."""

    def __init__(
        self, feature: Woven, buffer: SharedBuffer, copies: Mapping[str, Copy], drop_home: Callable[[Copy], None]
    ) -> None:
        """`copies` are those of clients of other brokers; `buffer` has what they hold, and home copies."""
        self._feature = feature
        self._drop_home = drop_home
        self._buffer = buffer
        self._copies = copies
        self._expected: dict[Link, _Expected] = {}
        self._asked: dict[int, _Asked] = {}
        self._numbers = 0
        self._leaving: dict[str, _Leaving] = {}
        self.served: set[Link] = set()
        """The clients here that were lent something."""
        self.fetched = 0
        """How many notifications clients here got from those who had listened."""

    def __len__(self) -> int:
        return len(self._expected) + len(self._asked) + len(self._leaving)

    @property
    def _context(self) -> Context:
        return self._feature.context

    @property
    def _applies(self) -> bool:
        return self._context.scoping.flat and not self._context.routing.advertisements

    # --- the broker to which the client has come ------------------------------------------------------

    def arrived(self, link: Link, whose: Whose, last: str) -> None:
        """A client has come from another broker, and there was no copy."""
        if self._applies:
            expected = self._expected[link] = _Expected(whose, last)
            self._context.call_later(EXPECTED, lambda: self._not_expected(link, expected))

    def _not_expected(self, link: Link, expected: _Expected) -> None:
        if self._expected.get(link) is expected:
            del self._expected[link]

    def announces(self, link: Link) -> None:
        """A client goes on with a subscription: ask once its filters of this turn are under way."""
        expected = self._expected.get(link)
        if expected is not None and not expected.asking:
            expected.asking = True
            self._context.call_later(0, lambda: self._ask(link, expected))

    def gone(self, link: Link) -> None:
        """A client has gone."""
        self._expected.pop(link, None)
        self.served.discard(link)

    def _ask(self, link: Link, expected: _Expected) -> None:
        expected.asking = False
        context = self._context
        if self._expected.get(link) is not expected or not self._applies or context.crowded(link):
            return
        sought: list[Sought] = []
        registrations: dict[str, Registration] = {}
        for registration in context.subscribed(link):
            if registration in expected.asked or registration.located or not registration.placed:
                continue
            owed = {one: at for one, at in context.owed(registration).items() if one != context.name}
            if owed and len(sought) < MAX_SOUGHT:
                expected.asked.add(registration)
                registrations[registration.id] = registration
                sought.append(Sought(_wanted(registration), owed))
        if not sought or len(self._asked) >= MAX_ASKED:
            return
        self._numbers += 1
        number = self._numbers
        if self._say(expected.last, Seek(expected.whose, context.name, number, tuple(sought))):
            owed_to = {one.wanted.id: one.owed for one in sought}
            self._asked[number] = _Asked(link, registrations, owed_to)
            context.call_later(PATIENCE, lambda: self._forget(number))

    def _forget(self, number: int) -> None:
        self._asked.pop(number, None)

    def heard(self, said: Lent) -> None:
        """Somebody has listened: pay what is still owed."""
        asked = self._asked.get(said.number)
        if asked is None:
            return
        by_origin: dict[tuple[str, str], list[Envelope]] = {}
        try:
            for envelope, ids in said.held:
                envelope.notification  # noqa: B018 - decoded here: later it would stop this broker
                for id in ids:
                    by_origin.setdefault((id, envelope.identity.origin), []).append(envelope)
        except TidingsError:
            self._context.refused()
            return
        for id, origins in said.paid.items():
            for origin in origins:
                self._pay(asked, id, origin, by_origin.get((id, origin), []))

    def _pay(self, asked: _Asked, id: str, origin: str, envelopes: list[Envelope]) -> None:
        registration, since = asked.registrations.get(id), asked.owed.get(id, {}).get(origin)
        if registration is None or since is None or self._context.crowded(asked.link):
            return
        if self._context.pay(registration, origin, since, envelopes):
            self.served.add(asked.link)
            self.fetched += len(envelopes)

    # --- the broker that it has left ------------------------------------------------------------------

    def left_behind(self, whose: Whose, home: Copy, holders: Collection[str], over: Callable[[], None]) -> None:
        """A client of this broker is elsewhere, where there was no copy of it; `over` lets go of what is here."""
        self._let_go(whose.name)
        if not self._applies:
            over()
            self._drop_home(home)
            return
        timer = self._context.call_later(PARTING, lambda: self._let_go(whose.name))
        self._leaving[whose.name] = _Leaving(whose, home, tuple(holders), over, timer)

    def take_back(self, name: str) -> Copy | None:
        """A client has come back: its home copy, if it is still there."""
        leaving = self._leaving.get(name)
        home = leaving.home if leaving is not None else None
        if leaving is not None:
            del self._leaving[name]
            leaving.timer.cancel()
            leaving.over()
        return home

    def _let_go(self, name: str) -> None:
        if (leaving := self._leaving.pop(name, None)) is not None:
            leaving.timer.cancel()
            leaving.over()
            self._drop_home(leaving.home)

    # --- answering ------------------------------------------------------------------------------------

    def asked(self, source: str, seek: Seek) -> None:
        """A broker asks for a client that has come there, or the old broker of that client passes it on."""
        if not self._applies:
            return
        leaving = self._leaving.get(seek.whose.name)
        if leaving is not None and leaving.whose == seek.whose and source == seek.asker:
            rest = self._lend(leaving.home, seek)
            if rest and (holder := self._nearest(leaving.holders, seek.asker)) is not None:
                self._say(holder, Seek(seek.whose, seek.asker, seek.number, rest))
            self._let_go(seek.whose.name)
            return
        copy = self._copies.get(seek.whose.name)
        if copy is not None and copy.whose.owner == seek.whose.owner and copy.controller == source:
            self._lend(copy, seek)

    def _lend(self, copy: Copy, seek: Seek) -> tuple[Sought, ...]:
        """Answer with what a copy has; what is left of the question."""
        if copy.inner is None:
            return seek.sought
        there = {_as_asked(one) for one in self._context.subscribed(copy.inner.link)}
        broken = self._broken(copy, copy.inner)
        held: dict[int, tuple[Envelope, tuple[str, ...]]] = {}
        paid: dict[str, tuple[str, ...]] = {}
        rest: list[Sought] = []
        size = 0
        for sought in seek.sought:
            id = sought.wanted.id
            whole = self._whole(copy, id) if _as_asked(sought.wanted) in there else {}
            lends: list[str] = []
            several = self._buffer.numbered(copy, id) if whole else []
            for origin, since in sought.owed.items():
                if origin in broken or origin not in whole or whole[origin] > since:
                    continue
                share = [
                    (number, one)
                    for number, one in several
                    if one.identity.origin == origin and one.identity.position > since
                ]
                more = sum(len(one.body) + ENVELOPE_BYTES for number, one in share if number not in held)
                if size + more > LENT_BYTES:
                    continue
                size += more
                lends.append(origin)
                for number, one in share:
                    ids = held[number][1] if number in held else ()
                    held[number] = (one, (*ids, id))
            if lends:
                paid[id] = tuple(lends)
            if left := {origin: since for origin, since in sought.owed.items() if origin not in lends}:
                rest.append(Sought(sought.wanted, left))
        if paid:
            self._say(seek.asker, Lent(seek.number, tuple(held[one] for one in sorted(held)), paid))
        return tuple(rest)

    def _whole(self, copy: Copy, id: str) -> dict[str, Position]:
        """By origin, the position behind which a copy has everything for a subscription."""
        lost = copy.overwritten
        return {origin: max(at, lost.get(origin, at)) for origin, at in copy.begins(id).items()}

    def _broken(self, copy: Copy, inner: InnerClient) -> set[str]:
        """The origins of which it may lack something, wherever."""
        owed = {origin for one in self._context.subscribed(inner.link) for origin in self._context.owed(one)}
        return owed | copy.doubted | copy.torn.keys()

    def _nearest(self, holders: Iterable[str], asker: str) -> str | None:
        """Of the brokers with copies, the one on the shortest way to whoever asks."""
        tree = self._context.tree
        reachable = [one for one in holders if one in tree.hops]
        return min(reachable, key=lambda one: (_distance(tree.parents, one, asker), one), default=None)

    def _say(self, broker: str, said: Seek | Lent) -> bool:
        body = pack(Saying(said))
        return len(body) <= MAX_SAID and self._context.send_to(broker, body)


def _wanted(registration: Registration) -> Wanted:
    return Wanted(registration.id, registration.filter, registration.receive_own, registration.duplicates)


def _as_asked(one: Wanted | Registration) -> tuple[object, ...]:
    return (one.id, one.filter, one.receive_own, one.duplicates)


def _distance(parents: Mapping[str, str | None], one: str, other: str) -> int:
    """How many links of the tree lie between two brokers."""
    above = _up(parents, one)
    for steps, broker in enumerate(_up(parents, other)):
        if broker in above:
            return steps + above.index(broker)
    return len(parents)


def _up(parents: Mapping[str, str | None], broker: str) -> list[str]:
    """A broker, and those on its way to the root of the tree."""
    way: list[str] = []
    at: str | None = broker
    while at is not None:
        way.append(at)
        at = parents.get(at)
    return way
