"""What a client asks its broker: how it is, what is advertised, what its log holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Protocol, TypeVar

from tidings.broker import MAX_NUMBER
from tidings.model import EVERYTHING, Matches
from tidings.wire import (
    Answer,
    Browse,
    EvacuationStatus,
    Measure,
    Measured,
    MobilityReply,
    MobilityRequest,
    MobilityStatus,
    Offers,
    Page,
    Question,
    Read,
    Status,
    StatusReply,
    StatusRequest,
    decode_evacuation,
    decode_mobility,
    decode_status,
)

from ._address import ConnectionFailed
from ._arguments import filter_of, integer_of, name_of, position_of, timeout_of
from ._questions import Questions

_Answer = TypeVar("_Answer", bound=Answer)

STATUS_TIMEOUT = 5.0
"""Seconds to wait for a broker to say how it is."""


MOBILITY_TIMEOUT = 15.0
"""Seconds to wait until a broker has asked all others."""


class _Asks(Protocol):
    """Who has a broker to ask."""

    _questions: Questions

    @property
    def _broker_name(self) -> str: ...


class Inquiries:
    """The questions that a client has methods for."""

    async def status(self: _Asks, timeout: float | None = STATUS_TIMEOUT) -> Status:
        """What the broker says about itself; only those who may administer it are answered."""
        reply = await _answer(self, StatusRequest, StatusReply, timeout)
        return decode_status(reply.body)

    async def mobility(self: _Asks, client: str = "", *, timeout: float | None = MOBILITY_TIMEOUT) -> MobilityStatus:
        """Clients that roam, as the broker sees them, and the neighbour graph of the network; only for administrators.

        With `client`, of the clients only that one; `presences` says to which broker of the network it is attached, and
        which have copies of it.
        """
        reply = await _answer(self, lambda id: MobilityRequest(id, client=client), MobilityReply, timeout)
        return decode_mobility(reply.body)

    async def import_neighbours(
        self: _Asks, graph: bytes, place: str = "the graph", *, timeout: float | None = MOBILITY_TIMEOUT
    ) -> MobilityStatus:
        """Let all brokers have the neighbour graph of a file, JSON, in the place of what they have learned.

        A mistake in the file is a `TidingsError` that names `place`, and changes nothing.
        """
        reply = await _answer(
            self, lambda id: MobilityRequest(id, "import", file=graph, place=place), MobilityReply, timeout
        )
        return decode_mobility(reply.body)

    async def forget_neighbours(
        self: _Asks, broker: str, other: str = "", *, timeout: float | None = MOBILITY_TIMEOUT
    ) -> MobilityStatus:
        """Let all brokers forget what they have learned of one, or only the edge between two."""
        reply = await _answer(
            self, lambda id: MobilityRequest(id, "forget", old=broker, new=other), MobilityReply, timeout
        )
        return decode_mobility(reply.body)

    async def evacuate(
        self: _Asks, broker: str, *, begin: bool = True, timeout: float | None = MOBILITY_TIMEOUT
    ) -> EvacuationStatus:
        """Send the clients of a broker elsewhere, before it stops; return at once how far that is. For administrators.

        Each client goes to another of the addresses that it was given itself. One that has none, or is let in nowhere
        else, stays: see `EvacuationStatus`. Ask again with `begin=False` until it is `done`; a broker that nobody asks
        for a minute goes on as before. This client is not sent away.
        """
        name_of(broker, "broker", "give the name of the broker that is to be evacuated")
        action = "evacuate" if begin else "evacuation"
        reply = await _answer(self, lambda id: MobilityRequest(id, action, old=broker), MobilityReply, timeout)
        return decode_evacuation(reply.body)

    async def browse(
        self: _Asks, filter: Matches | str = EVERYTHING, *, timeout: float | None = STATUS_TIMEOUT
    ) -> Offers:
        """What is advertised anywhere in the network and may bring something that passes the filter.

        Each filter is shown as far as this client may subscribe to it. Refused where brokers route without
        advertisements.
        """
        wanted = filter_of(filter)
        return await _answer(self, lambda id: Browse(id, wanted), Offers, timeout)

    async def measure_log(
        self: _Asks, after: tuple[int, int] = (0, 0), *, rows: int = 0, size: int = 0, timeout: float | None = None
    ) -> Measured:
        """What the log of the broker holds, and how far one gets in it from a position with so many rows or bytes.

        A broker that is down is waited for, for `timeout` seconds; then `ConnectionFailed` is raised.
        """
        place = position_of(after, "after", MAX_NUMBER)
        integer_of(rows, "rows", 0, MAX_NUMBER)
        integer_of(size, "size", 0, MAX_NUMBER)
        return await _answer(self, lambda id: Measure(id, place, rows, size), Measured, timeout)

    async def read_log(
        self: _Asks,
        after: tuple[int, int],
        upto: tuple[int, int],
        filter: Matches | str = EVERYTHING,
        *,
        timeout: float | None = None,
    ) -> AsyncIterator[Page]:
        """What the log of the broker holds after one position, up to another, page by page, in the order of the log.

        The log holds what clients of that broker have published with quality `stored`, as far as it is synced. A page
        that does not come within `timeout` seconds is a `ConnectionFailed`.
        """
        wanted = filter_of(filter)
        after, upto = position_of(after, "after", MAX_NUMBER), position_of(upto, "upto", MAX_NUMBER)
        while after < upto:
            page = await _answer(self, partial(Read, after=after, upto=upto, filter=wanted), Page, timeout)
            yield page
            if page.reached <= after:
                return  # the log ends before
            after = page.reached


async def _answer(
    asker: _Asks, question: Callable[[str], Question], kind: type[_Answer], timeout: float | None
) -> _Answer:
    """What the broker answers in time; `question` makes the message of an id, which a new session is asked, too."""
    timeout_of(timeout)
    try:
        async with asyncio.timeout(timeout):
            answer = await asker._questions.ask(question)
    except TimeoutError:
        where = asker._broker_name or "the broker"
        raise ConnectionFailed(f"'{where}' has not answered for {timeout:g} seconds; is it running?") from None
    assert isinstance(answer, kind)
    return answer
