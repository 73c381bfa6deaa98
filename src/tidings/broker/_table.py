"""The routing table of one scope: who wants what, and who may publish what."""

from __future__ import annotations

from collections.abc import Iterator

from tidings.matching import Matcher, make_index
from tidings.model import Constraint, Filter, Matches, Notification, Value

from ._book import Book, Entry
from ._links import Link
from ._reduction import ALGORITHMS, Delta, RoutingOptions, Simple


class Table:
    """Subscriptions and advertisements of one scope at one broker."""

    def __init__(self, scope: str, options: RoutingOptions) -> None:
        self.scope = scope
        self._advertised = options.advertisements
        make = ALGORITHMS[options.algorithm]
        floods = options.algorithm == "flooding"
        self.subscriptions = Book(lambda: make(options), self._relevant)
        self.advertisements = Book(Simple if floods else (lambda: make(options)), lambda entry, link: True)
        self._index: Matcher[Entry] = make_index()

    def _relevant(self, entry: Entry, link: Link) -> bool:
        """Whether a producer behind the link may publish what this subscription wants."""
        if not self._advertised:
            return True
        return any(overlap(entry, advertisement) for advertisement in self.advertisements.of(link))

    def matching(self, notification: Notification) -> list[Entry]:
        """The subscriptions that the notification passes."""
        return self._index.match(notification)

    def subscribe(self, entry: Entry) -> dict[Link, Delta]:
        """Take in a subscription."""
        self._index.add(entry.filter, entry)
        return self.subscriptions.add(entry)

    def unsubscribe(self, entry: Entry) -> dict[Link, Delta]:
        """Take out a subscription."""
        self._index.remove(entry)
        return self.subscriptions.remove(entry)

    def expect(self, links: list[Link]) -> None:
        """A new tree: forget every neighbour, keep the clients."""
        for book in (self.subscriptions, self.advertisements):
            book.expect([])
        self.forget(link for link in {entry.link for entry in self.entries()} if link.is_broker)
        for book in (self.subscriptions, self.advertisements):
            book.expect(links)

    def forget(self, links: Iterator[Link]) -> None:
        """Drop everything that these links have said, without telling anybody: they are to be told anew."""
        for link in links:
            for entry in self.subscriptions.of(link):
                self.unsubscribe(entry)
            for entry in self.advertisements.of(link):
                self.advertisements.remove(entry)

    def entries(self) -> Iterator[Entry]:
        """All subscriptions and advertisements."""
        yield from self.subscriptions
        yield from self.advertisements


def overlap(subscription: Entry, advertisement: Entry) -> bool:
    """Whether something advertised may pass the subscription; yes if the filters cannot tell."""
    one, two = subscription.filter, advertisement.filter
    return not (isinstance(one, Filter) and isinstance(two, Filter)) or one.overlaps(two)


def advertises(advertisements: list[Entry], notification: Notification) -> bool:
    """Whether one of these advertisements announces the notification.

    One alternative of one advertisement must accept every element of every list: what is advertised is promised for
    each element, and routing asks for each alternative whether it overlaps a subscription (docs/filters.md).
    """
    return any(_announces(entry.filter, notification) for entry in advertisements)


def _announces(filter: Matches, notification: Notification) -> bool:
    if not isinstance(filter, Filter):
        return filter.matches(notification)  # it overlaps everything
    attributes = notification.attributes
    return any(
        all(_each_passes(constraint, attributes.get(constraint.name)) for constraint in conjunction)
        for conjunction in filter.conjunctions
    )


def _each_passes(constraint: Constraint, value: Value | None) -> bool:
    if type(value) is tuple and value:
        return all(constraint.passes(item) for item in value)
    return constraint.passes(value)
