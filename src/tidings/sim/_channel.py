"""A radio channel under a link: packets are lost and doubled, below a transport that sends again what was lost.

Nobody above the transport sees a loss or a repetition, only the time that they take: a packet that is lost is sent
again after a pause, twice as long each time, and every transmission takes its share of the bandwidth.
"""

from __future__ import annotations

import random
from typing import NamedTuple, Protocol

MAX_RESENDS = 8
"""The most times that one packet is lost in a row; then it arrives."""


class Radio(Protocol):
    """How a channel behaves."""

    @property
    def loss(self) -> float:
        """The share of packets that is lost, from 0 to below 1."""
        ...

    @property
    def duplication(self) -> float:
        """The share that arrives twice."""
        ...

    @property
    def resend_after(self) -> int:
        """Microseconds after which a packet is sent again that was lost for the first time."""
        ...


class Transmission(NamedTuple):
    """What becomes of one packet."""

    lost: int
    """How often it was lost before it arrived."""
    twice: bool
    """Whether it arrived twice."""
    pause: int
    """Microseconds that were waited for because it was lost."""

    @property
    def before(self) -> int:
        """How often it takes the channel before it arrives, that time included."""
        return self.lost + 1

    @property
    def after(self) -> int:
        """And after that."""
        return int(self.twice)


_CLEAR = Transmission(0, twice=False, pause=0)


def transmitted(radio: Radio, rng: random.Random) -> Transmission:
    """Draw what becomes of a packet; nothing is drawn on a channel that loses and doubles nothing."""
    if not radio.loss and not radio.duplication:
        return _CLEAR
    lost = 0
    while lost < MAX_RESENDS and rng.random() < radio.loss:
        lost += 1
    return Transmission(lost, rng.random() < radio.duplication, radio.resend_after * (2**lost - 1))
