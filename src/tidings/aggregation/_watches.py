"""Watches: what the clients of a broker watch, and what they are told.

Theory of operation
-------------------
A watch is one request to the engine, or, if it is by the name of something deployed, one at a time (`_named`). It ends
when its client ends it or leaves, when its scope is no more, and when no version serves its name.

Clients are told in a turn of its own, so that many changes at once are one result; and later, if so much waits for a
client that it should wait. A number that is too small for a client is *withheld*: it is told so once, and once more
when that becomes complete or incomplete, but not how the number changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from tidings.broker import Link, Timer
from tidings.model import AggregateError, ArgumentRefused, BudgetExceeded, TidingsError

from ._admission import Admission
from ._catalogue import count_named
from ._deployed import Deployed
from ._engine import Engine
from ._forms import Read
from ._key import subject_of
from ._measurements import QUESTION_VERSION
from ._named import NamedRequest, NamedWatch, NamedWatches, is_name
from ._rights import withheld
from ._shares import check_bound
from ._state import Request
from ._subject import Subject
from ._windows import is_question
from .messages import AnyMessage, Declined, Result, Watch, encode

TELL_AGAIN = 100_000
"""Microseconds after which a client is told for whom too much waited."""
MAX_ID = 256
"""The most characters of the id of a watch."""


class Clients(Protocol):
    """What watches need of the broker: its clients, and the time."""

    def client(self, name: str, /) -> Link | None:
        """The link of an attached client."""
        ...

    def crowded(self, link: Link, /) -> bool:
        """Whether so much waits on a link that what can wait should wait."""
        ...

    def send(self, link: Link, body: bytes, /) -> None:
        """Send a message of this feature."""
        ...

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...

    def call_later(self, delay: int, action: Callable[[], None], /) -> Timer:
        """Call `action` in a turn of its own."""
        ...


class Watches:
    """What the clients of one broker watch."""

    def __init__(
        self,
        clients: Clients,
        engine: Engine[Link],
        *,
        admission: Admission,
        deployed: Deployed,
        counters: Counter[str],
        most: int,
    ) -> None:
        """`most`: how many watches the clients of one identity may have."""
        self._clients = clients
        self._engine = engine
        self._admission = admission
        self._deployed = deployed
        self._counters = counters
        self._most = most
        self.named = NamedWatches(deployed.registry, self, deployed.subject)
        """Those by the name of something deployed."""
        self._requests: dict[Link, dict[str, Request[Link]]] = {}
        self._watching: Counter[str] = Counter()
        """How many requests the clients of each identity have."""
        self._thresholds: dict[Request[Link], int] = {}
        """Of requests from which small numbers are withheld, below which."""
        self._silent: dict[Request[Link], bool] = {}
        """Of requests that were told last that their number is withheld, whether that was complete."""
        self._untold: dict[Request[Link], None] = {}
        self._telling = False

    def __len__(self) -> int:
        return sum(map(len, self._requests.values()))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept at all."""
        return not (
            self._requests or self._watching or self._untold or self._thresholds or self._silent or len(self.named)
        )

    # --- what clients say -----------------------------------------------------------------------------

    def watch(self, link: Link, watch: Watch) -> None:
        """A client watches something; `TidingsError` if it may not."""
        bound = check_bound(watch.max_error)
        if len(watch.id) > MAX_ID:
            raise ArgumentRefused(f"an id of {len(watch.id):,} characters; at most {MAX_ID} are allowed")
        if is_name(watch.aggregate):
            self._watch_named(link, watch)
            return
        if is_question(watch.aggregate):
            version = QUESTION_VERSION
            if bound:
                raise AggregateError(f"max_error={bound:g}: what a question measures is exact; leave max_error out")
        else:
            version = count_named(watch.aggregate).version
        subject = subject_of(watch.aggregate, version, watch.key, watch.probe, watch.scope, away=watch.away)
        threshold = self._check(link, watch, subject)
        request: Request[Link] = Request(link, watch.id, bound)
        self._keep(link, request)
        if threshold:
            self._thresholds[request] = threshold
        self._engine.register(subject, request)

    def _watch_named(self, link: Link, watch: Watch) -> None:
        """A client watches something deployed, by its name."""
        if watch.key or watch.probe or watch.max_error or watch.away:
            raise AggregateError(
                f"{watch.aggregate} measures what its definition says, exactly; leave filter, probe, away and "
                "max_error out"
            )
        place = self.named.newest(watch.aggregate)
        self._check(link, watch, self._deployed.subject(place, watch.scope))
        self._keep(link, self.named.watch(link, watch.id, watch.aggregate, watch.scope))

    def _check(self, link: Link, watch: Watch, subject: Subject) -> int:
        """Below which numbers are withheld; `TidingsError` unless the client may have one more watch, of this."""
        threshold = self._admission.may_ask(link, subject)
        if watch.id in self._requests.get(link, {}):
            raise AggregateError(f"there is a watch '{watch.id}' already; choose another id")
        if self._watching[link.owner] >= self._most:
            raise BudgetExceeded(
                f"the clients of '{link.owner}' may watch at most {self._most:,} values at a time; end "
                "some, or raise max_watches in [aggregation]"
            )
        self._admission.admit(link, subject)
        return threshold

    def tune(self, link: Link, id: str, bound: float) -> None:
        """A client changes the bound of a watch."""
        if (request := self._requests.get(link, {}).get(id)) is not None:
            self._engine.tune(request, check_bound(bound))

    def unwatch(self, link: Link, id: str) -> None:
        """A client ends a watch."""
        request = self._requests.get(link, {}).get(id)
        if request is None:
            return
        self._forget(link, id)
        for kept in (self._untold, self._thresholds, self._silent):
            kept.pop(request, None)
        if isinstance(request, NamedRequest):
            self.named.unwatch(request.watch)
        else:
            self._engine.cancel(request)

    def _keep(self, link: Link, request: Request[Link]) -> None:
        """A client has one more watch."""
        self._requests.setdefault(link, {})[request.id] = request
        self._watching[link.owner] += 1

    def _forget(self, link: Link, id: str) -> None:
        own = self._requests[link]
        del own[id]
        if not own:
            del self._requests[link]
        self._watching[link.owner] -= 1
        if not self._watching[link.owner]:
            del self._watching[link.owner]

    # --- what else ends watches -----------------------------------------------------------------------

    def end_of(self, link: Link) -> None:
        """A client has left."""
        for id in list(self._requests.get(link, ())):
            self.unwatch(link, id)

    def end_of_gone(self) -> None:
        """Clients may have left."""
        for link in [link for link in self._requests if self._clients.client(link.name) is not link]:
            self.end_of(link)

    def end_lost(self) -> None:
        """Scopes may be no more, or nothing can be measured in them any more."""
        for link, requests in list(self._requests.items()):
            for id, request in list(requests.items()):
                try:
                    self._admission.check_scope(request.state.subject)
                except TidingsError as error:
                    self.unwatch(link, id)
                    self._send(link, Declined(id, type(error).__name__, str(error)))

    # --- what watches by name ask for -----------------------------------------------------------------

    def register(self, subject: Subject, request: NamedRequest) -> None:
        """Ask for a subject, or raise `TidingsError` if the client may not: a new version may measure more."""
        self._admission.may_ask(request.link, subject)
        self._engine.register(subject, request)

    def release(self, request: NamedRequest) -> None:
        """Ask no longer."""
        self._untold.pop(request, None)
        self._engine.cancel(request)

    def serves(self, request: NamedRequest) -> None:
        """From now on this request serves its watch."""
        self._requests[request.link][request.id] = request

    def finished(self, watch: NamedWatch, reason: str) -> None:
        """No version serves a watch any more."""
        self._forget(watch.link, watch.id)
        self._send(watch.link, Declined(watch.id, "AggregateError", reason))

    # --- what clients are told ------------------------------------------------------------------------

    def tell(self, request: Request[Link]) -> None:
        """There is something to tell a client."""
        self._untold[request] = None
        self._tell_in(0)

    def _tell_in(self, delay: int) -> None:
        if not self._telling:
            self._telling = True
            self._clients.call_later(delay, self._tell_all)

    def _tell_all(self) -> None:
        self._telling = False
        untold, self._untold = self._untold, {}
        for request in untold:
            if self._clients.crowded(request.link):
                self._untold[request] = None
            elif (found := self._engine.result(request)) is not None:
                self._tell(request, *found)
        if self._untold:
            self._tell_in(TELL_AGAIN)

    def _tell(self, request: Request[Link], read: Read, complete: bool) -> None:
        """Tell a client a value; or that there is one that is too small, and not how it changes."""
        value, error, _, window, included = read
        version, now = request.state.subject.version, self._clients.now()
        if isinstance(request, NamedRequest):
            version = request.place.version
            if not self.named.told(request, complete):
                return
        threshold = self._thresholds.get(request, 0)
        if threshold and withheld(value - error, value + error, threshold):
            self._counters["withheld"] += 1
            if self._silent.get(request) is not complete:
                self._silent[request] = complete
                self._send(request.link, Result(request.id, None, 0, complete, version, now, window, withheld=True))
            return
        self._silent.pop(request, None)
        self._counters["results"] += 1
        told = Result(request.id, value, error, complete, version, now, window, included=included if complete else None)
        self._send(request.link, told)

    def _send(self, link: Link, message: AnyMessage) -> None:
        self._clients.send(link, encode(message))
