"""What the experiments measure, from what was recorded. Times are in seconds.

| measure | of what                                                                                             |
|---------|-----------------------------------------------------------------------------------------------------|
| Ts      | distinct publications that reached applications, a second                                           |
| Tb      | what each broker sent to subscribers, a second                                                      |
| L       | of what subscribers wanted, the percentage that never came                                          |
| D       | of what came, the percentage that had come before: on the wire, and at the application              |
| E       | mean time from publication to the first receipt                                                     |
| H       | mean time from asking to be taken over to the first notification at the new broker                  |
| ready   | the same until the hand-over was finished: H is the publisher's pace where nothing was waiting      |
| share of transfers | of what reached applications, the percentage that had been fetched from another broker  |

The processing time of brokers, M, is not here.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tidings.model import TidingsError


class Publication(NamedTuple):
    """Something was published."""

    publisher: str
    seq: int
    at: float
    selector: int


class Member(NamedTuple):
    """Somebody wants a range of numbers, for a time."""

    subscriber: str
    low: int
    high: int
    begin: float
    end: float

    def wants(self, one: Publication) -> bool:
        """Whether a publication is for it."""
        return self.low <= one.selector <= self.high and self.begin <= one.at < self.end


class Receipt(NamedTuple):
    """A broker has sent a publication to a subscriber, and it has arrived."""

    subscriber: str
    publisher: str
    seq: int
    at: float
    broker: str
    handed_over: bool = True
    """Whether the application got it; False: the client library knew it."""
    transferred: bool = False
    """Whether its broker had fetched it from another one for this subscriber."""


class Arrival(NamedTuple):
    """A subscriber asks a broker to be taken over."""

    subscriber: str
    at: float
    first: float | None = None
    """When the first notification came there; None: none has."""
    ready: float | None = None
    """When everything was handed over; None: it went on before."""


@dataclass(frozen=True, slots=True)
class Measures:
    """The results; None: there was nothing to measure."""

    ts: float
    tb: dict[str, float]
    loss: float
    duplication: float
    """At the application."""
    duplication_on_wire: float
    delay: float | None
    handoff_latency: float | None
    ready: float | None
    transfer_share: float


def measured(
    publications: Iterable[Publication],
    members: Iterable[Member],
    receipts: Iterable[Receipt],
    arrivals: Iterable[Arrival],
    duration: float,
) -> Measures:
    """Work all of it out. Raises `TidingsError` if something came that nobody published."""
    if not duration > 0:
        raise TidingsError(f"a run of {duration} seconds has no rates; give its length")
    published = {(one.publisher, one.seq): one for one in publications}
    expected = sum(member.wants(one) for member in members for one in published.values())
    received = sorted(receipts, key=lambda one: one.at)
    at_application = [one for one in received if one.handed_over]
    delays = []
    seen: set[tuple[str, str, int]] = set()
    for one in at_application:
        what = published.get((one.publisher, one.seq))
        if what is None:
            raise TidingsError(
                f"'{one.subscriber}' got {one.publisher}#{one.seq}, which nobody published; record publications, too"
            )
        if (key := (one.subscriber, one.publisher, one.seq)) not in seen:
            seen.add(key)
            delays.append(one.at - what.at)
    arrived = list(arrivals)
    return Measures(
        ts=len(seen) / duration,
        tb={broker: count / duration for broker, count in sorted(Counter(one.broker for one in received).items())},
        loss=_percentage(expected - len(seen), expected),
        duplication=_percentage(len(at_application) - len(seen), len(at_application)),
        duplication_on_wire=_percentage(len(received) - len(seen), len(received)),
        delay=_mean(delays),
        handoff_latency=_mean([one.first - one.at for one in arrived if one.first is not None]),
        ready=_mean([one.ready - one.at for one in arrived if one.ready is not None]),
        transfer_share=_percentage(sum(one.transferred for one in at_application), len(at_application)),
    )


def _percentage(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None
