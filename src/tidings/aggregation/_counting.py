"""Counting: how many clients of one broker subscribe to what a key stands for.

Theory of operation
-------------------
A subscription *touches* a key if something may pass both (`overlaps`), or, if the key is a probe, if the probe passes.
What counts is what clients register: each client once per key, whatever the number of its subscriptions. Entries of
neighbours and of subscopes are the same subscriptions once more, and never count; neither do clients that stand for
somebody else, such as the copies of a client that roams.

A key that begins to be watched looks at what is registered already, a few registrations in each turn; meanwhile
changes are counted as they happen. It is *ready* when it has seen all. From then on only changes cost anything, and
which keys a change may touch is found by index (`_keys`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from tidings.broker import Entry, Link, Registration
from tidings.model import Effort, Filter, Matches, Notification

from ._keys import KeyIndex

PAIR_STEPS = 2_000
"""How many steps the comparison of a key with one subscription may take (about 1 ms); then it counts as touching."""
LOOK_COST = 2_000
"""The cost of the filters that are looked at in one turn, for keys that begin to be watched."""


class Key:
    """What is counted: a filter, or a probe."""

    __slots__ = ("filter", "probe")

    def __init__(self, filter: Filter | None, probe: Notification | None = None) -> None:
        self.filter = filter
        self.probe = probe

    def touches(self, wanted: Matches) -> bool:
        """Whether somebody who subscribes to this could hear of it."""
        if self.probe is not None:
            return wanted.matches(self.probe)
        if self.filter is None or not isinstance(wanted, Filter):
            return True
        with Effort(PAIR_STEPS, apart=True):  # nobody's haste may show in a count
            return self.filter.overlaps(wanted)


class Tally:
    """Who touches one key in one scope. Compared by identity."""

    __slots__ = ("changed", "clients", "entries", "key", "ready", "scope")

    def __init__(self, key: Key, scope: str, changed: Callable[[Tally], None]) -> None:
        self.key = key
        self.scope = scope
        self.changed = changed
        self.clients: dict[Link, int] = {}
        """The clients that do, each with the number of its subscriptions that do."""
        self.entries: dict[Entry, None] = {}
        """Their subscriptions that do."""
        self.ready = False
        """Whether everything that was registered before has been seen."""


class Counting:
    """The tallies of one broker."""

    def __init__(
        self,
        registered: Callable[[], Iterable[Registration]],
        is_current: Callable[[Registration], bool],
        later: Callable[[Callable[[], None]], object],
    ) -> None:
        """`registered`: what clients subscribe to; `later`: calls something in a turn of its own."""
        self._registered = registered
        self._is_current = is_current
        self._later = later
        self._keys: dict[str, KeyIndex[Tally]] = {}
        """By scope."""
        self._touched: dict[Entry, dict[Tally, None]] = {}
        self._looking: dict[Tally, deque[Registration]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._keys.values())) + len(self._touched) + len(self._looking)

    def watch(self, tally: Tally) -> None:
        """Begin to count for a key."""
        self._keys.setdefault(tally.scope, KeyIndex()).add(tally, tally.key.filter)
        self._looking[tally] = deque(self._registered())
        self._look(tally)

    def unwatch(self, tally: Tally) -> None:
        """Count no longer."""
        self._looking.pop(tally, None)
        keys = self._keys[tally.scope]
        keys.remove(tally)
        if not keys:
            del self._keys[tally.scope]
        for entry in tally.entries:
            tallies = self._touched[entry]
            del tallies[tally]
            if not tallies:
                del self._touched[entry]

    def _look(self, tally: Tally) -> None:
        """Look at some of what was registered before."""
        waiting = self._looking.get(tally)
        if waiting is None:
            return
        left = LOOK_COST
        while waiting and left > 0:
            registration = waiting.popleft()
            left -= registration.filter.cost if isinstance(registration.filter, Filter) else 1
            entry = registration.entries.get(tally.scope)
            if entry is not None and self._is_current(registration) and entry not in tally.entries:
                self._touch(entry, tally)
        if waiting:
            self._later(lambda: self._look(tally))
            return
        del self._looking[tally]
        tally.ready = True
        tally.changed(tally)

    # --- changes --------------------------------------------------------------------------------------

    def added(self, scope: str, entry: Entry) -> None:
        """A client has subscribed."""
        if entry.registration is None or (keys := self._keys.get(scope)) is None:
            return
        for tally in keys.near(entry.filter):
            if self._touch(entry, tally) and tally.ready:
                tally.changed(tally)

    def removed(self, entry: Entry) -> None:
        """A subscription has ended."""
        for tally in self._touched.pop(entry, ()):
            left = tally.clients[entry.link] - 1
            if left:
                tally.clients[entry.link] = left
            else:
                del tally.clients[entry.link]
            del tally.entries[entry]
            if tally.ready:
                tally.changed(tally)

    def _touch(self, entry: Entry, tally: Tally) -> bool:
        link = entry.link
        if is_copy(link) or not tally.key.touches(entry.filter):
            return False
        tally.clients[link] = tally.clients.get(link, 0) + 1
        tally.entries[entry] = None
        self._touched.setdefault(entry, {})[tally] = None
        return True

    def clear(self) -> None:
        """Forget everything: nothing is watched any more."""
        self._keys.clear()
        self._touched.clear()
        self._looking.clear()


def is_copy(link: Link) -> bool:
    """Whether a client stands for another one, which is counted where it is itself."""
    return link.principal != link.name
