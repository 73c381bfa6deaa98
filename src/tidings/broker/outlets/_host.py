"""What outlets need of the broker that they belong to, and of the other rooms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from tidings.broker._links import Link
from tidings.broker._runtime import Timer
from tidings.broker._statistics import Statistics
from tidings.broker.interest import Registration, Registrations, RoutingOptions, Scoping, Settling
from tidings.broker.overlay import Adjacency, Progress, Waves
from tidings.model import Identity, Position
from tidings.wire import AnyMessage, Envelope, Fetch, Fetched, Gap

if TYPE_CHECKING:
    from ._holds import Holds
    from ._recovery import Recovery


class Published(Protocol):
    """What entered the network here."""

    @property
    def last(self) -> int:
        """The number of the latest publication of this epoch."""
        ...

    def answer(
        self,
        question: Fetch,
        shown: Callable[[Identity], bool] = ...,
        *,
        most: int | None = None,
        most_bytes: int | None = None,
        share: int = 1,
    ) -> Iterator[Fetched]:
        """What follows the asked positions and passes one of the asked filters, piece by piece."""
        ...


class Handing(Protocol):
    """How something reaches a client after all."""

    def deliver_late(self, envelope: Envelope, owed: dict[Registration, None]) -> dict[Registration, None]:
        """Deliver a publication that was missed before, to the subscriptions that were owed it; those that may not have
        it late, because it had to cross a border that checks, are returned."""
        ...

    def deliver_held(self, envelope: Envelope, subscriptions: Iterable[Registration]) -> None:
        """Deliver a notification that was held back, to those of its subscriptions that still want it."""
        ...

    def report_gap(self, gap: Gap, owed: dict[Registration, None]) -> None:
        """Tell subscriptions that notifications are lost."""
        ...

    def congested(self, owed: Iterable[Registration]) -> bool:
        """Whether so much waits for one of these subscriptions that it should get no more for now."""
        ...


class Delayed(Protocol):
    """What a policy keeps back until it is due."""

    @property
    def count(self) -> int:
        """How many copies wait."""
        ...

    def oldest(self, link: Link) -> dict[str, Position]:
        """For each origin of which something waits for a client, the position before the oldest."""
        ...


class Ordered(Protocol):
    """What waits for what its publisher published before."""

    def begins_at(self, registration: Registration, positions: Mapping[str, Position]) -> None:
        """A subscription has got its past, which speaks for everything up to these positions."""
        ...

    def begun(self, registration: Registration) -> Mapping[str, Position]:
        """Up to where the past of a subscription speaks for each origin, if it has got its past lately."""
        ...


class Doors(Protocol):
    """The way to any broker."""

    def forward(self, message: AnyMessage, target: str) -> bool:
        """Send a message on towards a broker; False if the tree does not lead there now."""
        ...


class Host(Protocol):
    """A broker, as outlets see it."""

    @property
    def name(self) -> str:
        """The broker's name."""
        ...

    @property
    def epoch(self) -> int:
        """Its incarnation."""
        ...

    @property
    def routing(self) -> RoutingOptions: ...

    @property
    def statistics(self) -> Statistics: ...

    @property
    def adjacency(self) -> Adjacency: ...

    @property
    def progress(self) -> Progress: ...

    @property
    def waves(self) -> Waves: ...

    @property
    def scoping(self) -> Scoping: ...

    @property
    def registrations(self) -> Registrations: ...

    @property
    def settling(self) -> Settling: ...

    @property
    def publications(self) -> Published: ...

    @property
    def delivery(self) -> Handing: ...

    @property
    def delaying(self) -> Delayed: ...

    @property
    def ordering(self) -> Ordered: ...

    @property
    def doors(self) -> Doors: ...

    @property
    def holds(self) -> Holds: ...

    @property
    def recovery(self) -> Recovery: ...

    @property
    def clients(self) -> list[Link]:
        """The attached clients."""
        ...

    def client_subscriptions(self) -> list[Registration]:
        """The subscriptions of attached clients."""
        ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own, `delay` microseconds from now."""
        ...
