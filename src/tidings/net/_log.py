"""The log of a broker, read by a client: for Spark, and for whoever wants all that was stored rather than what comes.

Who asks may see what it may subscribe to. Where there are scopes, a log holds what many of them keep to themselves, and
is shown to administrators only; others see the past through subscriptions, which obey every border.
"""

from __future__ import annotations

from tidings.broker import Broker, Link, check_filter
from tidings.model import EVERYTHING, ROOT_SCOPE, AccessDenied, Filter, TidingsError
from tidings.store import Store
from tidings.wire import Envelope, Measure, Measured, Page, Read, body_test

from ._access import AccessEntry

MAX_NUMBER = 2**63 - 1
"""The largest number that a position or a limit may have."""


class LogReading:
    """Answers clients that read the log of their broker."""

    def __init__(self, broker: Broker, store: Store | None) -> None:
        self._broker = broker
        self._store = store
        broker.on_client_message(Measure, self._measure)
        broker.on_client_message(Read, self._read)

    def _measure(self, link: Link, message: Measure) -> None:
        store = self._opened(link)
        _check(*message.after, message.rows, message.size)
        extent = store.measure(message.after, rows=message.rows, size=message.size)
        self._broker.send(link, Measured(message.id, self._broker.name, *extent))

    def _read(self, link: Link, message: Read) -> None:
        store = self._opened(link)
        _check(*message.after, *message.upto)
        check_filter(message.filter)
        if not isinstance(message.filter, Filter):
            raise TidingsError(
                "only content filters select from a log; read it with one, and apply your own filter to what arrives"
            )
        if message.filter.has_marker:
            raise TidingsError(f"{message.filter} contains myloc, which has no meaning in a log; name the place")
        if link.guard is not None:
            link.guard.check_subscribe(message.filter)
        test = body_test(message.filter)
        everything = message.filter == EVERYTHING
        scoped = may_see_all(link)

        def passes(envelope: Envelope) -> bool:
            return (scoped or _is_public(envelope)) and (everything or test(envelope.body))

        page = store.page(message.after, message.upto, passes)
        self._broker.send(link, Page(message.id, tuple(page.envelopes), page.reached, tuple(page.lost)))

    def _opened(self, link: Link) -> Store:
        if self._store is None:
            raise TidingsError(
                f"broker '{self._broker.name}' has no store, so it has no log; give it a data directory, or subscribe"
            )
        if not self._broker.scoping.flat and not may_see_all(link):
            raise AccessDenied(
                f"the log of '{self._broker.name}' holds what was published in scopes; reading it needs the right to "
                "administer: ask for it, or subscribe"
            )
        return self._store


def may_see_all(link: Link) -> bool:
    """Whether nothing is hidden from this client."""
    return not isinstance(link.guard, AccessEntry) or link.guard.administer


def _is_public(envelope: Envelope) -> bool:
    """Whether it was published where everybody is; there may have been scopes once."""
    return all(route.scope == ROOT_SCOPE for route in envelope.routes)


def _check(*numbers: int) -> None:
    for number in numbers:
        if not 0 <= number <= MAX_NUMBER:
            raise TidingsError(f"{number} is not a position in a log; use 0 to {MAX_NUMBER}")
