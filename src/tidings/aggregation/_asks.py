"""Asks: what brokers ask of each other, and what they are told.

Theory of operation
-------------------
What a neighbour must be told rides on the next message to it, whatever that is, and goes by itself if there is none
within a few milliseconds. It is worked out when it leaves, so `sent` is what the neighbour gets, in the order of the
link. Asks go at once.

A neighbour may ask for a deployed version before this broker has heard of it. Such an ask *waits* until the version is
known here; until then its bound may change, and it may be cancelled, as any other.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import msgspec

from tidings.broker import Link
from tidings.model import BudgetExceeded, PartialRefused, TidingsError
from tidings.wire import AnyMessage as AnyCarrier

from ._admission import Admission
from ._deployed import Deployed
from ._engine import Engine, Update
from ._key import subject_of
from ._named import is_name, place_in
from ._options import AggregationOptions
from ._riding import Riding
from ._secret import Drawn, Secret
from ._shares import check_bound
from ._subject import Subject
from ._windows import is_question, tells_of_people
from .messages import AnyMessage, Ask, Cancel, Compare, Rebound, Told, decode, encode

ROOM = 48_000
"""About how many bytes of updates ride on one message."""
MAX_WAITING = 1_000
"""The most asks of one neighbour that wait for something to be deployed."""


class Neighbours(Protocol):
    """What asks need of the broker: its neighbours."""

    def is_open(self, link: Link, /) -> bool:
        """Whether a tree neighbour is ready on this link."""
        ...

    def send(self, link: Link, body: bytes, /) -> None:
        """Send a message of this feature."""
        ...

    def ride(
        self, link: Link, produce: Callable[[], bytes | None], within: int, carries: Callable[[AnyCarrier], bool], /
    ) -> None:
        """Let the next message to a neighbour carry what `produce` gives when it leaves."""
        ...

    def refused(self) -> None:
        """Count something that came and makes no sense."""
        ...


class Asks:
    """What one broker asks of its neighbours, and they of it."""

    def __init__(
        self,
        neighbours: Neighbours,
        engine: Engine[Link],
        options: AggregationOptions,
        *,
        admission: Admission,
        deployed: Deployed,
        counters: Counter[str],
        secret: Secret,
    ) -> None:
        self._neighbours = neighbours
        self._secret = secret
        self._engine = engine
        self._options = options
        self._admission = admission
        self._deployed = deployed
        self._counters = counters
        self._waiting: dict[Link, dict[int, Ask]] = {}
        """What neighbours ask about that is not deployed here yet, by the numbers of their asks."""

    @property
    def waits(self) -> bool:
        """Whether neighbours ask about something that is not deployed here yet."""
        return any(self._waiting.values())

    def forget(self) -> None:
        """The tree is another one: what was said on its links is void."""
        self._waiting.clear()
        self._secret.forget()

    def forget_neighbour(self, link: Link) -> None:
        """A neighbour has started anew."""
        self._waiting.pop(link, None)
        self._secret.forget(link)

    def tell_secret(self, link: Link, drawn: Drawn) -> None:
        """Tell a neighbour the secret under which clients have pseudonyms."""
        self._send(link, Compare(*drawn))

    # --- what this broker says ------------------------------------------------------------------------

    def ask(self, link: Link, number: int, subject: Subject, bound: float) -> None:
        """Ask a neighbour."""
        aggregate, version, key, probe, scope, away = subject
        if is_question(aggregate) and tells_of_people(aggregate):
            self._secret.ask(link)
        self._send(link, Ask(number, aggregate, version, key, probe, scope, bound, away))

    def rebound(self, link: Link, number: int, bound: float) -> None:
        """Change the bound of an ask."""
        self._send(link, Rebound(number, bound))

    def cancel(self, link: Link, number: int) -> None:
        """Ask no longer."""
        self._send(link, Cancel(number))

    def wake(self, link: Link) -> None:
        """There is something to tell a neighbour."""
        if not self._neighbours.is_open(link):
            return  # the tree is changing in this turn: what was said on its links is about to be void
        riding = self._options.ride_on
        if riding is Riding.NOTHING:
            for update in self._engine.produce(link, ROOM):
                self._counters["updates_sent"] += 1
                self._send(link, Told([update]))
            return
        within = 0 if riding is Riding.REGISTRATIONS else round(self._options.ride_within * 1_000_000)
        self._neighbours.ride(link, functools.partial(self._produce, link), within, riding.carries)

    def _produce(self, link: Link) -> bytes | None:
        """What a neighbour must be told, as a message to it leaves."""
        updates = self._engine.produce(link, ROOM)
        if self._engine.has_more(link):
            self.wake(link)
        self._counters["updates_sent"] += len(updates)
        return encode(Told(updates)) if updates else None

    def _send(self, link: Link, message: AnyMessage) -> None:
        self._neighbours.send(link, encode(message))

    # --- what neighbours say --------------------------------------------------------------------------

    def came(self, link: Link, body: bytes, *, riding: bool) -> None:
        """A neighbour says something, along with another message or not."""
        try:
            message = decode(body)
            match message:
                case Ask():
                    self._asked(link, message)
                case Rebound(number, bound) if number in self._waiting.get(link, ()):
                    ask = self._waiting[link][number]
                    self._waiting[link][number] = msgspec.structs.replace(ask, bound=check_bound(bound))
                case Cancel(number) if number in self._waiting.get(link, ()):
                    del self._waiting[link][number]
                case Rebound(number, bound):
                    self._engine.rebound(link, number, check_bound(bound))
                case Cancel(number):
                    self._engine.cancelled(link, number)
                case Compare(since, value):
                    self._secret.heard(link, Drawn(since, value))
                case Told(updates):
                    self._counters["updates_riding" if riding else "updates_alone"] += len(updates)
                    for update in updates:
                        self._told(link, update, riding=riding)
                case _:
                    self._neighbours.refused()
        except TidingsError:  # it is not of this version, or made up: nothing has changed, and this is incomplete there
            self._neighbours.refused()

    def _told(self, link: Link, update: Update, *, riding: bool) -> None:
        try:
            self._engine.told(link, update, riding=riding)
        except PartialRefused:
            self._counters["partials_refused"] += 1
            self._neighbours.refused()

    def _asked(self, link: Link, ask: Ask) -> None:
        if is_name(ask.aggregate):
            self._asked_for_code(link, ask)
            return
        subject = subject_of(ask.aggregate, ask.version, ask.key, ask.probe, ask.scope, away=ask.away)
        self._admission.check(subject)
        self._engine.asked(link, ask.number, subject, check_bound(ask.bound))

    def _asked_for_code(self, link: Link, ask: Ask) -> None:
        """A neighbour asks for something deployed. What is not known here yet waits until it is."""
        subject = Subject(ask.aggregate, ask.version, "", b"", ask.scope)
        place = place_in(subject)
        if place not in self._deployed:
            waiting = self._waiting.setdefault(link, {})
            if len(waiting) >= MAX_WAITING:
                raise BudgetExceeded(f"{MAX_WAITING} asks for what is not deployed here wait already")
            waiting[ask.number] = ask
        elif not self._deployed.is_outdated(place):
            self._admission.check(subject)
            self._engine.asked(link, ask.number, subject, check_bound(ask.bound))

    def deployed_changed(self) -> None:
        """Something may be deployed here that neighbours have asked for."""
        for link, asks in list(self._waiting.items()):
            for number, ask in list(asks.items()):
                if place_in(Subject(ask.aggregate, ask.version, "")) in self._deployed:
                    del asks[number]
                    try:
                        self._asked_for_code(link, ask)
                    except TidingsError:
                        self._neighbours.refused()
            if not asks:
                del self._waiting[link]
