"""Receivers: a feature that counts who gets one publication.

Theory of operation
-------------------
A publication is *followed* from its publisher's broker to every broker that it comes to (see `Context.follow`); each
notes which of its clients were sent it, and for which it is kept back. When it is out, one wave follows it on the same
FIFO links: wherever it has come, it was there before the wave. Each broker tells its clients then how far they have
been sent everything, and waits for their acknowledgements, for as long as the publisher wants to wait.

    Reserve    a client wants to count: its right is checked before anything is published
    Follow     its next publication by this number is the one
    Abandon    it was refused, and will not come
    (begin)    the publication has its identity: note its receivers, here and wherever it goes
    (wave)     behind it; every broker answers how many have acknowledged it, and of how many that is not known
    Received   the sum, to the client

Those who were sent it and say nothing in time, and those for whom it is kept back, are *unknown*. Clients inside a
broker, which stand for others, are not counted. If the tree changes meanwhile, the answer is incomplete: what was under
way is fetched later, by whoever misses it.

Who is a member of the scope, or of one inside it whose edges let counts pass, is counted. The right to count, and the
threshold below which numbers are withheld, are those of other counts (`_rights`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidings.broker import Feature, Joinpoint, Link, Timer, WaveKind
from tidings.model import ArgumentRefused, BudgetExceeded, EventKey, ScopeError, TidingsError
from tidings.wire import UNREADABLE, Envelope, pack

from ._counting import is_copy
from ._naming import Naming
from ._options import AggregationOptions
from ._places import Places
from ._rights import Rights, withheld
from ._surroundings import surroundings
from .receiving import (
    FEATURE,
    Abandon,
    AnyMessage,
    Declined,
    Event,
    Follow,
    Question,
    Received,
    Reserve,
    Reserved,
    Tally,
    Who,
    decode,
    encode,
    read_event,
    read_question,
    read_tally,
)

MAX_WITHIN = 60_000_000
"""The most microseconds that acknowledgements are waited for."""
MAX_RESERVED = 100
"""The most publications that one client may count at a time."""
MAX_NOTED = 10_000
"""The most publications whose receivers one broker notes at a time; what is more is not counted, and incomplete."""
KEPT = 30_000_000
"""Microseconds after which what was noted is forgotten, if no wave has come."""
_HOP = 0.9  # a wave leaves those behind a broker this share of its time
_ANSWERING = 1_000_000
"""Microseconds that a wave takes beside waiting."""
MAX_ID = 256
"""The most characters of the id of a request."""


class _State(enum.IntEnum):
    """What one client has of a followed notification; it only grows."""

    KEPT_BACK = 0
    SENT = 1
    HANDLED = 2


@dataclass(slots=True, eq=False)
class _Noted:
    """One followed notification, at one broker."""

    clients: dict[Link, _State] = field(default_factory=dict)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """Who wants to know when all have acknowledged it."""
    timer: Timer | None = None

    def reached(self, link: Link, sent: bool) -> None:
        if not is_copy(link):
            self.clients[link] = max(self.clients.get(link, _State.KEPT_BACK), _State(sent))

    @property
    def settled(self) -> bool:
        """Whether nobody is left whose acknowledgement can come."""
        return _State.SENT not in self.clients.values()


@dataclass(slots=True, eq=False)
class _Reserved:
    """A count that a client may make."""

    scope: str
    within: int
    threshold: int
    seq: int = 0
    """Of the publication, once the client has said so."""


class Receivers(Feature):
    """Counts the receivers of publications, at one broker."""

    name = FEATURE
    fail_stop = False

    def __init__(self, options: AggregationOptions) -> None:
        self._options = options
        self._reserved: dict[Link, dict[str, _Reserved]] = {}
        self._noted: dict[Event, _Noted] = {}
        self._advised = False

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """The wave that follows a publication, and the one that asks for names."""
        self._rights = Rights(self._options, self.context.now)
        self._naming = Naming(self.context, self._options, self._rights)
        return {"count": self, "who": self._naming}

    def kept(self) -> list[str]:
        """What is kept, by name: nothing, once nothing is counted."""
        held = {"reserved": self._reserved, "noted": self._noted, "advice": self._advised}
        return [what for what, there in held.items() if there]

    # --- a client counts ------------------------------------------------------------------------------

    def on_message(self, link: Link, body: bytes) -> None:
        """A client says something; brokers say it in waves."""
        if not link.is_client:
            self.context.refused()
            return
        message = decode(body)
        try:
            match message:
                case Reserve():
                    self._reserve(link, message)
                case Follow(id, seq):
                    self._follow(link, id, seq)
                case Who():
                    self._naming.ask(link, message, lambda names: self._say(link, names))
                case Abandon(id):
                    self._abandon(link, id)
                case _:
                    raise TidingsError(f"a client may not send {type(message).__name__}")
        except TidingsError as error:
            self.context.refused()
            self._say(link, Declined(message.id, type(error).__name__, str(error)))

    def _reserve(self, link: Link, message: Reserve) -> None:
        if len(message.id) > MAX_ID:
            raise ArgumentRefused(f"an id of {len(message.id):,} characters; at most {MAX_ID} are allowed")
        if not 0 <= message.within <= MAX_WITHIN:
            raise ArgumentRefused(
                f"within: {message.within:,} microseconds; wait between 0 and {MAX_WITHIN // 1_000_000} seconds"
            )
        view = self.context.scoping.newest
        if not view.knows(message.scope):
            raise ScopeError(
                f"there is no scope '{message.scope:.80}' to count in; `tidings scope tree` shows which there are"
            )
        threshold = self._rights.threshold(link, message.scope, view)
        own = self._reserved.get(link, {})
        if len(own) >= MAX_RESERVED and message.id not in own:
            raise BudgetExceeded(
                f"client '{link.name}' counts the receivers of {MAX_RESERVED} publications already; wait for one"
            )
        self._rights.take(link)
        self._reserved.setdefault(link, {})[message.id] = _Reserved(message.scope, message.within, threshold)
        self._weave()
        self._say(link, Reserved(message.id))

    def _follow(self, link: Link, id: str, seq: int) -> None:
        count = self._reserved.get(link, {}).get(id)
        if count is None:
            raise ArgumentRefused(f"'{id:.80}' is no count that was reserved; publish again with count_receivers")
        count.seq = seq
        self.context.follow(link, seq, lambda envelope: self._begin(link, id, count, envelope))

    def _begin(self, link: Link, id: str, count: _Reserved, envelope: Envelope) -> None:
        """The publication is about to be sent."""
        identity = envelope.identity
        event = Event(identity.origin, identity.epoch, identity.seq)
        question = Question(event, self.context.tree.epoch, count.scope, count.within)
        self._note(event)
        self.context.call_later(0, lambda: self._ask(link, id, count, question))

    def _take(self, link: Link, id: str) -> _Reserved | None:
        """A count that a client has reserved; it is no longer."""
        own = self._reserved.get(link, {})
        count = own.pop(id, None)
        if not own:
            self._reserved.pop(link, None)
        return count

    def _abandon(self, link: Link, id: str) -> None:
        if (count := self._take(link, id)) is not None:
            self.context.unfollow(link, count.seq)
            self._weave()

    def _ask(self, link: Link, id: str, count: _Reserved, question: Question) -> None:
        """The publication is out: let a wave follow it."""
        if self._take(link, id) is None:
            return  # its publisher has gone
        around = surroundings(self.context.name, self.context.tree).values()
        farthest = max((below.height for below in around), default=0)
        deadline = int((question.within + _ANSWERING) / _HOP ** min(farthest, 40))
        self.context.tell_marks()
        self.context.wave(
            "count", pack(question), lambda body, complete: self._done(link, id, count, body, complete), deadline
        )

    def _done(self, link: Link, id: str, count: _Reserved, body: bytes, complete: bool) -> None:
        tally = read_tally(body) if body else Tally()
        self._say(link, told(id, tally, complete, count.threshold))

    def _say(self, link: Link, message: AnyMessage) -> None:
        if self.context.client(link.name) is link:
            self.context.send(link, encode(message))

    # --- a publication comes --------------------------------------------------------------------------

    def on_attached(self, link: Link, data: bytes) -> None:
        """What comes next from a neighbour is followed."""
        try:
            event = read_event(data)
        except UNREADABLE:
            self.context.refused()
            return
        self._note(event)

    def _note(self, event: Event) -> None:
        """Note who gets the notification of this step."""
        noted = self._noted.get(event)
        if noted is None:
            if len(self._noted) >= MAX_NOTED:
                self.context.note_receivers(pack(event), lambda link, sent: None)
                return
            noted = self._noted[event] = _Noted()
            noted.timer = self.context.call_later(KEPT + MAX_WITHIN, lambda: self._forget(event))
            self._weave()
        self.context.note_receivers(pack(event), noted.reached)

    def _forget(self, event: Event) -> None:
        if (noted := self._noted.pop(event, None)) is not None and noted.timer is not None:
            noted.timer.cancel()
        self._weave()

    # --- the wave behind it ---------------------------------------------------------------------------

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Count the clients of this broker, as soon as all have acknowledged it, or when time is up."""
        try:
            question = read_question(body)
        except UNREADABLE:
            self.context.refused()
            answer(None)
            return
        event = question.event
        if question.tree != self.context.tree.epoch or len(self._noted) >= MAX_NOTED > (event in self._noted):
            answer(None)
            return
        if (noted := self._noted.get(event)) is None:
            answer(pack(Tally()))
            return
        place = Places(self.context).of(question.scope)
        if place.detour:  # what comes over a gateway may come behind the wave
            self._forget(event)
            answer(None)
            return
        done = False

        def finish() -> None:
            nonlocal done
            if not done:
                done = True
                counted = [state for link, state in noted.clients.items() if self._is_inside(link, place.ways)]
                handled = counted.count(_State.HANDLED)
                self._forget(event)
                answer(pack(Tally(handled, len(counted) - handled)))

        if noted.settled:
            finish()
            return
        noted.waiting.append(finish)
        self.context.tell_marks()
        self.context.call_later(min(max(question.within, 0), MAX_WITHIN), finish)

    def combine(self, answers: list[bytes]) -> bytes:
        """The sum."""
        tallies = [read_tally(one) for one in answers]
        return pack(Tally(sum(one.handled for one in tallies), sum(one.unknown for one in tallies)))

    def _is_inside(self, link: Link, ways: Mapping[str, Any]) -> bool:
        """Whether a client counts in a scope."""
        return any(scope in ways for one in self.context.subscribed(link) for scope in one.entries)

    # --- advice ---------------------------------------------------------------------------------------

    def _weave(self) -> None:
        """Hear of acknowledgements as long as some are waited for."""
        wanted = bool(self._noted or self._reserved)
        if wanted and not self._advised:
            self.context.weave({Joinpoint.ACK: self._on_ack, Joinpoint.DETACH: self._on_detach})
        elif not wanted and self._advised:
            self.context.unweave(Joinpoint.ACK, Joinpoint.DETACH)
        self._advised = wanted

    def _on_ack(self, proceed: Callable[..., None], link: Link, key: EventKey) -> None:
        proceed(link, key)
        for event, noted in list(self._noted.items()):
            reached = event.origin == key.origin and (event.epoch, event.seq) <= (key.epoch, key.seq)
            if reached and noted.clients.get(link) is _State.SENT:
                noted.clients[link] = _State.HANDLED
                if noted.settled:
                    for finish in noted.waiting:
                        finish()

    def _on_detach(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        if self._reserved.pop(link, None) is not None:
            self._weave()


def told(id: str, tally: Tally, complete: bool, threshold: int) -> Received:
    """What a client is told, from which numbers below a threshold, but 0, are withheld."""
    handled, unknown = tally.handled, tally.unknown
    if withheld(handled, handled + unknown, threshold):
        return Received(id, None, None, complete, withheld=True)
    return Received(id, handled, None if 0 < unknown < threshold else unknown, complete)
