"""An entry that another client has adopted: the book knows it by the new link, and by nothing else."""

from __future__ import annotations

from tidings.broker import Book, Entry, Link, LinkKind, RoutingOptions
from tidings.broker.interest._reduction import ALGORITHMS
from tidings.model import Filter

OLD, NEW, NEIGHBOUR = (
    Link("old", LinkKind.CLIENT),
    Link("new", LinkKind.CLIENT),
    Link("neighbour", LinkKind.BROKER),
)


def test_a_book_forgets_the_link_that_an_entry_is_adopted_from_and_neighbours_hear_nothing() -> None:
    book = Book("", lambda: ALGORITHMS["covering"](RoutingOptions()), lambda entry, link: True)
    book.expect([NEIGHBOUR])
    book.open(NEIGHBOUR)
    entry, other = (
        Entry(OLD, id, Filter.parse(filter), public_id=id) for id, filter in (("s", "n > 1"), ("t", "m > 1"))
    )
    for one in (entry, other):
        book.tell(book.add(one))
    told = book.told(NEIGHBOUR)
    book.adopt(entry, NEW)
    assert book.of(OLD) == [other]
    assert book.of(NEW) == [entry]
    assert (book.get(OLD, "s"), book.get(NEW, "s"), entry.link) == (None, entry, NEW)
    assert (book.count(OLD), book.count(NEW), len(book)) == (1, 1, 2)
    assert book.told(NEIGHBOUR) == told
    book.adopt(other, NEW)
    assert book.count(OLD) == 0
    book.tell(book.remove(entry))
    assert list(book.told(NEIGHBOUR).values()) == [other.filter]
