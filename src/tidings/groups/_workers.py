"""The members of acknowledged groups at one broker: who is there, what each of them holds, and what they say about it.

Theory of operation
-------------------
A broker knows what its members hold: what the point gave to them here, and what they brought along from an earlier
broker. Only who holds a job may acknowledge it or give it back.

    a member acknowledges        the broker notes the fact, answers, and tells the point
    a member gives a job back    the broker tells the point
    a member leaves              the broker gives back everything that it holds
    a queue was too full         what was dropped before it came to the member goes to others
    a member is gone             the point waits a little: it may come back, here or elsewhere, and bring its jobs along
    the point revokes a job      its time is over: the member does not hold it any more

All members here are told what is handled, about once a second: with that they begin at the next broker.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

import msgspec

from tidings.broker import END, Link, Timer
from tidings.broker import Facts as Ranged
from tidings.model import TidingsError
from tidings.wire import Ack, Acked, Again, Deliver, Enlist, Gap, JobKey, Missed, Nack, Ranges, ToWorker, Unread
from tidings.wire import Handled as ToldHandled

from ._handled import MAX_HOLES, HandledFacts
from ._limits import MAX_DELAY, MOST_IN_FLIGHT, TELL_CLIENTS_AFTER
from ._members import Host as MembersHost
from ._members import Members, _Local
from ._messages import Begun, Lost, Present, Terms
from ._names import GroupName
from ._work_messages import Claim, Done, Facts, Give, Hand, Return, Revoke, WorkSaid

_MAX_REVOKED = 1_000
"""Of how many jobs a broker remembers that a member was too slow, to say so."""


class Host(MembersHost, Protocol):
    """The broker, as far as members of acknowledged groups need it."""

    def handled(self, key: str) -> HandledFacts:
        """What is known here to be handled."""
        ...

    def learn(self, key: str, facts: Facts) -> None:
        """Join what is said to be handled with what is known here."""
        ...

    def tell_worker(self, link: Link, said: ToWorker) -> None:
        """Tell a member something."""
        ...

    def say_of_work(self, key: str, said: WorkSaid) -> None:
        """Tell the point of a group something."""
        ...


class _Worker:
    """One member: what it holds."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: dict[JobKey, None] = {}
        self.revoked: OrderedDict[JobKey, None] = OrderedDict()
        self.known: Ranges = {}
        """What it knew when it came."""
        self.told: set[Gap] = set()
        """Of which losses it was told here."""


