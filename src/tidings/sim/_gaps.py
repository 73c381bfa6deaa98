"""Gaps: each needs a fault that explains it, something that it can have lost, and is told once.

    origin gone                explains a gap without an end, whatever was published: nobody could be asked
    origin crash and restart   explains a gap in an epoch that has crashed, if something there was not to be stored
    memory exceeded            explains a gap in any epoch, if something there was not to be stored

A gap without an end stands for everything that follows until something of that origin is delivered again. Two gaps of
one subscription that share a number are one gap told twice, unless the first stands for one publication that a policy
kept back and that a mapping had changed: whoever tells of a crash later does not know of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidings.scopes import Join, SetPolicy, client_node

from ._choosing import compares
from ._details import Asked, Missing, Notified
from ._excuses import Excuse, Excuses
from ._faults import MEMORY_EXCEEDED, ORIGIN_GONE, Faults
from ._observer import Observer, Violation
from ._promises import Outcome, Promises
from ._trace import Op, Record

QUALITIES = ("delivery of fire", "delivery of accepted", "delivery of stored")


@dataclass(slots=True)
class _Told:
    """A gap that a subscription was told of."""

    origin: str
    epoch: int
    first: int
    last: int | None
    gone: bool
    """Whether it was told because the origin was gone."""

    def shares(self, other: _Told) -> bool:
        """Whether some number is in both."""
        return (
            (self.origin, self.epoch) == (other.origin, other.epoch)
            and (self.last is None or other.first <= self.last)
            and (other.last is None or self.first <= other.last)
        )


class GapJudge:
    """Follows a trace, and judges each gap."""

    def __init__(self, observer: Observer, faults: Faults, promises: Promises, excuses: Excuses) -> None:
        self._observer = observer
        self._faults = faults
        self._promises = promises
        self._excuses = excuses
        self._told: dict[tuple[str, str], list[_Told]] = {}
        """By client and subscription."""
        self._choosing: set[str] = set()
        """The scopes that choose one of several, or will when the change has been made that was asked for."""
        self._joined: set[tuple[str, str]] = set()
        """Who was ever to be a member of which scope."""

    def note(self, record: Record) -> Iterator[Violation]:
        """Take one record into account; judge it if it is a gap."""
        key = (record.component, record.subscription)
        if record.op is Op.GAP:
            yield from self._judge(record, self._told.setdefault(key, []))
        elif record.op is Op.CHANGE and isinstance(record.detail, Asked):
            for change in record.detail.changes:
                if isinstance(change, SetPolicy) and compares(change.policy):
                    self._choosing.add(change.node)
                elif isinstance(change, Join):
                    self._joined.add((change.member, change.scope))
        elif record.op is Op.UNSUB:
            self._told.pop(key, None)
        elif record.op is Op.NOTIFY:
            event = record.detail
            assert isinstance(event, Notified)
            for gap in self._told.get(key, ()):
                if (gap.origin, gap.epoch, gap.last) == (event.origin, event.epoch, None) and gap.first <= event.number:
                    gap.last = event.number - 1

    def _judge(self, record: Record, told: list[_Told]) -> Iterator[Violation]:
        assert isinstance(record.detail, Missing)
        origin, epoch, first, last = record.detail
        scopes = bool(self._observer.visibility.graphs)
        readers = self._observer.client(record.component).brokers
        faults = self._faults.bearing_on_origin(
            origin, record, self._faults.apart(origin, readers, record, scopes=scopes)
        )
        known = self._faults.reachability.is_known and not scopes
        gap = _Told(origin, epoch, first, last, gone=last is None and ORIGIN_GONE in faults)
        if self._has_changed and any((client_node(record.component), one) in self._joined for one in self._choosing):
            self._excuses.grant(Excuse.GAP_OF_A_CHOICE, [gap])
            return
        held = self._was_held(gap, record.component)
        if held:
            self._excuses.grant(Excuse.MAPPED_AND_DELAYED, [gap])
        elif reason := self._unexplained(gap, faults):
            yield Violation("gap", record, reason)
        elif (
            not known
            and gap.gone
            and not self._faults.is_dead(origin)
            and self._unexplained(replace(gap, gone=False), faults)
        ):
            self._excuses.grant(Excuse.TROUBLE_ELSEWHERE, [gap])
        shared = [known for known in told if gap.shares(known)]
        if any(not _reached_between(known, gap) for known in shared):
            yield Violation("gap", record, "some of it was told before")
        elif shared:
            self._excuses.grant(Excuse.GONE_AGAIN, [gap])
        if not held:
            told.append(gap)

    @property
    def _has_changed(self) -> bool:
        """Whether there was a fault, or somebody has gone elsewhere, or the graph has another version."""
        moved = any(one.interruptions for one in self._observer.clients.values())
        return self._faults.happened or moved or len(self._observer.visibility.graphs) > 1

    def _was_held(self, gap: _Told, client: str) -> bool:
        """Whether a gap stands for one publication that a policy kept back and that a mapping had changed."""
        visibility = self._observer.visibility
        if gap.first != gap.last or not visibility.longest_delay:
            return False
        key = (gap.origin, gap.epoch, gap.first)
        return any(
            visibility.mapped_and_held_back(one.judged, one.record, client)
            for one in self._observer.published.values()
            if one.key == key or (one.key is None and one.origin == gap.origin)
        )

    def _unexplained(self, gap: _Told, faults: set[str]) -> str:
        """Why no fault explains a gap; empty: one does."""
        if all(self._promises.outcome(quality, faults) is Outcome.DELIVERED for quality in QUALITIES):
            return f"no fault of this run excuses a gap: {', '.join(sorted(faults))}"
        if gap.gone:
            return ""
        if (gap.origin, gap.epoch) not in self._observer.forgetful:
            return f"everything that was published at '{gap.origin}' in epoch {gap.epoch} was to be stored"
        if self._observer.epochs.get(gap.origin) == gap.epoch and MEMORY_EXCEEDED not in faults:
            return f"epoch {gap.epoch} of '{gap.origin}' goes on, and all of it is in memory"
        return ""


def _reached_between(known: _Told, gap: _Told) -> bool:
    """Whether the origin was gone twice, and came back in between: a later gap begins where it was last heard of."""
    return known.gone and gap.gone and gap.first > known.first
