"""Answers: what publishers are told of publications that were on their way to the disk, or come again.

A whole commit of the log is answered at once, with one acknowledgement for each run that a publisher made in one go.

If the disk refuses a publication, the notification is out all the same. A publisher that insisted on `stored` is
refused, and stays refused. The others hear that it is `accepted`; but first the log notes that numbers are given to
what is not on disk, unless the disk fails to write that, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tidings.broker._links import Link
from tidings.model import Identity
from tidings.wire import Envelope, Publish, PublishAck, Quality, Refused, Run

from ._host import Host


class Answers:
    """Tells publishers what became of what they published."""

    def __init__(self, broker: Host, opened: Callable[[], None]) -> None:
        """`opened` is called when the log has noted that numbers are given to what is not on disk."""
        self._broker = broker
        self._opened = opened
        self._fallen: list[Identity] = []
        """What is accepted only, and is acknowledged when the log has noted that."""
        broker.publications.stored = self._stored
        broker.publications.failed = self._failed

    def repeated(self, link: Link, message: Publish) -> None:
        """A publication has come again: answer as the first time."""
        broker, publications = self._broker, self._broker.publications
        broker.statistics.repeated_publications += 1
        if (refusal := publications.refusal(link.principal, message.seq)) is not None:
            broker.send(link, refusal)
        elif message.quality is not Quality.FIRE and not publications.is_unsynced(link.principal, message.seq):
            reached: Quality = message.quality
            if reached is Quality.DEFAULT:
                reached = broker.remembering.reached(link.principal, message.seq)
            broker.send(link, PublishAck(message.seq, broker.name, broker.epoch, 0, quality=reached))

    def _stored(self, kept: Sequence[Envelope | Run]) -> None:
        """The disk has these publications."""
        last, publications = kept[-1], self._broker.publications
        number = last.last if isinstance(last, Run) else last.identity.seq
        self._broker.remembering.synced(number, all_of_it=not publications.storing)
        for publisher, acknowledgement in _acknowledgements(kept):
            self._tell(publisher, acknowledgement)

    def _failed(self, lost: Sequence[tuple[Envelope, bool]], error: Exception) -> None:
        """The disk has refused these publications; some of their publishers insist on it."""
        remembering, publications = self._broker.remembering, self._broker.publications
        for envelope, insists in lost:
            identity = envelope.identity
            if insists:
                self._refuse(identity, error)
            else:
                remembering.fell(identity.publisher, identity.publisher_seq, identity.seq, str(error))
                self._fallen.append(identity)
        if self._fallen and publications.open:
            self.opened()
        elif self._fallen:
            publications.begin(self._opened)

    def opened(self) -> None:
        """Numbers may be given to what is not on disk: acknowledge what has fallen."""
        fallen, self._fallen = self._fallen, []
        for one in fallen:
            self._tell(one.publisher, PublishAck(one.publisher_seq, one.origin, one.epoch, one.seq))

    def _refuse(self, identity: Identity, error: Exception) -> None:
        """The disk has failed; whoever asks again must not hear that it is there."""
        reason = f"it was published, but could not be stored: {error}"
        refusal = Refused(type(error).__name__, reason, str(identity.publisher_seq))
        self._broker.publications.refuse(identity.publisher, identity.publisher_seq, refusal)
        self._tell(identity.publisher, refusal)

    def _tell(self, publisher: str, answer: PublishAck | Refused) -> None:
        link = self._broker.client(publisher)  # it may have come back on another link meanwhile
        if link is not None:
            self._broker.send(link, answer)


def _acknowledgements(kept: Iterable[Envelope | Run]) -> Iterator[tuple[str, PublishAck]]:
    """For each run of publications that one publisher made in one go: who that is, and one acknowledgement."""
    last: Identity | None = None
    count = length = 0
    for one in kept:
        first, many = (one.first, len(one)) if isinstance(one, Run) else (one.identity, 1)
        if (
            last is not None
            and first.publisher_seq == last.publisher_seq + length
            and first.seq == last.seq + length
            and first.publisher == last.publisher
        ):
            count += many
        else:
            if last is not None:
                yield last.publisher, _stored(last, length, count)
            count = many
        last, length = first, many
    if last is not None:
        yield last.publisher, _stored(last, length, count)


def _stored(first: Identity, length: int, count: int) -> PublishAck:
    """The latest part of a run begins with this publication and is so long; all of it has so many."""
    seq, number = first.publisher_seq + length - 1, first.seq + length - 1
    return PublishAck(seq, first.origin, first.epoch, number, count, Quality.STORED)
