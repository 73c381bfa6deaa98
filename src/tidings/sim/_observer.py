"""The observer: what somebody who sees only the trace knows at each of its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.model import Matches
from tidings.wire import Quality

from ._details import Acknowledged, Attached, Broken, Published, Refusal, Settlement, Subscribed, Taken, Unnoticed
from ._trace import Op, Record, describe
from ._visibility import Visibility


class Violation(NamedTuple):
    """A broken promise."""

    guarantee: str
    record: Record
    """The notification that should not be, or the publication that did not arrive."""
    reason: str

    def __str__(self) -> str:
        return f"{self.guarantee}: {self.reason}\n    {describe(self.record)}"


class Settling(NamedTuple):
    """A subscription or advertisement has settled towards these brokers."""

    record: Record
    reach: frozenset[str]


@dataclass(slots=True)
class Subscription:
    """An active subscription or advertisement: the filters it had, and when it settled."""

    filters: list[tuple[int, Matches, bool]]
    """(seq, filter, receive_own): from this record on; the last one is the current one."""
    settlings: list[Settling] = field(default_factory=list)
    interruptions: list[tuple[int, Op]] = field(default_factory=list)
    """When the client lost its broker, or left it."""
    last: dict[tuple[object, ...], int] = field(default_factory=dict)
    """For each (publisher, origin, epoch), the last number that was delivered."""
    gaps: list[Record] = field(default_factory=list)
    """What it was told is lost: (origin, epoch, first, last)."""

    @property
    def filter(self) -> Matches:
        return self.filters[-1][1]

    @property
    def receive_own(self) -> bool:
        """Whether the client wants what it publishes itself."""
        return self.filters[-1][2]


@dataclass(slots=True)
class Client:
    """What is known of one client."""

    broker: str | None = None
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    advertisements: dict[str, Subscription] = field(default_factory=dict)
    seen: set[tuple[object, ...]] = field(default_factory=set)
    """(subscription, publisher, publication, notification)"""
    reached_back: set[str] = field(default_factory=set)
    """The ids of subscriptions that have reached into the past."""
    seen_before: set[tuple[object, ...]] = field(default_factory=set)
    """What an earlier subscription of the same id has seen."""
    unanswered: dict[int, Publication] = field(default_factory=dict)
    """What it has published, and hands over again to the next broker; with `fire`, only as long as it has this one."""
    left_behind: dict[str, list[Publication]] = field(default_factory=dict)
    """What brokers that it left without a word may have of it, and publish later."""
    interruptions: list[Record] = field(default_factory=list)
    """When it lost its broker or left it."""
    returns: list[Record] = field(default_factory=list)
    """When it was attached to one."""

    @property
    def interrupted(self) -> int:
        """The record at which it last did."""
        return self.interruptions[-1].seq if self.interruptions else -1

    def absences(self, now: Record) -> Iterator[tuple[int, int]]:
        """From when to when it had no broker."""
        for one in self.interruptions:
            yield one.time, next((back.time for back in self.returns if back.seq > one.seq), now.time)

    @property
    def brokers(self) -> set[str]:
        """Those that it was ever attached to."""
        return {one.detail.broker for one in self.returns if isinstance(one.detail, Attached)}

    def drop_fired(self) -> None:
        """Nobody answers `fire`, and it is not handed over again."""
        self.unanswered = {number: one for number, one in self.unanswered.items() if one.asked is not Quality.FIRE}

    def forget(self, id: str) -> None:
        """A new subscription of this id may get again what an earlier one has got: one of them reaches back."""
        earlier = {one for one in self.seen if one[0] == id}
        self.seen -= earlier
        self.seen_before |= earlier


@dataclass(slots=True, eq=False)
class Publication:
    """What is known of one publication."""

    record: Record
    origin: str | None
    """The broker of its publisher; None: it had none at that time."""
    advertised: list[list[Matches]] = field(default_factory=list)
    """The publisher's advertisements each time that it was handed over."""
    key: tuple[str, int, int] | None = None
    """(origin, epoch, number) once it is acknowledged; number 0: the broker no longer knows it."""
    reached: Quality | None = None
    """What its acknowledgement said, if it said so."""
    acknowledged: Record | None = None
    """Its acknowledgement."""
    fired: Record | None = None
    """When its broker took it, if it asks for no answer: nobody is told, however long it has waited there."""
    resent: bool = False
    """Whether its client lost or left its broker before it was acknowledged, and handed it over again."""
    refused: str = ""
    judged: set[int] = field(default_factory=set)
    """The versions of the scope graph that were active at its publisher's broker while that may have taken it."""
    abandoned: bool = False
    """Whether the process of its publisher has ended before it was answered."""
    starved: bool = False
    """Whether the disk of a broker was full that may have taken it then."""

    @property
    def identity(self) -> tuple[str, int]:
        """Who published it, and under which number."""
        return self.record.publisher, self.record.publication

    @property
    def since(self) -> Record:
        """What says that it has been taken; without that, its publication."""
        return self.acknowledged or self.fired or self.record

    @property
    def asked(self) -> Quality:
        """What it was published with."""
        assert isinstance(self.record.detail, Published)
        return self.record.detail.quality

    @property
    def quality(self) -> Quality:
        """What it was published with; if that was left to the broker, what the broker made of it, or at least."""
        return self.asked if self.asked is not Quality.DEFAULT else self.reached or Quality.ACCEPTED


