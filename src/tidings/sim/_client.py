"""A simulated application: the production local broker on a virtual link."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidings.aggregation.deploying import Signed
from tidings.aggregation.deploying.messages import FEATURE as DEPLOYMENTS
from tidings.aggregation.deploying.messages import Deploy, encode
from tidings.broker import Link, LocalBroker, LocalSubscription
from tidings.history import CacheLimits
from tidings.history.caching import RememberingLocalBroker
from tidings.model import ROOT_SCOPE, Bound, Duplicates, EventKey, Filter, Identity, Matches, Notification, Value
from tidings.wire import (
    Answer,
    Deliver,
    Extension,
    Frame,
    Gap,
    HistoryReport,
    JobKey,
    Past,
    Quality,
    Refused,
    Settled,
    Work,
)

from ._details import (
    Acknowledged,
    Attached,
    Enlisted,
    Given,
    Joined,
    Missing,
    Notified,
    Published,
    Refusal,
    Remembered,
    Settlement,
    Subscribed,
    Unnoticed,
)
from ._habits import WORK_TERMS, Act, Habit, prompt
from ._trace import Op, stretch
from ._watch import FEATURE, SimWatch, read_result

if TYPE_CHECKING:
    from ._network import Network


@dataclass(slots=True)
class Reaction:
    """What a client publishes in reaction to what passes a filter, and how many times more."""

    filter: Filter
    notification: Notification
    times: int


class SimClient:
    """A simulated application: it records what it does and what reaches it."""

    def __init__(self, network: Network, name: str, remember: CacheLimits | None = None) -> None:
        self._network = network
        self._trace = network.trace
        self.name = name
        self.attributes: Mapping[str, Value] = {}
        """What it says about itself when it is attached the next time."""
        self.broker: str | None = None
        self.hosted = (0, "")
        """The epoch under which it was attached last, and where; it repeats them."""
        self._link: Link | None = None
        self._local = LocalBroker(name, self._send, self)
        self._remembers = remember is not None
        if remember is not None:
            self._local = RememberingLocalBroker(
                name, self._send, self, limits=remember, now=lambda: network.scheduler.now
            )
        self._to_broker: Callable[[Frame], None] | None = None
        self._current: Deliver | None = None
        self._advertisements: dict[str, Matches] = {}
        self._reaches: deque[frozenset[str]] = deque()
        self._reach: frozenset[str] = frozenset()
        self.received: list[Notification] = []
        """The notifications that reached the application, in order."""
        self.gaps: list[Gap] = []
        self.refusals: list[Refused] = []
        self.reports: dict[str, HistoryReport] = {}
        """What was said of the past of each subscription."""
        self.acknowledged_numbers: set[int] = set()
        self.reached: dict[int, Quality] = {}
        """What each acknowledged publication has reached."""
        self.settled_ids: set[str] = set()
        self.on_answer: list[Callable[[int], None]] = []
        """Called with the number of each publication that was acknowledged or refused."""
        self._stretches: dict[str, int] = {}
        """How often each subscription has begun anew at another place."""
        self.memberships: dict[str, str] = {}
        """The groups that it has joined, by the id of the subscription."""
        self.working: dict[str, str] = {}
        """The acknowledged groups that it has joined, by the id of the subscription."""
        self.answers: list[tuple[JobKey, str]] = []
        """What became of acknowledgements: the job, and why it does not count, if it does not."""
        self._reactions: list[Reaction] = []
        self._handling: int | None = None
        """The record of the notification that is being handled."""
        self.watches: dict[str, SimWatch] = {}
        """What it watches, by id."""

    # --- the link -------------------------------------------------------------------------------------

    def attach(self, broker: str) -> None:
        """Connect to a broker, and announce this application's subscriptions and advertisements to it again."""
        self._reaches.clear()
        self._link, self._to_broker = self._network.attach_client(self, broker)
        self.broker = broker
        begun = self._local.arrive(broker, self._network.brokers[broker].place)
        self._trace.add(Op.ATTACH, self.name, detail=Attached(broker, self._network.brokers[broker].epoch))
        for id, subscription in begun.items():
            self._begins_at(id, subscription)
        self._local.announce()
        for watch in self.watches.values():
            watch.announce()

    def _begins_at(self, id: str, subscription: LocalSubscription) -> None:
        """A subscription begins anew at another place: in the trace it is another one."""
        self._trace.add(Op.UNSUB, self.name, subscription=self._id(id))
        self._stretches[id] = self._stretches.get(id, 0) + 1
        self.settled_ids.discard(id)
        message = subscription.message
        terms = Subscribed(message.receive_own, message.past)
        self._trace.add(Op.SUB, self.name, subscription=self._id(id), filter=subscription.filter, detail=terms)

    def _id(self, id: str) -> str:
        """How a subscription is called in the trace."""
        return stretch(id, self._stretches.get(id, 0))

    def lost(self, *without_a_word: str) -> None:
        """Record that the broker has died, or has not noticed that this client is gone."""
        self._to_broker = self._link = None
        self.settled_ids.clear()
        self._trace.add(Op.LOST, self.name, detail=Unnoticed(*without_a_word) if without_a_word else ())

    def taken_over(self, link: Link) -> None:
        """Record that a broker ends this connection because another one hosts this client."""
        if link is self._link:
            self.lost()

    def vanish(self, *, noticed: float | None = None, kept: float | None = None) -> None:
        """Be gone without a word; see `Network.vanish_client`. Attach again, anywhere, to come back."""
        if self._link is not None and self.broker is not None:
            self._network.vanish_client(self.broker, self._link, noticed=noticed, kept=kept)
            self.lost(self.broker)

    def detach(self) -> None:
        """Disconnect for good."""
        if self._link is not None and self.broker is not None:
            self._network.detach_client(self.broker, self._link)
        self._to_broker = self._link = self.broker = None
        self._trace.add(Op.DETACH, self.name)

    @property
    def connected(self) -> bool:
        """Whether there is a broker at the other end."""
        return self._to_broker is not None

    def _send(self, frame: Frame) -> None:
        if self._to_broker is not None:
            self._to_broker(frame)

    def receive(self, link: Link, frame: Frame) -> None:
        """Take a frame from the broker; a frame of an earlier connection is dropped."""
        if link is self._link:
            self._current = frame.message if isinstance(frame.message, Deliver) else None
            if isinstance(frame.message, Settled):
                self._reach = self._reaches.popleft()
            self._local.receive(frame)

    # --- the application ------------------------------------------------------------------------------

    def publish(
        self,
        notification: Mapping[str, object] | None = None,
        *,
        quality: Quality = Quality.DEFAULT,
        **attributes: object,
    ) -> int:
        """Publish these attributes; return the number of the publication."""
        whole = notification if isinstance(notification, Notification) else Notification(notification, **attributes)
        number = self._local.publish(whole, quality=quality)
        how = Published(quality, self._handling)
        self._trace.add(Op.PUB, self.name, publication=number, publisher=self.name, notification=whole, detail=how)
        return number

    def subscribe(
        self,
        filter: Matches | str,
        *,
        id: str | None = None,
        receive_own: bool = True,
        meta: Mapping[str, str] | None = None,
        duplicates: Duplicates = Duplicates.DEFAULT,
        past: Past | Bound | None = None,
    ) -> str:
        """Subscribe to what passes a filter; return the id of the subscription."""
        if isinstance(past, Bound):
            past = Past(past)
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        if id is None:
            id = self._local.new_id()
        self.settled_ids.discard(id)
        terms = Subscribed(receive_own, None if self._remembers else past)
        here = self._local.here(filter)
        if self._remembers:
            # Its own cache delivers before the call returns, and that is not the past that brokers promise.
            self._trace.add(Op.SUB, self.name, subscription=id, filter=filter, detail=terms)
        self._local.subscribe(
            filter,
            functools.partial(self._notify, id),
            id=id,
            receive_own=receive_own,
            meta=meta,
            duplicates=duplicates,
            past=past,
        )
        if not self._remembers:
            self._trace.add(Op.SUB, self.name, subscription=self._id(id), filter=here, detail=terms)
        return id

    def join(self, group: str, filter: Matches | str, *, id: str | None = None) -> str:
        """Join a group; return the id of the subscription."""
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        if id is None:
            id = self._local.new_id()
        self.settled_ids.discard(id)
        self.memberships[id] = group
        self._trace.add(Op.JOIN, self.name, subscription=id, filter=filter, detail=Joined(group))
        self._local.join(group, filter, functools.partial(self._share, id), id=id)
        return id

    def leave(self, id: str) -> None:
        """Leave a group."""
        self._local.leave(id)
        if self.memberships.pop(id, None) is not None:
            self.settled_ids.discard(id)
            self._trace.add(Op.LEAVE, self.name, subscription=id)

    def enlist(
        self,
        group: str,
        filter: Matches | str,
        *,
        id: str | None = None,
        work: Work = WORK_TERMS,
        most: int = 10,
        habit: Habit = prompt,
    ) -> str:
        """Join an acknowledged group; return the id of the subscription. `habit` says what becomes of each job."""
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        if id is None:
            id = self._local.new_id()
        self.settled_ids.discard(id)
        self.working[id] = group
        how = Enlisted(group, work.ack_within)
        self._trace.add(Op.ENLIST, self.name, subscription=id, filter=filter, detail=how)
        self._local.enlist(
            group,
            filter,
            functools.partial(self._job, id, habit),
            work=work,
            max_in_flight=most,
            answered=lambda job, refused: self.answers.append((job, refused)),
            id=id,
        )
        return id

    def quit(self, id: str) -> None:
        """Leave an acknowledged group."""
        self._local.quit(id)
        if self.working.pop(id, None) is not None:
            self.settled_ids.discard(id)
            self._trace.add(Op.QUIT, self.name, subscription=id)

    def ack(self, id: str, job: JobKey, notification: Notification, identity: Identity) -> None:
        """Acknowledge a job."""
        self._local.ack(id, job)
        self._said(Op.DONE, id, job, notification, identity)

    def nack(self, id: str, job: JobKey, notification: Notification, identity: Identity, delay: int = 0) -> None:
        """Give a job back."""
        self._local.nack(id, job, delay)
        self._said(Op.BACK, id, job, notification, identity)

    def die(self) -> None:
        """Let the process die, with all that it knows of acknowledged groups; attach again to come back."""
        self.detach()
        self._local.forget_work()
        self._trace.add(Op.DIED, self.name)

    def _job(self, id: str, habit: Habit, notification: Notification) -> None:
        identity, given = self._local.delivering, self._local.delivering_job
        assert identity is not None
        assert given is not None
        job, deliveries = given
        self.received.append(notification)
        self._trace.add(
            Op.JOB,
            self.name,
            subscription=id,
            publication=identity.publisher_seq,
            publisher=identity.publisher,
            notification=notification,
            detail=Given(*job, deliveries, identity.graph_epoch),
        )
        act = habit(self.name, job, deliveries)
        if act.verb is None:
            return
        if act.after:
            self._network.scheduler.after(act.after, lambda: self._act(id, act, job, notification, identity))
        else:
            self._act(id, act, job, notification, identity)

    def _act(self, id: str, act: Act, job: JobKey, notification: Notification, identity: Identity) -> None:
        if not self._local.holds(id, job):
            return
        if act.verb is Op.DONE:
            self.ack(id, job, notification, identity)
        else:
            self.nack(id, job, notification, identity, act.delay)

    def _said(self, op: Op, id: str, job: JobKey, notification: Notification, identity: Identity) -> None:
        self._trace.add(
            op,
            self.name,
            subscription=id,
            publication=identity.publisher_seq,
            publisher=identity.publisher,
            notification=notification,
            detail=Notified(*job),
        )

    def unsubscribe(self, id: str) -> None:
        """End a subscription."""
        self._local.unsubscribe(id)
        self.settled_ids.discard(id)
        self._trace.add(Op.UNSUB, self.name, subscription=self._id(id))

    def advertise(self, filter: Matches | str, *, id: str | None = None) -> str:
        """Advertise what passes a filter; return the id of the advertisement."""
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        id = self._local.advertise(filter, id=id)
        self._advertisements[id] = filter
        self.settled_ids.discard(id)
        self._trace.add(Op.ADV, self.name, subscription=id, filter=filter)
        return id

    def unadvertise(self, id: str) -> None:
        """End an advertisement."""
        self._local.unadvertise(id)
        self._advertisements.pop(id, None)
        self.settled_ids.discard(id)
        self._trace.add(Op.UNADV, self.name, subscription=id)

    @property
    def subscriptions(self) -> dict[str, Matches]:
        """The filters of the active subscriptions, by id."""
        return self._local.subscriptions

    @property
    def advertisements(self) -> dict[str, Matches]:
        """The filters of the active advertisements, by id."""
        return dict(self._advertisements)

    def watch(
        self,
        aggregate: str,
        filter: str = "",
        *,
        id: str | None = None,
        max_error: float = 0,
        probe: Mapping[str, object] | None = None,
        scope: str = ROOT_SCOPE,
        away: bool = False,
    ) -> SimWatch:
        """Watch an aggregate until `unwatch`, across brokers; see `tidings.Client.aggregates`."""
        id = id if id is not None else f"w{len(self.watches) + 1}"
        self.unwatch(id)
        watch = self.watches[id] = SimWatch(
            self._extend, id, aggregate, filter, max_error=max_error, probe=probe, scope=scope, away=away
        )
        watch.announce()
        return watch

    def unwatch(self, id: str) -> None:
        """Watch it no longer."""
        if (watch := self.watches.pop(id, None)) is not None:
            watch.end()

    def deploy(self, statement: Signed) -> None:
        """Make a statement about something deployed, whoever watches it; what is said to that is not kept."""
        self._send(Frame(Extension(DEPLOYMENTS, encode(Deploy("d", statement, force=True)))))

    def _extend(self, body: bytes) -> None:
        self._send(Frame(Extension(FEATURE, body)))

    # --- what the local broker calls ------------------------------------------------------------------

    def _notify(self, id: str, notification: Notification) -> None:
        self._got(Op.NOTIFY, id, notification)

    def _share(self, id: str, notification: Notification) -> None:
        self._got(Op.SHARE, id, notification)

    def _got(self, op: Op, id: str, notification: Notification) -> None:
        identity = self._local.delivering
        assert identity is not None
        self.received.append(notification)
        self._trace.add(
            op,
            self.name,
            subscription=self._id(id),
            publication=identity.publisher_seq,
            publisher=identity.publisher,
            notification=notification,
            detail=Notified(
                identity.origin,
                identity.epoch,
                identity.seq,
                self._current.envelope.routes[0].version if self._current is not None else 0,
                identity.graph_epoch,
                self._local.delivering_past and not self._remembers,
            ),
        )
        self._react(notification)

    def react(self, filter: Filter, notification: Notification, times: int) -> None:
        """From now on, publish this in reaction to whatever passes a filter, so many times."""
        self._reactions.append(Reaction(filter, notification, times))

    def _react(self, notification: Notification) -> None:
        self._handling = len(self._trace.records) - 1
        for one in self._reactions:
            if one.times and one.filter.matches(notification):
                one.times -= 1
                self.publish(one.notification)
        self._handling = None

    def broker_settled(self, reach: frozenset[str]) -> None:
        """Note which brokers this client's broker reached when it reported that something has settled."""
        self._reaches.append(reach)

    def settled(self, id: str, advertisement: bool) -> None:
        """Record that a subscription or advertisement has settled."""
        self.settled_ids.add(id)
        op = Op.JOINED if id in self.memberships and not advertisement else Op.SETTLED
        if id in self.working and not advertisement:
            op = Op.ENLISTED
        self._trace.add(op, self.name, subscription=self._id(id), detail=Settlement(advertisement, self._reach))

    def acknowledged(self, seq: int, key: EventKey, quality: Quality) -> None:
        """Record that a publication was acknowledged."""
        self.acknowledged_numbers.add(seq)
        self.reached[seq] = quality
        self._trace.add(Op.ACK, self.name, publication=seq, publisher=self.name, detail=Acknowledged(*key, quality))
        for answered in self.on_answer:
            answered(seq)

    def refused(self, refusal: Refused) -> None:
        """Record that something was refused."""
        self.refusals.append(refusal)
        if refusal.reference in self.memberships:
            self.leave(refusal.reference)
        if refusal.reference in self.working:
            self.quit(refusal.reference)
        for answered in self.on_answer:
            answered(refusal.publication or 0)
        self._trace.add(Op.REFUSED, self.name, detail=Refusal(refusal.error, refusal.reason, refusal.reference))

    def remembered(self, report: HistoryReport) -> None:
        """Record that a subscription has its past and goes live."""
        self.reports[report.id] = report
        what = Remembered(report.count, report.ending, report.capped, report.brokers)
        self._trace.add(Op.REMEMBERED, self.name, subscription=self._id(report.id), detail=what)

    def progressed(self) -> None:
        """Ignore progress marks: a simulated application does not wait for them."""

    def answered(self, reply: Answer) -> None:
        """Ignore answers: a simulated application asks no such questions."""

    def extended(self, message: Extension) -> None:
        """Note what is said about what this client watches; tests talk to other features at the broker."""
        if message.feature == FEATURE:
            heard = read_result(message.body)
            if heard is not None and (watch := self.watches.get(heard.id)) is not None:
                watch.heard(heard)

    def gap(self, gap: Gap) -> None:
        """Record that a loss was reported."""
        self.gaps.append(gap)
        for id in gap.subscriptions:
            where = Missing(gap.origin, gap.epoch, gap.first, gap.last)
            self._trace.add(
                Op.MISSED if id in self.memberships or id in self.working else Op.GAP,
                self.name,
                subscription=self._id(id),
                detail=where,
            )
