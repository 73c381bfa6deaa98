"""A witness: writes into the trace what a real client does, and what reaches its application.

It stands between the client library and its local broker, and changes nothing: every call goes on to the local broker,
everything that the service says goes on to the client. What it writes is what `SimClient` writes, so the same checker
judges both.

A client that is opened again under a name is another process to the network. So its subscriptions have other ids in the
trace, and those of the earlier one have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidings.broker import LocalBroker, LocalSubscription, Observer, reaction
from tidings.history.caching import RememberingLocalBroker
from tidings.model import EventKey, Filter, Location, Matches, Notification
from tidings.wire import Answer, Deliver, Extension, Frame, Gap, HistoryReport, Past, Quality, Refused, Settled

from ._details import Acknowledged, Attached, Missing, Notified, Published, Refusal, Remembered, Settlement, Subscribed
from ._guest import Guest
from ._reactions import UNKNOWN
from ._trace import Op, Trace, stretch


class Witness:
    """What one client does, from its opening to its end."""

    def __init__(
        self,
        local: LocalBroker,
        trace: Trace,
        guest_of: Callable[[Witness], tuple[Guest, str, int]],
        life_of: Callable[[str], int],
    ) -> None:
        """`guest_of` finds where the client has been let in; `life_of` counts the clients of a name so far."""
        self._local = local
        self._trace = trace
        self._guest_of = guest_of
        self._life_of = life_of
        self._life = 0
        self._ended = False
        self.guest: Guest | None = None
        """The client at its broker; None while it has none."""
        self._remembers = isinstance(local, RememberingLocalBroker)
        self._inner: Observer | None = local.observer
        self._reach: frozenset[str] = frozenset()
        self._version = 0
        self._subscriptions: dict[str, tuple[Matches, bool, Past | None]] = {}
        self._receive, self._publish, self._subscribe = local.receive, local.publish, local.subscribe
        self._unsubscribe, self._advertise, self._unadvertise = local.unsubscribe, local.advertise, local.unadvertise
        self._announce, self._arrive = local.announce, local.arrive
        self._stretches: dict[str, int] = {}
        """How often each subscription has begun anew at another place."""
        self._begun: dict[str, LocalSubscription] = {}
        """Those that do so with what is announced next."""
        changed: Any = local
        changed.observer = self
        changed.publish, changed.subscribe, changed.unsubscribe = self.publish, self.subscribe, self.unsubscribe
        changed.advertise, changed.unadvertise = self.advertise, self.unadvertise
        changed.announce, changed.arrive = self.announce, self.arrive

    @property
    def name(self) -> str:
        """What the client is called; "" until a broker has let it in."""
        return self._local.name

    def _id(self, id: str) -> str:
        """How a subscription is called in the trace."""
        id = stretch(id, self._stretches.get(id, 0))
        return id if self._life < 2 else f"{id}/{self._life}"

    # --- coming and going -----------------------------------------------------------------------------

    def announce(self) -> None:
        """A broker has let the client in, and is told everything."""
        self.lost()
        self.guest, broker, epoch = self._guest_of(self)
        if not self._life:
            self._life = self._life_of(self.name)
        self._trace.add(Op.ATTACH, self.name, detail=Attached(broker, epoch))
        begun, self._begun = self._begun, {}
        for id, subscription in begun.items():
            self._trace.add(Op.UNSUB, self.name, subscription=self._id(id))
            self._stretches[id] = self._stretches.get(id, 0) + 1
            self._subscriptions[id] = (subscription.filter, subscription.message.receive_own, subscription.message.past)
            self._began(id, self._subscriptions[id])
        self._announce()

    def arrive(self, broker: str, place: Location | None) -> dict[str, LocalSubscription]:
        """A broker has let the client in, and says where it stands."""
        self._begun = self._arrive(broker, place)
        return self._begun

    def lost(self) -> None:
        """The client has lost its broker."""
        if self.guest is not None:
            self.guest = None
            self._trace.add(Op.LOST, self.name)

    def left(self) -> None:
        """The client has ended, and all that it wanted with it."""
        for id in self._subscriptions:
            self._trace.add(Op.UNSUB, self.name, subscription=self._id(id))
        self._subscriptions.clear()
        if self.guest is not None:
            self.guest = None
            self._trace.add(Op.DETACH, self.name)
        if self._life and not self._ended:
            self._ended = True
            self._trace.add(Op.ENDED, self.name)

    # --- what the client does -------------------------------------------------------------------------

    def publish(self, notification: Mapping[str, object], *, quality: Quality = Quality.DEFAULT, **more: Any) -> int:
        whole = notification if isinstance(notification, Notification) else Notification(notification)
        number = self._publish(whole, quality=quality, **more)
        how = Published(quality, UNKNOWN if reaction() else None)
        self._trace.add(Op.PUB, self.name, publication=number, publisher=self.name, notification=whole, detail=how)
        return number

    def subscribe(
        self,
        filter: Matches | str,
        callback: Callable[[Notification], None],
        *,
        id: str | None = None,
        receive_own: bool = True,
        past: Past | None = None,
        **more: Any,
    ) -> str:
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        if id is None:
            id = self._local.new_id()
        before = self._subscriptions.get(id)
        filter, marked = self._local.here(filter), filter
        # It is written down first: a local broker that remembers delivers before the call returns. What it delivers is
        # not the past that brokers promise.
        terms = self._subscriptions[id] = (filter, receive_own, None if self._remembers else past)
        self._began(id, terms)

        def notify(notification: Notification) -> None:
            self._notified(id, notification)
            callback(notification)

        try:
            return self._subscribe(marked, notify, id=id, receive_own=receive_own, past=past, **more)
        except BaseException:
            if before is None:
                del self._subscriptions[id]
                self._trace.add(Op.UNSUB, self.name, subscription=self._id(id))
            else:
                self._subscriptions[id] = before
                self._began(id, before)
            raise

    def _began(self, id: str, terms: tuple[Matches, bool, Past | None]) -> None:
        filter, receive_own, past = terms
        self._trace.add(
            Op.SUB, self.name, subscription=self._id(id), filter=filter, detail=Subscribed(receive_own, past)
        )

    def unsubscribe(self, id: str) -> None:
        self._unsubscribe(id)
        if self._subscriptions.pop(id, None) is not None:
            self._trace.add(Op.UNSUB, self.name, subscription=self._id(id))

    def advertise(self, filter: Matches | str, *, id: str | None = None) -> str:
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        id = self._advertise(filter, id=id)
        self._trace.add(Op.ADV, self.name, subscription=self._id(id), filter=filter)
        return id

    def unadvertise(self, id: str) -> None:
        self._unadvertise(id)
        self._trace.add(Op.UNADV, self.name, subscription=self._id(id))

    # --- what reaches it ------------------------------------------------------------------------------

    def receive(self, frame: Frame) -> None:
        """Take a frame from the broker."""
        message = frame.message
        if type(message) is Deliver:
            self._version = message.envelope.routes[0].version
        elif type(message) is Settled and self.guest is not None:
            self._reach = self.guest.reaches.popleft()
        self._receive(frame)

    def _notified(self, id: str, notification: Notification) -> None:
        identity = self._local.delivering
        assert identity is not None
        self._trace.add(
            Op.NOTIFY,
            self.name,
            subscription=self._id(id),
            publication=identity.publisher_seq,
            publisher=identity.publisher,
            notification=notification,
            detail=Notified(
                identity.origin,
                identity.epoch,
                identity.seq,
                self._version,
                identity.graph_epoch,
                self._local.delivering_past and not self._remembers,
            ),
        )

    def settled(self, id: str, advertisement: bool) -> None:
        self._trace.add(Op.SETTLED, self.name, subscription=self._id(id), detail=Settlement(advertisement, self._reach))
        if self._inner is not None:
            self._inner.settled(id, advertisement)

    def acknowledged(self, seq: int, key: EventKey, quality: Quality) -> None:
        self._trace.add(Op.ACK, self.name, publication=seq, publisher=self.name, detail=Acknowledged(*key, quality))
        if self._inner is not None:
            self._inner.acknowledged(seq, key, quality)

    def refused(self, refusal: Refused) -> None:
        self._trace.add(Op.REFUSED, self.name, detail=Refusal(refusal.error, refusal.reason, refusal.reference))
        if self._inner is not None:
            self._inner.refused(refusal)

    def remembered(self, report: HistoryReport) -> None:
        what = Remembered(report.count, report.ending, report.capped, report.brokers)
        self._trace.add(Op.REMEMBERED, self.name, subscription=self._id(report.id), detail=what)
        if self._inner is not None:
            self._inner.remembered(report)

    def gap(self, gap: Gap) -> None:
        for id in gap.subscriptions:
            where = Missing(gap.origin, gap.epoch, gap.first, gap.last)
            self._trace.add(Op.GAP, self.name, subscription=self._id(id), detail=where)
        if self._inner is not None:
            self._inner.gap(gap)

    def answered(self, reply: Answer) -> None:
        if self._inner is not None:
            self._inner.answered(reply)

    def progressed(self) -> None:
        if self._inner is not None:
            self._inner.progressed()

    def extended(self, message: Extension) -> None:
        if self._inner is not None:
            self._inner.extended(message)
