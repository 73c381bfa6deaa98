"""The receipt of the blocking client."""

from __future__ import annotations

from typing import Self

from tidings.client import ReceiverCount
from tidings.model import EventKey
from tidings.wire import Quality


class Receipt(EventKey):
    """The key of an event, and the quality that its publication has reached.

    >>> from tidings.model import EventKey
    >>> from tidings.wire import Quality
    >>> receipt = Receipt(EventKey("b1", 1, 7), Quality.STORED)
    >>> receipt.seq, receipt.quality.name, receipt == EventKey("b1", 1, 7)
    (7, 'STORED', True)
    """

    quality: Quality
    receivers: ReceiverCount | None
    """How many have got it, if it was published with `count_receivers`."""

    def __new__(cls, key: EventKey, quality: Quality, receivers: ReceiverCount | None = None) -> Self:
        receipt = super().__new__(cls, *key)
        receipt.quality = quality
        receipt.receivers = receivers
        return receipt
