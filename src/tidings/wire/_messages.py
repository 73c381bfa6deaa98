"""Every message that travels on a link, as frozen structs.

A link carries frames; a frame is a message and its hop header. The same struct is used on links between
brokers and on links between a client and its border broker, where both can say the same thing.

    between brokers                 client to border broker        border broker to client
    -----------------------------   ----------------------------   ------------------------------
    LinkState, Attach               Publish                        Deliver, Gap, Marks
    Notify, Mark                    Subscribe, Unsubscribe         PublishAck, Settled, Refused
    Subscribe, Unsubscribe          Advertise, Unadvertise
    Advertise, Unadvertise          DeliverAck, StatusRequest      StatusReply
                                    Recall, Keep, Forget           Recalled, Kept
                                    Measure, Read                  Measured, Page
                                    Browse                         Offers
                                                                   HistoryReport
    Settled, Wave, WaveAnswer
    Fetch, Fetched
    Extension                       Extension                      Extension
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from tidings.model import EVERYTHING, ROOT_SCOPE, Bound, Duplicates, Identity, Matches, Notification, Route

from ._body import decode_body


class Quality(enum.IntEnum):
    """What the acknowledgement of a publication means."""

    FIRE = 0
    """No acknowledgement."""
    ACCEPTED = 1
    """The border broker has it in memory."""
    STORED = 2
    """The border broker has it on disk, synced."""


class _Kept:
    """`functools.cached_property` without its lock, which costs more than decoding: an envelope stays in its thread."""

    def __init__(self, compute: Callable[[Envelope], Notification]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, envelope: Envelope, owner: type) -> Notification:
        kept: Notification = envelope.__dict__.setdefault("notification", self._compute(envelope))
        return kept


class Consistency(enum.IntEnum):
    """What a subscription into the past waits for."""

    STRICT = 0
    """Until every broker has answered: past and live join without a gap."""
    BEST_EFFORT = 1
    """Until there is enough, even if that is new: nothing comes later than without the past."""


class Past(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a subscription reaches back, and what it waits for."""

    bound: Bound
    consistency: Consistency = Consistency.STRICT
    timeout: int | None = None
    """Microseconds after which it goes on with what has been found; None: what the broker is set to."""
    respect_ttl: bool = False
    """Whether what has outlived its time to live is left out."""


class Ending(enum.IntEnum):
    """Why a subscription into the past went on."""

    ANSWERED = 0
    """Every broker has answered."""
    SATISFIED = 1
    """There was enough before every broker had answered."""
    TIMER = 2
    """Time was up."""


