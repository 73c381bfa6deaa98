"""The access point: one client's subscription into the past, held until its past is there.

The subscription is registered and announced at once, so nothing new is missed; what comes for it meanwhile is retained,
with the link over which it came (see `tidings.broker.outlets`). It goes on as soon as there is enough, or everybody has
answered, or its time is up. A new tree takes with it what was under way: then the past is asked for anew, as soon as
everybody knows the subscription again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.broker import Hold, Link, Registration, from_past
from tidings.model import Filter
from tidings.wire import Ending, Envelope, HistoryReport

from ._gathering import Gathering, Item
from ._requests import RequestId

if TYPE_CHECKING:
    from ._strategy import CachingStrategy

MAX_RETAINED = 5_000
"""The most new notifications that are retained for one subscription; then it goes on at once."""
BORDER_LEVEL = 2
"""The level of a border broker; that of the client itself is 1."""


class Access(Gathering):
    """A subscription that waits for its past."""

    hold: Hold

    def __init__(
        self, strategy: CachingStrategy, registration: Registration, filter: Filter, id: RequestId, limit: int
    ) -> None:
        past = registration.past
        assert past is not None
        since = past.bound.reference(strategy.context.now())
        timeout = strategy.options.timer if past.timeout is None else past.timeout
        super().__init__(id, filter, limit=limit, since=since, level=BORDER_LEVEL, time=timeout, source=None)
        self.registration = registration
        self._strategy = strategy
        self._again = False
        self.asked: list[Link] = []
        """The neighbours that the request has gone to."""

    # --- what the hold says ---------------------------------------------------------------------------

    def has_kept(self) -> None:
        """A notification has come for it."""
        envelope, link = self._strategy.passing
        self.new.append(Item(envelope, link))
        if self.is_satisfied or len(self.new) >= MAX_RETAINED:
            self.finish(Ending.SATISFIED)

    def restarted(self) -> None:
        """A new tree: nothing that was asked will be answered, and what came meanwhile may have holes."""
        ready = self._strategy.context.neighbours  # some may know nothing of the new tree yet
        self._strategy.release(self.id, [link for link in self.asked if link in ready])
        self._strategy.closed(self)
        self.waiting.clear()
        self.old, self.new, self.asked = [], [], []
        self._again = True

    def turn_ended(self) -> None:
        """After a new tree: ask again once everything is in place."""
        if self._again and self._strategy.context.settling.is_settled(self.registration):
            self._again = False
            self._strategy.ask_again(self)

    def ended(self) -> None:
        """The client does not want it any more."""
        self.end()
        self._strategy.cancelled(self)

    # --- the end --------------------------------------------------------------------------------------

    def finish(self, ending: Ending) -> None:
        """Deliver what there is, past before new, and let the subscription go on."""
        self.end()
        old = {id(item.envelope) for item in self.old}
        whole = [envelope for envelope in self.chosen(self._strategy.options.align) if self._may_see(envelope)]
        places = [at for at, envelope in enumerate(whole, start=1) if id(envelope) in old]
        self._strategy.endings[ending] += 1
        self._strategy.delivered += len(places)
        self._strategy.finished(self)
        context, registration = self._strategy.context, self.registration
        context.holds.release(self.hold, None)
        # The report goes first: by it the client knows that it is this subscription, and not an earlier one of the same
        # id, whose past comes now. It may not have settled yet.
        context.tell(registration.link, HistoryReport(registration.id, registration.number, len(places), ending))
        for at, envelope in enumerate(whole):
            is_past = at < max(places, default=0)
            context.deliver(registration, from_past(envelope) if is_past else envelope)

    def _may_see(self, envelope: Envelope) -> bool:
        own = envelope.identity.publisher == self.registration.link.principal
        return (self.registration.receive_own or not own) and self.filter.matches(envelope.notification)
