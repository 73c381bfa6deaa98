"""`release` and `acknowledged`: members get it when another notification says so, or never.

    release(commit="type = 'commit'", abort="type = 'abort'", by="transaction")
    release(commit="type = 'approved'", by="order", filter="type = 'order'")        others at once
    acknowledged(by="order", acknowledgement="type = 'seen'", count=2, filter="type = 'order'")

What is held waits at the deciding point of the scope for a *verdict*: a notification there that passes `commit` or
`abort` and has the same value of the attribute `by`. After a commit, members get it; after an abort, nobody does.
Verdicts themselves are not held.

`acknowledged` waits until so many clients, the publisher not among them, have published an acknowledgement with the
same value.

A verdict counts for what is held when it comes, and for what was published before it and comes later. Verdicts are
remembered, and handed over to the next deciding point; what is held is asked for again there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from tidings.model import Identity, Notification, ScopeError

from ._policy import Policy, PolicyContext, Wait, filter_in, number, only, text

MAX_VALUES = 10_000
"""Of how many values of the attribute verdicts are remembered, the last ones."""
MAX_VERDICTS = 100
"""The most verdicts for one value that are remembered, the last ones."""
MAX_REMEMBERED = 2_000
"""Of how many values the next deciding point is told."""
MAX_WAITING = 10_000
"""Of how much of what waits it is known which verdicts came before, the last ones."""
MAX_COUNT = 100
"""The most acknowledgements that may be asked for."""


class Verdict(NamedTuple):
    """What a notification said about others."""

    at: int
    """When it was published, in microseconds since 1970 UTC."""
    who: str
    """Its publisher, as a node of the graph."""
    commits: bool


class _Heard(NamedTuple):
    number: int
    """Of all verdicts that have come here; 0: another point has heard it."""
    verdict: Verdict


class _Waiting(Policy):
    """All candidates, after a verdict."""

    def _begin(self, context: PolicyContext) -> None:
        self._by = text(context, "by")
        self._filter = filter_in(context, "filter")
        text(context, "point", "")
        self._number = 0
        self._heard: OrderedDict[str, list[_Heard]] = OrderedDict()
        """By value, the one that something was said about last at the end."""
        self._since: OrderedDict[tuple[Identity, Notification], int] = OrderedDict()
        """What waits, form by form, and how many verdicts had come before it."""

    def _verdict(self, notification: Notification) -> bool | None:
        """Whether this commits or aborts something; None: neither."""
        raise NotImplementedError

    def _decided(self, verdicts: list[Verdict], publisher: str) -> bool | None:
        """What these verdicts say about what somebody has published; None: nothing yet."""
        raise NotImplementedError

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        value = repr(notification.get(self._by))
        if (commits := self._verdict(notification)) is not None:
            self._number += 1
            self._note(value, _Heard(self._number, Verdict(context.published_at, context.publisher, commits)))
            context.wake()
            return eligible
        if self._filter is not None and not self._filter.matches(notification):
            return eligible
        identity = context.identity
        assert identity is not None
        this = (identity, notification)
        # A verdict that comes while this waits counts, whatever the clocks of the two brokers say.
        since = self._since.get(this, 0 if context.waited else self._number)
        heard = self._heard.get(value, ())
        verdicts = [one.verdict for one in heard if one.number > since or one.verdict.at >= identity.published_at]
        decided = self._decided(verdicts, context.publisher)
        if decided is None:
            self._since[this] = since
            if len(self._since) > MAX_WAITING:
                self._since.popitem(last=False)
            raise Wait
        self._since.pop(this, None)
        return eligible if decided else ()

    def _note(self, value: str, heard: _Heard) -> None:
        known = self._heard.setdefault(value, [])
        self._heard.move_to_end(value)
        for at, one in enumerate(known):
            if one.verdict == heard.verdict:  # another one of the same instant counts for what waits since the first
                known[at] = max(one, heard)
                break
        else:
            known.append(heard)
        del known[:-MAX_VERDICTS]
        if len(self._heard) > MAX_VALUES:
            self._heard.popitem(last=False)

    def remember(self) -> bytes:
        last = list(self._heard.items())[-MAX_REMEMBERED:]
        return msgspec.msgpack.encode({value: [one.verdict for one in heard] for value, heard in last})

    def recall(self, state: bytes) -> None:
        for value, verdicts in msgspec.msgpack.decode(state, type=dict[str, list[Verdict]]).items():
            for verdict in verdicts:
                self._note(value, _Heard(0, verdict))


class Release(_Waiting):
    """All candidates after a commit, none after an abort."""

    def init(self, context: PolicyContext) -> None:
        only(context, "commit", "abort", "by", "filter", "point")
        self._commit, self._abort = filter_in(context, "commit"), filter_in(context, "abort")
        if self._commit is None:
            raise ScopeError("commit is not given; say by a filter which notifications let others go")
        self._begin(context)

    def _verdict(self, notification: Notification) -> bool | None:
        assert self._commit is not None
        if self._abort is not None and self._abort.matches(notification):
            return False
        return True if self._commit.matches(notification) else None

    def _decided(self, verdicts: list[Verdict], publisher: str) -> bool | None:
        return verdicts[0].commits if verdicts else None


class Acknowledged(_Waiting):
    """All candidates, once enough others have acknowledged it."""

    def init(self, context: PolicyContext) -> None:
        only(context, "acknowledgement", "count", "by", "filter", "point")
        self._acknowledgement = filter_in(context, "acknowledgement")
        if self._acknowledgement is None:
            raise ScopeError("acknowledgement is not given; say by a filter which notifications acknowledge others")
        count = 1 if "count" not in context.parameters else number(context, "count", least=1, most=MAX_COUNT)
        if count != int(count):
            raise ScopeError(f"count is {count!r:.60}; give a whole number")
        self._count = int(count)
        self._begin(context)

    def _verdict(self, notification: Notification) -> bool | None:
        assert self._acknowledgement is not None
        return True if self._acknowledgement.matches(notification) else None

    def _decided(self, verdicts: list[Verdict], publisher: str) -> bool | None:
        others = {one.who for one in verdicts if one.who != publisher}
        return True if len(others) >= self._count else None
