"""Strict history: a subscription into the past that joins the live stream without a gap. The default strategy.

Theory of operation
-------------------
A client subscribes a filter with a bound. Its broker, the *access broker*, registers the filter as always and holds
the subscription: what comes for it is kept. Behind the filter, on the same FIFO links, it sends a wave that asks every
broker for the newest of its own publications, as many as the bound allows; each looks in its memory, its store and its
archive, and says how far its publications have *reached*. Answers are put together hop by hop, and only the newest are
passed on.

When a broker is asked, the filter is in place there and on the whole way back. So what it publishes behind the
position that it has reached comes live, and what it published up to there is in the answer or outside the bound:
nothing is missed, nothing comes twice. (Where there are scopes, or advertisements, filters may take longer than waves;
then the wave waits until the subscription has settled.) When all have answered and the subscription has settled, the
client is told so, with the positions at which its past begins; a client that is cut off from then on goes on from what
it has seen, as any other (see `tidings.broker.outlets`). Then come a report, the notifications of the past, and what
was kept, as far as it lies behind what was reached.

An answer is bounded. If the bound allows more, the next wave asks for what lies before. Where there are scopes, nobody
but the access broker knows what a publication looks like to the subscriber: it asks for everything that concerns it,
judges by the version of the graph under which each was published and by the one of now, and asks for more until the
bound is met.

A wave that a lost link or a new tree has left incomplete is sent again; a new tree starts the whole question again.
Where policies delay, what is not due yet does not count for the bound, and is handed over when it is due, if it is no
older than the past that was chosen. Where deciding points choose who gets something, every broker says, too, what it
has handed to the client that they had given to it. That is its past in such a scope: nothing is decided again.

When the timer runs out, the subscription goes on with what has been found: fewer than there are, perhaps, with a gap
between past and live, and a report that says so. With `best_effort` it also goes on as soon as there is enough of what
is new.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tidings.broker import Advice, Decision, Feature, Joinpoint, Log, Owed, Registration, WaveKind, from_past, owed_when
from tidings.model import EVERYTHING, Identity, Position, TidingsError
from tidings.wire import (
    UNREADABLE,
    Consistency,
    Ending,
    Envelope,
    HistoryReport,
    Past,
    UnreadableFilter,
    WireError,
    pack,
)

from ._messages import PAGE, TIERS, Ask, Found, read_ask, read_found, together
from ._newest import ENVELOPE_OVERHEAD, newest
from ._options import HistoryOptions
from ._origin import PastStore, Search

RETRY = 250_000
"""Microseconds after which an incomplete wave is sent again."""
STEPS_AT_ONCE = 2
"""The steps of a search that a broker takes before it does something else."""
MAX_SEARCHES = 64
"""The most searches that one broker does at a time; to further questions it has no answer yet."""


@dataclass(slots=True)
class StrictStatistics:
    """What this broker's clients have asked of the past, and what came of it. Counters only grow."""

    asked: int = 0
    """Subscriptions into the past."""
    answered: int = 0
    """Those that went on because every broker had answered."""
    satisfied: int = 0
    """Those that went on because there was enough."""
    timed_out: int = 0
    """Those that went on because time was up."""
    cancelled: int = 0
    """Those that ended before."""
    delivered: int = 0
    """Notifications from the past that clients got."""
    capped: int = 0
    """Subscriptions that got less than their bound because of a limit."""
    waves: int = 0
    """Questions to all brokers."""
    held: int = 0
    """Microseconds for which subscriptions were held, together."""
    searches: int = 0
    """Questions of any broker that were looked up here."""


