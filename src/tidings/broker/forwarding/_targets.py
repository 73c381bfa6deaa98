"""Forwarding: from the subscriptions that a notification passes to the links that get it, in groups with one frame.

Theory of operation
-------------------
Notifications that pass the same subscriptions, and came from the same link, go to the same links. So what was worked
out once is remembered by the source and the matching entries. An entry never changes, and a link is one connection, so
what is remembered stays true until a client goes (its entries may leave the tables later). It is forgotten then, and
when there is too much of it.

The groups of `Targets` are the links that get the same frame: all neighbours, and clients with the same ids of their
subscriptions. Where one subscription is not to get a notification now, its client leaves its group for that frame; the
others stay in theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

from tidings.broker._links import Link, LinkKind
from tidings.broker.interest import Entry, Registration
from tidings.model import Duplicates

MAX_KNOWN = 4_096
"""How many sets of targets are remembered."""
MAX_KNOWN_ENTRIES = 262_144
"""How many entries these may have together."""

Links: TypeAlias = Mapping[Link, None]
"""Links that get the same."""
Groups: TypeAlias = Mapping[tuple[str, ...] | None, Links]
"""The links that get the same: by the ids of their subscriptions, None for neighbours."""


class Targets(dict[Link, list[Entry]]):
    """The links that a notification goes to, each with its matching subscriptions (neighbours: none). Immutable."""

    __slots__ = ("_inside", "_less", "_less_without", "_only", "groups_if_known", "registrations_if_known")

    def __init__(self, links: Mapping[Link, list[Entry]]) -> None:
        super().__init__(links)
        self.groups_if_known: Groups | None = None
        """What `groups` gives, once somebody has asked; where every nanosecond counts, look here first."""
        self._inside: bool | None = None
        self.registrations_if_known: frozenset[Registration] | None = None
        """The same for `registrations`."""
        self._less_without: frozenset[Link] = frozenset()
        self._less = self
        self._only: list[tuple[Link, list[Entry]]] = []

    @property
    def groups(self) -> Groups:
        """The links that get the same frame."""
        if self.groups_if_known is None:
            groups: dict[tuple[str, ...] | None, dict[Link, None]] = {}
            for link, entries in self.items():
                ids = None if link.is_broker else tuple([entry.id for entry in entries])
                groups.setdefault(ids, {})[link] = None
            self.groups_if_known = groups
        return self.groups_if_known

    @property
    def registrations(self) -> frozenset[Registration]:
        """The subscriptions of clients among them."""
        if self.registrations_if_known is None:
            entries = (entry for entries in self.values() for entry in entries)
            self.registrations_if_known = frozenset(
                entry.registration for entry in entries if entry.registration is not None
            )
        return self.registrations_if_known

    @property
    def inside(self) -> bool:
        """Whether these are neighbours, and clients to whom their scope shows everything as it is."""
        if self._inside is None:
            self._inside = all(_is_inside(link, entries) for link, entries in self.items())
        return self._inside

    def without(self, links: frozenset[Link]) -> Targets:
        """The others. Often the same links are left out of the next notification, too."""
        if links != self._less_without:
            self._split(links)
        return self._less

    def only(self, links: frozenset[Link]) -> list[tuple[Link, list[Entry]]]:
        """These, each with its subscriptions, in the order of all."""
        if links != self._less_without:
            self._split(links)
        return self._only

    def _split(self, links: frozenset[Link]) -> None:
        self._less = Targets({link: entries for link, entries in self.items() if link not in links})
        self._only = [(link, entries) for link, entries in self.items() if link in links]
        self._less_without = links

    def _immutable(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("targets are shared among notifications; make others with `Targets({...})` or `without`")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = _immutable
    __ior__ = _immutable


NOBODY = Targets({})


class Forwarding:
    """Finds the targets of notifications, and remembers them."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Targets] = {}
        self._entries = 0
        self.version = 0
        """Counts how often what is remembered was forgotten: whoever remembers more by it forgets that, too."""
        self._matching: list[Entry] = []
        self._source: Link | None = None
        self._latest = NOBODY
        """What followed from the latest matching subscriptions; often the next notification passes the same."""

    def forget(self) -> None:
        """A client has gone, and may leave entries behind for a while."""
        self._known.clear()
        self.version += 1
        self._entries, self._source = 0, None

    def targets(self, matching: list[Entry], source: Link, leaving: Collection[Link] = ()) -> Targets:
        """Where a notification goes that came from a link and passes these subscriptions.

        `leaving` are clients that have gone, and still have entries.
        """
        if matching == self._matching and source is self._source:
            return self._latest
        key = (source, *matching)
        found = self._known.get(key)
        if found is None:
            found = found_for(matching, source, leaving)
            if len(self._known) >= MAX_KNOWN or self._entries + len(key) > MAX_KNOWN_ENTRIES:
                self.forget()
            self._known[key] = found
            self._entries += len(key)
        self._matching, self._source, self._latest = matching, source, found
        return found


def found_for(
    matching: Iterable[Entry], source: Link, leaving: Collection[Link] = (), flooded: Iterable[Link] = ()
) -> Targets:
    """Everybody who wants a notification, but not back to the neighbour that it came from.

    In an order of their own: one matcher finds them in another order than the next, and frames must not tell which.
    """
    links: dict[Link, list[Entry]] = {link: [] for link in flooded if link is not source}
    for entry in sorted(matching, key=_order):
        link = entry.link
        if not link.is_client:
            if link is not source:
                links[link] = []
        elif link not in leaving and (link is not source or entry.receive_own):
            links.setdefault(link, []).append(entry)
    return Targets(links)


def _order(entry: Entry) -> tuple[str, str]:
    return entry.link.name, entry.id


def _is_inside(link: Link, entries: list[Entry]) -> bool:
    if link.kind is LinkKind.SCOPE:
        return False
    for entry in entries:
        if entry.passage is None or not entry.passage.exact or entry.registration is None or entry.passage.ordered:
            return False
        if (entry.registration.duplicates or entry.passage.duplicates) is Duplicates.PER_PATH:
            return False
    return True
