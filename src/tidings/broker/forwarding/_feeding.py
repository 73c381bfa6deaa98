"""Feeding: many publications of a client at once, from the bytes that it sent to the bytes that others get.

Theory of operation
-------------------
Where the matcher of a table has a data plane (docs/native.md), whoever runs the broker may hand over the parts of a
read before they are taken apart. The plane does what `Lane.take` does for each, as far as all of them are plain, and
stops at the first that is not; that one goes the way of a single message. This module stands between the two. It says
under which conditions a lane may be fed at all, gives the plane what it needs to know, and notes what came of it: the
plane itself keeps neither numbers nor counters, so nothing is known in two places, and whoever asks in between sees
what it would have seen without a plane.

What makes a lane unfit for as long as it is armed: scopes, steps that are advised, advertisements, somebody who
observes publications. What is looked at for each run: whether something is attached to what is sent next, what was
refused, the qualities that can be had, and whether somebody among those who get it stands apart now (see `_apart`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from tidings.broker._links import Filtering, Guard, Link
from tidings.broker.interest import Entry, Table
from tidings.matching import Fed, Matcher, PassedOn, Plan, Plane, make_index
from tidings.model import EVERYTHING, ROOT_ROUTE, Identity, TidingsError, WireError
from tidings.wire import (
    HEADER,
    MAX_RUN,
    Deliver,
    Envelope,
    Frame,
    Hop,
    Notify,
    PublishAck,
    Quality,
    Run,
    Written,
    decode,
    encode,
    pack,
    part_size,
)

from ._targets import Links, Targets

if TYPE_CHECKING:
    from ._lane import Surroundings

MANY_IDS = 64
"""A notification for more subscriptions of one client than these is not plain: to write it takes long."""
_SAMPLE = Envelope(Identity("sample", 1, 1, "sample", 1, 1), (ROOT_ROUTE,), b"sample")
_ROUTES = pack((ROOT_ROUTE,))
_HEAD = b"\x94\x98"  # an envelope has four fields, the first of which is an identity with eight


class Passed(NamedTuple):
    """What a run has become."""

    upto: int
    """How far it came in the bytes."""
    taken: int
    """How many publications."""
    answer: Frame | None
    """What goes back to the publisher."""
    written: list[tuple[Links, Written]]
    """The frames, with the links that they go to."""


class Feeding:
    """The data plane of one lane, while it is armed."""

    def __init__(self, table: Table, plane: Plane, around: Surroundings, version: int) -> None:
        self._table = table
        self._plane = plane
        self._around = around
        self._version = version
        self._epoch = around.publications.epoch
        self._hop: Hop | None = None
        self._guards: dict[int, tuple[Guard, Plane | Literal[False] | None]] = {}
        """By the guard, which is kept: identities are few."""
        self.is_sound = plane.is_sound
        """Whether all parts in some bytes have a kind that there is, and a size within a limit."""

    def feed(self, link: Link, data: bytes, at: int, now: int) -> Passed | None:
        """Take a run of publications whose parts begin at this place; None: the first one is not plain.

        `now` is the time that they get.
        """
        around, publications = self._around, self._around.publications
        apart, name = around.apart, link.principal
        known = publications.numbers.publishers.get(name, 0)
        if publications.refused:
            refused = publications.refused_upto(name)
            if refused is None:
                return None
            known = max(known, refused)  # one of these may come again: it is answered as the first time
        guard = None if link.guard is None else self._guard(link.guard)
        if apart.attached or guard is False:
            return None
        if (hop := around.hop()) != self._hop:
            self._arm(hop)
        quiet = not (apart.held or apart.owing or apart.riding or any(apart.advised or ()))
        found = self._plane.feed(
            data,
            at,
            link,
            pack(name),
            publications.last,
            known,
            now,
            publications.qualities(len(data) - at),
            guard,
            MAX_RUN,
            around.forwarding.version,
            self._plan,
            None if quiet else self._stands_apart,
        )
        return None if found is None else self._note(link, Fed(*found), now)

    def pass_on(self, link: Link, data: bytes, at: int) -> Passed | None:
        """Pass on a run of notifications of one origin that a neighbour brings; None: the first one is not plain."""
        around, apart = self._around, self._around.apart
        if apart.attached or (apart.owing and _origin(data, at) in apart.owing):
            return None
        if (hop := around.hop()) != self._hop:
            self._arm(hop)
        quiet = not (apart.held or apart.riding or any(apart.advised or ()))
        found = self._plane.pass_on(
            data,
            at,
            link,
            pack(hop),
            MAX_RUN,
            around.forwarding.version,
            self._plan,
            None if quiet else self._stands_apart,
        )
        if found is None:
            return None
        gone = PassedOn(*found)
        around.reached(gone.origin, gone.epoch, gone.seq)
        sent, table = around.statistics.sent, self._table
        table.lookups += gone.taken
        table.copies += gone.clients + gone.neighbours
        if gone.clients:
            sent[Deliver] += gone.clients
        if gone.neighbours:
            sent[Notify] += gone.neighbours
        return Passed(gone.upto, gone.taken, None, _written(gone.written))

    def _note(self, link: Link, fed: Fed, now: int) -> Passed | None:
        around, publications = self._around, self._around.publications
        quality = Quality(fed.quality)
        number, seq = publications.last + 1, fed.seq - fed.taken + 1
        first = Identity(around.name, self._epoch, number, link.principal, seq, now, self._version)
        try:
            publications.enter_run(link, Run(first, quality, fed.envelopes, fed.places, fed.size), Quality(fed.asked))
        except TidingsError:
            return None  # then each is refused by itself
        sent, table = around.statistics.sent, self._table
        table.lookups += fed.taken
        table.copies += fed.clients + fed.neighbours
        if fed.clients:
            sent[Deliver] += fed.clients
        if fed.neighbours:
            sent[Notify] += fed.neighbours
        answer = None
        if quality is Quality.ACCEPTED:
            answer = Frame(PublishAck(fed.seq, around.name, self._epoch, publications.last, fed.taken))
            sent[PublishAck] += fed.taken
        if not around.progress.due:
            around.progress.published()
        return Passed(fed.upto, fed.taken, answer, _written(fed.written))

    def _arm(self, hop: Hop) -> None:
        """Tell the plane what all envelopes have in common; it forgets the frames of another tree."""
        head = _HEAD + pack(self._around.name) + pack(self._epoch)
        self._plane.arm(head, pack(self._version), _ROUTES)
        self._hop = hop

    def _guard(self, guard: Guard) -> Plane | Literal[False] | None:
        """What judges by the filter of an identity; None: it passes everything, False: only Python can judge."""
        known = self._guards.get(id(guard))
        if known is None:
            plane: Plane | Literal[False] | None = False
            if isinstance(guard, Filtering):
                if guard.publishes == EVERYTHING:
                    plane = None
                else:
                    index: Matcher[str] = make_index()
                    index.add(guard.publishes, "publish")
                    plane = index.plane or False
            known = self._guards[id(guard)] = (guard, plane)
        return known[1]

    def _plan(self, matching: list[Entry], source: Link) -> Plan | None:
        """Who gets what passes these subscriptions; None: not all of them get it from the plane."""
        around = self._around
        targets = around.forwarding.targets(matching, source, around.leaving)
        groups = []
        for ids, links in targets.groups.items():
            if any(link.is_inside for link in links):
                return None  # a feature gets each in the turn that it belongs to
            if ids is None:
                groups.append((links, *_pieces(Frame(Notify(_SAMPLE), around.hop())), True))
            elif len(ids) <= MANY_IDS:
                groups.append((links, *_pieces(Frame(Deliver(_SAMPLE, ids))), False))
            else:
                return None
        return targets, source in targets, groups

    def _stands_apart(self, targets: Targets) -> bool:
        return bool(self._around.apart.among(self._around.name, targets))


def _pieces(frame: Frame) -> tuple[bytes, bytes]:
    """What is before the sample in a frame, and what follows it."""
    opening, closing = encode(frame).split(pack(_SAMPLE), 1)
    return opening, closing


def _written(parts: list[tuple[Links, bytes, int, int]]) -> list[tuple[Links, Written]]:
    return [(links, Written(data, count, largest)) for links, data, count, largest in parts]


def _origin(data: bytes, at: int) -> str | None:
    """Where the notification at this place comes from; None: it is none, or is not whole."""
    try:
        message = decode(data[at + HEADER.size : at + part_size(data, at)]).message
    except WireError:
        return None
    return message.envelope.identity.origin if isinstance(message, Notify) else None