class Strict(Feature):
    """Answers questions about the past, and asks them for its clients."""

    name = "history"
    privileged = True

    def __init__(
        self, options: HistoryOptions | None = None, archive: Callable[[], PastStore | None] = lambda: None
    ) -> None:
        """`archive` opens what is beyond the store, each time that somebody asks so far back."""
        self.options = options or HistoryOptions()
        self.statistics = StrictStatistics()
        self._archive = archive
        self._log: Log | None = None
        self._searches = 0

    def start(self) -> None:
        """The broker is built."""
        self._log = self.context.log

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Take the subscriptions that reach into the past."""
        return {Joinpoint.SUBSCRIBE: self._subscribed}

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """One kind: what does everybody have?"""
        return {"past": self}

    def _subscribed(self, proceed: Callable[[], Any], registration: Registration) -> None:
        if registration.past is None:
            proceed()
        else:
            _Request(self, registration, registration.past)

    # --- answering ------------------------------------------------------------------------------------

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Look for what this broker itself has published."""
        try:
            ask = read_ask(body)
        except UNREADABLE:
            ask = None
        if ask is None or isinstance(ask.filter, UnreadableFilter) or self._searches >= MAX_SEARCHES:
            answer(None)
            return
        context, publications = self.context, self.context.publications
        reached = {context.name: Position(context.epoch, publications.last)}
        shown = self._shown_to(ask.requester)
        search = Search(ask, reached, publications.recent, shown, context.now(), open=context.scoping.flat)
        given = self._given_to(ask.client, ask.requester)
        self._searches += 1
        self.statistics.searches += 1
        self._go_on(search.steps(self._log, self._archive), given, answer)

    def _go_on(
        self, steps: Iterator[Found | None], given: list[Decision], answer: Callable[[bytes | None], None]
    ) -> None:
        """Take some steps; a long search lets the broker do other things in between."""
        for _ in range(STEPS_AT_ONCE):
            try:
                found = next(steps)
            except (TidingsError, OSError):  # the disk cannot be read: others may still have theirs
                self._searches -= 1
                answer(None)
                return
            if found is not None:
                self._searches -= 1
                answer(pack(msgspec.structs.replace(found, given=given)))
                return
        self.context.call_later(0, lambda: self._go_on(steps, given, answer))

    def _shown_to(self, broker: str) -> Callable[[Identity], bool]:
        """What a broker may be told of: nothing of scopes that it has no part in."""
        scoping = self.context.scoping
        if scoping.flat:
            return lambda identity: True
        return lambda identity: scoping.concerns(broker, identity.graph_epoch, identity.publisher)

    def _given_to(self, client: str, broker: str) -> list[Decision]:
        """What deciding points have given to a client while it was here, of scopes that the asking broker carries."""
        view = self.context.scoping.active
        return [one for one in self.context.decisions(client) if view.carries(broker, one.scope)] if client else []

    def combine(self, answers: list[bytes]) -> bytes:
        """The newest of all."""
        return pack(together(map(read_found, answers)))


