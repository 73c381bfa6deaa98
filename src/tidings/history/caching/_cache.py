"""The event cache: what a broker remembers of the notifications that passed it.

Theory of operation
-------------------
There is one *entry* for each filter that somebody wants remembered. An entry has the newest notifications that passed
its filter, oldest first, up to `max_per_filter`. A notification is kept in one *cell*, however many entries refer to
it; the cell goes with the last reference. What no entry wants is not kept: a cache is not an archive.

    append     a notification passes: every entry that it matches gets a reference, and a full one gives up its oldest
    retain     somebody wants a filter remembered: one entry for all who want the same. A new one is filled with what
               the entries of covering filters hold, as far as it matches, in order of arrival
    release    one of those does not any more: the entry goes with the last

Which entries match is found by the index that routes notifications, so entries that do not match cost nothing.

*Suffix property*: of the notifications that matched since the entry began, an entry holds the newest, without a hole;
whatever is given up, the oldest goes first. Replies of several brokers can be merged because of it.
It is only as good as what comes, though: what a narrower filter lets through sits in an entry as if there were nothing
between. Whoever knows that less comes over a link from now on says so (`interrupted`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec

from tidings.broker import Link
from tidings.history._cache_limits import CacheLimits
from tidings.matching import Matcher, make_index
from tidings.model import EVERYTHING, ROOT_SCOPE, Filter, Identity, Matches, Route
from tidings.wire import Envelope, Quality, decode_body

from ._provider import Question

_DEFAULT_LIMITS = CacheLimits()


class Cell(msgspec.Struct, eq=False, gc=False):
    """A notification in the cache. Compared by identity.

    It has the parts of the envelope and not the envelope: that may have its notification decoded, which takes several
    times the room of the body, and another envelope would cost more than everything else here.
    """

    identity: Identity
    routes: tuple[Route, ...]
    body: bytes
    quality: Quality
    link: Link
    """Over which it came."""
    arrival: int
    """Later ones have larger numbers."""
    refs: int
    """How many entries hold it."""

    @property
    def envelope(self) -> Envelope:
        """What came."""
        return Envelope(self.identity, self.routes, self.body, self.quality)

    @property
    def size(self) -> int:
        """The bytes of its body."""
        return len(self.body)


class CacheEntry:
    """A filter, and the newest notifications that passed it. Compared by identity."""

    __slots__ = ("bytes", "cells", "filter", "length", "refs", "scope", "source")

    def __init__(self, filter: Filter, scope: str, length: int, source: Link | None = None) -> None:
        self.filter = filter
        self.scope = scope
        self.length = length
        """The most notifications."""
        self.source = source
        """Only what this client publishes; None: whatever passes."""
        self.refs = 1
        """How many want it; 0: it is not in the cache any more."""
        self.cells: deque[Cell] = deque()
        """Oldest first."""
        self.bytes = 0
        """Of the bodies of these."""

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        return f"CacheEntry({str(self.filter)!r}, {len(self.cells)} notifications)"

    @property
    def envelopes(self) -> list[Envelope]:
        """What it holds, oldest first."""
        return [cell.envelope for cell in self.cells]


class EventCache:
    """What one broker remembers.

    >>> from tidings.model import ROOT_ROUTE, Identity, Notification
    >>> from tidings.broker import LinkKind
    >>> from tidings.wire import encode_body
    >>> cache, berlin = EventCache(), Link("berlin", LinkKind.BROKER)
    >>> entry = cache.retain(Filter.parse("price > 100"))
    >>> for number, price in enumerate((182, 82, 183), start=1):
    ...     identity = Identity("berlin", 1, number, "feed", number, published_at=number)
    ...     _ = cache.append(Envelope(identity, (ROOT_ROUTE,), encode_body(Notification(price=price))), berlin)
    >>> [envelope.notification["price"] for envelope in cache.query(Question(filter=Filter.parse("price > 100")))]
    [182, 183]
    """

    def __init__(
        self,
        limits: CacheLimits = _DEFAULT_LIMITS,
        *,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`warn` is told, once in a row, that there is no room for another filter."""
        self._limits = limits
        self._max_bytes = limits.max_bytes
        self._warn = warn
        self._entries: dict[tuple[str, Filter], CacheEntry] = {}
        self._producers: dict[Link, list[CacheEntry]] = {}
        self._indexes: dict[str, Matcher[CacheEntry]] = {}
        self._arrivals = 0
        self._is_full = False
        self.cells = 0
        """Notifications in it."""
        self.bytes = 0
        """Of the bodies of these."""
        self.rejected = 0
        """How often there was no room for a filter."""

    # --- what passes ----------------------------------------------------------------------------------

    def append(self, envelope: Envelope, link: Link, scope: str = ROOT_SCOPE) -> int:
        """A notification passes the broker; how many entries keep it."""
        index = self._indexes.get(scope)
        entries = index.match(envelope.notification) if index is not None else []
        if self._producers and link in self._producers:
            entries = entries + self._published(envelope, link, scope)
        if not entries:
            return 0
        self._arrivals = arrival = self._arrivals + 1
        body = envelope.body
        size = more = len(body)
        cell = Cell(envelope.identity, envelope.routes, body, envelope.quality, link, arrival, len(entries))
        gone = 0
        for entry in entries:
            cells = entry.cells
            cells.append(cell)
            if len(cells) <= entry.length:
                entry.bytes += size
                continue
            oldest = cells.popleft()  # as `_let_go` does, at half the price
            left = len(oldest.body)
            entry.bytes += size - left
            if oldest.refs == 1:
                gone += 1
                more -= left
            oldest.refs -= 1
        if gone != 1:
            self.cells += 1 - gone
        self.bytes = held = self.bytes + more
        if held > self._max_bytes:
            self._shrink()
        return len(entries)

    def _published(self, envelope: Envelope, link: Link, scope: str) -> list[CacheEntry]:
        return [
            entry
            for entry in self._producers[link]
            if entry.scope == scope and entry.filter.matches(envelope.notification)
        ]

    def _drop_oldest(self, entry: CacheEntry) -> None:
        self._let_go(entry, entry.cells.popleft())

    def _let_go(self, entry: CacheEntry, cell: Cell) -> None:
        entry.bytes -= cell.size
        cell.refs -= 1
        if not cell.refs:
            self.cells -= 1
            self.bytes -= cell.size

    def _shrink(self) -> None:
        """Make room: whoever holds most gives up its oldest. One that is too large for the cache goes, too."""
        while self.bytes > self._max_bytes:
            self._drop_oldest(max(self.entries, key=lambda entry: entry.bytes))

    # --- what is wanted -------------------------------------------------------------------------------

    def retain(self, filter: Matches, scope: str = ROOT_SCOPE) -> CacheEntry | None:
        """Remember what passes a filter, until whoever asked for it releases the entry; None: it is not remembered.

        A filter without relations to others cannot be told from them, and is not remembered.
        """
        if not isinstance(filter, Filter):
            return None
        filter = filter.canonical()
        entry = self._entries.get((scope, filter))
        if entry is not None:
            entry.refs += 1
            return entry
        if not self._has_room(filter):
            return None
        entry = self._entries[scope, filter] = CacheEntry(filter, scope, self._limits.max_per_filter)
        self._seed(entry)
        self._index(scope).add(filter, entry)
        return entry

    def retain_producer(
        self, link: Link, length: int, filter: Filter = EVERYTHING, scope: str = ROOT_SCOPE
    ) -> CacheEntry | None:
        """Remember the last so many that a client publishes, whether or not anybody wants them; see `retain`."""
        if not self._has_room(filter):
            return None
        entry = CacheEntry(filter, scope, min(length, self._limits.max_per_filter), link)
        self._producers.setdefault(link, []).append(entry)
        return entry

    def release(self, entry: CacheEntry | None) -> None:
        """Whoever retained this entry does not want it any more."""
        if entry is None or not entry.refs:
            return  # it was not remembered, or has been dropped meanwhile
        entry.refs -= 1
        if not entry.refs:
            self._remove(entry)

    def _has_room(self, filter: Filter) -> bool:
        if len(self) < self._limits.max_filters:
            self._is_full = False
            return True
        self.rejected += 1
        if not self._is_full:
            self._is_full = True
            self._warn(
                f"the cache is full with {self._limits.max_filters:,} filters; '{filter}' is delivered but "
                "not remembered: raise max_filters, and max_global with it"
            )
        return False

    def _remove(self, entry: CacheEntry) -> None:
        entry.refs = 0
        self._empty(entry)
        if entry.source is not None:
            own = self._producers[entry.source]
            own.remove(entry)
            if not own:
                del self._producers[entry.source]
            return
        del self._entries[entry.scope, entry.filter]
        index = self._indexes[entry.scope]
        index.remove(entry)
        if not len(index):
            del self._indexes[entry.scope]

    def _empty(self, entry: CacheEntry) -> None:
        while entry.cells:
            self._drop_oldest(entry)

    def _seed(self, entry: CacheEntry) -> None:
        """Fill a new entry with what those of covering filters hold."""
        found: dict[Cell, None] = {}
        for other in self._covering(entry.filter, entry.scope):
            found.update(dict.fromkeys(cell for cell in other.cells if _passes(entry.filter, cell)))
        for cell in _in_order(found)[-entry.length :]:
            cell.refs += 1
            entry.cells.append(cell)
            entry.bytes += cell.size

    def _covering(self, filter: Filter, scope: str) -> Iterator[CacheEntry]:
        """The entries of filters that cover this one; all of them accept its witness."""
        index, witness = self._indexes.get(scope), filter.witness()
        if index is None:
            return iter(())
        if witness is None:
            candidates = [entry for entry in self._entries.values() if entry.scope == scope]
        else:
            candidates = index.match(witness)
        return (entry for entry in candidates if entry.filter.covers(filter))

    def _index(self, scope: str) -> Matcher[CacheEntry]:
        index = self._indexes.get(scope)
        if index is None:
            index = self._indexes[scope] = make_index()
        return index

    # --- what is asked --------------------------------------------------------------------------------

    def query(self, question: Question) -> list[Envelope]:
        """The newest notifications that are asked for, oldest first."""
        return [cell.envelope for cell in self.find(question)]

    def find(self, question: Question) -> list[Cell]:
        """As `query`, with the links over which they came."""
        found: list[Cell] = []
        if question.limit == 0:
            return found
        for cell in reversed(self._candidates(question.filter.canonical(), question.scope)):
            if cell.link is not question.exclude and question.wants(cell.envelope):
                found.append(cell)
                if question.is_satisfied(len(found)):
                    break
        found.reverse()
        return found

    def ask(self, question: Question, answer: Callable[[list[Envelope]], None]) -> None:
        """The cache as a `HistoryProvider`."""
        answer(self.query(question))

    def _candidates(self, filter: Filter, scope: str) -> deque[Cell] | list[Cell]:
        """What passes a filter, oldest first: of its own entry, or of covering ones, and of local publishers."""
        entry = self._entries.get((scope, filter))
        if entry is not None and not self._producers:
            return entry.cells
        found: dict[Cell, None] = {}
        if entry is not None:
            found.update(dict.fromkeys(entry.cells))
        else:
            for other in self._covering(filter, scope):
                found.update(dict.fromkeys(cell for cell in other.cells if _passes(filter, cell)))
        for own in chain.from_iterable(self._producers.values()):
            if own.scope == scope and own.filter.overlaps(filter):
                found.update(dict.fromkeys(cell for cell in own.cells if _passes(filter, cell)))
        return _in_order(found)

    def interrupted(self, link: Link, entry: CacheEntry | None = None) -> None:
        """Something may not have come over this link, for one entry or for all: what came before is forgotten."""
        for one in list(self.entries) if entry is None else [entry]:
            kept: deque[Cell] = deque()
            for cell in one.cells:
                if cell.link is link:
                    self._let_go(one, cell)
                else:
                    kept.append(cell)
            one.cells = kept

    # --- limits and figures ---------------------------------------------------------------------------

    @property
    def limits(self) -> CacheLimits:
        """What it may hold."""
        return self._limits

    def resize(self, limits: CacheLimits) -> None:
        """Change the limits at once: the youngest entries go, and the oldest notifications of each."""
        self._limits, self._max_bytes = limits, limits.max_bytes
        for entry in list(self.entries)[limits.max_filters :]:
            self._remove(entry)
        for entry in self.entries:
            entry.length = limits.max_per_filter if entry.source is None else min(entry.length, limits.max_per_filter)
            while len(entry.cells) > entry.length:
                self._drop_oldest(entry)
        self._shrink()

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._entries) + sum(map(len, self._producers.values()))

    @property
    def entries(self) -> Iterator[CacheEntry]:
        """All of them, those of publishers last."""
        return chain(self._entries.values(), chain.from_iterable(self._producers.values()))

    def entry(self, filter: Filter, scope: str = ROOT_SCOPE) -> CacheEntry | None:
        return self._entries.get((scope, filter.canonical()))


def _in_order(cells: Iterable[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: cell.arrival)


def _passes(filter: Filter, cell: Cell) -> bool:
    return filter.matches(decode_body(cell.body))
