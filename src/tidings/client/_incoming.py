"""What the service tells a client, brought to whoever waits for it."""

from __future__ import annotations

import logging

import msgspec

from tidings.aggregation.deploying.messages import FEATURE as DEPLOYMENTS
from tidings.aggregation.messages import FEATURE
from tidings.aggregation.quenching import FEATURE as QUENCH
from tidings.aggregation.receiving import FEATURE as RECEIVERS
from tidings.model import EventKey
from tidings.wire import (
    ARRIVALS,
    EVACUATION,
    GROUP_LOOKS,
    REQUESTS,
    UNREADABLE,
    WAITING,
    Answer,
    Extension,
    Gap,
    HistoryReport,
    Quality,
    Refused,
)

from ._admin import Admin
from ._aggregates import Aggregates
from ._crossing import Crossing
from ._groups import Groups
from ._moves import Moves
from ._pending import Pending
from ._publications import Publications
from ._quenching import Quenching
from ._questions import Questions
from ._receipt import error_of
from ._receivers import Counting
from ._requests import Requests
from ._subscriptions import Subscriptions

log = logging.getLogger("tidings.client")

_MAX_DIGITS = 20
_waiting = msgspec.msgpack.Decoder(tuple[str, str]).decode


class Incoming:
    """Who hears what; the observer of the local broker."""

    def __init__(
        self,
        publications: Publications,
        subscriptions: Subscriptions,
        advertisements: Pending[None],
        questions: Questions,
        *,
        admin: Admin,
        aggregates: Aggregates,
        counting: Counting,
        groups: Groups,
        quenching: Quenching,
        moves: Moves,
        requests: Requests,
        crossing: Crossing,
    ) -> None:
        self._publications = publications
        self._subscriptions = subscriptions
        self._advertisements = advertisements
        self._questions = questions
        self._admin = admin
        self._aggregates = aggregates
        self._counting = counting
        self._groups = groups
        self._quenching = quenching
        self._moves = moves
        self._requests = requests
        self._crossing = crossing

    def settled(self, id: str, advertisement: bool) -> None:
        """The network knows a subscription or an advertisement."""
        if advertisement:
            self._advertisements.came(id, None)
        else:
            self._subscriptions.settled(id)
            self._moves.look()

    def acknowledged(self, seq: int, key: EventKey, quality: Quality) -> None:
        """A publication has reached this quality."""
        self._publications.acknowledged(seq, key, quality)

    def refused(self, refusal: Refused) -> None:
        """Something was not done."""
        reference, error = refusal.reference, error_of(refusal)
        if (number := refusal.publication) is not None:
            if not self._requests.refused(number, error):
                self._publications.refused(number, error)
        elif not (
            self._subscriptions.refused(reference, error)
            or self._advertisements.refused(reference, error)
            or self._questions.answers.refused(reference, error)
        ):
            log.warning("refused: %s", error)
        self._moves.look()

    def remembered(self, report: HistoryReport) -> None:
        """The past of a subscription has come."""
        self._subscriptions.remembered(report)

    def gap(self, gap: Gap) -> None:
        """Something was lost for some subscriptions."""
        self._subscriptions.gap(gap)

    def answered(self, reply: Answer) -> None:
        """The broker has answered a question."""
        self._questions.answers.came(reply.id, reply)

    def progressed(self) -> None:
        """The broker says how far everything has been sent: durable subscriptions may have come further."""
        self._subscriptions.durables.moved()

    def extended(self, message: Extension) -> None:
        """A feature of the broker has sent something."""
        if message.feature == "scopes":
            self._admin.answered(message.body)
        elif message.feature == FEATURE:
            self._aggregates.heard(message.body)
        elif message.feature == DEPLOYMENTS:
            self._aggregates.deployment_heard(message.body)
        elif message.feature == RECEIVERS:
            self._counting.heard(message.body)
        elif message.feature == GROUP_LOOKS:
            self._groups.heard(message.body)
        elif message.feature == QUENCH:
            self._quenching.heard(message.body)
        elif message.feature == REQUESTS:
            self._requests.heard(message.body)
        elif message.feature == WAITING:
            self._waits(message.body)
        elif message.feature == ARRIVALS:
            self._moves.heard(message.body)
        elif message.feature == EVACUATION:
            self._crossing.heard(message.body)

    def _waits(self, body: bytes) -> None:
        """The broker says what a request waits for."""
        try:
            reference, reason = _waiting(body)
        except UNREADABLE:
            return  # of another version
        if _is_number(reference):
            what = f"publication {reference}"
            self._publications.waits(int(reference), reason)
        else:
            what = f"subscription or advertisement {reference}"
        log.warning("%s waits: %s", what, reason)


def _is_number(reference: str) -> bool:
    """Whether it refers to a publication."""
    return reference.isascii() and reference.isdecimal() and len(reference) <= _MAX_DIGITS
