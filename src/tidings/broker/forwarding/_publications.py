"""The publications of this broker's own clients: numbered, kept in memory for a while, on disk if asked.

Every publication gets the next number of this broker's epoch. The latest are kept in memory for brokers that missed
them; those of quality `stored` are on disk. A broker that asks for what follows a number gets what is held and is told
what is not.

Of an earlier epoch only the disk knows. If it ended in order, its last number is known. If the broker crashed, and had
given numbers only to what was stored, the epoch ended with the last number on disk: what came after it was never
acknowledged, and its client hands it over again. When a number is to be given to something that is not stored, the
epoch is *opened*: the log notes that, and only when the note is synced does the first such publication leave or get
its acknowledgement. If an open epoch crashes, nobody knows how many publications it had: its tail is reported as
lost, without an end. The note has its place however much waits for the disk. A disk that fails to write it does not
stop the traffic: until it can, a crash may lose what was not stored without a report. A broker without a disk knows
nothing of earlier epochs, except that they were empty if clients cannot publish there.

A client that did not hear of its publication's fate sends it again, with the same number of its own. The latest
numbers of each publisher are remembered, from disk after a restart, so that it is published once. A number that is
missing on disk below the latest was refused, or is lost: it is new when it comes again. What was refused
uses up no number, and stays refused: as many refusals as there is room for are remembered, and whoever causes more than
its share of them pushes out its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from tidings.broker._causes import request_tag
from tidings.broker._links import Link
from tidings.broker._runtime import Log
from tidings.model import ROOT_ROUTE, Filter, Identity, Notification, Route, StoreError, StoreFull, TidingsError
from tidings.wire import MAX_RUN, Envelope, Fetch, Fetched, Publish, Quality, Refused, Run

from ._numbers import MEMORY_PUBLICATIONS, Numbers

MAX_REFUSALS = 10_000
"""How many of its latest refusals a broker remembers, for publishers that ask again."""
REFUSALS_SHARE = 100
"""A publisher with more of these than this makes room for itself; with fewer, the one that was refused first does."""
FETCH_PIECE = 500
"""The most envelopes in one piece of an answer."""
FETCH_PIECE_BYTES = 1_048_576
"""The bytes of bodies after which a piece is closed."""
FETCH_ANSWER = 2_000
"""The most envelopes in one answer; the rest must be asked for."""
FETCH_ANSWER_BYTES = 4_194_304
"""The bytes of bodies after which an answer is closed."""
FETCH_SCAN = 20_000
"""The most publications that one answer looks at, whether or not they are wanted."""
FETCH_COMPARISONS = 100_000
"""The most comparisons that one answer makes: filters may be large, and an answer is one turn."""
FETCH_LEAST = 20
"""The publications that one answer looks at in any case, so that it gets on."""
FETCH_LOST = 1_000
"""The most lost ranges in one answer."""
MAX_EPOCHS = 1_000
"""The most epochs that one answer looks at; older ones are reported as lost."""

_STORED, _DEFAULT = Quality.STORED, Quality.DEFAULT  # as names of their own they are found faster
_ROOT_ONLY = (ROOT_ROUTE,)
_ASK = 255
_WITHOUT_STORE = bytes([Quality.FIRE, Quality.ACCEPTED, _ASK, Quality.ACCEPTED])
_QUALITIES = {
    (is_open, takes): bytes([*([0, 1] if is_open else [_ASK] * 2), *([2, 2] if takes else [_ASK] * 2)])
    for is_open in (False, True)
    for takes in (False, True)
}
"""By whether numbers may be given to what is not on disk, and whether there is room for more on disk."""


class Publications:
    """What entered the network here, in the order of its numbers."""

    def __init__(
        self,
        epoch: int,
        log: Log | None,
        limit: int = MEMORY_PUBLICATIONS,
        *,
        name: str = "",
        publishes: bool = True,
    ) -> None:
        """`name`: the broker's; `publishes`: whether clients can publish here at all."""
        self._name = name
        self.epoch = epoch
        self._publishes = publishes
        self._log = log
        self._unsynced: dict[tuple[str, int], bool] = {}
        """What is on its way to the disk, and whether its publisher insists on that."""
        self._unsynced_runs: dict[int, tuple[Run, bool]] = {}
        """The same of runs, by the number of their first publication."""
        self._has_heard = self._heard  # one object, by which the log knows what belongs together
        self.stored: Callable[[Sequence[Envelope | Run]], None] = lambda kept: None
        """Called with what is on disk."""
        self.failed: Callable[[Sequence[tuple[Envelope, bool]], Exception], None] = lambda lost, error: None
        """Called with what the disk has refused, whether its publisher insists on it, and with what went wrong."""
        self.numbers = Numbers(log.publishers() if log is not None else {}, limit)
        self.choose: Callable[[str, int, int], Quality] = lambda publisher, seq, number: Quality.ACCEPTED
        """The quality of a publication that asks for none and gets this number."""
        self.open = log is None
        """Whether numbers may be given to what is not on disk."""
        self._noting = False
        """Whether the note is on its way to the disk."""
        self.unnoted = False
        """Whether numbers are given to what is not on disk, and the log could not note it."""
        self._refusals: dict[str, dict[int, Refused]] = {}
        self.refused = 0
        """How many refusals are remembered."""

    def check_room(self) -> None:
        """Raise `TidingsError` unless another publication can be stored."""
        if self._log is None:
            raise StoreError("this broker has no store; publish with quality ACCEPTED, or give it a data directory")
        if self._log.full:
            raise StoreFull("the store of this broker cannot take more for now; publish again later")

    def is_known(self, publisher: str, seq: int) -> bool:
        """Whether the publisher has used this number of its own, or it was refused."""
        return self.numbers.is_used(publisher, seq) or (self.refused > 0 and self.refusal(publisher, seq) is not None)

    def enter(
        self, link: Link, message: Publish, version: int, now: int, notification: Notification | None = None
    ) -> Envelope:
        """Give a publication its number and its identity, and keep it: in memory, and on disk if it is to be there.

        It is judged by this version of the graph. Give the notification if somebody may look into the envelope; those
        that are kept are better kept as bytes.
        """
        numbers, publisher, seq, quality = self.numbers, link.principal, message.seq, message.quality
        if publisher == numbers.newest and seq > numbers.publishers[publisher]:
            numbers.publishers[publisher] = seq
        else:
            numbers.use(publisher, seq, link.owner)
        numbers.last = number = numbers.last + 1
        if quality is _DEFAULT:
            quality = self.choose(publisher, seq, number)
        identity = Identity(self._name, self.epoch, number, publisher, seq, now, version, message.ttl)
        routes = _ROOT_ONLY
        if message.cause or message.opens is not None:
            request = () if message.opens is None else (request_tag(self._name, message.opens.id),)
            routes = (Route(tags=(*message.cause, *request)),)
        envelope = Envelope(identity, routes, message.body, quality)
        if notification is not None:
            envelope.__dict__["notification"] = notification
        if quality is _STORED:
            self.store(envelope, insists=message.quality is _STORED)
        numbers.remember(envelope)
        return envelope

    def qualities(self, size: int) -> bytes:
        """What each quality that can be asked for becomes in a run of so many bytes; 255: ask for each publication."""
        if self._log is None:
            return _WITHOUT_STORE
        return _QUALITIES[self.open, self._log.has_room(MAX_RUN, size)]

    def enter_run(self, link: Link, run: Run, asked: Quality) -> None:
        """As `enter`, for many that have their identities already. `TidingsError` if they cannot be stored."""
        if run.quality is _STORED:
            assert self._log is not None, "there is no such quality without one"
            self._unsynced_runs[run.first.seq] = (run, asked is _STORED)
            try:
                self._log.keep(run, self._has_heard)
            except TidingsError:
                del self._unsynced_runs[run.first.seq]
                raise
        self.numbers.use_many(link.principal, run.last_of_publisher, link.owner, len(run))
        self.numbers.remember_run(run)

    def begin(self, opened: Callable[[], None]) -> None:
        """Have the log note that numbers are given to what is not on disk; once, however often this is called.

        In a later turn, when they may be given, `opened` is called. If the disk has failed to write the note, they may
        be given all the same, `unnoted` is set, and this is to be called again. A closed log takes no note: `opened` is
        never called.
        """
        if self._noting:
            return
        assert self._log is not None, "without a log everything is open"

        def noted(error: Exception | None = None) -> None:
            self._noting = False
            self.unnoted = error is not None
            self.open = True
            opened()

        with contextlib.suppress(TidingsError):  # it has been closed: nobody is acknowledged anything any more
            self._log.note_unlogged(noted, noted)
            self._noting = True

    @property
    def last(self) -> int:
        """The number of the latest publication of this epoch."""
        return self.numbers.last

    def latest(self, publisher: str) -> int:
        """The largest number of its own that a publisher has used; 0 if that is not remembered."""
        return self.numbers.publishers.get(publisher, 0)

    def refuse(self, publisher: str, seq: int, refusal: Refused) -> None:
        """Remember that a publication was refused."""
        own = self._refusals.setdefault(publisher, {})
        self.refused += seq not in own
        own[seq] = refusal
        if self.refused > MAX_REFUSALS:
            self._forget_refusal(publisher if len(own) > REFUSALS_SHARE else next(iter(self._refusals)))

    def _forget_refusal(self, publisher: str) -> None:
        """Forget the oldest of a publisher."""
        refusals = self._refusals[publisher]
        del refusals[next(iter(refusals))]
        self.refused -= 1
        if not refusals:
            del self._refusals[publisher]

    def refused_upto(self, publisher: str) -> int | None:
        """The largest number of its own that a publisher was refused and that is remembered; None: it has too many."""
        own = self._refusals.get(publisher)
        if own is None:
            return 0
        return max(own) if len(own) <= REFUSALS_SHARE else None

    def refusal(self, publisher: str, seq: int) -> Refused | None:
        """How a publication was refused before, if it was."""
        return self._refusals.get(publisher, {}).get(seq)

    def store(self, envelope: Envelope, *, insists: bool) -> None:
        """Put a publication on disk; `heard` is called once it would survive a crash, or has failed to."""
        assert self._log is not None, "check_room comes first"
        self._log.keep(envelope, self._has_heard)
        identity = envelope.identity
        self._unsynced[identity.publisher, identity.publisher_seq] = insists

    def _heard(self, kept: Sequence[Envelope | Run], error: Exception | None) -> None:
        """The disk has these, or has refused them."""
        lost: list[tuple[Envelope, bool]] = []
        take = self._unsynced.pop
        for one in kept:
            if isinstance(one, Run):
                _, insists = self._unsynced_runs.pop(one.first.seq)
                if error is not None:
                    lost += [(envelope, insists) for envelope in one.envelopes()]
            else:
                identity = one.identity
                insists = take((identity.publisher, identity.publisher_seq), True)
                if error is not None:
                    lost.append((one, insists))
        if error is None:
            self.stored(kept)
        else:
            self.failed(lost, error)

    @property
    def recent(self) -> list[Envelope]:
        """What is in memory, in the order of the numbers."""
        return self.numbers.after(0)

    @property
    def storing(self) -> int:
        """How many publications are on their way to the disk."""
        return len(self._unsynced) + sum(len(run) for run, _ in self._unsynced_runs.values())

    def is_unsynced(self, publisher: str, seq: int) -> bool:
        """Whether a publication of quality `stored` is on its way to the disk."""
        if (publisher, seq) in self._unsynced:
            return True
        return any(run.has(publisher, seq) for run, _ in self._unsynced_runs.values())

    def answer(
        self,
        question: Fetch,
        shown: Callable[[Identity], bool] = lambda identity: True,
        *,
        most: int | None = None,
        most_bytes: int | None = None,
        share: int = 1,
    ) -> Iterator[Fetched]:
        """What follows the asked positions and passes one of the asked filters, piece by piece.

        What is not `shown` to whoever asks is left out as if it did not pass. `share`: how many such questions are
        answered in one turn.
        """
        upto: dict[int, int] = {}
        lost: list[tuple[int, int, int | None]] = []
        found: list[Envelope] = []
        scanned = piece = size = total = 0
        most, most_bytes = most or FETCH_ANSWER, most_bytes or FETCH_ANSWER_BYTES
        comparisons = sum(filter.cost if isinstance(filter, Filter) else 1 for filter in question.filters)
        look_at = min(FETCH_SCAN, max(FETCH_LEAST, FETCH_COMPARISONS // max(1, comparisons * share)))
        for epoch in self._epochs(question):
            expected = question.after.get(epoch, 0) + 1
            for envelope in self._since(epoch, expected - 1):
                seq = envelope.identity.seq
                if seq > expected:
                    lost.append((epoch, expected, seq - 1))
                expected = seq + 1
                scanned += 1
                wanted = shown(envelope.identity)
                if wanted and any(filter.matches(envelope.notification) for filter in question.filters):
                    found.append(envelope)
                    piece += len(envelope.body)
                    size += len(envelope.body)
                    total += 1
                full = total >= most or size >= most_bytes
                if full or scanned >= look_at or len(lost) >= FETCH_LOST:
                    upto[epoch] = seq
                    yield Fetched(question.requester, question.number, tuple(found), True, upto, tuple(lost), True)
                    return
                if len(found) >= FETCH_PIECE or piece >= FETCH_PIECE_BYTES:
                    yield Fetched(question.requester, question.number, tuple(found))
                    found = []
                    piece = 0
            end = self.last if epoch == self.epoch else self._ended(epoch, question)
            upto[epoch] = expected - 1 if end is None else end  # whoever asks may claim to have seen more than there is
            if end is None or expected <= end:
                lost.append((epoch, expected, end))
        yield Fetched(question.requester, question.number, tuple(found), True, upto, tuple(lost))

    def _ended(self, epoch: int, question: Fetch) -> int | None:
        """The last number of an earlier epoch; None if nobody knows."""
        if self._log is not None:
            return self._log.ended(epoch)
        silent = not self._publishes and not question.after.get(epoch)  # or else clients could publish here before
        return 0 if silent else None

    def _epochs(self, question: Fetch) -> list[int]:
        oldest = min(question.after, default=self.epoch)
        known = (epoch for epoch in self._log.epochs() if epoch >= oldest) if self._log is not None else ()
        asked = (epoch for epoch in question.after if epoch <= self.epoch)
        return sorted({*known, *asked, self.epoch})[-MAX_EPOCHS:]

    def _since(self, epoch: int, after: int) -> Iterator[Envelope]:
        """What is held of one epoch with numbers above `after`, in order."""
        oldest = self.numbers.oldest
        if oldest is None:
            oldest = self.last + 1
        in_memory = epoch == self.epoch and oldest <= after + 1
        if not in_memory and self._log is not None:
            for envelope in self._log.read(epoch, after):
                if epoch == self.epoch and envelope.identity.seq >= oldest:
                    break
                yield envelope
        if epoch == self.epoch:
            yield from self.numbers.after(after)
