"""What brokers and clients tell each other, as frozen structs.

`_questions` has what a client asks and is answered, `_frame` the table of who says what to whom.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tidings.model import ROOT_SCOPE, Duplicates, Matches, Number, Position

from ._envelope import Envelope, Quality
from ._past import Ending, Past

MAX_META_ENTRIES = 1_000
"""The most entries of what an application adds to a subscription."""
MAX_POSITIONS = 10_000
"""The most origins whose positions one message of a client names."""
Positions = Annotated[dict[str, Position], msgspec.Meta(max_length=MAX_POSITIONS)]
"""How far a client has seen each origin, as (epoch, number); more are refused before they are decoded."""
_MAX_DIGITS = 20
"""The digits of the largest number of a publication."""
MAX_CAUSES = 256
"""The most tags of the cause of a publication."""
MAX_TAG = 128
"""The most characters of one of them."""
Tag = Annotated[str, msgspec.Meta(max_length=MAX_TAG)]
Causes = Annotated[tuple[Tag, ...], msgspec.Meta(max_length=MAX_CAUSES)]
"""What a publication reacts to, as the notification said that came with it."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The root of all messages.

    Those that come by the thousand and hold nothing but data are `gc=False`: the collector need not look at them.
    """


# --- topology -----------------------------------------------------------------------------------------


class LinkState(Message, frozen=True):
    """What one broker says about its own links; flooded on every link. Newer is larger (epoch, version)."""

    broker: str
    epoch: Number
    version: Number
    neighbours: dict[str, Number]
    """Each neighbour, and the version of this state in which the link came up."""


class Attach(Message, frozen=True):
    """The sender has adopted a tree in which this link is an edge, and knows nothing of this link yet.

    `generation` counts the sender's trees; `seen` is the receiver's generation if the sender knows it.
    """

    tree_epoch: Number
    generation: Number
    seen: Number | None = None


class TreeReady(Message, frozen=True):
    """All filters of the sender, and of everything behind it on the current tree, have gone before on this link."""


class TreeMarks(Message, frozen=True):
    """How far every broker behind the sender, and the sender itself, had come when they knew the receiver's filters."""

    marks: dict[str, Position]


# --- notifications ------------------------------------------------------------------------------------


