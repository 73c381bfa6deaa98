"""What may be had: clients look at the advertisements that their broker knows, which are those of the whole network.

Nobody is told who advertises, and nobody sees more than it may subscribe to: of a wider advertisement it is shown the
part that it may have. Where there are scopes, a broker's tables hold what scopes keep to themselves, and are shown to
administrators only.

A table may be large and a question is answered in one piece, so it is looked through in steps, each a turn of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tidings.broker import Broker, Link, check_filter
from tidings.model import EVERYTHING, AccessDenied, Filter, FilterTooLarge, Matches, TidingsError
from tidings.wire import Browse, Offers

from ._access import AccessEntry
from ._log import may_see_all

MAX_OFFERS = 1_000
"""The most filters in one answer."""
MAX_CHARACTERS = 524_288
"""The most characters that these have together: an answer must fit into a part."""
STEP = 200
"""Advertisements that are looked at in one turn."""


class Browsing:
    """Answers clients that ask what is advertised."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._busy: set[Link] = set()
        broker.on_client_message(Browse, self._browse)

    def _browse(self, link: Link, message: Browse) -> None:
        broker = self._broker
        if not broker.routing.advertisements:
            raise TidingsError(
                f"broker '{broker.name}' routes without advertisements, so there is nothing to browse; set "
                "`advertisements = true` in [routing] of all brokers, or subscribe and see"
            )
        if not broker.scoping.flat and not may_see_all(link):
            raise AccessDenied(
                f"the tables of '{broker.name}' hold what is advertised in scopes; looking at them needs the right to "
                "administer: ask for it, or subscribe"
            )
        check_filter(message.filter)
        if not isinstance(message.filter, Filter):
            raise TidingsError("advertisements are compared with a content filter; use the filter language")
        if message.filter.has_marker:
            raise TidingsError(f"{message.filter} contains myloc, which has no meaning here; name the place")
        if link in self._busy:
            raise TidingsError("the previous question has not been answered yet; ask one at a time")
        self._busy.add(link)
        known = [entry.filter for table in broker.scoping.tables.values() for entry in table.advertisements]
        may = link.guard.subscribe if isinstance(link.guard, AccessEntry) else EVERYTHING
        self._step(link, message.id, _Found(message.filter, may), iter(known))

    def _step(self, link: Link, id: str, found: _Found, known: Iterator[Matches]) -> None:
        looked = 0
        for filter in islice(known, STEP):
            looked += 1
            found.look_at(filter)
        if looked == STEP:
            self._broker.call_later(0, lambda: self._step(link, id, found, known))
            return
        self._busy.discard(link)
        filters, left_out = found.answer()
        self._broker.send(link, Offers(id, filters, left_out))


class _Found:
    """What is to be shown, each once."""

    def __init__(self, wanted: Filter, may: Filter) -> None:
        self._wanted = wanted
        self._may = may
        self._filters: set[Filter] = set()
        self._left_out = 0

    def look_at(self, advertised: Matches) -> None:
        """Show it if it may bring what is wanted, as far as it may be seen."""
        if not isinstance(advertised, Filter):
            self._left_out += self._may == EVERYTHING  # it may be anything
            return
        if not advertised.overlaps(self._may):
            return
        try:
            shown = advertised if self._may.covers(advertised) else (advertised & self._may)
            if shown.overlaps(self._wanted):
                self._filters.add(shown.canonical())
        except FilterTooLarge:
            self._left_out += 1

    def answer(self) -> tuple[tuple[Filter, ...], int]:
        """As many as fit, and how many do not."""
        shown: list[Filter] = []
        room = MAX_CHARACTERS
        for filter in sorted(self._filters, key=str):
            room -= len(str(filter))
            if len(shown) == MAX_OFFERS or room < 0:
                break
            shown.append(filter)
        return tuple(shown), self._left_out + len(self._filters) - len(shown)
