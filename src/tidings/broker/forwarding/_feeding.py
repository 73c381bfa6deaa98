"""Feeding: many publications of a client at once, from the bytes that it sent to the bytes that others get.

Theory of operation
-------------------
Where the matcher of a table has a data plane (docs/native.md), whoever runs the broker may hand over the parts of a
read before they are taken apart. The plane does what `Lane.take` does for each, as far as all of them are plain, and
stops at the first that is not; that one goes the way of a single message. This module stands between the two. It says
under which conditions a lane may be fed at all, gives the plane what it needs to know, and notes what came of it: the
plane itself keeps neither numbers nor counters, so nothing is known in two places, and whoever asks in between sees
what it would have seen without a plane.

What makes a lane unfit for as long as it is armed: steps that are advised, somebody who observes each publication by
itself, edges out of its scope that are no filters. What judges a single publication is compiled, too (see `_checks`).
What is looked at for each run: whether something is attached to what is sent next, what was refused, the qualities that
can be had.

Somebody who stands apart now (see `_apart`) leaves its group, and is left over for the full path: the run ends behind
that publication, because whatever is done then may concern the next. Where there are scopes, the full path does it all.
A client inside the broker may answer at once, so what it gets is a run of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from tidings.broker._links import Link, LinkKind
from tidings.broker.interest import Entry, Passage, Table
from tidings.matching import Fed, Group, PassedOn, Plan, Plane
from tidings.model import ROOT_ROUTE, ROOT_SCOPE, Identity, Route, TidingsError, WireError
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

from ._apart import Left
from ._checks import Judges, Watch
from ._targets import Links, Targets

if TYPE_CHECKING:
    from ._lane import Surroundings

MANY_IDS = 64
"""A notification for more subscriptions of one client than these is not plain: to write it takes long."""
_SAMPLE = Envelope(Identity("sample", 1, 1, "sample", 1, 1), (ROOT_ROUTE,), b"sample")
_ROUTES = pack((ROOT_ROUTE,))
_SOURCE = "sample"
_NO_SOURCE = Link("", LinkKind.BROKER)  # where there are no scopes, frames do not depend on it
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
    left: Left | None = None
    """Who else gets the last one, each by itself."""


class Terms(NamedTuple):
    """How a lane is armed."""

    version: int
    """Of the graph."""
    scoped: bool
    """Whether there are scopes."""
    shown: tuple[Route, ...]
    """What clients are told of routes."""
    supers: tuple[Passage, ...]
    """The edges out of the scope."""
    gateways: bool
    """Whether something takes a detour."""
    several: bool
    """Whether one publication may come to somebody in several forms."""


class Feeding:
    """The data plane of one lane, while it is armed."""

    def __init__(
        self, table: Table, plane: Plane, around: Surroundings, terms: Terms, passages: Mapping[Link, Passage]
    ) -> None:
        """`passages`: by which clients are members of the scope; not a copy."""
        self._table = table
        self._plane = plane
        self._around = around
        self._terms = terms
        self._passages = passages
        self._epoch = around.publications.epoch
        self._hop: Hop | None = None
        self.judges = Judges(passages, terms.supers, around.advertised, self._watch)
        self._left: tuple[Targets, frozenset[Link]] | None = None
        """Whoever was found to stand apart last."""
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
        checks = self.judges.of(link)
        if apart.attached or checks is False:
            return None
        if (hop := around.hop()) != self._hop:
            self._arm(hop)
        quiet = not (apart.held or apart.owing or apart.riding or any(apart.advised or ()))
        found = self._plane.feed(
            data,
            at,
            link,
            MAX_RUN,
            around.forwarding.version,
            self._plan,
            None if quiet else self._stands_apart,
            pack(name),
            publications.last,
            known,
            now,
            publications.qualities(len(data) - at),
            checks,
        )
        return None if found is None else self._note(link, Fed(*found), now)

    def pass_on(self, link: Link, data: bytes, at: int) -> Passed | None:
        """Pass on a run of notifications of one origin that a neighbour brings; None: the first one is not plain."""
        around, apart, terms = self._around, self._around.apart, self._terms
        if apart.attached or (terms.gateways and terms.supers):
            return None
        if apart.owing or terms.scoped:
            first = _first(data, at)
            if first is None or first.origin in apart.owing:
                return None
            if terms.scoped and around.standing_for(first.publisher):
                return None  # it has moved here: it gets what it published, not what its scope made of it
        if (hop := around.hop()) != self._hop:
            self._arm(hop)
        quiet = not (apart.held or apart.riding or any(apart.advised or ()))
        found = self._plane.pass_on(
            data,
            at,
            link,
            MAX_RUN,
            around.forwarding.version,
            self._plan,
            None if quiet else self._stands_apart,
            pack(hop),
        )
        if found is None:
            return None
        gone = PassedOn(*found)
        around.reached(gone.origin, gone.epoch, gone.seq - terms.several)
        self._count(gone)
        left = None
        if gone.left:
            message = decode(data[_last(data, at, gone.taken) + HEADER.size : gone.upto]).message
            assert isinstance(message, Notify)
            left = self._left_over(message.envelope)
        return Passed(gone.upto, gone.taken, None, _written(gone.written), left)

    def _note(self, link: Link, fed: Fed, now: int) -> Passed | None:
        around, publications = self._around, self._around.publications
        quality = Quality(fed.quality)
        number, seq = publications.last + 1, fed.seq - fed.taken + 1
        first = Identity(around.name, self._epoch, number, link.principal, seq, now, self._terms.version)
        run = Run(first, quality, fed.envelopes, fed.places, fed.size)
        try:
            publications.enter_run(link, run, Quality(fed.asked))
        except TidingsError:
            return None  # then each is refused by itself
        self._count(fed)
        answer = None
        if quality is Quality.ACCEPTED:
            answer = Frame(PublishAck(fed.seq, around.name, self._epoch, publications.last, fed.taken))
            around.statistics.sent[PublishAck] += fed.taken
        if fed.watched and around.watching is not None:
            around.watching.observe(run.some(fed.watched), link)
        if not around.progress.due:
            around.progress.published()
        if self._terms.gateways:
            around.progress.advance(around.name, self._epoch, publications.last)
        left = self._left_over(run.some((fed.taken - 1,))[0]) if fed.left else None
        return Passed(fed.upto, fed.taken, answer, _written(fed.written), left)

    def _count(self, taken: Fed | PassedOn) -> None:
        sent, table = self._around.statistics.sent, self._table
        table.lookups += taken.taken
        table.copies += taken.clients + taken.neighbours
        if taken.clients:
            sent[Deliver] += taken.clients
        if taken.neighbours:
            sent[Notify] += taken.neighbours

    def _left_over(self, envelope: Envelope) -> Left:
        assert self._left is not None
        (targets, alone), self._left = self._left, None
        self._table.copies += len(alone)
        return Left(ROOT_ROUTE, envelope, targets, alone)

    def _watch(self) -> Watch:
        watching = self._around.watching
        if watching is None:
            return None
        concerned = watching.concerned()
        return True if concerned is None or concerned.plane is None else concerned.plane

    def _arm(self, hop: Hop) -> None:
        """Tell the plane what all envelopes have in common; it forgets the frames of another tree."""
        head = _HEAD + pack(self._around.name) + pack(self._epoch)
        scope, before, after = self._table.scope, b"", b""
        if self._terms.scoped:
            before, after = pack((Route(scope, source=_SOURCE, path=(scope,)),)).split(pack(_SOURCE), 1)
        passing = _ROUTES if scope == ROOT_SCOPE else b""
        self._plane.arm(head, pack(self._terms.version), _ROUTES, passing, before, after)
        self._hop = hop

    def _plan(self, matching: list[Entry], source: Link) -> Plan | None:
        """Who gets what passes these subscriptions; None: not all of them get it from the plane."""
        around = self._around
        targets = around.forwarding.targets(matching, source, around.leaving)
        if self._terms.scoped and not targets.inside:
            return None
        groups = self._groups(targets, source)
        return None if groups is None else (targets, source in targets, groups, any(link.is_inside for link in targets))

    def _groups(self, targets: Targets, source: Link) -> list[Group] | None:
        """The frames of those who get the same; None: it takes long to write one of them."""
        around, groups = self._around, list[Group]()
        shown = to_neighbours = None
        if self._terms.scoped:
            shown = pack(self._terms.shown)
            to_neighbours = None if source.is_broker else pack((self._passages[source].route,))
        for ids, links in targets.groups.items():
            if ids is None:
                groups.append((links, *_pieces(Frame(Notify(_SAMPLE), around.hop())), True, to_neighbours))
            elif len(ids) <= MANY_IDS:
                groups.append((links, *_pieces(Frame(Deliver(_SAMPLE, ids))), False, shown))
            else:
                return None
        return groups

    def _stands_apart(self, targets: Targets) -> list[Group] | Literal[False] | None:
        """Who gets a notification in groups, if not all of the targets do; False: nobody, None: all do."""
        alone = self._around.apart.among(self._around.name, targets)
        if not alone:
            return None
        if self._terms.scoped:
            return False
        self._left = targets, alone
        return self._groups(targets.without(alone), _NO_SOURCE) or []


def _pieces(frame: Frame) -> tuple[bytes, bytes]:
    """What is before the sample in a frame, and what follows it."""
    opening, closing = encode(frame).split(pack(_SAMPLE), 1)
    return opening, closing


def _written(parts: list[tuple[Links, bytes, int, int, bytes]]) -> list[tuple[Links, Written]]:
    return [(links, Written(data, count, largest, numbers)) for links, data, count, largest, numbers in parts]


def _first(data: bytes, at: int) -> Identity | None:
    """Which notification it is that begins at this place; None: it is none, or is not whole."""
    try:
        message = decode(data[at + HEADER.size : at + part_size(data, at)]).message
    except WireError:
        return None
    return message.envelope.identity if isinstance(message, Notify) else None


def _last(data: bytes, at: int, count: int) -> int:
    """Where the last of so many parts begins."""
    for _ in range(count - 1):
        at += part_size(data, at)
    return at
