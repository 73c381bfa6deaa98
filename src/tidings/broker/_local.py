"""The local broker: the first hop of an application, inside its own process.

It turns calls into messages and messages into calls. It is attached to exactly one border broker, holds the
application's subscriptions and their callbacks, and keeps the last promises that only it can keep: after
`unsubscribe` has returned no callback runs for that subscription, whatever is still under way, and no notification
is handed over twice.

It also remembers what a border broker must not have to: how far it has seen each origin, and which publications nobody
has acknowledged. When the border broker is lost, `announce` tells the next one, which may be another, everything
that it needs to go on without a gap.

A second copy is recognised in two ways. What one origin sends to one subscription comes in the order of its numbers, so
a number that is not larger than the last is a repetition. A publication that its publisher sent again through another
border broker has another number; it is recognised by the publisher's own, among the latest ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import length_hint
from typing import Protocol

import msgspec

from tidings.model import (
    AlreadyPublished,
    Duplicates,
    EventKey,
    Filter,
    FilterError,
    Identity,
    Location,
    Matches,
    Notification,
    Position,
)
from tidings.wire import (
    GROUPS,
    WORK,
    Advertise,
    Answer,
    AnyMessage,
    Deliver,
    DeliverAck,
    Enlist,
    Extension,
    Frame,
    Gap,
    HistoryReport,
    JobKey,
    Join,
    Leave,
    Marks,
    Missed,
    Opening,
    Past,
    Publish,
    PublishAck,
    Quality,
    Quit,
    Refused,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Work,
    decode_body,
    encode_body,
    pack,
    read_to_worker,
    take_deliveries,
)

from ._bounds import check_place, is_located, resolved
from ._causes import NO_TAGS, handle, handled_here, reaction, session_tags
from ._local_subscription import Callback, LocalSubscription, Membership, TakeMany
from ._repetitions import Repetitions
from ._working import Working
from .forwarding import DETOUR, FROM_PAST, ONE_OF_SEVERAL

DUPLICATE_WINDOW = 8_192
"""How many of the latest deliveries are remembered to recognise a second copy."""

_FIRE = Quality.FIRE  # as a name of its own it is found faster


class Observer(Protocol):
    """Who wants to know what happens between the application and the service. Every call is optional to use."""

    def settled(self, id: str, advertisement: bool) -> None:
        """Everything that must know the subscription or advertisement knows it."""

    def acknowledged(self, seq: int, key: EventKey, quality: Quality) -> None:
        """A publication has reached this quality; the event has this key."""

    def refused(self, refusal: Refused) -> None:
        """Something was not done."""

    def remembered(self, report: HistoryReport) -> None:
        """The past of a subscription has been delivered."""

    def gap(self, gap: Gap) -> None:
        """Notifications are lost for some subscriptions."""

    def answered(self, reply: Answer) -> None:
        """The broker has answered a question."""

    def progressed(self) -> None:
        """The border broker says how far everything has been sent."""

    def extended(self, message: Extension) -> None:
        """A feature of the broker has sent a message of its own."""


class LocalBroker:
    """The subscriptions of one application, and its way to the border broker."""

    def __init__(
        self,
        name: str,
        send: Callable[[Frame], None],
        observer: Observer | None = None,
        *,
        duplicate_window: int = DUPLICATE_WINDOW,
        published: int = 0,
    ) -> None:
        """`send` puts a frame on the link to the border broker; a `duplicate_window` of 0 switches the check off.

        `published` is the number of the last publication under this name; the first one here gets the next.
        """
        self.name = name
        """What the application is called in the network; whoever is given a name by its border broker sets it then."""
        self._send = send
        self.observer = observer
        """Who is told what the border broker says; None: nobody."""
        self._window = duplicate_window
        self._repetitions = Repetitions(duplicate_window)
        self._subscriptions: dict[str, LocalSubscription] = {}
        self._memberships: dict[str, Membership] = {}
        self._working: dict[str, Working] = {}
        self._advertisements: dict[str, Advertise] = {}
        self._unacknowledged: dict[int, Publish] = {}
        self._acknowledged: dict[str, Position] = {}
        self._place: Location | None = None
        self._broker = ""
        self._numbers = 0
        self._requests = 0
        self._first = self._published = published
        self.duplicates = 0
        """Second copies that were dropped."""
        self.delivering: Identity | None = None
        """Of the notification that the callbacks are called with."""
        self.delivering_past = False
        """Whether that notification comes from the past."""
        self.delivering_job: tuple[JobKey, int] | None = None
        """Of an acknowledged group: which job that is, and how often it has been given to a member."""
        self.delivering_tags = NO_TAGS
        """The sessions that it belongs to, if it belongs to any: what is published in reaction repeats them."""

    # --- what the application calls -------------------------------------------------------------------

    def publish(
        self,
        notification: Notification | Mapping[str, object],
        *,
        quality: Quality = Quality.DEFAULT,
        ttl: int | None = None,
        seq: int | None = None,
        opens: Opening | None = None,
    ) -> int:
        """Publish; the number by which the publication is acknowledged or refused.

        A `seq` of the caller's own must be larger than every one before: each publication happens once.
        """
        body = encode_body(notification)
        if seq is None:
            seq = self._published + 1
        elif seq <= self._published:
            raise AlreadyPublished(
                f"'{self.name}' has published number {seq} already; the next is {self._published + 1}"
            )
        self._published = seq
        message = Publish(seq, body, quality, ttl, reaction() if handled_here() else NO_TAGS, opens)
        if quality is not _FIRE and opens is None:  # a request is answered by its replies, or by their absence
            self._unacknowledged[seq] = message
        self._send(Frame(message))
        return seq

    @property
    def published(self) -> int:
        """The number of the latest publication."""
        return self._published

    @property
    def unacknowledged(self) -> int:
        """How many publications wait for their acknowledgement."""
        return len(self._unacknowledged)

    def subscribe(
        self,
        filter: Matches | str,
        callback: Callback,
        *,
        id: str | None = None,
        receive_own: bool = True,
        meta: Mapping[str, str] | None = None,
        after: Mapping[str, Position] | None = None,
        duplicates: Duplicates = Duplicates.DEFAULT,
        past: Past | None = None,
        many: TakeMany | None = None,
    ) -> str:
        """Subscribe; the id of the subscription. The same id again changes its filter, without a gap.

        `after` says how far an earlier subscription had come that this one goes on with: it is owed what follows.
        `past` says how far it reaches back; a filter that is changed before the past has come applies to that, too.
        `many` may be called in place of `callback`, with notifications of which nothing else will be asked.
        """
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        here = self.here(filter)
        if id is None:
            id = self.new_id()
        self._requests += 1
        known = self._subscriptions.get(id)
        if past is not None and past.bound.asks_for_nothing:
            past = None
        if known is not None:
            past = None if known.settled else past or known.message.past
        message = Subscribe(
            id,
            filter,
            receive_own=receive_own,
            meta=dict(meta or {}),
            number=self._requests,
            duplicates=duplicates,
            past=past,
        )
        subscription = LocalSubscription(message, callback, here, many)
        if known is not None:
            subscription.follows(known)
        elif after is not None:
            subscription.goes_on(after)
        # A filter that cannot be sent is refused here: it must not be in the way of what is announced later.
        self._out(message if after is None else msgspec.structs.replace(message, after=dict(after), early=True))
        self._subscriptions[id] = subscription
        return id

    def new_id(self) -> str:
        """An id for a subscription that nothing else has."""
        self._numbers += 1
        return f"s{self._numbers}"

    def position(self, id: str) -> dict[str, Position] | None:
        """How far a subscription has seen each origin; None if it does not exist or has never settled."""
        subscription = self._subscriptions.get(id)
        return subscription.after if subscription is not None and subscription.settled else None

    def unsubscribe(self, id: str) -> None:
        """End a subscription. No callback runs for it any more. Ending it again does nothing."""
        if self._subscriptions.pop(id, None) is not None:
            self._out(Unsubscribe(id))

    def join(self, group: str, filter: Matches | str, callback: Callback, *, id: str | None = None) -> str:
        """Get a share of what a group gets; the id of the subscription. The same id again joins anew."""
        if id is None:
            id = self.new_id()
        self._requests += 1
        join = Join(id, group, str(filter), self._requests)
        self._memberships[id] = Membership(join, callback)
        self._out(Extension(GROUPS, pack(join)))
        return id

    def leave(self, id: str) -> None:
        """Leave a group. No callback runs for it any more. Leaving it again does nothing."""
        if self._memberships.pop(id, None) is not None:
            self._out(Extension(GROUPS, pack(Leave(id))))

    def enlist(
        self,
        group: str,
        filter: Matches | str,
        callback: Callback,
        *,
        work: Work,
        max_in_flight: int,
        answered: Callable[[JobKey, str], None] = lambda job, refused: None,
        id: str | None = None,
    ) -> str:
        """Get jobs of an acknowledged group; the id of the subscription. The same id again joins anew.

        While `callback` runs, `delivering_job` says which job it is. `answered` hears what becomes of `ack` and `nack`;
        see `Working`.
        """
        if id is None:
            id = self.new_id()
        self._requests += 1
        enlist = Enlist(id, group, str(filter), work, max_in_flight, self._requests)
        working, known = Working(enlist, callback, answered), self._working.get(id)
        if known is not None and known.enlist.group == group:
            working.takes_over(known)
        self._working[id] = working
        self._out(Extension(WORK, pack(working.announced)))
        return id

    def quit(self, id: str) -> None:
        """Leave an acknowledged group. No callback runs for it any more. Leaving it again does nothing."""
        if self._working.pop(id, None) is not None:
            self._out(Extension(WORK, pack(Quit(id))))

    def ack(self, id: str, job: JobKey) -> None:
        """A job of an acknowledged group is done."""
        if (working := self._working.get(id)) is not None:
            self._out(Extension(WORK, pack(working.ack(job))))

    def nack(self, id: str, job: JobKey, delay: int = 0) -> None:
        """A job of an acknowledged group goes back to it, for so many microseconds later."""
        if (working := self._working.get(id)) is not None:
            self._out(Extension(WORK, pack(working.nack(job, delay))))

    def holds(self, id: str, job: JobKey) -> bool:
        """Whether the application has a job of an acknowledged group, and has said nothing about it."""
        return (working := self._working.get(id)) is not None and job in working.held

    def forget_work(self) -> None:
        """Forget all jobs, and what is known to be handled, as a process that dies does."""
        for id, working in self._working.items():
            self._working[id] = Working(working.enlist, working.callback, working.answered)

    def advertise(self, filter: Matches | str, *, id: str | None = None) -> str:
        """Announce what may be published; the id of the advertisement."""
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        check_place(filter)
        if id is None:
            self._numbers += 1
            id = f"a{self._numbers}"
        self._requests += 1
        message = Advertise(id, filter, number=self._requests)
        self._out(message)
        self._advertisements[id] = message
        return id

    def unadvertise(self, id: str) -> None:
        """End an advertisement. Ending it again does nothing."""
        if self._advertisements.pop(id, None) is not None:
            self._out(Unadvertise(id))

    def go_on_after(self, number: int) -> None:
        """A border broker knows this number as used; if nothing has been published yet, larger ones are used."""
        if self._published == self._first:
            self._first = self._published = max(self._published, number)

    @property
    def place(self) -> Location | None:
        """Where the border broker stands, and with it the application; None: that is not known."""
        return self._place

    def here(self, filter: Matches) -> Matches:
        """What a filter means here; `FilterError` if it speaks of `myloc`, and the border broker has no place."""
        return resolved(filter, self._place, self._broker)

    def arrive(self, broker: str, place: Location | None) -> dict[str, LocalSubscription]:
        """The border broker that will be told everything stands here.

        At another place than before, each subscription that speaks of `myloc` begins a new stretch: it is owed nothing
        of the place that it has left. Return these. Where there is no place, they are refused.
        """
        before, self._place, self._broker = self._place, place, broker
        if place == before:
            return {}
        located = {id: one for id, one in self._subscriptions.items() if is_located(one.message.filter)}
        begun: dict[str, LocalSubscription] = {}
        for id, subscription in located.items():
            try:
                here = self.here(subscription.message.filter)
            except FilterError as error:
                del self._subscriptions[id]
                if self.observer is not None:
                    self.observer.refused(Refused(type(error).__name__, str(error), id))
            else:
                self._requests += 1
                subscription.begins_at(here, self._requests)
                begun[id] = subscription
        return begun

    def announce(self) -> None:
        """Tell a border broker that knows nothing of this application what it advertises, wants and has published."""
        for advertisement in self._advertisements.values():
            self._out(advertisement)
        for subscription in self._subscriptions.values():
            subscription.begins_anew()
            message = subscription.message
            if subscription.settled:
                message = msgspec.structs.replace(message, after=subscription.after, past=None, early=True)
            self._out(message)
        for membership in self._memberships.values():
            self._out(Extension(GROUPS, pack(membership.join)))
        for working in self._working.values():
            self._out(Extension(WORK, pack(working.announced)))
        for publication in self._unacknowledged.values():
            self._out(publication)

    @property
    def subscriptions(self) -> dict[str, Matches]:
        """The active subscriptions."""
        return {id: subscription.filter for id, subscription in self._subscriptions.items()}

    @property
    def unconfirmed(self) -> dict[str, Matches]:
        """Those of them that the border broker may not know yet."""
        return {id: one.filter for id, one in self._subscriptions.items() if not one.confirmed}

    # --- what the link calls --------------------------------------------------------------------------

    def receive(self, frame: Frame) -> None:
        """A frame has come from the border broker."""
        message = frame.message
        if type(message) is Deliver:
            self._deliver(message)
        else:
            self._hear(message)

    def take(self, data: bytes, at: int) -> tuple[int, int]:
        """Hand over the notifications whose parts begin at this place, as far as they are plain and nothing changes.

        Return how far that was, and how many. The part behind them is for `receive`.
        """
        run = take_deliveries(data, at)
        if run is None or (shape := run.shape) is None:
            return at, 0
        route, ids = shape
        subscription = self._subscriptions.get(ids[0]) if len(ids) == 1 else None
        if subscription is None or subscription.many is None or route.tags or not subscription.takes(run):
            return at, 0
        source = (subscription.name, run.publisher, subscription.form(route))
        if self._window and not self._repetitions.follows(source, run.numbers[0]):
            return at, 0
        notifications = iter(run.notifications)
        try:
            subscription.many(notifications)
        finally:
            if left := length_hint(notifications):
                run = take_deliveries(data, at, len(run.numbers) - left) or run._replace(upto=at, numbers=[])
            if self._window and run.numbers:
                subscription.last[run.origin] = Position(run.epoch, run.last)
                self._repetitions.note(source, run.numbers)
        return run.upto, len(run.numbers)

    def _hear(self, message: AnyMessage) -> None:
        match message:
            case Settled():
                if not self._settled(message):
                    return
            case Marks():
                for subscription in self._subscriptions.values():
                    if subscription.confirmed:
                        subscription.mark(message.marks)
                self._acknowledge(message.marks)
            case PublishAck():
                for seq in range(message.seq - message.count + 1, message.seq + 1):
                    self._unacknowledged.pop(seq, None)
            case HistoryReport():
                if not self._remembered(message):
                    return
            case Gap():
                message = self._unheard(message)
                if not message.subscriptions:
                    return
            case Refused():
                self._unacknowledged.pop(message.publication or 0, None)
            case Extension() if message.feature == WORK:
                self._work(message)
                return
        if self.observer is not None:
            self._observe(self.observer, message)

    def _work(self, message: Extension) -> None:
        said = read_to_worker(message.body)
        working = self._working.get(said.id)
        if working is not None and isinstance(said, Missed):
            if self.observer is not None:
                self.observer.gap(msgspec.structs.replace(said.gap, subscriptions=(said.id,)))
        elif working is not None:
            working.hear(said)

    def _settled(self, message: Settled) -> bool:
        """Whether this is about what the application wants now, and not about what it wanted before."""
        if message.advertisement:
            advertisement = self._advertisements.get(message.id)
            return advertisement is not None and advertisement.number == message.number
        subscription = self._subscriptions.get(message.id)
        if subscription is None:
            if (working := self._working.get(message.id)) is not None and working.enlist.number == message.number:
                working.settled()
                return True
            membership = self._memberships.get(message.id)
            return membership is not None and membership.join.number == message.number
        if subscription.message.number != message.number:
            return False
        subscription.has_settled(message.marks)
        return True

    def _remembered(self, report: HistoryReport) -> bool:
        """Whether this is about what the application has asked last; whatever comes now, its past has been."""
        subscription = self._subscriptions.get(report.id)
        if subscription is None or subscription.asked != report.number:
            return False
        subscription.message = msgspec.structs.replace(subscription.message, past=None)
        return True

    def _unheard(self, gap: Gap) -> Gap:
        """A gap, for those subscriptions that have not heard of it."""
        for working in (self._working[id] for id in gap.subscriptions if id in self._working):
            self._out(Extension(WORK, pack(working.unread(gap))))  # nothing is lost: it goes to another member
        known = ((id, self._subscriptions.get(id)) for id in gap.subscriptions)
        news = {id for id, subscription in known if subscription is not None and not subscription.has_heard(gap)}
        ids = tuple([id for id in gap.subscriptions if id in news or id in self._memberships])
        return msgspec.structs.replace(gap, subscriptions=ids)

    def _acknowledge(self, marks: dict[str, Position]) -> None:
        """Tell the border broker how far the application has got, where that is news."""
        for origin, mark in marks.items():
            if self._acknowledged.get(origin) != mark:
                self._acknowledged[origin] = mark
                self._out(DeliverAck(origin, *mark))

    def _observe(self, observer: Observer, message: AnyMessage) -> None:
        match message:
            case Settled():
                observer.settled(message.id, message.advertisement)
            case PublishAck():
                for back in range(message.count - 1, -1, -1):
                    key = EventKey(message.origin, message.epoch, message.number - back)
                    observer.acknowledged(message.seq - back, key, message.quality)
            case Refused():
                observer.refused(message)
            case Gap():
                observer.gap(message)
            case HistoryReport():
                observer.remembered(message)
            case Marks():
                observer.progressed()
            case Extension():
                observer.extended(message)
            case _ if isinstance(message, Answer):
                observer.answered(message)

    def _deliver(self, message: Deliver) -> None:
        envelope = message.envelope
        identity = self.delivering = envelope.identity
        notification = decode_body(envelope.body)
        route = envelope.routes[0]
        self.delivering_past = FROM_PAST in route.tags
        tags = self.delivering_tags = session_tags(route.tags) if route.tags else NO_TAGS
        for id in message.subscriptions:
            subscription = self._subscriptions.get(id)
            if subscription is None:
                if (membership := self._memberships.get(id)) is not None:
                    self._hand(membership.callback, notification, tags)
                elif (working := self._working.get(id)) is not None:
                    self.delivering_job = working.comes(identity, route.version)
                    self._hand(working.callback, notification, tags)
                continue
            if subscription.awaits_past:
                continue  # an earlier subscription has had this id
            if subscription.unsure and not subscription.wants(identity, notification, self.name):
                continue
            if self._window:
                passed = DETOUR not in route.tags and subscription.has_passed(identity, ONE_OF_SEVERAL in route.tags)
                source = (subscription.name, identity.publisher, subscription.form(route))
                if passed or self._repetitions.known(source, identity.publisher_seq):
                    self.duplicates += 1
                    continue
            if not tags:
                subscription.callback(notification)
            else:
                handle(self, tags, subscription.callback, notification)

    def _hand(self, callback: Callback, notification: Notification, tags: tuple[str, ...]) -> None:
        """Call the application; what it publishes meanwhile is a reaction to what has these tags."""
        if tags:
            handle(self, tags, callback, notification)
        else:
            callback(notification)

    def _out(self, message: AnyMessage) -> None:
        self._send(Frame(message))
