"""A book: the filters that came in over links, and what each neighbour has been told of them.

A broker keeps two books per scope, one of subscriptions and one of advertisements. Both work alike: entries come
and go per link; for each neighbour a reduction decides what it is told; an announced filter is *pending* until the
neighbour says that everything behind it knows, then *settled*. An entry is settled once what stands for it is
settled at every neighbour but the one it came from. Make before break keeps it so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tidings.broker._links import Link
from tidings.model import Filter, Matches

from ._reduction import Delta, Reduction

if TYPE_CHECKING:
    from ._registration import Registration
    from ._visibility import Passage


class Entry:
    """One subscription or advertisement of one link in one scope. Compared by identity."""

    __slots__ = (
        "filter",
        "id",
        "link",
        "meta",
        "number",
        "passage",
        "public_id",
        "receive_own",
        "registration",
        "settled",
    )

    def __init__(
        self,
        link: Link,
        id: str,
        filter: Matches,
        *,
        public_id: str,
        receive_own: bool = True,
        meta: Mapping[str, str] | None = None,
        number: int = 0,
        registration: Registration | None = None,
        passage: Passage | None = None,
    ) -> None:
        self.link = link
        self.id = id
        self.number = number
        """With which the link announced it last."""
        self.filter = filter
        self.public_id = public_id
        """What the neighbours may call it; no other entry has ever been called so."""
        self.receive_own = receive_own
        self.meta = meta or {}
        self.settled = False
        self.registration = registration
        """What a client asked for, of which this is the part in one of its scopes; None: somebody else asks."""
        self.passage = passage
        """How the client is a member of the scope."""

    def __repr__(self) -> str:
        return f"Entry({self.link.name!r}, {self.id!r}, {str(self.filter)!r})"


class _Out:
    """What one neighbour has been told."""

    __slots__ = ("members", "pending", "reduction", "waiting")

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        self.members: dict[Entry, None] = {}
        self.pending: dict[str, int] = {}
        """What has not settled, and the number with which it was announced."""
        self.waiting: dict[str, dict[Entry, None]] = {}

    def add(self, entry: Entry) -> Delta:
        self.members[entry] = None
        return self.reduction.add(entry, entry.public_id, entry.filter)

    def remove(self, entry: Entry) -> Delta:
        del self.members[entry]
        return self.reduction.remove(entry)


class Book:
    """The entries of one scope, and what the neighbours know of them."""

    def __init__(
        self,
        scope: str,
        reduction: Callable[[], Reduction],
        relevant: Callable[[Entry, Link], bool],
        touched: dict[Book, None] | None = None,
        unconfirmed: dict[Book, None] | None = None,
        *,
        advertisement: bool = False,
    ) -> None:
        """`touched` gets this book whenever a turn may have settled something in it, `unconfirmed` whenever it has
        announced something; who reads that takes it out when everything has been confirmed."""
        self.scope = scope
        self.advertisement = advertisement
        """Whether its entries are advertisements."""
        self._reduction = reduction
        self._relevant = relevant
        self._touched = touched if touched is not None else {}
        self._unconfirmed = unconfirmed if unconfirmed is not None else {}
        self._entries: dict[tuple[Link, str], Entry] = {}
        self._of_link: dict[Link, dict[str, Entry]] = {}
        self._outs: dict[Link, _Out] = {}
        self._expected: list[Link] = []
        self._unsettled: dict[Entry, None] = {}
        self._dirty: dict[Entry, None] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, link: Link, id: str) -> Entry | None:
        """The entry that this link calls by this id."""
        return self._entries.get((link, id))

    def of(self, link: Link) -> list[Entry]:
        return list(self._of_link.get(link, {}).values())

    def count(self, link: Link) -> int:
        return len(self._of_link.get(link, ()))

    def told(self, link: Link) -> dict[str, Matches]:
        """What a neighbour has been told."""
        out = self._outs.get(link)
        return dict(out.reduction.announced) if out else {}

    def number(self, link: Link, id: str) -> int:
        """The number with which a neighbour is told this filter."""
        return self._outs[link].pending[id]

    def add(self, entry: Entry) -> dict[Link, Delta]:
        """Take in an entry; what the neighbours have to be told."""
        self._entries[entry.link, entry.id] = entry
        self._of_link.setdefault(entry.link, {})[entry.id] = entry
        self._unsettled[entry] = None
        self._touch((entry,))
        return _changes((link, self._admit(link, out, entry)) for link, out in self._others(entry.link))

    def remove(self, entry: Entry) -> dict[Link, Delta]:
        """Take out an entry; what the neighbours have to be told."""
        del self._entries[entry.link, entry.id]
        own = self._of_link[entry.link]
        del own[entry.id]
        if not own:
            del self._of_link[entry.link]
        self._unsettled.pop(entry, None)
        return _changes((link, out.remove(entry)) for link, out in self._others(entry.link) if entry in out.members)

    def adopt(self, entry: Entry, link: Link) -> None:
        """An entry of one client becomes another's. What neighbours know of it, and whether it has settled, stays."""
        del self._entries[entry.link, entry.id]
        own = self._of_link[entry.link]
        del own[entry.id]
        if not own:
            del self._of_link[entry.link]
        entry.link = link
        self._entries[link, entry.id] = entry
        self._of_link.setdefault(link, {})[entry.id] = entry

    def reconsider(self, link: Link, entries: Iterable[Entry] | None = None) -> dict[Link, Delta]:
        """Relevance for a neighbour has changed, of some entries or of all; what it has to be told."""
        out = self._outs.get(link)
        if out is None:
            return {}
        delta = Delta()
        for entry in self if entries is None else entries:
            if entry.link is link or self._relevant(entry, link) == (entry in out.members):
                continue
            delta.then(self._admit(link, out, entry) if entry not in out.members else out.remove(entry))
        return _changes([(link, delta)])

    # --- neighbours -----------------------------------------------------------------------------------

    def expect(self, links: Iterable[Link]) -> None:
        """A new tree with these neighbours: nobody has been told anything, nothing is settled."""
        self._expected = list(links)
        self._outs = {}
        for entry in self:
            entry.settled = False
            self._unsettled[entry] = None
        self._touch(self._unsettled)

    def expect_also(self, links: Iterable[Link]) -> None:
        """These are the neighbours from now on; what they know stays as it is."""
        self._expected = list(links)
        self._touch(self._unsettled)

    @property
    def opened(self) -> list[Link]:
        """The neighbours that are told things."""
        return list(self._outs)

    @property
    def pending(self) -> list[tuple[Link, str, int]]:
        """What has been announced and not confirmed: to whom, by which id, with which number."""
        return [(link, id, number) for link, out in self._outs.items() for id, number in out.pending.items()]

    def is_pending(self, link: Link, id: str, number: int) -> bool:
        """Whether just this announcement has neither been confirmed nor withdrawn."""
        out = self._outs.get(link)
        return out is not None and out.pending.get(id) == number

    def open(self, link: Link) -> dict[Link, Delta]:
        """A neighbour is ready to be told; what it has to be told."""
        self._outs[link] = out = _Out(self._reduction())
        self._touch(self._unsettled)
        delta = Delta()
        for entry in self:
            if entry.link is not link:
                delta.then(self._admit(link, out, entry))
        return _changes([(link, delta)])

    def close(self, link: Link) -> None:
        """A neighbour has forgotten everything it was told."""
        if self._outs.pop(link, None) is not None:
            self._touch(self._unsettled)

    # --- settling -------------------------------------------------------------------------------------

    def confirm(self, link: Link, id: str, number: int) -> list[Entry]:
        """A neighbour says that what it was told by this id and number has settled; the entries that settle by that.

        A filter may be announced, withdrawn and announced again before the first answer comes: that one does not count.
        """
        out = self._outs.get(link)
        if out is None or out.pending.get(id) != number:
            return []
        del out.pending[id]
        return self._review(out.waiting.pop(id, {}))

    def _touch(self, entries: Iterable[Entry]) -> None:
        """This turn may settle these."""
        self._dirty.update(dict.fromkeys(entries))
        self._touched[self] = None

    def still_settled(self, entry: Entry) -> bool:
        """Whether an entry that has settled waits for nothing again: an advertisement may have come meanwhile."""
        if entry.settled and self._waits(entry):
            entry.settled = False
            self._unsettled[entry] = None
        return entry.settled

    def review(self) -> list[Entry]:
        """The entries that this turn has settled; asked once, at its end."""
        dirty, self._dirty = self._dirty, {}
        return self._review(dirty)

    def _review(self, entries: Iterable[Entry]) -> list[Entry]:
        settled = []
        for entry in entries:
            if entry in self._unsettled and not self._waits(entry):
                del self._unsettled[entry]
                entry.settled = True
                settled.append(entry)
        return settled

    def _waits(self, entry: Entry) -> bool:
        waits = False
        for link in self._expected:
            if link is entry.link:
                continue
            out = self._outs.get(link)
            if out is None:
                waits = True
            elif entry in out.members:
                id = out.reduction.representative(entry)
                if id is not None and id in out.pending:
                    out.waiting.setdefault(id, {})[entry] = None
                    waits = True
        return waits

    def _others(self, link: Link) -> Iterator[tuple[Link, _Out]]:
        return ((other, out) for other, out in self._outs.items() if other is not link)

    def _admit(self, link: Link, out: _Out, entry: Entry) -> Delta:
        if isinstance(entry.filter, Filter) and not entry.filter.conjunctions:
            return Delta()  # it accepts nothing: nobody has to know
        return out.add(entry) if self._relevant(entry, link) else Delta()

    def tell(self, changes: Mapping[Link, Delta]) -> None:
        """These changes are being told to the neighbours: what is announced is pending, what is withdrawn is not.

        Told means sent: what cancels out within a turn is never told, and what was told before keeps its number.
        """
        for link, delta in changes.items():
            out = self._outs[link]
            if delta.announce:
                self._unconfirmed[self] = None
            for id in delta.announce:
                self._number += 1
                out.pending[id] = self._number
            for id in delta.withdraw:
                out.pending.pop(id, None)
                self._touch(out.waiting.pop(id, {}))


def _changes(changes: Iterable[tuple[Link, Delta]]) -> dict[Link, Delta]:
    return {link: delta for link, delta in changes if delta}
