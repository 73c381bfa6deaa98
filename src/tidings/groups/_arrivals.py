"""What comes for an acknowledged group: the subscription of its point, and how far that has come.

Theory of operation
-------------------
The point subscribes behind what is handled without a hole. What lies between two things that have come, and has not
come itself, is not for this group, so it counts as handled (`pass_over`), but only if the subscription is sure to bring
everything. The states of the subscription:

    before         event                                            after          what happens
    -              there are members, and something is handled      CATCHING_UP    subscribe behind that
    -              there are members, and nothing is known          BEGINNING      subscribe to what is published
    BEGINNING      something comes                                  BEGINNING      pass it over: nothing is promised
    BEGINNING      it settles                                       CATCHING_UP    begin here with each origin, and
                                                                                   subscribe once more, behind that
    CATCHING_UP    something comes                                  CATCHING_UP    a job
    CATCHING_UP    it settles, with origins that it has not asked   CATCHING_UP    begin there, and subscribe once more
    CATCHING_UP    it settles                                       SETTLED        members have joined
    SETTLED        something comes                                  SETTLED        a job
    any            there is no room for a job; the point waits      STALE
                   until it has heard from all brokers
    STALE          something comes                                  STALE          drop it: it is asked for again
    STALE          there is room; the point decides                 CATCHING_UP    subscribe anew
    any            no member is there; another broker decides       -
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Mapping, Set

from tidings.broker.forwarding import DETOUR
from tidings.model import EventKey, Position
from tidings.wire import AnyMessage, Deliver, Envelope, Gap, JobKey, Marks, Refused, Settled

from ._dead_letters import is_dead_letter_of
from ._handled import HandledFacts
from ._intake import Intake
from ._jobs import Jobs, JobState
from ._limits import MAX_JOBS, MAX_RECENT
from ._messages import Lost, Refuse
from ._roster import Roster
from ._telling import Telling
from ._work_host import Host


class Supply(enum.Enum):
    """See the table above."""

    CLOSED = "closed"
    BEGINNING = "beginning"
    CATCHING_UP = "catching up"
    SETTLED = "settled"
    STALE = "stale"


class Arrivals:
    """The one subscription of an acknowledged group at its point."""

    def __init__(
        self,
        host: Host,
        key: str,
        roster: Roster,
        jobs: Jobs,
        telling: Telling,
        *,
        settled: Callable[[], None],
        come: Callable[[JobKey, Envelope], None],
        heard: Callable[[], None],
    ) -> None:
        """`settled` and `come` hear what the subscription does, `heard` is called when nothing more waits."""
        self._host = host
        self._key = key
        self._roster = roster
        self._jobs = jobs
        self._telling = telling
        self._settled = settled
        self._come = come
        self._intake = Intake(host, key, self._handle, heard)
        self.state = Supply.CLOSED
        self._reached: dict[str, Position] = {}
        """How far the subscription has come with each origin."""
        self._asked: Set[str] = frozenset()
        """The origins that were asked for what follows a position."""
        self._ignored: dict[str, Position] = {}
        """While it begins with what is published from now on: what came before it has settled."""
        self._recent: OrderedDict[tuple[str, int], None] = OrderedDict()
        """What was handled lately, by publisher and its number."""
        self.lost = 0
        """How often something was lost."""

    @property
    def is_open(self) -> bool:
        """Whether there is a subscription."""
        return self.state is not Supply.CLOSED

    @property
    def is_stale(self) -> bool:
        """Whether there is more than has come: it is asked for when there is room."""
        return self.state is Supply.STALE

    @property
    def _facts(self) -> HandledFacts:
        return self._telling.facts

    # --- the subscription -----------------------------------------------------------------------------

    def subscribe(self) -> None:
        """Subscribe where the facts have their first hole, unless what is missing is here or will come."""
        terms = self._roster.terms
        assert terms is not None
        if self.is_open and self._stands() and not self.is_stale and not self.misses_something():
            return
        if (principal := self._eligible()) is None:
            return
        after = self._facts.resume()
        self._reached, self._asked, self._ignored = dict(after), after.keys(), {}
        self.state = Supply.CATCHING_UP if after else Supply.BEGINNING
        self._intake.open(principal, terms.filter, after)

    def refill(self) -> None:
        """Subscribe if nothing comes, and there is room."""
        if not self.is_open or (self.is_stale and len(self._jobs) <= MAX_JOBS // 2):
            self.subscribe()

    def look_again(self) -> None:
        """There is another version of the scope graph, or another member: stand for who sees most."""
        if self.is_open and len(self._roster) and not self._stands():
            self.close()

    def suspend(self) -> None:
        """The subscription may not have settled on the new tree: another one is needed.

        Until it has settled, some of what an origin publishes comes and some does not, so nothing may be passed over.
        """
        if self.is_open:
            self.state = Supply.STALE

    def close(self) -> None:
        """Subscribe no longer."""
        if self.is_open:
            self._intake.close()
            self.state = Supply.CLOSED

    def forget(self) -> None:
        """Forget how far it has come."""
        self._reached.clear()

    def _stands(self) -> bool:
        """Whether the subscription stands for somebody who is there, and sees as much as any other member."""
        seeing = self._seeing()
        return self._intake.principal in seeing and seeing[self._intake.principal] == min(seeing.values())

    def _eligible(self) -> str | None:
        """The member that sees what the group is to see by the most versions: no other is owed what it does not see."""
        seeing = self._seeing()
        return min(seeing, key=lambda one: (seeing[one], one), default=None)

    def _seeing(self) -> dict[str, int]:
        """The members that see what the group is to see, each with the oldest version since which it does."""
        terms = self._roster.terms
        assert terms is not None
        clients = {member.client for _, member in self._roster.places()}
        since = {client: self._host.sees_since(client, terms.sees) for client in clients}
        return {client: version for client, version in since.items() if version is not None}

    def misses_something(self) -> bool:
        """Whether there is a hole that the subscription has passed, and that is no job which is here or held."""
        here = {job.key.event for job in self._jobs if job.envelope is not None or job.state is JobState.HELD}
        for origin, start in self._facts.resume().items():
            if origin not in self._reached:
                return True
            if self._reached[origin] <= start:
                continue
            for epoch, first, last in self._facts.holes(origin, self._reached[origin]):
                if last - first >= len(here):
                    return True
                if any(EventKey(origin, epoch, seq) not in here for seq in range(first, last + 1)):
                    return True
        return False

    # --- what the subscription says -------------------------------------------------------------------

    def _handle(self, message: AnyMessage) -> None:
        if type(message) is Deliver:
            self._came(message.envelope)
        elif isinstance(message, Settled):
            self._has_settled(message)
        elif isinstance(message, Marks):
            self._mark(message.marks)
        elif isinstance(message, Gap):
            self.lose(message)
        elif isinstance(message, Refused):
            members = tuple(member for _, member in self._roster.places())
            for broker in list(self._roster.present):
                self._host.say(broker, Refuse(self._key, members, message.reason))

    def _has_settled(self, message: Settled) -> None:
        if self.is_stale:  # where the group begins with an origin is not noted now, but by the next subscription
            return
        marks, self._ignored = dict(self._ignored), {}
        self.state = Supply.SETTLED
        for origin, mark in message.marks.items():
            marks[origin] = max(mark, marks.get(origin, mark))
        self._mark(marks)
        for job in self._jobs:
            if job.key.event in self._facts and job.state is not JobState.HELD:
                self._jobs.finish(job)
        self._telling.now()
        if marks.keys() <= self._asked:
            self._settled()
        else:
            self._ask_for_the_rest()

    def _ask_for_the_rest(self) -> None:
        """Subscribe once more, behind what the group has just begun with.

        A mark is as far as this broker has seen an origin. What that has published since, before it knew the
        subscription, never comes; to say that it is none of the group's business is wrong if the group has begun with
        that origin earlier, and whoever knows so is out of reach now.
        """
        self.state = Supply.STALE
        self.subscribe()

    def _mark(self, marks: Mapping[str, Position]) -> None:
        """Everything up to here has come."""
        if self.state not in (Supply.CATCHING_UP, Supply.SETTLED):
            return
        for origin, mark in marks.items():
            reached = self._reached.get(origin)
            if reached is None:
                self._facts.begin(origin, mark)  # from here on everything comes
            elif mark > reached:
                self._facts.pass_over(origin, reached, mark)
            self._reached[origin] = max(mark, reached or mark)
        self._telling.soon()

    def lose(self, gap: Gap) -> None:
        """The group itself has lost something."""
        self._facts.lose(gap)
        self.lost += 1
        for broker in list(self._roster.present):
            self._host.say(broker, Lost(self._key, gap))
        self._telling.soon()

    def _came(self, envelope: Envelope) -> None:
        if self.is_stale:
            return
        identity, route = envelope.identity, envelope.routes[0]
        position = Position(identity.epoch, identity.seq)
        if self.state is Supply.BEGINNING:
            self._ignored[identity.origin] = position
            return
        assert self._roster.terms is not None
        if self._host.saw(envelope, self._intake.principal) != self._roster.terms.sees:
            return  # whom the subscription stands for saw more or less then than the group is to see
        key = JobKey(identity.origin, identity.epoch, identity.seq, route.version)
        known = self._jobs.get(key)
        if len(self._jobs) >= MAX_JOBS and known is None:
            self.state = Supply.STALE
            return
        self._note(identity.origin, position, DETOUR in route.tags)
        repeated = (key.event in self._facts and known is None) or _hand_over(envelope) in self._recent
        if repeated or is_dead_letter_of(self._key, envelope.notification):
            self._facts.note(key.event)
        else:
            self._come(key, envelope)

    def handled(self, envelope: Envelope) -> None:
        """This is handled: if its publisher hands it over to another broker, it comes again under another number."""
        self._recent[_hand_over(envelope)] = None
        if len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)

    def _note(self, origin: str, position: Position, detour: bool) -> None:
        """Something has come: what lies before it, and has not come, is not for this group."""
        reached = self._reached.get(origin)
        before = Position(position.epoch, position.seq - 1)
        if detour or (reached is not None and position <= reached):
            if not self._facts.knows(origin):
                self._facts.begin(origin, before)
                self._telling.now()
            return
        if reached is None:
            self._facts.begin(origin, before)
            self._telling.now()  # before any member can acknowledge something of this origin
            if self.state is not Supply.SETTLED:
                return
        else:
            self._facts.pass_over(origin, reached, before)
        self._reached[origin] = position


def _hand_over(envelope: Envelope) -> tuple[str, int]:
    return envelope.identity.publisher, envelope.identity.publisher_seq