class _Request:
    """One subscription whose past has not come yet."""

    def __init__(self, feature: Strict, registration: Registration, past: Past) -> None:
        self._feature = feature
        self._context = feature.context
        self._registration = registration
        self._past = past
        limit = feature.options.max_answer
        self._count = limit if past.bound.count is None else min(past.bound.count, limit)
        self._since = past.bound.reference(self._context.now())
        self._begun = self._context.now()
        patience = int(feature.options.timer * 1_000_000) if past.timeout is None else past.timeout
        self._deadline = self._begun + patience
        self._attempt = 0
        self._begin()
        feature.statistics.asked += 1
        self._hold = self._context.holds.begin(registration, self)
        self._timer = self._context.call_later(patience, lambda: self._go_on(Ending.TIMER))

    def _begin(self) -> None:
        """Nothing is known yet."""
        self._attempt += 1
        self._asking = self._answered = self._capped = False
        self._more = False
        """Whether nothing was asked for that there may still be, because there is enough."""
        self._round = 0
        self._flat = True
        self._partial: Found | None = None
        """What some brokers have answered, should nothing better come."""
        self._reached: dict[str, Position] = {}
        self._oldest: dict[str, Position] = {}
        """For each origin, the position before which there may be more."""
        self._given: set[Decision] = set()
        """What deciding points have given to the client before."""
        self._owed: list[Owed] = []
        """The forms of what was found, some of them not due yet."""
        self._known: set[tuple[str, int]] = set()
        """The publications among what was found, by publisher and number."""
        self._size = 0
        self._tiers: dict[str, int] = {}
        self._unstored = self._forgotten = 0
        if self._attempt == 1 and self._foresees_enough():
            # Somebody has listened in the place of the client, for longer than it wants to know of.
            self._answered = True
            self._owed = [Owed(one) for one in self._foreseen]
            self._known |= {(one.identity.publisher, one.identity.publisher_seq) for one in self._foreseen}

    def _foresees_enough(self) -> bool:
        """Whether what was kept before the client came has all that it asks for."""
        kept = self._registration.foreseen
        if (
            kept is None
            or kept.since is None
            or self._is_candidate
            or not self._context.settling.is_settled(self._registration)
        ):
            return False
        if self._since is not None and kept.since <= self._since:
            return True
        count = self._past.bound.count
        fresh = [one for one in self._foreseen if one.identity.published_at >= (kept.since or 0)]
        return count is not None and len(fresh) >= count

    @property
    def _is_candidate(self) -> bool:
        """Whether deciding points may have given something to the client."""
        scoping, client = self._context.scoping, self._registration.link.principal
        views = (scoping.view(version) for version in scoping.versions)
        return any(not view.memberships(client).keys().isdisjoint(view.comparing) for view in views if view is not None)

    @property
    def _foreseen(self) -> list[Envelope]:
        """What was kept before the client came, within the bound."""
        kept = self._registration.foreseen
        since, now = self._since or 0, self._context.now()
        return [
            one
            for one in (kept.envelopes if kept is not None else ())
            if one.identity.published_at >= since
            and not (
                self._past.respect_ttl
                and one.identity.ttl is not None
                and one.identity.published_at + one.identity.ttl < now
            )
        ]

    # --- the hold -------------------------------------------------------------------------------------

    def turn_ended(self) -> None:
        """Something has happened: ask, or go on."""
        if self._answered and self._more and self._leave_to_hold():
            self._answered = len(self._forms) >= self._count
        while not self._answered and not self._asking and self._may_ask():
            self._ask()  # who is alone has the answer at once
        if self._answered and self._context.settling.is_settled(self._registration):
            self._go_on(Ending.ANSWERED)

    def has_kept(self) -> None:
        """Whoever does without certainty goes on when there is enough."""
        wanted = self._past.bound.count
        if self._past.consistency is Consistency.BEST_EFFORT and wanted is not None and self._hold.count >= wanted:
            self._go_on(Ending.SATISFIED)

    def restarted(self) -> None:
        """What was reached on the old tree means nothing on the new one."""
        self._begin()

    def ended(self) -> None:
        """Nobody waits any more."""
        self._attempt += 1
        self._timer.cancel()
        self._feature.statistics.cancelled += 1

    # --- asking ---------------------------------------------------------------------------------------

    def _may_ask(self) -> bool:
        context = self._context
        if context.scoping.flat and not context.routing.advertisements:
            return self._registration.placed and len(context.neighbours) == len(context.tree.neighbours)
        return context.settling.is_settled(self._registration)

    def _ask(self) -> None:
        """Ask everybody for what is still missing."""
        self._asking = True
        registration, attempt = self._registration, self._attempt
        flat = self._flat = self._context.scoping.flat
        missing = max(1, self._count - len(self._forms))
        self._round += 1
        ask = Ask(
            self._context.name,
            registration.filter if flat else EVERYTHING,
            missing if flat else min(PAGE, missing << self._round),
            self._since,
            "" if registration.receive_own else registration.link.principal,
            self._oldest,
            self._past.respect_ttl,
            registration.link.principal if self._round == 1 and self._is_candidate else "",
        )
        self._feature.statistics.waves += 1
        left = max(0, self._deadline - self._context.now())
        self._context.wave("past", pack(ask), lambda *answer: self._heard(attempt, *answer), left)

    def _heard(self, attempt: int, answer: bytes, complete: bool) -> None:
        if attempt != self._attempt:
            return
        try:
            found = read_found(answer) if answer else Found({})
        except UNREADABLE:
            self._context.refused()
            found, complete = Found({}), False
        if self._flat != self._context.scoping.flat:
            self._begin()  # the first scope has come to be: the question was another one
        elif complete:
            self._take(found)
            self._asking = False
        else:
            self._round -= 1
            self._partial = found if not self._round else None
            self._context.call_later(RETRY, lambda: self._ask_again(attempt))

    def _ask_again(self, attempt: int) -> None:
        if attempt == self._attempt:
            self._asking = False  # the end of this turn asks

    def _take(self, found: Found) -> None:
        """Note what was found, and whether that is all."""
        self._given.update(found.given)
        if self._round == 1:
            self._unstored, self._forgotten = found.unstored, found.forgotten
        for origin, position in found.reached.items():
            self._reached.setdefault(origin, position)
            self._oldest.setdefault(origin, Position(position.epoch, position.seq + 1))
        if self._flat:
            for tier, count in found.tiers.items():
                self._tiers[tier] = self._tiers.get(tier, 0) + count
        for envelope, place in itertools.zip_longest(found.envelopes, found.places[: len(found.envelopes)]):
            identity = envelope.identity
            if identity.origin not in self._reached or not envelope.routes:
                continue  # a neighbour talks nonsense
            if not self._readable(envelope):
                continue
            position = identity.position
            self._oldest[identity.origin] = min(position, self._oldest.get(identity.origin, position))
            if (publication := (identity.publisher, identity.publisher_seq)) in self._known:
                continue  # its publisher was not sure, and has published it again through another broker
            forms = self._seen(envelope)
            if forms or not self._given:  # a deciding point may have given the client the other copy
                self._known.add(publication)
            if forms and not self._flat and place is not None and place < len(TIERS):
                # With scopes, everything was asked for: what this client does not see does not count.
                self._tiers[TIERS[place]] = self._tiers.get(TIERS[place], 0) + 1
            self._owed += forms
            self._size += sum(len(form.envelope.body) + ENVELOPE_OVERHEAD for form in forms)
        self._leave_to_hold()
        enough = len(self._forms) >= self._count
        too_much = self._size > self._feature.options.max_answer_bytes
        wanted = self._past.bound.count
        self._capped = too_much or (enough and found.more and (wanted is None or wanted > self._count))
        self._answered = enough or too_much or not found.more
        self._more = enough and found.more

    def _readable(self, envelope: Envelope) -> bool:
        """Whether there is a notification in it. It came over several brokers: what is none costs no link."""
        try:
            envelope.notification  # noqa: B018
        except WireError:
            self._context.refused()
            return False
        return True

    @property
    def _forms(self) -> list[Envelope]:
        """What was found and is due."""
        now = self._context.now()
        return [one.envelope for one in self._owed if one.due <= now]

    def _seen(self, envelope: Envelope) -> list[Owed]:
        """What the subscription gets of a publication: as it was seen then, if it may be seen now."""
        scoping = self._context.scoping
        then = scoping.active if scoping.flat else scoping.view(envelope.identity.graph_epoch)
        if then is None:
            return []
        # Its origin may judge by a version already that is prepared here and not active yet: then that one is of now.
        now = max(then, scoping.active, key=lambda view: view.version)
        found = owed_when(self._registration, envelope, then, now, self._given)
        for one in found:
            if one.unproven:
                self._context.late(envelope, one.path)
        return [one for one in found if not one.unproven]

    # --- going on -------------------------------------------------------------------------------------

    def _go_on(self, ending: Ending) -> None:
        """Let the subscription go: a report, the past, what was kept; from then on it is like any other."""
        self._attempt += 1
        self._timer.cancel()
        if ending is Ending.SATISFIED:
            self._reached, self._owed = {}, []
        elif self._partial is not None and not self._answered and not self._reached:
            self._take(self._partial)
        if ending is not Ending.SATISFIED:
            # What its origin has lost meanwhile, or cannot be asked for, may have been kept before the client came.
            self._owed += [
                Owed(one)
                for one in self._foreseen
                if (one.identity.publisher, one.identity.publisher_seq) not in self._known
            ]
        self._registration.foreseen = None
        self._leave_to_hold()
        found = self._forms
        chosen = newest(found, self._count, self._feature.options.max_answer_bytes)
        later = self._due_later(chosen, everything=len(chosen) == len(found))
        context, registration, hold = self._context, self._registration, self._hold
        begins = self._begins_at(newest([*chosen, *(one.envelope for one in later)]))
        context.holds.release(hold, begins if ending is Ending.ANSWERED else None)
        brokers = len(self._reached)
        missing = (self._unstored, self._forgotten) if not chosen else (0, 0)
        report = HistoryReport(
            registration.id, registration.number, len(chosen), ending, self._tiers, self._capped, brokers, *missing
        )
        context.tell(registration.link, report)
        for form in chosen:
            context.deliver(registration, from_past(form))
        context.holds.hand_over(hold, self._reached)
        context.reached(registration, self._reached)
        for one in later:
            context.keep(registration, one)
        self._count_in(ending, len(chosen))

    def _leave_to_hold(self) -> bool:
        """Leave out what a deciding point has given to the client since it subscribed; whether there is any.

        It was kept, and follows.
        """
        kept, found = self._hold.decided, len(self._owed)
        if kept:
            self._owed = [
                one for one in self._owed if (one.envelope.identity, one.envelope.routes[0].version) not in kept
            ]
        return len(self._owed) < found

    def _due_later(self, chosen: list[Envelope], *, everything: bool) -> list[Owed]:
        """What is not due yet, as far as it follows the past that was chosen; unless that is everything."""
        now = self._context.now()
        later = {id(one.envelope): one for one in self._owed if one.due > now}
        if everything or not later:
            return list(later.values())
        ordered = newest([*chosen, *(one.envelope for one in later.values())])
        first = next(at for at, one in enumerate(ordered) if id(one) not in later)
        return [later[id(one)] for one in ordered[first:] if id(one) in later]

    def _begins_at(self, chosen: list[Envelope]) -> dict[str, Position]:
        """For each origin, the position behind which everything is delivered."""
        begins = dict(self._reached or self._context.marks_of([self._registration]))
        for form in reversed(chosen):
            identity = form.identity
            begins[identity.origin] = Position(identity.epoch, identity.seq - 1)
        return begins

    def _count_in(self, ending: Ending, delivered: int) -> None:
        statistics = self._feature.statistics
        statistics.delivered += delivered
        statistics.held += self._context.now() - self._begun
        statistics.capped += self._capped
        match ending:
            case Ending.ANSWERED:
                statistics.answered += 1
            case Ending.SATISFIED:
                statistics.satisfied += 1
            case Ending.TIMER:
                statistics.timed_out += 1