class Opening(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A request opens a session, in which replies come back."""

    id: Tag
    """Chosen by the client, so that nobody guesses it."""
    replies: Number = 1
    """After how many replies the session ends; 0: when the client says so."""
    idle: Number = 0
    """After how many microseconds without a reply it ends; 0: as the broker says."""


class Publish(Message, frozen=True, gc=False):
    """A client publishes. The border broker adds identity; nothing else of the header can be claimed."""

    seq: int
    body: bytes
    quality: Quality = Quality.DEFAULT
    ttl: int | None = None
    cause: Causes = ()
    """What it reacts to: it appears in no session scope that this was not in. Nothing: it is no reaction."""
    opens: Opening | None = None
    """Of a request: the session that it opens."""


class PublishAck(Message, frozen=True, gc=False):
    """The publication has reached its quality; from now on the event has this key."""

    seq: int
    origin: str
    epoch: int
    number: int
    """0 if the publication was known already and its number is not."""
    count: int = 1
    """How many publications, with consecutive numbers of both kinds up to these, are acknowledged at once."""
    quality: Quality = Quality.ACCEPTED
    """What they have reached; of a publication that was known already, what is sure."""

    def joined(self, next: PublishAck) -> PublishAck | None:
        """One acknowledgement for both, if the numbers of both kinds go on where they were, in the same quality."""
        count = next.count
        if (
            self.seq + count == next.seq
            and self.number + count == next.number > count
            and self.quality is next.quality
            and (self.origin, self.epoch) == (next.origin, next.epoch)
        ):
            return PublishAck(next.seq, next.origin, next.epoch, next.number, self.count + count, next.quality)
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

    A `last` of None means the end of that epoch, whose length is no longer known.
    """

    origin: str
    epoch: Number
    first: Number
    last: Number | None
    subscriptions: tuple[str, ...] = ()
    unmarked: bool = False
    """Whether it is about what goes by a deciding point: what marks say, and what has come, says nothing about that."""


class Mark(Message, frozen=True):
    """Everything of this origin up to `seq` has gone before, on this same FIFO link."""

    origin: str
    epoch: Number
    seq: Number


class Marks(Message, frozen=True):
    """The client has been sent everything that it wants of these origins, up to these (epoch, number)."""

    marks: dict[str, Position]


# --- subscriptions and advertisements -----------------------------------------------------------------


class Subscribe(Message, frozen=True):
    """From now on, send what matches. `id` names the subscription on this link."""

    id: str
    filter: Matches
    scope: str = ROOT_SCOPE
    receive_own: bool = True
    meta: Annotated[dict[str, str], msgspec.Meta(max_length=MAX_META_ENTRIES)] = {}
    """What an application adds: credentials, timing; no routing decision depends on it."""
    after: Positions = {}
    """From a client that was cut off: how far it has seen each origin; what follows is owed to it."""
    number: int = 0
    """The sender's own count of what it announces; `Settled` repeats it, so that an old answer is recognised."""
    duplicates: Duplicates = Duplicates.DEFAULT
    """From a client: what counts as a second copy."""
    past: Past | None = None
    """From a client: how far it reaches back. Nothing is delivered before the past."""
    early: bool = False
    """From a client that says `after`: what follows may come before `Settled`, as soon as it is there."""


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
    marks: dict[str, Position] = {}
    """To clients: how far this subscription has certainly seen each origin (epoch, number)."""
    number: Number = 0
    """The number with which it was announced."""


class Refused(Message, frozen=True):
    """What a client asked for was not done. `reference` is the id or publication number it used."""

    error: str
    reason: str
    reference: str

    @property
    def publication(self) -> int | None:
        """The number of the publication that was refused; None: it was something else.

        >>> Refused("StoreFull", "publish again later", "7").publication
        7
        """
        text = self.reference  # from outside: however long it is, `int` must not see more than a number can have
        return int(text) if len(text) <= _MAX_DIGITS and text.isascii() and text.isdecimal() else None


class HistoryReport(Message, frozen=True):
    """What a subscription gets from the past. It arrives once, before those notifications."""

    id: str
    number: int
    """Of the `Subscribe` that asked."""
    count: int
    """How many notifications from the past follow."""
    ending: Ending
    found: dict[str, int] = {}
    """How many were found in each tier, of those that this subscription may see and that pass its filter. Those that
    the bound cut off later count, too."""
    capped: bool = False
    """Whether a limit of a broker cut off notifications that the bound would have allowed."""
    brokers: int = 0
    """How many brokers have answered."""
    unstored: int = 0
    """If nothing comes: how many of them keep nothing on disk."""
    forgotten: int = 0
    """If nothing comes: the instant before which one of them has forgotten something, in microseconds since 1970 UTC;
    0: none, or it is not told because there are scopes."""


# --- waves and recovery -------------------------------------------------------------------------------


class Wave(Message, frozen=True):
    """A question to every broker of a scope's overlay; answers come back collated, hop by hop."""

    initiator: str
    number: Number
    kind: str
    body: bytes
    deadline: Number
    """Microseconds that the receiver may take."""
    scope: str = ROOT_SCOPE


class WaveAnswer(Message, frozen=True):
    """The collated answer of the sender and everything behind it."""

    initiator: str
    number: Number
    body: bytes
    complete: bool


class Fetch(Message, frozen=True):
    """A border broker asks an origin for what follows a mark, to fill what a lost link took."""

    origin: str
    requester: str
    number: Number
    after: dict[Number, Number]
    """For each epoch of the origin, the last number that the requester has."""
    filters: tuple[Matches, ...]


class Fetched(Message, frozen=True):
    """The origin's answer, in pieces; the last one says up to where it is complete and what is lost."""

    requester: str
    number: Number
    envelopes: tuple[Envelope, ...]
    last: bool = False
    upto: dict[Number, Number] = {}
    """For each epoch asked about, the last number that this answer covers."""
    lost: tuple[tuple[Number, Number, Number | None], ...] = ()
    """Ranges (epoch, first, last) that no store holds; last None: up to an unknown end."""
    more: bool = False
    """With `last`: this is as much as one answer may hold; the rest follows `upto` and must be asked for."""


class Routed(Message, frozen=True):
    """Something that a feature sends to the same feature at another broker, hop by hop."""

    target: str
    source: str
    feature: str
    body: bytes


# --- features -----------------------------------------------------------------------------------------


WAITING = "waiting"
"""The feature of an `Extension` to a client that tells what a request of its waits for: its reference, and why."""


class Extension(Message, frozen=True):
    """A message that a feature owns; the core only carries it to the neighbour."""

    feature: str
    body: bytes
