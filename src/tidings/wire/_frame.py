"""What a link carries: frames. A frame is a message and its hop header.

    between brokers                 client to border broker        border broker to client
    -----------------------------   ----------------------------   ------------------------------
    LinkState, Attach
    TreeReady, TreeMarks
    Notify, Mark                    Publish, DeliverAck            Deliver, Gap, Marks, PublishAck
    Subscribe, Unsubscribe          Subscribe, Unsubscribe         Settled, Refused, HistoryReport
    Advertise, Unadvertise          Advertise, Unadvertise
    Settled, Wave, WaveAnswer
    Fetch, Fetched, Routed
                                    Recall, Keep, Forget           Recalled, Kept
                                    Measure, Read                  Measured, Page
                                    Browse                         Offers
                                    StatusRequest                  StatusReply
                                    MobilityRequest                MobilityReply
    Extension                       Extension                      Extension

The same message is used between brokers and between a client and its border broker, where both can say the same thing.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from ._messages import (
    Advertise,
    Attach,
    Deliver,
    DeliverAck,
    Extension,
    Fetch,
    Fetched,
    Gap,
    HistoryReport,
    LinkState,
    Mark,
    Marks,
    Notify,
    Publish,
    PublishAck,
    Refused,
    Routed,
    Settled,
    Subscribe,
    TreeMarks,
    TreeReady,
    Unadvertise,
    Unsubscribe,
    Wave,
    WaveAnswer,
)
from ._questions import Answer, Question

AnyMessage: TypeAlias = (
    LinkState
    | Attach
    | TreeReady
    | TreeMarks
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
    | Routed
    | Question
    | Answer
    | Extension
)


MAX_ATTACHMENTS = 1_000
"""The most features that ride along on one message."""


class Hop(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The header that lives for one link; never cached or stored."""

    tree_epoch: int = 0
    channel: str | None = None
    attachments: Annotated[dict[str, bytes], msgspec.Meta(max_length=MAX_ATTACHMENTS)] | None = None
    """What features ride along on this message, by feature name."""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A message and its hop: what a link carries."""

    message: AnyMessage
    hop: Hop = Hop()
