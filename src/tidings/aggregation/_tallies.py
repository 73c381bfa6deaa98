"""Tallies: which of the clients that come, go and roam count at this broker, for everything that is counted.

Theory of operation
-------------------
What clients subscribe to and what they advertise is counted apart (`_counting`). Each step that changes what counts is
advised as long as something is counted:

    SUB_ADD, SUB_DEL, AD_ADD, AD_DEL   a client's registration comes or goes: the counts that it touches change
    AWAY, BACK                         a client's connection is lost, or is there again: so does what counts of it
    ADOPT                              registrations become another client's, which may be a copy
    (ceded, settled)                   a client that roams is another broker's; one is certainly this broker's

A client that roams counts at one broker, and a number is *whole* only if no client is in it that another broker may
count as well. A client that is ceded counts here no more. That is told on the way to its new broker before the answer
is, so everyone who hears that it counts there has heard that it no longer counts here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tidings.broker import Advice, Delta, Entry, Joinpoint, Link, Registration, Timer

from ._catalogue import Count, count_named
from ._counting import Counting, Tally, is_copy
from ._forms import Range, Ranges
from ._key import key_of
from ._places import Ways
from ._state import State
from ._subject import Subject

RANGES = Ranges()
"""How what is counted travels."""


class Hosting(Protocol):
    """Who knows where clients are: `tidings.mobility.Hosts`."""

    @property
    def unsettled(self) -> Mapping[str, Link]:
        """The clients here that another broker may host as well, by name."""
        ...

    settled: Callable[[Link], None]
    """Called when that is no longer so for one of them."""
    ceded: Callable[[Link], None]
    """Called when a client was given away to another broker, before that one is told so."""

    def has_left(self, link: Link, /) -> bool:
        """Whether that has happened."""
        ...


class Registered(Protocol):
    """What tallies need of the broker: its clients, and what they registered."""

    @property
    def clients(self) -> Sequence[Link]:
        """The attached clients."""
        ...

    def is_away(self, client: Link, /) -> bool:
        """Whether the connection of an attached client is lost or silent."""
        ...

    def subscribed(self, client: Link, /) -> Collection[Registration]:
        """What an attached client subscribes to."""
        ...

    def advertised(self, client: Link, /) -> Collection[Registration]:
        """What an attached client advertises."""
        ...

    def is_current(self, registration: Registration, /) -> bool:
        """Whether a client still has this subscription or advertisement, as it is."""
        ...

    def call_later(self, delay: int, action: Callable[[], None], /) -> Timer:
        """Call `action` in a turn of its own."""
        ...


class Changed(Protocol):
    """Who hears of numbers: `Engine.changed`."""

    def __call__(self, subject: Subject, local: Range, /, *, whole: bool = True) -> None:
        """A number is known, or is another one; `whole`: it is beyond doubt."""
        ...


class Tallies:
    """Everything that is counted at one broker."""

    def __init__(
        self, registered: Registered, hosting: Hosting | None, ways: Callable[[str], Ways], changed: Changed
    ) -> None:
        """Without `hosting`, no client roams; `ways`: those into a scope, none if this broker does not carry it."""
        self._registered = registered
        self._hosting = hosting
        self._ways = ways
        self._changed = changed
        self._subscriptions = self._make(registered.subscribed)
        self._advertisements = self._make(registered.advertised, offered=True)

    def _make(self, of_client: Callable[[Link], Collection[Registration]], *, offered: bool = False) -> Counting:
        registered = self._registered
        return Counting(
            lambda: (one for client in registered.clients for one in of_client(client)),
            registered.is_current,
            lambda action: registered.call_later(0, action),
            self._ways,
            self.counts,
            changed=self._counted,
            offered=offered,
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is counted."""
        return not (len(self._subscriptions) or len(self._advertisements))

    def begin(self, state: State[Link]) -> None:
        """Count for a subject; what is counted is its `source`."""
        subject = state.subject
        count = count_named(subject.aggregate)
        if count.brokers:
            self._changed(subject, RANGES.of(bool(self._ways(subject.scope))))
            return
        tally = state.source = Tally(key_of(subject), subject)
        self._counting(count).watch(tally)

    def end(self, tally: Tally) -> None:
        """Count for it no longer."""
        self._counting(count_named(tally.subject.aggregate)).unwatch(tally)

    def regraph(self, states: Iterable[State[Link]]) -> None:
        """The tree or the scope graph is another one: count anew where that changes something, for these subjects."""
        self._subscriptions.regraph()
        self._advertisements.regraph()
        for state in states:
            if count_named(state.subject.aggregate).brokers:
                self.begin(state)

    def counts(self, link: Link, away: bool) -> bool:
        """Whether a client counts here, where those that are away do or do not."""
        if is_copy(link) or (self._hosting is not None and self._hosting.has_left(link)):
            return False
        return away or not self._registered.is_away(link)

    def _counted(self, tally: Tally) -> None:
        """Something is counted, or another number."""
        count = count_named(tally.subject.aggregate)
        self._changed(tally.subject, RANGES.of(count.of(tally)), whole=self._is_whole(tally))

    def _is_whole(self, tally: Tally) -> bool:
        """Whether no client is counted that another broker may count as well."""
        doubtful = self._hosting.unsettled if self._hosting is not None else {}
        return not doubtful or tally.clients.keys().isdisjoint(doubtful.values())

    def _counting(self, count: Count) -> Counting:
        return self._advertisements if count.advertisements else self._subscriptions

    def _of(self, link: Link) -> list[tuple[Counting, Collection[Registration]]]:
        """What a client has registered, and where that is counted."""
        return [
            (self._subscriptions, self._registered.subscribed(link)),
            (self._advertisements, self._registered.advertised(link)),
        ]

    # --- clients that roam ----------------------------------------------------------------------------

    def ceded(self, link: Link) -> None:
        """A client is another broker's."""
        for counting, registrations in self._of(link):
            for _, entry in _entries(registrations):
                counting.removed(entry)

    def settled(self, link: Link) -> None:
        """A client is here, and nowhere else."""
        for counting, registrations in self._of(link):
            for _, entry in _entries(registrations):
                counting.again(entry)

    # --- advice ---------------------------------------------------------------------------------------

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """What must be advised as long as something is counted."""
        return {
            Joinpoint.SUB_ADD: self._on_sub_add,
            Joinpoint.SUB_DEL: self._on_sub_del,
            Joinpoint.AD_ADD: self._on_ad_add,
            Joinpoint.AD_DEL: self._on_ad_del,
            Joinpoint.ADOPT: self._on_adopt,
            Joinpoint.AWAY: self._on_away,
            Joinpoint.BACK: self._on_back,
        }

    def _on_sub_add(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> dict[Link, Delta]:
        changes: dict[Link, Delta] = proceed(scope, entry)
        self._subscriptions.added(scope, entry)
        return changes

    def _on_sub_del(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> dict[Link, Delta]:
        changes: dict[Link, Delta] = proceed(scope, entry)
        self._subscriptions.removed(entry)
        return changes

    def _on_ad_add(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> dict[Link, Delta]:
        changes: dict[Link, Delta] = proceed(scope, entry)
        self._advertisements.added(scope, entry)
        return changes

    def _on_ad_del(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> dict[Link, Delta]:
        changes: dict[Link, Delta] = proceed(scope, entry)
        self._advertisements.removed(entry)
        return changes

    def _on_away(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        for counting, registrations in self._of(link):
            for _, entry in _entries(registrations):
                counting.left(entry)

    def _on_back(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        for counting, registrations in self._of(link):
            for scope, entry in _entries(registrations):
                counting.added(scope, entry)

    def _on_adopt(
        self, proceed: Callable[..., None], old: Link, new: Link, only: frozenset[Registration] | None
    ) -> None:
        moving = [
            (counting, list(_entries(one for one in registrations if only is None or one in only)))
            for counting, registrations in self._of(old)
        ]
        for counting, entries in moving:
            for _, entry in entries:
                counting.removed(entry)
        proceed(old, new, only)
        for counting, entries in moving:
            for scope, entry in entries:
                counting.added(scope, entry)


def _entries(registrations: Iterable[Registration]) -> Iterator[tuple[str, Entry]]:
    for registration in registrations:
        yield from registration.entries.items()
