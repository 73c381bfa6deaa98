"""What interest needs of the broker that it belongs to, and of the other rooms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Protocol

from tidings.broker._links import Link
from tidings.broker._runtime import Timer
from tidings.broker._statistics import Statistics
from tidings.broker.overlay import Tree
from tidings.model import Location, Position, TidingsError
from tidings.wire import Advertise, AnyMessage, Subscribe, Unadvertise

from ._book import Entry
from ._reduction import Announcement, Delta, RoutingOptions
from ._registration import Registration

if TYPE_CHECKING:
    from ._entries import Entries
    from ._registrations import Registrations
    from ._scoping import Scoping
    from ._settling import Settling


class Neighbours(Protocol):
    """The overlay: which brokers are next to this one."""

    @property
    def tree(self) -> Tree:
        """The current tree."""
        ...

    @property
    def tree_links(self) -> list[Link]:
        """The links that the tree uses, ready or not."""
        ...

    def is_open(self, link: Link) -> bool:
        """Whether the neighbour is ready to be told things."""
        ...


class Holding(Protocol):
    """The subscriptions that are held, because something else has to come first."""

    @property
    def all(self) -> Collection[Registration]:
        """Those that are held."""
        ...

    def __contains__(self, registration: Registration) -> bool:
        """Whether one is held."""
        ...

    def check_room(self, client: Link) -> None:
        """Raise `TidingsError` if no more subscriptions of this client can be held."""
        ...

    def end(self, registration: Registration) -> None:
        """A subscription has ended."""
        ...

    def replace(self, old: Registration, new: Registration) -> None:
        """A subscription has a new filter, under which it is not held."""
        ...

    def end_turn(self) -> None:
        """At the end of a turn: let every holder look."""
        ...


class Owing(Protocol):
    """What origins owe to subscriptions."""

    @property
    def baseline(self) -> bool:
        """Whether the marks of the current tree are known."""
        ...

    def has_room(self, client: Link, more: int) -> bool:
        """Whether a client may have so much more waited for now; `TidingsError` if it never may."""
        ...

    def resume(self, entry: Registration, after: dict[str, Position], *, early: bool = False) -> None:
        """A client that was cut off has subscribed again, and says how far it has seen each origin."""
        ...

    def replaced(self, old: Registration, new: Registration) -> None:
        """A subscription has a new filter: it is owed what passes both."""
        ...

    def displaced(self, entry: Registration) -> None:
        """A subscription has no place in a scope of its client any more, or not yet."""
        ...

    def settled(self, entry: Registration) -> None:
        """A subscription has settled on the current tree."""
        ...

    def ended(self, entry: Registration) -> None:
        """A subscription has ended."""
        ...


class Delayed(Protocol):
    """What a policy keeps back until it is due."""

    def ended(self, registration: Registration) -> None:
        """A subscription has ended."""
        ...


class Published(Protocol):
    """What entered the network here."""

    @property
    def last(self) -> int:
        """The number of the latest publication of this epoch."""
        ...


class Publishing(Protocol):
    """What clients publish, as far as it waits for interest to settle."""

    ripe: bool
    """Whether an advertisement has settled in this turn, so that something may go that waited for it."""

    @property
    def release(self) -> Callable[[], None]:
        """Publish what may go now."""
        ...

    def defers(self, link: Link, message: Advertise | Unadvertise) -> bool:
        """Whether a change of an advertisement waits behind publications, which are judged without it."""
        ...

    def end_turn(self) -> bool:
        """At the end of a turn: publish what waited for advertisements that have settled in it; whether there were."""
        ...


class Host(Protocol):
    """A broker, as interest sees it."""

    @property
    def name(self) -> str:
        """The broker's name."""
        ...

    @property
    def place(self) -> Location | None:
        """Where it stands; None: nowhere."""
        ...

    @property
    def routing(self) -> RoutingOptions:
        """How it routes."""
        ...

    @property
    def statistics(self) -> Statistics:
        """What it counts."""
        ...

    @property
    def adjacency(self) -> Neighbours: ...

    @property
    def holds(self) -> Holding: ...

    @property
    def recovery(self) -> Owing: ...

    @property
    def delaying(self) -> Delayed: ...

    @property
    def publications(self) -> Published: ...

    @property
    def delivery(self) -> Publishing: ...

    @property
    def scoping(self) -> Scoping: ...

    @property
    def entries(self) -> Entries: ...

    @property
    def registrations(self) -> Registrations: ...

    @property
    def settling(self) -> Settling: ...

    @property
    def clients(self) -> list[Link]:
        """The attached clients."""
        ...

    @property
    def register(self) -> Callable[[Link, int], None]:
        """Takes the bytes of a filter that a client registers, or ends (then below 0); refuses by a `TidingsError`."""
        ...

    @property
    def stand_in(self) -> Callable[[Link, Subscribe | Advertise], Registration | None]:
        """Gives a registration that a client has just adopted from one who stands for it; None: there is none."""
        ...

    def standing_for(self, principal: str) -> Collection[Link]:
        """The links of the attached clients that stand for somebody."""
        ...

    def marks_of(self, entries: Iterable[Registration]) -> dict[str, Position]:
        """How far these subscriptions have certainly seen each origin."""
        ...

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...

    def send(self, link: Link, message: AnyMessage) -> None:
        """Put a message on a link."""
        ...

    def refuse(self, link: Link, message: AnyMessage, error: TidingsError) -> None:
        """Tell a client that what it asked for was not done."""
        ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own, `delay` microseconds from now."""
        ...

    # The steps that features may advise.

    def at_subscribe(self, registration: Registration) -> None: ...
    def at_graph(self, old: int, new: int) -> None: ...
    def at_sub_add(self, scope: str, entry: Entry) -> dict[Link, Delta]: ...
    def at_sub_del(self, scope: str, entry: Entry) -> dict[Link, Delta]: ...
    def at_ad_add(self, scope: str, entry: Entry) -> dict[Link, Delta]: ...
    def at_ad_del(self, scope: str, entry: Entry) -> dict[Link, Delta]: ...
    def at_sub_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None: ...
    def at_unsub_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None: ...
    def at_ad_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None: ...
    def at_unad_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None: ...
