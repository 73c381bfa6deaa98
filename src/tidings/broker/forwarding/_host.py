"""What forwarding needs of the broker that it belongs to, and of the other rooms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from tidings.broker._links import Link
from tidings.broker._runtime import Runtime, Timer
from tidings.broker._statistics import Statistics
from tidings.broker.interest import Entry, Registration, Registrations, RoutingOptions, Scoping
from tidings.broker.overlay import Adjacency, Progress
from tidings.model import Route, TidingsError
from tidings.wire import AnyMessage, Envelope

if TYPE_CHECKING:
    from ._borders import Borders
    from ._checks import Watching
    from ._crossing import Crossing
    from ._delaying import Delaying
    from ._delivery import Delivery
    from ._ordering import Ordering
    from ._publications import Publications
    from ._remembering import Remembering


class Outlets(Protocol):
    """What may not be handed to a subscription yet."""

    @property
    def active(self) -> bool:
        """Whether anything may be held back from anybody."""
        ...

    def hold(self, envelope: Envelope, subscriptions: list[Registration], *, late: bool = False) -> list[Registration]:
        """Hold a notification back from those that are owed earlier ones; the others get it at once."""
        ...

    def passed(self, envelope: Envelope, *, several: bool = False) -> None:
        """A notification of another origin has come; `several`: other forms of the same event may follow."""
        ...

    def reached(self, origin: str, epoch: int, seq: int) -> None:
        """Notifications of another origin have come, the last of them with this number."""
        ...


class Attachments(Protocol):
    """What features attach to messages."""

    def add(self, link: Link, feature: str, data: bytes) -> None:
        """Let the next message to a link carry something; it leaves in this step."""
        ...

    @property
    def attached(self) -> dict[Link, dict[str, bytes]]:
        """What the next message to each link carries; it lives for one step."""
        ...

    @property
    def riding(self) -> Mapping[Link, object]:
        """What waits for the next message to each link."""
        ...


class Host(Protocol):
    """A broker, as forwarding sees it."""

    at_published: Callable[[Envelope, Link], None] | None

    @property
    def watching(self) -> Watching | None:
        """Whoever observes publications, if all of them take many at once."""
        ...

    @property
    def name(self) -> str:
        """The broker's name."""
        ...

    @property
    def epoch(self) -> int:
        """Its incarnation."""
        ...

    @property
    def runtime(self) -> Runtime: ...

    @property
    def routing(self) -> RoutingOptions: ...

    @property
    def statistics(self) -> Statistics: ...

    @property
    def adjacency(self) -> Adjacency: ...

    @property
    def progress(self) -> Progress: ...

    @property
    def scoping(self) -> Scoping: ...

    @property
    def registrations(self) -> Registrations: ...

    @property
    def recovery(self) -> Outlets: ...

    @property
    def doors(self) -> Attachments: ...

    @property
    def publications(self) -> Publications: ...

    @property
    def remembering(self) -> Remembering: ...

    @property
    def crossing(self) -> Crossing: ...

    @property
    def borders(self) -> Borders: ...

    @property
    def ordering(self) -> Ordering: ...

    @property
    def delaying(self) -> Delaying: ...

    @property
    def delivery(self) -> Delivery: ...

    @property
    def held(self) -> Mapping[Registration, object]:
        """The subscriptions that are held now; not a copy."""
        ...

    @property
    def owing(self) -> Collection[str]:
        """The origins that owe something now; not a copy."""
        ...

    def owed(self, origin: str) -> Mapping[Registration, object]:
        """The subscriptions that an origin owes something."""
        ...

    @property
    def crowded(self) -> Callable[[Link], bool]:
        """Whether so much waits on a link that what can wait should wait."""
        ...

    @property
    def held_up(self) -> Callable[[Link], bool]:
        """Whether a client has filled the queue of somebody who has yet to make room."""
        ...

    @property
    def charge(self) -> Callable[[Link, Callable[[], int]], int]:
        """Do something, and let what it sends count as the doing of this client; what the action gives."""
        ...

    def client(self, name: str) -> Link | None:
        """The link of an attached client."""
        ...

    def standing_for(self, principal: str) -> Collection[Link]:
        """The links of the attached clients that stand for somebody."""
        ...

    def send(self, link: Link, message: AnyMessage) -> None:
        """Put a message on a link."""
        ...

    def refuse(self, link: Link, message: AnyMessage, error: TidingsError) -> None:
        """Tell a client that what it asked for was not done."""
        ...

    def turn(self) -> AbstractContextManager[None]:
        """One turn: when it ends, whoever waits for what has settled in it is told."""
        ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own, `delay` microseconds from now."""
        ...

    # The steps that features may advise.

    def at_pub_match(self, route: Route, envelope: Envelope, source: Link) -> Any: ...
    def at_pub_send(self, route: Route, envelope: Envelope, source: Link, targets: dict[Link, list[Entry]]) -> None: ...
    def at_deliver(self, route: Route, envelope: Envelope, link: Link, subscriptions: list[Registration]) -> None: ...
    def at_cross(self, route: Route, envelope: Envelope, scope: str) -> None: ...
