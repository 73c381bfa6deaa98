"""The replay family: six algorithms, each a step further than the one before.

Theory of operation
-------------------
The first five gather on the way, as merging caching does, and differ in whom they ask and in how they align what they
get with what they have. They are settings of it:

    basic      asks only where routing forwards the subscription: the first broker that has it answers
    largest    asks further; what is found there takes the place of what is here, if it is more
    merged     puts both together, aligned by count: right as long as there is one path
    junction   aligned by count for each origin: right where paths meet
    sequence   says what it has, so that only what is older is sent

In the last one, *full*, the border broker of the client does all the gathering. Every other broker answers for itself
with what it has, passes the request on with what is still missing, and relays what comes back. It says first how many
it has asked (`Expect`), so the border broker knows at any time how many answers are to come: those that it was told of,
less those that it has got. An answer of a broker further away is older, and goes in front.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidings.broker import Entry, Link, Timer
from tidings.history._combinations import Requirement
from tidings.history._strategy_options import Align, MergeOrder, ReplayVariant, StrategyOptions
from tidings.model import Filter
from tidings.wire import Ending, Envelope

from ._access import Access
from ._commitments import Commitments
from ._gathering import Item
from ._merging import MAX_REQUESTS, MergingCaching
from ._order import in_origin_order, position
from ._provider import Question
from ._requests import AnyRequestMessage, Expect, Release, Replay, Request, RequestId, fitting
from ._strategy import CachingStrategy, Changes

_LINKS_AND_CLOCKS = frozenset({Requirement.FILTER_IDENTITY, Requirement.FIFO_LINKS, Requirement.CLOCKS})


class BasicReplay(MergingCaching):
    """The nearest broker that has the filter answers."""

    kind = "replay"
    requirements = _LINKS_AND_CLOCKS
    asks_further = False

    @property
    def align(self) -> Align:
        """By count."""
        return Align.COUNT


class LargestReplay(BasicReplay):
    """The longest memory on the path answers."""

    asks_further = True
    takes_instead = True


class MergedReplay(BasicReplay):
    """What the brokers on one path have, put together."""

    asks_further = True


class JunctionReplay(MergedReplay):
    """What the brokers on all paths have, put together."""

    requirements = _LINKS_AND_CLOCKS | {Requirement.ORIGINS}

    @property
    def align(self) -> Align:
        """By count for each origin."""
        return Align.ORIGIN


class SequenceReplay(MergedReplay):
    """The same, and nothing is sent that whoever asks has."""

    requirements = _LINKS_AND_CLOCKS | {Requirement.ORIGINS, Requirement.SEQUENCE_NUMBERS}
    says_what_it_has = True

    @property
    def align(self) -> Align:
        """What was under way when it asked comes twice, so identities decide."""
        return Align.ID


@dataclass(slots=True)
class _Trail:
    """The way back of the replays of one request."""

    link: Link
    outstanding: int
    timer: Timer


class FullReplay(CachingStrategy):
    """The border broker gathers; everybody else answers for itself and relays."""

    kind = "replay"
    requirements = SequenceReplay.requirements

    def start(self) -> None:
        """See `CachingStrategy.start`."""
        super().start()
        self._accesses: dict[RequestId, Access] = {}
        self._outstanding: dict[RequestId, int] = {}
        """How many replays are to come, at the border broker of the client."""
        self._junctions: set[RequestId] = set()
        self._back: dict[RequestId, _Trail] = {}
        """At other brokers: where replays go."""
        self._commitments = Commitments(self)

    @property
    def outstanding(self) -> dict[RequestId, int]:
        """How many replays are to come for the clients of this broker."""
        return self._outstanding

    # --- at the border broker of the client -----------------------------------------------------------

    def opened(self, access: Access, changes: Changes) -> None:
        """A client asks."""
        question = Question(filter=access.filter, limit=access.limit, since=access.since)
        access.old = [Item(cell.envelope, cell.link) for cell in self.cache.find(question)]
        targets = self._further(access.limit - access.count, access.level, access.filter, None, changes)
        if not targets:
            access.finish(Ending.ANSWERED)
            return
        self._accesses[access.id] = access
        self._outstanding[access.id] = len(targets)
        if len(targets) > 1:
            self._junctions.add(access.id)
        access.asked = targets
        access.waiting = set(targets)
        request = Request(
            access.id,
            access.filter,
            access.limit - access.count,
            access.since,
            access.have,
            access.level + 1,
            access.time,
        )
        self.ask(targets, request, changes)

    def _further(self, missing: int, level: int, filter: Filter, source: Link | None, changes: Changes) -> list[Link]:
        depth = self.options.max_depth
        if missing <= 0 or (depth is not None and level >= depth):
            return []
        return self.targets(filter, source, changes)

    def _take(self, access: Access, replay: Replay, link: Link) -> None:
        fresh = access.unknown(Align.ID, replay.envelopes, link)
        access.old = self.joined([Item(envelope, link) for envelope in fresh], access.old)
        self._outstanding[access.id] -= 1
        if access.is_satisfied or not self._outstanding[access.id]:
            self._finish(access)

    def joined(self, found: list[Item], old: list[Item]) -> list[Item]:
        """What has come later is older."""
        return found + old

    def _finish(self, access: Access) -> None:
        if access.id in self._junctions and self.options.merge_order is MergeOrder.TIMESTAMP:
            by_time = sorted((item.envelope for item in access.old), key=lambda one: one.identity.published_at)
            access.old = [Item(envelope, None) for envelope in in_origin_order(by_time)]
        access.finish(Ending.SATISFIED if self._outstanding[access.id] else Ending.ANSWERED)

    def closed(self, access: Access) -> None:
        """Nobody counts for it any more."""
        self._accesses.pop(access.id, None)
        self._outstanding.pop(access.id, None)
        self._junctions.discard(access.id)

    # --- at every other broker ------------------------------------------------------------------------

    def asked(self, link: Link, request: Request, changes: Changes, entry: Entry | None) -> None:
        """A neighbour asks."""
        if not self.serves or request.id in self._back or len(self._back) >= MAX_REQUESTS or self._commitments.is_full:
            self.send(link, Replay(request.id, []))
            return
        assert isinstance(request.filter, Filter)
        self._commitments.commit(link, request, entry)
        limit = max(0, min(request.limit, self.options.max_answer))
        found = self.cache.query(
            Question(filter=request.filter, limit=limit, since=request.since, have=request.have, exclude=link)
        )
        have = dict(request.have)
        for envelope in reversed(found):
            have[envelope.identity.origin] = position(envelope)
        missing = limit - len(found)
        further = self._further(missing, request.level, request.filter, link, changes)
        self._commitments.asked(request.id, further)
        if further:
            waits = max(0, min(request.deadline, self.options.timer))
            drop = self.context.call_later(waits, lambda: self._end_trail(request.id))
            self._back[request.id] = _Trail(link, len(further), drop)
        self.reply(link, request.id, fitting(found), len(further))
        onward = Request(request.id, request.filter, missing, request.since, have, request.level + 1, request.deadline)
        self.ask(further, onward, changes)

    def reply(self, link: Link, id: RequestId, found: list[Envelope], further: int) -> None:
        """Say how many more answers to expect, before this one: else it may be taken for the last."""
        if further:
            self.send(link, Expect(id, further, further > 1))
        self.send(link, Replay(id, found))

    # --- everywhere -----------------------------------------------------------------------------------

    def heard(self, link: Link, message: AnyRequestMessage) -> None:
        """A neighbour has answered, or says that more will come, or does not need what was kept for it."""
        access = self._accesses.get(message.id)
        match message:
            case Release():
                self._commitments.release(link, message.id)
                self._end_trail(message.id)
            case Replay() if access is not None:
                self._take(access, message, link)
            case Expect() if access is not None:
                self._outstanding[message.id] += message.count
                if message.junction:
                    self._junctions.add(message.id)
            case Replay() | Expect() if message.id in self._back:
                self._relay(message)
            case _:
                self.late += 1

    def _relay(self, message: Replay | Expect) -> None:
        trail = self._back[message.id]
        trail.outstanding += message.count if isinstance(message, Expect) else -1
        if not trail.outstanding:
            self._end_trail(message.id)
        self.send(trail.link, message)

    def _end_trail(self, id: RequestId) -> None:
        if (trail := self._back.pop(id, None)) is not None:
            trail.timer.cancel()

    def interrupted(self, link: Link | None) -> None:
        """Who has forgotten what it asked gets nothing. How many answers are lost, nobody knows: time will tell."""
        for id in [id for id, trail in self._back.items() if link is None or trail.link is link]:
            self._end_trail(id)
        self._commitments.interrupted(link)


_VARIANTS: dict[ReplayVariant, type[CachingStrategy]] = {
    ReplayVariant.BASIC: BasicReplay,
    ReplayVariant.LARGEST: LargestReplay,
    ReplayVariant.MERGED: MergedReplay,
    ReplayVariant.JUNCTION: JunctionReplay,
    ReplayVariant.SEQUENCE: SequenceReplay,
    ReplayVariant.FULL: FullReplay,
}


def replay_strategy(options: StrategyOptions, *, warn: Callable[[str], None] = lambda text: None) -> CachingStrategy:
    """The variant that is asked for."""
    return _VARIANTS[options.replay_variant](options, warn=warn)