class Workers(Members):
    """Who has joined which acknowledged group at one broker."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._work = host
        self._workers: dict[tuple[Link, str], _Worker] = {}
        self._news: dict[str, tuple[Ranged, Timer]] = {}
        """What members are to be told is handled, and when."""
        self._began: dict[str, set[str]] = {}
        """For each group, the origins of which members were told where it began with them."""

    # --- what clients say -----------------------------------------------------------------------------

    def enlist(self, link: Link, said: Enlist, name: GroupName, terms: Terms) -> None:
        """A client joins, and brings along what it holds and knows; `TidingsError` if it cannot."""
        key = name.key
        _check_claims(said, name)
        if self._of.get(link, {}).get(said.id, key) != key:
            self.leave(link, said.id)
        before = self._workers.get((link, said.id))
        worker = self._workers[link, said.id] = _Worker(said.max_in_flight)
        worker.held = dict.fromkeys(said.held)
        if before is not None:  # some of it may be under way to the client
            worker.held.update(before.held)
        try:
            self.join(link, said.id, said.number, name, terms)
        except TidingsError:
            if before is None:
                del self._workers[link, said.id]
            else:
                self._workers[link, said.id] = before
            raise
        if said.handled and _count(self._work.handled(key).told()) <= MAX_HOLES:
            self._work.learn(key, Facts(key, said.handled))
            self._work.say_of_work(key, Facts(key, said.handled))
        self._work.say_of_work(key, Claim(key, link.name, said.id, tuple(worker.held)))
        worker.known = said.handled
        self._tell_losses(key, link, said.id, worker)
        self._work.tell_worker(link, ToldHandled(said.id, self._work.handled(key).told()))

    def leave(self, link: Link, id: str) -> None:
        """A client leaves; its jobs go to others."""
        key, worker = self._of.get(link, {}).get(id), self._workers.pop((link, id), None)
        super().leave(link, id)
        if key is not None and worker is not None and worker.held:
            self._work.say_of_work(key, Return(key, link.name, id, tuple(worker.held)))

    def gone(self, link: Link) -> None:
        """A client has gone; it may come back, here or elsewhere, and bring its jobs along."""
        for id in self._of.get(link, ()):
            self._workers.pop((link, id), None)
        super().gone(link)

    def ack(self, link: Link, said: Ack) -> None:
        """A member has done a job."""
        key, worker = self._of.get(link, {}).get(said.id), self._workers.get((link, said.id))
        if key is None or worker is None or said.job not in worker.held:
            self._work.tell_worker(link, Acked(said.id, said.job, self._why_not(link, said.id, said.job)))
            return
        del worker.held[said.job]
        self._work.handled(key).note(said.job.event)
        self._work.tell_worker(link, Acked(said.id, said.job))
        self._work.say_of_work(key, Done(key, link.name, said.id, said.job))

    def nack(self, link: Link, said: Nack) -> None:
        """A member does not do a job."""
        key, worker = self._of.get(link, {}).get(said.id), self._workers.get((link, said.id))
        if key is None or worker is None or said.job not in worker.held:
            self._work.tell_worker(link, Acked(said.id, said.job, self._why_not(link, said.id, said.job)))
            return
        del worker.held[said.job]
        self._work.tell_worker(link, Acked(said.id, said.job))
        delay = min(max(said.delay, 0), MAX_DELAY)
        self._work.say_of_work(key, Return(key, link.name, said.id, (said.job,), delay))

    def unread(self, link: Link, said: Unread) -> None:
        """Something was dropped before it came to a member: it goes to others."""
        key, worker = self._of.get(link, {}).get(said.id), self._workers.get((link, said.id))
        if key is None or worker is None:
            return
        last = said.last if said.last is not None else END
        lost = tuple(
            job
            for job in worker.held
            if job[:2] == (said.origin, said.epoch) and said.first <= job.seq <= last and job not in said.held
        )
        for job in lost:
            del worker.held[job]
        if lost:
            self._work.say_of_work(key, Return(key, link.name, said.id, lost, untouched=True))

    def lost(self, lost: Lost) -> None:
        """The group has lost something."""
        group = self._groups.get(lost.key)
        for joined in group.members.values() if group is not None else ():
            worker = self._workers.get((joined.link, joined.id))
            if worker is not None:
                self._tell_loss(joined.link, joined.id, worker, lost.gap)

    def _tell_loss(self, link: Link, id: str, worker: _Worker, gap: Gap) -> None:
        gap = Gap(gap.origin, gap.epoch, gap.first, gap.last)
        if gap not in worker.told:
            worker.told.add(gap)
            self._work.tell_worker(link, Missed(id, gap))

    def _tell_losses(self, key: str, link: Link, id: str, worker: _Worker) -> None:
        """Tell a member what the group has lost while the member was away."""
        for gap in self._work.handled(key).untold(worker.known):
            self._tell_loss(link, id, worker, gap)

    def _why_not(self, link: Link, id: str, job: JobKey) -> str:
        """Why a client cannot say anything about a job."""
        key, worker = self._of.get(link, {}).get(id), self._workers.get((link, id))
        if key is None or worker is None:
            return f"client '{link.name}' is no member of a group under the id '{id}'; subscribe with `group` and `ack`"
        group = self._groups[key].name
        if job in worker.revoked:
            work = self._groups[key].terms.work
            seconds = work.ack_within / 1_000_000 if work is not None else 0
            return (
                f"job {job} of group '{group}' was not acknowledged within {seconds:g} seconds, and goes to another "
                "member; give `within` more time, or do less at once"
            )
        if job.event in self._work.handled(key):
            return f"job {job} of group '{group}' has been handled already; acknowledge each job once"
        return (
            f"client '{link.name}' does not hold job {job} of group '{group}'; only the member that got it last "
            "acknowledges it"
        )

    # --- what the point is told -----------------------------------------------------------------------

    def present(self, key: str) -> Present | None:
        """Who is there, and how much each of them holds at most."""
        present = super().present(key)
        if present is None:
            return None
        group = self._groups[key]
        members = []
        for one in present.members:
            worker = self._workers.get((group.members[one.client, one.id].link, one.id))
            members.append(msgspec.structs.replace(one, most=worker.most if worker is not None else 0))
        return msgspec.structs.replace(present, members=tuple(members))

    def hands(self, key: str) -> tuple[Hand, ...]:
        """What each member holds."""
        group = self._groups.get(key)
        if group is None:
            return ()
        return tuple(
            Hand(client, id, tuple(self._workers[joined.link, id].held))
            for (client, id), joined in group.members.items()
            if (joined.link, id) in self._workers
        )

    # --- what the point says --------------------------------------------------------------------------

    def given(self, give: Give) -> None:
        """The point has chosen a member here."""
        group = self._groups.get(give.key)
        joined = group.members.get((give.client, give.id)) if group is not None else None
        worker = self._workers.get((joined.link, give.id)) if joined is not None else None
        identity = give.envelope.identity
        job = JobKey(identity.origin, identity.epoch, identity.seq, give.envelope.routes[0].version)
        if group is not None and (group.heard is None or give.term > group.heard):
            group.heard = give.term
        if group is not None and group.heard != give.term:
            return  # of an earlier point: the one of now has asked who holds what
        if joined is None or worker is None:
            self._work.say_of_work(give.key, Return(give.key, give.client, give.id, (job,), untouched=True, gone=True))
            return
        worker.held[job] = None
        worker.revoked.pop(job, None)
        if give.deliveries > 1:
            self._work.tell_worker(joined.link, Again(give.id, job, give.deliveries))
        self._host.tell_client(joined.link, Deliver(give.envelope, (give.id,)))

    def revoke(self, revoke: Revoke) -> None:
        """The time of a member is over."""
        group = self._groups.get(revoke.key)
        joined = group.members.get((revoke.client, revoke.id)) if group is not None else None
        worker = self._workers.get((joined.link, revoke.id)) if joined is not None else None
        if worker is not None and revoke.job in worker.held:
            del worker.held[revoke.job]
            worker.revoked[revoke.job] = None
            if len(worker.revoked) > _MAX_REVOKED:
                worker.revoked.popitem(last=False)

    def begun(self, begun: Begun) -> None:
        """The point decides."""
        if (group := self._groups.get(begun.key)) is not None and begun.settled:
            self._tell_news(begun.key, group)
        super().begun(begun)

    def learned(self, facts: Facts) -> None:
        """The point says what is handled."""
        if (group := self._groups.get(facts.key)) is None or not group.members:
            return
        for joined in group.members.values() if facts.lost else ():
            if (worker := self._workers.get((joined.link, joined.id))) is not None:
                self._tell_losses(facts.key, joined.link, joined.id, worker)
        known = self._news.get(facts.key)
        if known is None:
            timer = self._host.call_later(TELL_CLIENTS_AFTER, lambda: self._tell_news(facts.key, group))
            known = self._news[facts.key] = (Ranged(most=MAX_HOLES), timer)
        news, _ = known
        began = self._began.setdefault(facts.key, set())
        begins = any(origin not in began for origin in facts.handled)
        began.update(facts.handled)
        news.merge(Ranged(facts.handled, MAX_HOLES))
        if begins:  # members must know where the group began with an origin before they acknowledge something of it
            self._tell_news(facts.key, group)

    def _tell_news(self, key: str, group: _Local) -> None:
        if (known := self._news.pop(key, None)) is not None:
            news, timer = known
            timer.cancel()
            for joined in group.members.values():
                self._work.tell_worker(joined.link, ToldHandled(joined.id, news.told()))

    def _drop(self, key: str, group: _Local) -> None:
        if (known := self._news.pop(key, None)) is not None:
            known[1].cancel()
        self._began.pop(key, None)
        super()._drop(key, group)


def _count(ranges: Ranges) -> int:
    return sum(len(spans) for epochs in ranges.values() for spans in epochs.values())


def _check_claims(said: Enlist, name: GroupName) -> None:
    """Raise `TidingsError` unless a client may know this much about a group."""
    if len(said.held) > MOST_IN_FLIGHT or _count(said.handled) > MAX_HOLES:
        raise TidingsError(
            f"group '{name}': a member says that it holds {len(said.held):,} jobs and knows {_count(said.handled):,} "
            f"ranges of handled ones; at most {MOST_IN_FLIGHT:,} and {MAX_HOLES:,} are possible"
        )
    for origin, epochs in said.handled.items():
        for epoch, spans in epochs.items():
            for first, last in spans:
                if not (origin and 0 <= epoch <= END and 1 <= first <= last + 1 <= END + 1):
                    raise TidingsError(
                        f"group '{name}': {first} to {last} of '{origin[:80]}', epoch {epoch}, cannot be handled; "
                        "numbers begin at 1, and the first one comes before the last one"
                    )
