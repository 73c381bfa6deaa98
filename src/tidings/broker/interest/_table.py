"""The routing table of one scope: who wants what, and who may publish what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tidings.broker._links import Link, LinkKind
from tidings.matching import Matcher, make_index
from tidings.model import Constraint, Filter, Matches, Notification, Value

from ._book import Book, Entry
from ._reduction import ALGORITHMS, Delta, RoutingOptions, Simple
from ._registration import Registration
from ._visibility import Passage


class Gate(Link):
    """The way from the table of a subscope to the table of its superscope, in the same broker."""

    __slots__ = ("designated", "passage")

    def __init__(self, passage: Passage, *, designated: bool) -> None:
        super().__init__(f"{passage.member} in {passage.scope}", LinkKind.SCOPE)
        self.passage = passage
        """As it is now."""
        self.designated = designated
        """Whether everything that crosses between the two scopes crosses here."""


class Tap(Link):
    """Somebody inside the broker who must know what is wanted before it has settled, as a neighbour does."""

    __slots__ = ("told", "withdrawn")

    def __init__(self, name: str, told: Callable[[str, Matches, int], None], withdrawn: Callable[[str], None]) -> None:
        super().__init__(name, LinkKind.SCOPE)
        self.told = told
        """Called with the id, the filter and the number of what is announced."""
        self.withdrawn = withdrawn
        """Called with the id of what is withdrawn."""


class Table:
    """Subscriptions and advertisements of one scope at one broker."""

    def __init__(
        self,
        scope: str,
        options: RoutingOptions,
        touched: dict[Book, None] | None = None,
        admits: Callable[[str, Passage], bool] = lambda neighbour, passage: False,
        leads: Callable[[str, str], bool] = lambda neighbour, scope: False,
        *,
        mingles: Callable[[str, str], bool] = lambda scope, above: True,
        unconfirmed: dict[Book, None] | None = None,
    ) -> None:
        """What the graph says: whether a neighbour lets into a subscope itself what passes there, whether it lies on
        the way to a gateway of a scope, and whether something crosses from a superscope not only at a gateway."""
        self.scope = scope
        self._advertised = options.advertisements
        self._admits = admits
        self._leads = leads
        self._mingles = mingles
        make = ALGORITHMS[options.algorithm]
        reduction = Simple if options.algorithm == "flooding" else (lambda: make(options))
        self.subscriptions = Book(scope, lambda: make(options), self._relevant, touched, unconfirmed)
        self.advertisements = Book(scope, reduction, _rises, touched, unconfirmed, advertisement=True)
        self._index: Matcher[Entry] = make_index()
        self.matching: Callable[[Notification], list[Entry]] = self._index.match
        """The subscriptions that a notification passes."""
        self.match_body = self._index.match_body
        """The same from its body, if the index can read that."""
        self.plane = self._index.plane
        """Takes whole publications, if the index can do that."""
        self.lookups = 0
        """How often somebody asked which subscriptions a notification passes."""
        self.copies = 0
        """Copies that were sent on from here, to neighbours and to clients."""
        self._evaluated = 0
        self._counted = 0
        self.gates: dict[str, Gate] = {}
        """To the tables of the superscopes, by scope."""
        self.supers: dict[str, Table] = {}
        """The tables of the superscopes."""
        self.taps: dict[Tap, None] = {}
        """Who else must know the subscriptions."""

    @property
    def books(self) -> tuple[Book, Book]:
        return self.subscriptions, self.advertisements

    @property
    def evaluated(self) -> int:
        """Filters that a broker without an index would have evaluated: at each lookup, all that were in the table."""
        return self._evaluated + (self.lookups - self._counted) * len(self.subscriptions)

    def _count(self) -> None:
        """The number of filters is about to change; counting here costs a lookup nothing."""
        self._evaluated, self._counted = self.evaluated, self.lookups

    def _relevant(self, entry: Entry, link: Link) -> bool:
        """Whether a producer behind the link may publish what this subscription wants."""
        if not link.is_broker:
            return True
        if isinstance(entry.link, Gate) and self._admits(link.name, entry.link.passage):
            return False  # it crosses there
        return not self._advertised or self.may_come(entry.filter, link)

    def may_come(self, filter: Matches, link: Link) -> bool:
        """Whether something advertised behind the link, here or in a superscope, may pass the filter.

        What comes from a gateway may be anything: its superscope may have no table here.
        """
        if self._leads(link.name, self.scope):
            return True
        if any(overlap(filter, advertisement.filter) for advertisement in self.advertisements.of(link)):
            return True
        return any(
            table.may_come(self.gates[scope].passage.wanted(filter), link)
            for scope, table in self.supers.items()
            if self._mingles(self.scope, scope)
        )

    def subscribe(self, entry: Entry) -> dict[Link, Delta]:
        """Take in a subscription."""
        self._count()
        self._index.add(entry.filter, entry)
        return self.subscriptions.add(entry)

    def unsubscribe(self, entry: Entry) -> dict[Link, Delta]:
        """Take out a subscription."""
        self._count()
        self._index.remove(entry)
        return self.subscriptions.remove(entry)

    def expect(self, links: list[Link]) -> None:
        """A new tree: forget every neighbour, keep the clients."""
        for book in self.books:
            book.expect([])
        speaking = dict.fromkeys(entry.link for entry in self.entries())  # in the same order in every run
        self.forget(link for link in speaking if not link.is_client)
        for book in self.books:
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


def _rises(entry: Entry, link: Link) -> bool:
    """Neighbours hear every advertisement. A superscope hears of what enters it here: what is published here, unless
    this is the gateway."""
    return not isinstance(link, Gate) or link.designated or not entry.link.is_broker


def overlap(one: Matches, two: Matches) -> bool:
    """Whether something may pass both; yes if the filters cannot tell."""
    return not (isinstance(one, Filter) and isinstance(two, Filter)) or one.overlaps(two)


def advertises(advertisements: Iterable[Registration], notification: Notification) -> bool:
    """Whether one of these advertisements announces the notification.

    One alternative of one advertisement must accept every element of every list: what is advertised is promised for
    each element, and routing asks for each alternative whether it overlaps a subscription (docs/filters.md).
    """
    return any(_announces(advertisement.filter, notification) for advertisement in advertisements)


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
