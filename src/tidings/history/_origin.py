"""What one broker still has of its own publications: in memory, in its store, in its archive.

The search goes backwards, the newest first, in short steps: whoever shares a thread with the broker's loop lets it go
on in between. What is in memory is decided when the search begins; later publications are nobody's past.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from tidings.broker import Log
from tidings.model import EVERYTHING, Filter, Identity, Matches, Position
from tidings.wire import Envelope, body_test, decode_body

from ._messages import ARCHIVE, MEMORY, PAGE_BYTES, STORE, TIERS, Ask, Found
from ._newest import ENVELOPE_OVERHEAD

STEP = 1_000
"""Publications in memory that are looked at in one step."""


class PastStore(Protocol):
    """Where publications are kept: a store or an archive."""

    def query_in_steps(
        self, filter: Filter, *, since: int | None = None, newest_first: bool = False
    ) -> Iterator[list[Envelope]]:
        """What passes and was published then or later, in short steps."""
        ...


class Search:
    """One question on its way through the tiers of one broker."""

    def __init__(
        self,
        ask: Ask,
        reached: dict[str, Position],
        recent: list[Envelope],
        shown: Callable[[Identity], bool],
        now: int,
        *,
        open: bool = True,
    ) -> None:
        """`reached` is this broker and how far its publications went; `recent` is what it has in memory.

        `open`: everybody may see everything, because there are no scopes.
        """
        self._open = open
        self._ask = ask
        self._reached = reached
        self._recent = recent
        self._shown = shown
        self._now = now
        ((self._origin, here),) = reached.items()
        self._before = ask.before.get(self._origin, (here[0], here[1] + 1))
        self._found: list[Envelope] = []
        self._size = 0
        self._tiers: dict[str, int] = {}
        self._places = bytearray()
        self._full = False

    def steps(self, log: Log | None, archive: Callable[[], PastStore | None]) -> Iterator[Found | None]:
        """None while there is more to do, then what was found."""
        yield from self._look(MEMORY, self._in_memory())
        if log is not None and not self._full:
            yield from self._look(STORE, self._on_shelf(log))
        shelf = archive() if not self._full else None
        if shelf is not None:
            yield from self._look(ARCHIVE, self._on_shelf(shelf))
        places = bytes(self._places[::-1])
        unstored, forgotten = (0, 0) if self._found or shelf is not None else self._missing(log)
        yield Found(
            self._reached, self._found[::-1], self._tiers, self._full, self._ask.page, places, unstored, forgotten
        )

    def _missing(self, log: Log | None) -> tuple[int, int]:
        """Why there may be nothing here: whether there is no store, and before when something was forgotten.

        When a hidden publication was forgotten is nobody's business, so where there are scopes only the start of the
        broker is told.
        """
        if log is not None:
            return 0, log.forgotten() if self._open else 0
        ((epoch, _),) = self._reached.values()
        return 1, epoch

    def _look(self, tier: str, steps: Iterator[list[Envelope]]) -> Iterator[None]:
        for step in steps:
            for envelope in step:
                if self._full:
                    return
                if self._is_wanted(envelope.identity):
                    self._take(tier, envelope)
            yield None

    def _take(self, tier: str, envelope: Envelope) -> None:
        size = len(envelope.body) + ENVELOPE_OVERHEAD
        if self._found and self._size + size > PAGE_BYTES:
            self._full = True
            return
        self._found.append(envelope)
        self._size += size
        self._tiers[tier] = self._tiers.get(tier, 0) + 1
        self._places.append(TIERS.index(tier))
        identity = envelope.identity
        self._before = (identity.epoch, identity.seq)  # the next tier may hold this one, too
        self._full = len(self._found) >= self._ask.page

    def _is_wanted(self, identity: Identity) -> bool:
        if (identity.epoch, identity.seq) >= self._before or identity.publisher == self._ask.but:
            return False
        if self._ask.since is not None and identity.published_at < self._ask.since:
            return False
        if self._ask.respect_ttl and identity.ttl is not None and identity.published_at + identity.ttl < self._now:
            return False
        return self._shown(identity)

    def _in_memory(self) -> Iterator[list[Envelope]]:
        passes = _test(self._ask.filter)
        for end in range(len(self._recent), 0, -STEP):
            some = self._recent[max(0, end - STEP) : end]
            yield [envelope for envelope in reversed(some) if passes(envelope.body)]
        if self._recent:
            oldest = self._recent[0].identity
            self._before = min(self._before, (oldest.epoch, oldest.seq))

    def _on_shelf(self, shelf: PastStore) -> Iterator[list[Envelope]]:
        filter = self._ask.filter
        if isinstance(filter, Filter):
            yield from shelf.query_in_steps(filter, since=self._ask.since, newest_first=True)
            return
        passes = _test(filter)
        for step in shelf.query_in_steps(EVERYTHING, since=self._ask.since, newest_first=True):
            yield [envelope for envelope in step if passes(envelope.body)]


def _test(filter: Matches) -> Callable[[bytes], bool]:
    if isinstance(filter, Filter):
        return body_test(filter)
    return lambda body: filter.matches(decode_body(body))
