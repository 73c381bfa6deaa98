"""Counting: how many clients of one broker subscribe to what a key stands for, in one scope.

Theory of operation
-------------------
A subscription *touches* a key if something may pass both (`overlaps`), or, if the key is a probe, if the probe would
reach it. What counts is what clients register: each client once per key, whatever the number of its subscriptions, and
of the ways by which they are seen in the scope (`_places`). Entries of neighbours and of subscopes are the same
subscriptions once more, and never count. Neither do clients that stand for somebody else, such as the copies of a
client that roams, nor, unless the key asks for them, clients that are away.

A key that begins to be watched looks at what is registered already, a few registrations in each turn; meanwhile
changes are counted as they happen. It is *ready* when it has seen all. From then on only changes cost anything, and
which keys a change may touch is found by index (`_keys`). When the ways into a scope are others, its keys begin anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from tidings.broker import SEAT, Entry, Link, Registration
from tidings.model import Filter, Matches, Notification

from ._keys import KeyIndex
from ._places import Way, Ways
from ._subject import Subject
from .definitions import Key, touches

LOOK_COST = 2_000
"""The cost of the filters that are looked at in one turn, for keys that begin to be watched."""


class Touching:
    """Who touches one key."""

    __slots__ = ("clients", "entries", "several")

    def __init__(self) -> None:
        self.clients: dict[Link, int] = {}
        """The clients that do, each with the number of its entries that do."""
        self.entries: dict[Entry, None] = {}
        """Their subscriptions that do, in every scope in which they do."""
        self.several = False
        """Whether some of these may be the same subscription in several scopes."""


class Tally:
    """What is counted for one key in one scope. Compared by identity."""

    __slots__ = ("key", "ready", "subject", "touching")

    def __init__(self, key: Key, subject: Subject) -> None:
        self.key = key
        self.subject = subject
        self.touching: Touching | None = None
        """None: nobody touches the key, as for most keys at most brokers."""
        self.ready = False
        """Whether everything that was registered before has been seen."""

    @property
    def clients(self) -> Mapping[Link, int]:
        """The clients that touch the key, each with the number of its entries that do."""
        return self.touching.clients if self.touching is not None else {}

    @property
    def entries(self) -> Mapping[Entry, None]:
        """The subscriptions that touch the key, in every scope in which they do."""
        return self.touching.entries if self.touching is not None else {}

    @property
    def scope(self) -> str:
        """In which it is counted."""
        return self.subject.scope

    @property
    def away(self) -> bool:
        """Whether clients count that are away."""
        return self.subject.away

    @property
    def registrations(self) -> int:
        """How many subscriptions touch the key, each once."""
        touching = self.touching
        if touching is None:
            return 0
        return len({entry.registration for entry in touching.entries} if touching.several else touching.entries)


class Counting:
    """The tallies of one broker."""

    def __init__(
        self,
        registered: Callable[[], Iterable[Registration]],
        is_current: Callable[[Registration], bool],
        later: Callable[[Callable[[], None]], object],
        ways: Callable[[str], Ways],
        counts: Callable[[Link, bool], bool],
        *,
        changed: Callable[[Tally], None],
        offered: bool = False,
    ) -> None:
        """`registered`: what clients subscribe to; `later`: calls something in a turn of its own; `ways`: those into a
        scope; `counts`: whether a client does, for a key that wants those that are away or not; `changed` hears of
        tallies that are ready, and of each change then; `offered`: these are advertisements."""
        self._registered = registered
        self._is_current = is_current
        self._later = later
        self._ways = ways
        self._counts = counts
        self._changed = changed
        self._offered = offered
        self._keys: dict[str, KeyIndex[Tally]] = {}
        """By scope."""
        self._into: dict[str, Ways] = {}
        """The ways into each scope that is watched."""
        self._above: dict[str, dict[str, tuple[Way, ...]]] = {}
        """From each scope, the ways into those that are watched."""
        self._touched: dict[Entry, dict[Tally, None]] = {}
        self._looking: dict[Tally, deque[Registration]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._keys.values())) + len(self._touched) + len(self._looking) + len(self._into)

    def watch(self, tally: Tally) -> None:
        """Begin to count for a key."""
        scope = tally.scope
        if scope not in self._keys:
            self._keys[scope] = KeyIndex()
            self._into[scope] = self._ways(scope)
            self._work_out()
        self._keys[scope].add(tally, _filter(tally))
        self._begin(tally)

    def unwatch(self, tally: Tally) -> None:
        """Count no longer."""
        self._looking.pop(tally, None)
        keys = self._keys[tally.scope]
        keys.remove(tally, _filter(tally))
        if not keys:
            del self._keys[tally.scope], self._into[tally.scope]
            self._work_out()
        self._let_go(tally)

    def regraph(self) -> None:
        """The tree or the scope graph is another one: count anew where other ways lead into a scope."""
        changed = {scope: ways for scope in self._keys if not _same(ways := self._ways(scope), self._into[scope])}
        if changed:
            self._into.update(changed)
            self._work_out()
            for tally in [tally for scope in changed for tally in self._keys[scope]]:
                self._let_go(tally)
                self._begin(tally)

    def _work_out(self) -> None:
        self._above = {}
        for scope, ways in self._into.items():
            for below, some in ways.items():
                self._above.setdefault(below, {})[scope] = some

    def _let_go(self, tally: Tally) -> None:
        """Forget who touches a key."""
        for entry in tally.entries:
            tallies = self._touched[entry]
            del tallies[tally]
            if not tallies:
                del self._touched[entry]
        tally.touching = None

    def _begin(self, tally: Tally) -> None:
        tally.ready = False
        self._looking[tally] = deque(self._registered())
        self._look(tally)

    def _look(self, tally: Tally) -> None:
        """Look at some of what was registered before."""
        waiting = self._looking.get(tally)
        if waiting is None:
            return
        ways = self._into[tally.scope]
        left = LOOK_COST
        while waiting and left > 0:
            registration = waiting.popleft()
            left -= registration.filter.cost if isinstance(registration.filter, Filter) else 1
            if self._is_current(registration):
                for scope, entry in registration.entries.items():
                    for way in ways.get(scope, ()):
                        self._touch(entry, tally, way, self._translated(entry, way))
        if waiting:
            self._later(lambda: self._look(tally))
            return
        del self._looking[tally]
        tally.ready = True
        self._changed(tally)

    # --- changes --------------------------------------------------------------------------------------

    def added(self, scope: str, entry: Entry) -> None:
        """A client has subscribed, or is back."""
        if entry.registration is None:
            return
        for watched, ways in self._above.get(scope, {}).items():
            for way in ways:
                wanted = self._translated(entry, way)
                for tally in self._keys[watched].near(wanted):
                    if self._touch(entry, tally, way, wanted) and tally.ready:
                        self._changed(tally)

    def removed(self, entry: Entry) -> None:
        """A subscription has ended."""
        for tally in self._touched.pop(entry, ()):
            self._remove(entry, tally)

    def again(self, entry: Entry) -> None:
        """Tell once more what is counted of a subscription: it is known now that nobody else counts it."""
        for tally in self._touched.get(entry, ()):
            if tally.ready:
                self._changed(tally)

    def left(self, entry: Entry) -> None:
        """The client of a subscription is away: it counts only where such clients do."""
        tallies = self._touched.get(entry, {})
        for tally in [tally for tally in tallies if not tally.away]:
            del tallies[tally]
            self._remove(entry, tally)
        if not tallies:
            self._touched.pop(entry, None)

    def _remove(self, entry: Entry, tally: Tally) -> None:
        touching = tally.touching
        assert touching is not None
        left = touching.clients[entry.link] - 1
        if left:
            touching.clients[entry.link] = left
        else:
            del touching.clients[entry.link]
        del touching.entries[entry]
        if not touching.entries:
            tally.touching = None
        if tally.ready:
            self._changed(tally)

    def _touch(self, entry: Entry, tally: Tally, way: Way, wanted: Matches) -> bool:
        """Count an entry that touches a key and was not counted; whether it was."""
        link = entry.link
        if entry in tally.entries or not self._counts(link, tally.away):
            return False
        key = tally.key
        if isinstance(key, Notification) and not self._offered:
            if not reaches(key, way, entry):
                return False
        elif not touches(key, wanted):
            return False
        touching = tally.touching
        if touching is None:
            touching = tally.touching = Touching()
        touching.clients[link] = touching.clients.get(link, 0) + 1
        touching.entries[entry] = None
        touching.several |= entry.registration is not None and len(entry.registration.entries) > 1
        self._touched.setdefault(entry, {})[tally] = None
        return True

    def _translated(self, entry: Entry, way: Way) -> Matches:
        """What an entry wants, or offers, in the terms of the scope at the end of a way."""
        filter = entry.filter
        for passage in way:
            filter = passage.offered(filter) if self._offered else passage.wanted(filter)
        return filter

    def clear(self) -> None:
        """Forget everything: nothing is watched any more."""
        self._keys.clear()
        self._into.clear()
        self._above.clear()
        self._touched.clear()
        self._looking.clear()


def _filter(tally: Tally) -> Filter | None:
    """By which a key is found; None: it is always looked at."""
    return tally.key if isinstance(tally.key, Filter) else None


def is_copy(link: Link) -> bool:
    """Whether a client stands for others, which are counted where they are themselves: for one, or for a scope."""
    return link.principal != link.name or link.name.startswith(SEAT)


def reaches(probe: Notification, way: Way, entry: Entry) -> bool:
    """Whether a notification in the scope at the end of a way would reach a subscription."""
    assert entry.registration is not None
    seen: Notification | None = probe
    for passage in (*reversed(way), entry.passage):
        if passage is not None and seen is not None:
            seen = passage.inward(seen)
    return seen is not None and entry.registration.filter.matches(seen)


def _same(one: Ways, other: Ways) -> bool:
    """Whether the same ways lead into a scope: whatever passes them has not changed."""
    return _steps(one) == _steps(other)


def _steps(ways: Ways) -> dict[str, list[list[tuple[str, str, int]]]]:
    return {
        scope: [[(passage.member, passage.scope, passage.since) for passage in way] for way in some]
        for scope, some in ways.items()
    }
