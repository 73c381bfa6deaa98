"""Resuming: what clients missed that have come back is asked of all origins at once, by one wave behind their filters.

Theory of operation
-------------------
A client that has come back announces its filters, and says how far it has seen each origin. The question for what it
missed goes out on the same links right behind these filters. So when a broker is asked, the filter is in place there
and on the whole way back: whatever it publishes later will come by itself, and whatever it has published before is in
its answer. Nothing has to settle first, and there is no seam to ask for.

The answers are joined on their way back. Origins that have answered are paid; the others stay owed, and are asked one
by one when the subscription has settled, as after a new tree (see `_recovery`). So is what does not fit into an answer.

What this broker itself has published is handed over at once. One question is under way at a time. Whoever comes
meanwhile shares the next one.

Where there are scopes, or advertisements, a filter may reach an origin later than a question: there nothing is asked in
this way.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidings.broker._bounds import check_positions, check_readable
from tidings.model import Matches, TidingsError
from tidings.wire import Fetch, Fetched, pack, unpacker

from ._host import Host
from ._suspension import Suspension

KIND = "resume"
MAX_ASKED = 10_000
"""The most debts in one question; others are asked for one by one."""
MAX_ASKED_OF_ONE = 500
"""The most of them of one origin, which answers all of them in one turn."""
MAX_FILTERS = 262_144
"""The most characters of filters in a question."""
ANSWER = 200
"""The most envelopes in the answer of one origin for one debt."""
ANSWER_BYTES = 131_072
"""The bytes of bodies after which it is closed."""
JOINED_BYTES = 786_432
"""The bytes beyond which answers that are joined leave some out: with one more they fit into a part."""
DEADLINE = 10_000_000
"""Microseconds after which those that have not answered are asked one by one."""


class Debt(msgspec.Struct, frozen=True, array_like=True):
    """What is asked of one origin."""

    number: int
    filters: int
    """Which of the filters of the question."""
    epoch: int
    seq: int
    """How far whoever asks has seen it."""


class Question(msgspec.Struct, frozen=True, array_like=True):
    """What one broker asks all others."""

    requester: str
    filters: list[tuple[Matches, ...]]
    debts: dict[str, list[Debt]]
    """By origin."""


class Paid(msgspec.Struct, frozen=True, array_like=True):
    """What some origins answer."""

    answers: list[Fetched]


_read_question = unpacker(Question)
_read_paid = unpacker(Paid)


class Resuming:
    """The question that is under way for clients that have come back, and who waits for the next one."""

    def __init__(
        self,
        broker: Host,
        asks: Callable[[Suspension], int | None],
        heard: Callable[[Suspension, Fetched | None], None],
    ) -> None:
        """`asks` gives a debt that may be asked for its number; `heard` gets the answer, or None if there is none."""
        self._broker = broker
        self._asks = asks
        self._heard = heard
        self._next: dict[Suspension, None] = {}
        self._asked: dict[int, Suspension] = {}
        self._busy = False
        """Whether a question is under way, or about to be asked."""
        broker.waves.register(KIND, self)

    # --- asking ---------------------------------------------------------------------------------------

    def add(self, suspension: Suspension) -> None:
        """Ask for this debt as soon as the filters of this turn are under way."""
        if self._applies:
            self._next[suspension] = None
            self._ask_soon()

    @property
    def _applies(self) -> bool:
        return self._broker.scoping.flat and not self._broker.routing.advertisements

    def _ask_soon(self) -> None:
        if self._next and not self._busy:
            self._busy = True
            self._broker.call_later(0, self._ask)

    def _ask(self) -> None:
        waiting, self._next = self._next, {}
        if self._applies:
            question = self._question(waiting)
            own = question.debts.pop(self._broker.name, [])
            for debt in own:  # this broker need not wait for others
                self._heard(self._asked.pop(debt.number), self._paid(question, debt, len(own)))
            if question.debts:
                tree = self._broker.adjacency.tree.epoch
                self._broker.waves.start(KIND, pack(question), lambda body, _: self._answered(tree, body), DEADLINE)
                return
        self._busy = False

    def _question(self, waiting: dict[Suspension, None]) -> Question:
        question, size = Question(self._broker.name, [], {}), 0
        known: dict[tuple[Matches, ...], int] = {}
        for suspension in waiting:
            filters = suspension.filters
            more = sum(len(str(filter)) for filter in filters) if filters not in known else 0
            if len(self._asked) >= MAX_ASKED or size + more > MAX_FILTERS:
                break
            if len(question.debts.get(suspension.origin, ())) >= MAX_ASKED_OF_ONE:
                continue
            if (number := self._asks(suspension)) is None:
                continue
            size += more
            if filters not in known:
                known[filters] = len(known)
                question.filters.append(filters)
            self._asked[number] = suspension
            question.debts.setdefault(suspension.origin, []).append(Debt(number, known[filters], *suspension.since))
        return question

    def _answered(self, tree: int, body: bytes) -> None:
        """All have answered, or it has taken too long, or there is a new tree: then nothing counts."""
        asked, self._asked = self._asked, {}
        self._busy = False
        if self._broker.adjacency.tree.epoch == tree:
            for answer in self._readable(body):
                if (suspension := asked.pop(answer.number, None)) is not None:
                    self._heard(suspension, answer)
        for suspension in asked.values():
            self._heard(suspension, None)
        self._ask_soon()

    def _readable(self, body: bytes) -> list[Fetched]:
        """The answers, if somebody has given any that make sense."""
        try:
            answers = _read_paid(body).answers if body else []
            for answer in answers:
                check_positions(answer.upto.items())
                for envelope in answer.envelopes:
                    envelope.notification  # noqa: B018 - decoded here: later it would stop this broker
        except (TidingsError, msgspec.MsgspecError):
            self._broker.statistics.refused += 1
            return []
        return [answer for answer in answers if answer.last]

    # --- answering ------------------------------------------------------------------------------------

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Answer for this broker's own publications."""
        try:
            question = _read_question(body)
            debts = question.debts.get(self._broker.name, [])
            check_positions((debt.epoch, debt.seq) for debt in debts)
            if len(debts) > MAX_ASKED_OF_ONE:
                raise TidingsError(f"{len(debts):,} debts are asked of one origin; at most {MAX_ASKED_OF_ONE:,}")
            answers = [self._paid(question, debt, len(debts)) for debt in debts]
        except (TidingsError, msgspec.MsgspecError, IndexError, ValueError):
            self._broker.statistics.refused += 1
            answer(None)
            return
        answer(pack(Paid(answers)) if self._applies else None)

    def _paid(self, question: Question, debt: Debt, share: int) -> Fetched:
        filters = question.filters[debt.filters]
        for filter in filters:
            check_readable(filter)
        fetch = Fetch(self._broker.name, question.requester, debt.number, {debt.epoch: debt.seq}, filters)
        pieces = list(self._broker.publications.answer(fetch, most=ANSWER, most_bytes=ANSWER_BYTES, share=share))
        envelopes = tuple(envelope for piece in pieces for envelope in piece.envelopes)
        return msgspec.structs.replace(pieces[-1], envelopes=envelopes)

    def combine(self, answers: list[bytes]) -> bytes:
        """All of them, as far as they fit."""
        joined: list[Fetched] = []
        size = 0
        for one in (one for answer in answers for one in _read_paid(answer).answers):
            size += sum(len(envelope.body) for envelope in one.envelopes)
            if size > JOINED_BYTES:
                break
            joined.append(one)
        return pack(Paid(joined))
