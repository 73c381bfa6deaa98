"""A simulated application: the production local broker on a virtual link."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tidings.broker import Link, LocalBroker
from tidings.model import Bound, Duplicates, EventKey, Filter, Matches, Notification
from tidings.wire import Answer, Deliver, Extension, Frame, Gap, HistoryReport, Past, Quality, Refused, Settled

from ._trace import Op

if TYPE_CHECKING:
    from ._network import Network


class SimClient:
    """A simulated application: it records what it does and what reaches it."""

    def __init__(self, network: Network, name: str) -> None:
        self._network = network
        self._trace = network.trace
        self.name = name
        self.broker: str | None = None
        self._link: Link | None = None
        self._local = LocalBroker(name, self._send, self)
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

    # --- the link -------------------------------------------------------------------------------------

    def attach(self, broker: str) -> None:
        """Connect to a broker, and announce this application's subscriptions and advertisements to it again."""
        self._reaches.clear()
        self._link, pipe = self._network.attach_client(self, broker)
        self.broker = broker
        self._to_broker = pipe.send
        self._trace.add(Op.ATTACH, self.name, detail=(broker, self._network.brokers[broker].epoch))
        self._local.announce()

    def lost(self) -> None:
        """Record that the broker has died."""
        self._to_broker = self._link = None
        self.settled_ids.clear()
        self._trace.add(Op.LOST, self.name)

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
        self._trace.add(
            Op.PUB, self.name, publication=number, publisher=self.name, notification=whole, detail=(quality,)
        )
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
        names: list[str] = []
        id = self._local.subscribe(
            filter,
            lambda n: self._notify(names[0], n),
            id=id,
            receive_own=receive_own,
            meta=meta,
            duplicates=duplicates,
            past=past,
        )
        names.append(id)
        self.settled_ids.discard(id)
        self._trace.add(Op.SUB, self.name, subscription=id, filter=filter, detail=(receive_own, past))
        return id

    def unsubscribe(self, id: str) -> None:
        """End a subscription."""
        self._local.unsubscribe(id)
        self.settled_ids.discard(id)
        self._trace.add(Op.UNSUB, self.name, subscription=id)

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

    # --- what the local broker calls ------------------------------------------------------------------

    def _notify(self, id: str, notification: Notification) -> None:
        assert self._current is not None
        identity = self._current.envelope.identity
        self.received.append(notification)
        self._trace.add(
            Op.NOTIFY,
            self.name,
            subscription=id,
            publication=identity.publisher_seq,
            publisher=identity.publisher,
            notification=notification,
            detail=(
                *(identity.origin, identity.epoch, identity.seq),
                self._current.envelope.routes[0].version,
                identity.graph_epoch,
                self._local.delivering_past,
            ),
        )

    def broker_settled(self, reach: frozenset[str]) -> None:
        """Note which brokers this client's broker reached when it reported that something has settled."""
        self._reaches.append(reach)

    def settled(self, id: str, advertisement: bool) -> None:
        """Record that a subscription or advertisement has settled."""
        self.settled_ids.add(id)
        self._trace.add(Op.SETTLED, self.name, subscription=id, detail=(advertisement, self._reach))

    def acknowledged(self, seq: int, key: EventKey, quality: Quality) -> None:
        """Record that a publication was acknowledged."""
        self.acknowledged_numbers.add(seq)
        self.reached[seq] = quality
        self._trace.add(Op.ACK, self.name, publication=seq, publisher=self.name, detail=(*key, quality))

    def refused(self, refusal: Refused) -> None:
        """Record that something was refused."""
        self.refusals.append(refusal)
        self._trace.add(Op.REFUSED, self.name, detail=(refusal.error, refusal.reason, refusal.reference))

    def remembered(self, report: HistoryReport) -> None:
        """Record that a subscription has its past and goes live."""
        self.reports[report.id] = report
        what = (report.count, report.ending, report.capped, report.brokers)
        self._trace.add(Op.REMEMBERED, self.name, subscription=report.id, detail=what)

    def progressed(self) -> None:
        """Ignore progress marks: a simulated application does not wait for them."""

    def answered(self, reply: Answer) -> None:
        """Ignore answers: a simulated application asks no such questions."""

    def extended(self, message: Extension) -> None:
        """Ignore messages of features: tests talk to features at the broker."""

    def gap(self, gap: Gap) -> None:
        """Record that a loss was reported."""
        self.gaps.append(gap)
        for id in gap.subscriptions:
            self._trace.add(Op.GAP, self.name, subscription=id, detail=(gap.origin, gap.epoch, gap.first, gap.last))
