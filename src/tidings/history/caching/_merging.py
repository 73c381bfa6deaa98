"""Merging caching: every broker that is asked gathers what it and all behind it remember, and answers once.

Theory of operation
-------------------
A broker that is asked, by a client or by a neighbour, looks into its cache. If that suffices, it answers. Otherwise it
asks its other neighbours, and gathers: what it has, what comes meanwhile, and what they answer, as far as it does not
have it. When all have answered, or its time is up, it answers with the newest of that. So one request visits each
broker once, and each answers once: two messages for each broker that is asked.

    request -> own cache -> enough?  -> answer
                   |
                   v no
               ask the others, wait -> all answered, or time is up -> answer

A neighbour to whom routing announces the subscription gets the request with it. To the others goes a message of its
own, which changes no routing table, but lets the neighbour remember the filter, until a `Release` follows.
"""

from __future__ import annotations

from tidings.broker import Entry, Link
from tidings.history._combinations import Requirement
from tidings.history._strategy_options import Align, passed_on, period
from tidings.model import Filter, Position
from tidings.wire import Ending, Envelope

from ._access import Access
from ._commitments import Commitments
from ._gathering import Gathering, Item
from ._provider import Question
from ._requests import AnyRequestMessage, Release, Replay, Request, RequestId, fitting
from ._strategy import CachingStrategy, Changes

MAX_REQUESTS = 10_000
"""The most requests that a broker answers at a time; more are answered with nothing."""


class MergingCaching(CachingStrategy):
    """The past that all brokers remember, put together on its way."""

    kind = "merging"
    requirements = frozenset(
        {Requirement.FILTER_IDENTITY, Requirement.ORIGINS, Requirement.SEQUENCE_NUMBERS, Requirement.FIFO_LINKS}
        | {Requirement.CLOCKS}
    )
    says_what_it_has = False
    """Whether a request says what is known already, so that it is not sent again."""
    takes_instead = False
    """Whether what others have found takes the place of what is here, instead of going in front of it."""

    @property
    def align(self) -> Align:
        """How it finds out what it knows already."""
        return self.options.align

    def start(self) -> None:
        super().start()
        self._gatherings: dict[RequestId, Gathering] = {}
        self._commitments = Commitments(self)

    # --- asking ---------------------------------------------------------------------------------------

    def opened(self, access: Access, changes: Changes) -> None:
        """A client of this broker asks."""
        access.asked = self._gather(access, {}, changes)

    def asked(self, link: Link, request: Request, changes: Changes, entry: Entry | None) -> None:
        busy = len(self._gatherings) >= MAX_REQUESTS or self._commitments.is_full
        if not self.serves or busy or request.id in self._gatherings:
            self.send(link, Replay(request.id, []))
            return
        assert isinstance(request.filter, Filter)
        limit = max(0, min(request.limit, self.options.max_answer))
        self._commitments.commit(link, request, entry)
        gathering = Gathering(
            request.id,
            request.filter,
            limit=limit,
            since=request.since,
            level=request.level,
            time=max(0, min(request.deadline, self.options.timer)),
            source=link,
        )
        self._commitments.asked(request.id, self._gather(gathering, request.have, changes))

    def _gather(self, gathering: Gathering, have: dict[str, Position], changes: Changes) -> list[Link]:
        """Begin with what is here, and ask others for the rest; whom it has asked."""
        asker = gathering.source
        question = Question(
            filter=gathering.filter, limit=gathering.limit, since=gathering.since, have=have, exclude=asker
        )
        gathering.old = [Item(cell.envelope, cell.link) for cell in self.cache.find(question)]
        targets: list[Link] = []
        depth = self.options.max_depth
        if not gathering.is_satisfied and (depth is None or gathering.level < depth):
            targets = self.targets(gathering.filter, asker, changes)
        if not targets:
            self._answer(gathering)
            return []
        self._gatherings[gathering.id] = gathering
        gathering.waiting = set(targets)
        waits = period(self.options.timer_scheme, self.options.timer, gathering.level, gathering.time)
        if asker is not None:
            gathering.timer = self.context.call_later(waits, lambda: self._answer(gathering))
        known = {**have, **gathering.have} if self.says_what_it_has else {}
        limit = gathering.limit - gathering.count if self.says_what_it_has else gathering.limit
        onward = Request(
            gathering.id,
            gathering.filter,
            limit,
            gathering.since,
            known,
            gathering.level + 1,
            passed_on(waits),
        )
        self.ask(targets, onward, changes)
        return targets

    # --- gathering ------------------------------------------------------------------------------------

    def passed(self, envelope: Envelope, source: Link) -> None:
        """What is new is part of the answer; to a client here it comes by its hold."""
        for gathering in self._gatherings.values():
            asker = gathering.source
            if asker is None or asker is source or len(gathering.new) >= gathering.limit:
                continue
            if gathering.filter.matches(envelope.notification):
                gathering.new.append(Item(envelope, source))

    def heard(self, link: Link, message: AnyRequestMessage) -> None:
        """A neighbour has answered, or does not need what was kept for it."""
        match message:
            case Replay():
                self._answered(link, message)
            case Release():
                self._let_go(link, message.id)
            case _:
                self.late += 1

    def _answered(self, link: Link, replay: Replay) -> None:
        gathering = self._gatherings.get(replay.id)
        if gathering is None or link not in gathering.waiting:
            self.late += 1
            return
        gathering.waiting.discard(link)
        if self.takes_instead and len(replay.envelopes) > len(gathering.old):
            gathering.old = []
        gathering.add(self.options.merge_order, gathering.unknown(self.align, replay.envelopes, link), link)
        if not gathering.waiting or (isinstance(gathering, Access) and gathering.is_satisfied):
            self._answer(gathering)

    def _answer(self, gathering: Gathering) -> None:
        if isinstance(gathering, Access):
            satisfied = gathering.is_satisfied and gathering.waiting
            gathering.finish(Ending.SATISFIED if satisfied else Ending.ANSWERED)
            return
        self._gatherings.pop(gathering.id, None)
        gathering.end()
        assert gathering.source is not None
        whole = gathering.chosen(self.align)
        self.send(gathering.source, Replay(gathering.id, fitting(whole[max(0, len(whole) - gathering.limit) :])))

    # --- the end --------------------------------------------------------------------------------------

    def closed(self, access: Access) -> None:
        """Nobody gathers for it any more."""
        self._gatherings.pop(access.id, None)

    def _let_go(self, link: Link, id: RequestId) -> None:
        if self._commitments.release(link, id) and (gathering := self._gatherings.pop(id, None)) is not None:
            gathering.end()

    def interrupted(self, link: Link | None) -> None:
        """Who has forgotten what it asked needs no answer, and who has forgotten that it was asked gives none."""
        for gathering in list(self._gatherings.values()):
            if link is None or gathering.source is link:
                del self._gatherings[gathering.id]
                gathering.waiting.clear()
                if gathering.source is not None:
                    gathering.end()
            elif link in gathering.waiting:
                gathering.waiting.discard(link)
                if not gathering.waiting:
                    self._answer(gathering)
        self._commitments.interrupted(link)