class Envelope(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """Headers and the encoded notification: what a broker forwards, byte for byte."""

    identity: Identity
    routes: tuple[Route, ...]
    body: bytes
    quality: Quality = Quality.ACCEPTED

    @classmethod
    def of(
        cls,
        identity: Identity,
        routes: tuple[Route, ...],
        body: bytes,
        quality: Quality,
        notification: Notification,
    ) -> Envelope:
        """An envelope whose body has been decoded already."""
        envelope = cls(identity, routes, body, quality)
        envelope.__dict__["notification"] = notification
        return envelope

    @_Kept
    def notification(self) -> Notification:
        """The decoded body; decoded on the first use, then kept."""
        return decode_body(self.body)


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The root of all messages.

    Those that come by the thousand and hold nothing but data are `gc=False`: the collector need not look at them.
    """


# --- topology -----------------------------------------------------------------------------------------


class LinkState(Message, frozen=True):
    """What one broker says about its own links; flooded on every link. Newer is larger (epoch, version)."""

    broker: str
    epoch: int
    version: int
    neighbours: dict[str, int]
    """Each neighbour, and the version of this state in which the link came up."""


class Attach(Message, frozen=True):
    """The sender has adopted a tree in which this link is an edge, and knows nothing of this link yet.

    `generation` counts the sender's trees; `seen` is the receiver's generation if the sender knows it.
    """

    tree_epoch: int
    generation: int
    seen: int | None = None


# --- notifications ------------------------------------------------------------------------------------


class Publish(Message, frozen=True, gc=False):
    """A client publishes. The border broker adds identity; nothing else of the header can be claimed."""

    seq: int
    body: bytes
    quality: Quality = Quality.ACCEPTED
    ttl: int | None = None


class PublishAck(Message, frozen=True, gc=False):
    """The publication has reached the quality it asked for; from now on the event has this key."""

    seq: int
    origin: str
    epoch: int
    number: int
    """0 if the publication was known already and its number is not."""
    count: int = 1
    """How many publications, with consecutive numbers of both kinds up to these, are acknowledged at once."""

    def joined(self, next: PublishAck) -> PublishAck | None:
        """One acknowledgement for this and the next one, if the numbers of both kinds go on where they were."""
        count = next.count
        if (
            self.seq + count == next.seq
            and self.number + count == next.number > count
            and (self.origin, self.epoch) == (next.origin, next.epoch)
        ):
            return PublishAck(next.seq, next.origin, next.epoch, next.number, self.count + count)
        return None


class Notify(Message, frozen=True, gc=False):
    """A notification on its way between brokers."""

    envelope: Envelope


class Deliver(Message, frozen=True, gc=False):
    """A notification for a client, once, with all its subscriptions that match."""

    envelope: Envelope
    subscriptions: tuple[str, ...]


class DeliverAck(Message, frozen=True):
    """The client has handled everything up to this event of this origin."""

    origin: str
    epoch: int
    seq: int


class Gap(Message, frozen=True):
    """Notifications that are lost for these subscriptions: `first` to `last` of an origin's epoch.

    `last` None: to the end of that epoch, whose length nobody knows any more.
    """

    origin: str
    epoch: int
    first: int
    last: int | None
    subscriptions: tuple[str, ...] = ()


class Mark(Message, frozen=True):
    """Everything of this origin up to `seq` has gone before, on this same FIFO link."""

    origin: str
    epoch: int
    seq: int


# --- subscriptions and advertisements -----------------------------------------------------------------


class Marks(Message, frozen=True):
    """The client has been sent everything that it wants of these origins, up to these (epoch, number)."""

    marks: dict[str, tuple[int, int]]


class Subscribe(Message, frozen=True):
    """From now on, send what matches. `id` names the subscription on this link."""

    id: str
    filter: Matches
    scope: str = ROOT_SCOPE
    receive_own: bool = True
    meta: dict[str, str] = {}
    """What an application adds: credentials, timing; no routing decision depends on it."""
    after: dict[str, tuple[int, int]] = {}
    """From a client that was cut off: how far it has seen each origin; what follows is owed to it."""
    number: int = 0
    """The sender's own count of what it announces; `Settled` repeats it, so that an old answer is recognised."""
    duplicates: Duplicates = Duplicates.DEFAULT
    """From a client: what counts as a second copy."""
    past: Past | None = None
    """From a client: how far it reaches back. Nothing is delivered before the past."""


class Unsubscribe(Message, frozen=True):
    """The subscription of this id has ended."""

    id: str
    scope: str = ROOT_SCOPE


class Advertise(Message, frozen=True):
    """From now on, publications that match may come."""

    id: str
    filter: Matches
    scope: str = ROOT_SCOPE
    number: int = 0
    """As in `Subscribe`."""


class Unadvertise(Message, frozen=True):
    """The advertisement of this id has ended."""

    id: str
    scope: str = ROOT_SCOPE


class Settled(Message, frozen=True):
    """Everything behind the sender that must know this subscription or advertisement knows it."""

    id: str
    scope: str = ROOT_SCOPE
    advertisement: bool = False
    marks: dict[str, tuple[int, int]] = {}
    """To clients: how far this subscription has certainly seen each origin (epoch, number)."""
    number: int = 0
    """The number with which it was announced."""


class Refused(Message, frozen=True):
    """What a client asked for was not done. `reference` is the id or publication number it used."""

    error: str
    reason: str
    reference: str


class HistoryReport(Message, frozen=True):
    """What a subscription into the past gets from there. Comes before it, once."""

    id: str
    number: int
    """Of the `Subscribe` that asked."""
    count: int
    """How many notifications come from the past, next."""
    ending: Ending
    found: dict[str, int] = {}
    """How many were found in each tier; what the bound has cut off later counts, too."""
    capped: bool = False
    """Whether a limit of a broker has cut off what the bound would have allowed."""
    brokers: int = 0
    """How many brokers have answered."""


# --- waves and recovery -------------------------------------------------------------------------------


class Wave(Message, frozen=True):
    """A question to every broker of a scope's overlay; answers come back collated, hop by hop."""

    initiator: str
    number: int
    kind: str
    body: bytes
    deadline: int
    """Microseconds that the receiver may take."""
    scope: str = ROOT_SCOPE


class WaveAnswer(Message, frozen=True):
    """The collated answer of the sender and everything behind it."""

    initiator: str
    number: int
    body: bytes
    complete: bool


class Fetch(Message, frozen=True):
    """A border broker asks an origin for what follows a mark, to fill what a lost link took."""

    origin: str
    requester: str
    number: int
    after: dict[int, int]
    """For each epoch of the origin, the last number that the requester has."""
    filters: tuple[Matches, ...]


class Fetched(Message, frozen=True):
    """The origin's answer, in pieces; the last one says up to where it is complete and what is lost."""

    requester: str
    number: int
    envelopes: tuple[Envelope, ...]
    last: bool = False
    upto: dict[int, int] = {}
    """For each epoch asked about, the last number that this answer covers."""
    lost: tuple[tuple[int, int, int | None], ...] = ()
    """Ranges (epoch, first, last) that no store holds; last None: up to an unknown end."""
    more: bool = False
    """With `last`: this is as much as one answer may hold; the rest follows `upto` and must be asked for."""


# --- durable subscriptions ----------------------------------------------------------------------------


class Recall(Message, frozen=True):
    """A client asks what is kept under a name of its own. Answered by `Recalled`, or `Refused`, with the same id."""

    id: str
    name: str


class Recalled(Message, frozen=True):
    """What is kept: the filter as text, and the positions after which the subscription goes on."""

    id: str
    found: bool
    filter: str = ""
    positions: dict[str, tuple[int, int]] = {}


class Keep(Message, frozen=True):
    """The application has handled everything up to these positions: keep them, and the filter, under a name."""

    id: str
    name: str
    filter: str
    positions: dict[str, tuple[int, int]]


class Forget(Message, frozen=True):
    """Nobody will come back for what is kept under this name."""

    id: str
    name: str


class Kept(Message, frozen=True):
    """What was to be kept, or to be forgotten, is so on disk, synced."""

    id: str


# --- the log of a broker ------------------------------------------------------------------------------


class Measure(Message, frozen=True):
    """A client asks how far a broker's log reaches. Answered by `Measured`, or `Refused`, with the same id."""

    id: str
    after: tuple[int, int] = (0, 0)
    """A position in the log: an epoch, and a number in it."""
    rows: int = 0
    """With this: how far does one get from there with at most so many publications? 0: any number."""
    size: int = 0
    """The same for bytes on disk."""


class Measured(Message, frozen=True):
    """What the log holds, on disk and synced."""

    id: str
    origin: str
    """The broker whose log it is, and where everything in it came in."""
    forgotten: tuple[int, int]
    """Everything up to this position has been forgotten."""
    reached: tuple[int, int]
    """How far one gets with what was asked for; from there one has to ask again."""
    end: tuple[int, int]
    """The last publication that is held."""


class Read(Message, frozen=True):
    """A client asks for what a broker's log holds between two positions. Answered by `Page`, or `Refused`."""

    id: str
    after: tuple[int, int]
    upto: tuple[int, int]
    filter: Matches


class Page(Message, frozen=True):
    """As much of it as one answer may hold."""

    id: str
    envelopes: tuple[Envelope, ...]
    reached: tuple[int, int]
    """Everything that passes up to this position is in this page or those before; the rest must be asked for."""
    lost: tuple[tuple[int, int, int], ...] = ()
    """Ranges (epoch, first, last) that were in the log and cannot be read any more."""


# --- advertisements, for those who look -----------------------------------------------------------------


class Browse(Message, frozen=True):
    """A client asks what is advertised. Answered by `Offers`, or `Refused`, with the same id."""

    id: str
    filter: Matches = EVERYTHING
    """Only what may bring something that passes this."""


class Offers(Message, frozen=True):
    """What is advertised anywhere, as far as the client may subscribe to it; by whom is nobody's business."""

    id: str
    filters: tuple[Matches, ...]
    left_out: int = 0
    """How many more there are that do not fit, or cannot be shown."""


# --- administration -----------------------------------------------------------------------------------


class StatusRequest(Message, frozen=True):
    """An administrator asks a broker about itself. Answered by `StatusReply`, or `Refused`, with the same id."""

    id: str


class StatusReply(Message, frozen=True):
    """What the broker says about itself: JSON, see `tidings.wire.Status`."""

    id: str
    body: bytes


# --- features -----------------------------------------------------------------------------------------


class Extension(Message, frozen=True):
    """A message that a feature owns; the core only carries it to the neighbour."""

    feature: str
    body: bytes


class Hop(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The header that lives for one link; never cached or stored."""

    tree_epoch: int = 0
    channel: str | None = None
    attachments: dict[str, bytes] | None = None
    """What features ride along on this message, by feature name."""


AnyMessage: TypeAlias = (
    LinkState
    | Attach
    | Publish
    | PublishAck
    | Notify
    | Deliver
    | DeliverAck
    | Gap
    | Mark
    | Marks
    | Subscribe
    | Unsubscribe
    | Advertise
    | Unadvertise
    | Settled
    | Refused
    | HistoryReport
    | Wave
    | WaveAnswer
    | Fetch
    | Fetched
    | Recall
    | Recalled
    | Keep
    | Forget
    | Kept
    | Measure
    | Measured
    | Read
    | Page
    | Browse
    | Offers
    | StatusRequest
    | StatusReply
    | Extension
)


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A message and its hop: what a link carries."""

    message: AnyMessage
    hop: Hop = Hop()
