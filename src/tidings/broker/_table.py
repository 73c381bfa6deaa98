"""The routing table of one scope: who wants what, and who may publish what."""

from __future__ import annotations

from collections.abc import Iterator

from tidings.matching import Matcher, make_index
from tidings.model import Filter, Notification, Value

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
    """Whether these advertisements announce the notification: each element of each list, one by one.

    What an advertisement promises holds for every element; that is what makes `overlaps` safe (docs/filters.md).
    """
    return all(any(entry.filter.matches(version) for entry in advertisements) for version in _one_by_one(notification))


def _one_by_one(notification: Notification) -> Iterator[Notification]:
    lists = [name for name, value in notification.attributes.items() if type(value) is tuple and value]
    if not lists:
        yield notification
        return
    # Constraints look at one attribute each, so varying one list at a time against a fixed choice of the others
    # would miss filters that join two lists; the product is exact. Its size is bounded by the caller.
    choices: list[dict[str, Value]] = [dict(notification.attributes)]
    for name in lists:
        items = notification.attributes[name]
        assert isinstance(items, tuple)
        choices = [{**choice, name: item} for choice in choices for item in items]
    for choice in choices:
        yield Notification.trusted(choice)