class Observer:
    """Replays a trace."""

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}
        self.published: dict[tuple[str, int], Publication] = {}
        self.fresh: list[Publication] = []
        """The publications since the last QUIESCE."""
        self.visibility = Visibility()
        self.epochs: dict[str, int] = {}
        """The epoch of each broker that is up, as far as clients have seen it."""
        self.forgetful: set[tuple[str, int]] = set()
        """The brokers and epochs that may have given numbers to what was not to be stored."""
        self._filled: set[str] = set()
        """The brokers whose disks have been full."""
        self._full: set[str] = set()
        """Those whose disks are full now."""

    def client(self, name: str) -> Client:
        """What is known of a client."""
        return self._clients.setdefault(name, Client())

    @property
    def clients(self) -> dict[str, Client]:
        return self._clients

    def note(self, record: Record) -> None:
        """Take one record into account."""
        self.visibility.reactions.note(record)
        client = self.client(record.component) if record.component else Client()
        match record.op:
            case Op.SUB:
                self._subscribed(client.subscriptions, record)
            case Op.UNSUB:
                client.subscriptions.pop(record.subscription, None)
            case Op.ADV:
                self._subscribed(client.advertisements, record)
            case Op.UNADV:
                client.advertisements.pop(record.subscription, None)
            case Op.SETTLED:
                self._settled(client, record)
            case Op.PUB:
                self._published(client, record)
            case Op.ACK:
                publication = self.published[record.publisher, record.publication]
                assert isinstance(record.detail, Acknowledged)
                publication.key, publication.reached = record.detail[:3], record.detail.quality
                publication.acknowledged = record
                publication.resent = _handed_over_again(client, publication)
                client.unanswered.pop(record.publication, None)
                self._fell(publication)
            case Op.REFUSED:
                self._refused(record)
            case Op.NOTIFY:
                event = (record.subscription, record.publisher, record.publication)
                client.seen.add((*event, record.notification))
            case Op.GAP:
                if (subscription := client.subscriptions.get(record.subscription)) is not None:
                    subscription.gaps.append(record)
            case Op.ATTACH | Op.LOST | Op.DETACH:
                self._moved(client, record)
            case Op.ENDED:
                for publication in client.unanswered.values():
                    publication.abandoned = True
                client.unanswered.clear()
            case Op.QUIESCE:
                self.fresh = []
                for one in self._clients.values():
                    one.drop_fired()
            case Op.ACTIVE:
                version = self.visibility.activated(record)
                for publication in self._under_way(record.component):
                    publication.judged.add(version)
            case Op.FAULT:
                assert isinstance(record.detail, Broken)
                self._broken(*record.detail)
            case Op.TAKEN:
                self._taken(record)
            case Op.CHANGE | Op.REMEMBERED:
                pass

    def _subscribed(self, known: dict[str, Subscription], record: Record) -> None:
        assert record.filter is not None
        receive_own = record.detail.receive_own if isinstance(record.detail, Subscribed) else True
        subscription = known.get(record.subscription)
        if subscription is None:
            reaches_back = isinstance(record.detail, Subscribed) and record.detail.past is not None
            if reaches_back or record.subscription in self.client(record.component).reached_back:
                self.client(record.component).forget(record.subscription)
            if reaches_back:
                self.client(record.component).reached_back.add(record.subscription)
            known[record.subscription] = Subscription([(record.seq, record.filter, receive_own)])
        elif subscription.filters[-1][1:] != (record.filter, receive_own):
            subscription.filters.append((record.seq, record.filter, receive_own))

    def _settled(self, client: Client, record: Record) -> None:
        assert isinstance(record.detail, Settlement)
        advertisement, reach = record.detail
        known = client.advertisements if advertisement else client.subscriptions
        if (subscription := known.get(record.subscription)) is not None:
            subscription.settlings.append(Settling(record, reach))

    def _published(self, client: Client, record: Record) -> None:
        publication = Publication(record, client.broker)
        self.published[record.publisher, record.publication] = publication
        self.fresh.append(publication)
        client.unanswered[record.publication] = publication
        self._handed_over(client, [publication])

    def _handed_over(self, client: Client, publications: Iterable[Publication]) -> None:
        """The broker of a client, if it has one, may take these now."""
        broker = client.broker
        if broker is None:
            return
        for publication in publications:
            publication.advertised.append([one.filter for one in client.advertisements.values()])
            publication.starved |= broker in self._full
            if broker in self.visibility.active:
                publication.judged.add(self.visibility.active[broker])
        self._may_forget(broker, publications)

    def _taken(self, record: Record) -> None:
        """What asks for no answer is taken once: by this broker, and under the version that it judges by."""
        assert isinstance(record.detail, Taken)
        publication = self.published.get((record.publisher, record.publication))
        if publication is None or publication.asked is not Quality.FIRE:
            return
        publication.fired = record
        if self.visibility.graphs:
            publication.judged = {record.detail.graph_epoch}
        self.client(record.publisher).unanswered.pop(record.publication, None)

    def _under_way(self, broker: str) -> Iterator[Publication]:
        """What this broker may be about to take."""
        for client in self._clients.values():
            if client.broker == broker:
                yield from client.unanswered.values()
            yield from (one for one in client.left_behind.get(broker, ()) if one.fired is None)

    def _may_forget(self, broker: str, publications: Iterable[Publication]) -> None:
        """A broker, if it lives, gives numbers to these."""
        full = broker in self._filled  # only then is a default not stored
        kinds = {one.asked for one in publications} - {Quality.STORED}
        if broker in self.epochs and (kinds if full else kinds - {Quality.DEFAULT}):
            self.forgetful.add((broker, self.epochs[broker]))

    def _fell(self, publication: Publication) -> None:
        """A publication has a number; if it is not stored, its broker may forget it."""
        assert publication.key is not None
        origin, epoch, number = publication.key
        if number and publication.quality is not Quality.STORED:
            self.forgetful.add((origin, epoch))

    def _broken(self, kind: str, where: str) -> None:
        if kind == "crash":
            self.epochs.pop(where, None)
        elif kind == "fill":
            self._filled.add(where)
            self._full.add(where)
            for publication in self._under_way(where):
                publication.starved = True
            for client in self._clients.values():
                self._may_forget(client.broker or "", client.unanswered.values())
        elif kind == "empty":
            self._full.discard(where)

    def _refused(self, record: Record) -> None:
        assert isinstance(record.detail, Refusal)
        error, _, reference = record.detail
        number = int(reference) if reference.isdigit() else 0
        self.client(record.component).unanswered.pop(number, None)
        if (publication := self.published.get((record.component, number))) is not None:
            publication.refused = error
            publication.resent = _handed_over_again(self.client(record.component), publication)

    def _moved(self, client: Client, record: Record) -> None:
        if record.op is Op.ATTACH:
            assert isinstance(record.detail, Attached)
            client.broker, self.epochs[record.detail.broker] = record.detail
            client.returns.append(record)
            self._handed_over(client, client.unanswered.values())
            return
        client.broker = None
        if isinstance(record.detail, Unnoticed):  # what its broker has of this client may still go
            client.left_behind.setdefault(record.detail.broker, []).extend(client.unanswered.values())
        client.drop_fired()
        client.interruptions.append(record)
        for subscription in client.subscriptions.values():
            subscription.interruptions.append((record.seq, record.op))


def _handed_over_again(client: Client, publication: Publication) -> bool:
    return publication.origin is None or client.interrupted > publication.record.seq
