"""The judgement of a piece of the log: what should have been sent, against what was.

A piece is some numbers of one epoch of one origin. Publications are read from archive or store, deliveries from the
files that the journals were sorted into; nothing else is needed, so pieces are judged anywhere, in any order, and only
findings and sums come back.
"""

from __future__ import annotations

import enum
import functools
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.model import Duplicates
from tidings.scopes import Versions, decode_snapshot, decode_transaction
from tidings.store import Life, StoreError, StoreReader
from tidings.wire import Envelope

from ._chronicle import Timeliness
from ._viewers import Forms, Viewers

MAX_FINDINGS = 1_000
"""The most findings of one kind that a piece tells one by one; the others are counted."""
GRAPH_SECONDS = 60.0
"""A change of the scope graph within this time after a publication may have been in force where it arrived."""
BUCKETS = 20
"""Buckets of latencies for each doubling: percentiles are exact to 3.5 percent."""


class Kind(enum.Enum):
    """The kinds of findings."""

    LOSS = "loss"
    """Owed, and neither sent nor told to be lost."""
    DUPLICATE = "duplicate"
    """Sent twice in one form."""
    ORDER = "order"
    """Sent behind one that was published later by way of the same broker."""
    LEAK = "leak"
    """Sent to a client whose scopes do not let it see this."""
    MISMATCH = "mismatch"
    """Sent to a subscription whose filter it does not pass."""
    STRAY = "stray"
    """Sent to a subscription that its client did not have."""


class Finding(msgspec.Struct, frozen=True):
    """Something that should not have happened: what it is, the subscription, the time, and why it is wrong."""

    kind: Kind
    origin: str
    epoch: int
    seq: int
    broker: str
    client: str
    subscription: str
    at: int
    """When it was sent, by the clock of the client's broker; if it was lost, when it was published."""
    why: str


class Piece(msgspec.Struct, frozen=True):
    """Some numbers of an epoch of an origin, and where they are."""

    origin: str
    epoch: int
    first: int
    last: int
    archive: str = ""
    data: str = ""
    """Of a store, if it is not in the archive."""


class Case(msgspec.Struct, frozen=True):
    """Everything that pieces are judged by."""

    lives: list[Life]
    base: bytes
    """The oldest version of the scope graph that is known; empty: there were no scopes."""
    transactions: list[bytes]
    """Every change of it since."""
    since: int
    until: int
    skew: int
    """Microseconds by which the clocks of two brokers may differ."""
    deliveries: str
    """The directory with what was sent."""
    ordered: bool = True
    """Whether the order is promised: not where notifications cross at gateways."""


class Verdict(msgspec.Struct):
    """Findings and sums, of one piece of the log or of several."""

    findings: list[Finding] = []
    counts: dict[str, int] = {}
    """Of findings, by kind."""
    publications: int = 0
    owed: int = 0
    """Deliveries that were owed and acknowledged."""
    told: int = 0
    """Owed ones that the subscription was told to be lost."""
    sent: int = 0
    """Deliveries of these publications."""
    unjudged: int = 0
    """Deliveries of what is in no log: it was not stored."""
    latencies: dict[int, int] = {}
    """How many by bucket of microseconds."""

    def find(self, finding: Finding) -> None:
        """Count a finding, and keep it unless `MAX_FINDINGS` of its kind are kept already."""
        kind = finding.kind.value
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= MAX_FINDINGS:
            self.findings.append(finding)

    def add(self, other: Verdict) -> None:
        """Add the findings and sums of another verdict."""
        self.findings += other.findings
        for name in ("counts", "latencies"):
            setattr(self, name, dict(Counter(getattr(self, name)) + Counter(getattr(other, name))))
        for name in ("publications", "owed", "told", "sent", "unjudged"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def percentile(self, share: float) -> float | None:
        """Return the seconds within which this share of the deliveries arrived."""
        left = share * sum(self.latencies.values())
        for bucket, count in sorted(self.latencies.items()):
            left -= count
            if left <= 0:
                return float(2 ** (bucket / BUCKETS) / 1e6)
        return None


class _Delivery(NamedTuple):
    life: int
    form: int
    at: int
    timeliness: int


class Judge:
    """Judges pieces of one case."""

    def __init__(self, case: Case) -> None:
        self._case = case
        transactions = [decode_transaction(one) for one in case.transactions]
        self._made = {one.version: one.at for one in transactions}
        versions = Versions(decode_snapshot(case.base).graph() if case.base else None, transactions)
        oldest = versions.newest - len(transactions)
        self._viewers = Viewers(case.lives, {at: versions.plan(at).graph for at in range(oldest, versions.newest + 1)})

    def judge(self, piece: Piece) -> Verdict:
        """Everything about one piece."""
        verdict = Verdict()
        sent = _sent(self._case.deliveries, piece)
        verdict.unjudged = sum(map(len, sent.values()))
        latencies: list[int] = []
        for step in _publications(piece):
            for envelope in step:
                identity = envelope.identity
                if self._case.since <= identity.published_at < self._case.until:
                    deliveries = sent.pop(identity.seq, [])
                    verdict.unjudged -= len(deliveries)
                    self._judge(envelope, deliveries, verdict)
                    live = [one for one in deliveries if one.timeliness != Timeliness.PAST]
                    latencies += [delivery.at - identity.published_at for delivery in live]
                elif identity.seq in sent:
                    verdict.unjudged -= len(sent.pop(identity.seq))
        verdict.latencies = _buckets(latencies)
        return verdict

    def _judge(self, envelope: Envelope, deliveries: list[_Delivery], verdict: Verdict) -> None:
        verdict.publications += 1
        deliveries = [one for one in deliveries if one.life not in self._viewers.seats]
        verdict.sent += len(deliveries)
        if not self._viewers.knows(envelope.identity.graph_epoch):
            verdict.unjudged += len(deliveries)
            return
        seen = self._viewers.seen(envelope)
        decided = self._decided(envelope, deliveries, seen)
        self._judge_decided(envelope, decided, verdict)
        come: dict[tuple[int, int], _Delivery] = {}
        for delivery in deliveries:
            key = (delivery.life, delivery.form)
            if key in come and self._case.lives[delivery.life].duplicates != Duplicates.PER_PATH:
                verdict.find(
                    self._finding(Kind.DUPLICATE, envelope, delivery, "it had already been sent to this subscription")
                )
            elif delivery.timeliness == Timeliness.AGAIN:
                why = "its client had already got further, at another broker"
                verdict.find(self._finding(Kind.DUPLICATE, envelope, delivery, why))
            elif delivery.timeliness == Timeliness.LATE and self._case.ordered and delivery not in decided:
                why = f"something that '{envelope.identity.origin}' published later had been sent before it"
                verdict.find(self._finding(Kind.ORDER, envelope, delivery, why))
            come[key] = delivery
            wanted = delivery.form in seen.get(delivery.life, ()) or delivery in decided
            if not wanted and delivery.life not in self._viewers.opaque:
                self._unwanted(envelope, delivery, verdict)
        for place, forms in seen.items():
            self._owed(envelope, place, forms, come, verdict)

    def _decided(self, envelope: Envelope, deliveries: list[_Delivery], seen: dict[int, Forms]) -> list[_Delivery]:
        """Those that a deciding point has given to who might get them: nobody gets them without having been chosen."""
        if all(one.form in seen.get(one.life, ()) for one in deliveries):
            return []
        eligible = self._viewers.eligible(envelope)
        return [
            one
            for one in deliveries
            if one.form not in seen.get(one.life, ()) and one.form in eligible.get(one.life, ())
        ]

    def _judge_decided(self, envelope: Envelope, decided: list[_Delivery], verdict: Verdict) -> None:
        """What a scope gives to one of its members, the journals must have for one of them only."""
        given: dict[tuple[str, int], str] = {}
        for delivery in sorted(decided, key=lambda one: one.at):
            scope, client = self._viewers.sharing(envelope, delivery.life), self._case.lives[delivery.life].client
            if scope is None:
                continue
            first = given.setdefault((scope, delivery.form), client)
            if first != client:
                why = f"scope '{scope}' gives it to one of its members, and '{first}' had got it"
                verdict.find(self._finding(Kind.DUPLICATE, envelope, delivery, why))

    def _owed(
        self,
        envelope: Envelope,
        place: int,
        forms: Forms,
        come: dict[tuple[int, int], _Delivery],
        verdict: Verdict,
    ) -> None:
        life, identity = self._case.lives[place], envelope.identity
        position = (identity.epoch, identity.seq)
        known_at = identity.published_at - self._case.skew
        windows = [
            window
            for window in life.windows.get(identity.origin, ())
            if window.after < position <= window.upto and (position > window.sure or known_at >= window.settled_at)
        ]
        for form, passed in forms.items():
            window = next((one for one in windows if passed.issuperset(one.filters)), None)
            if window is None:
                continue
            gaps = [gap for gap in life.gaps if gap.contains(identity.origin, *position)]
            if (place, form) in come:
                verdict.owed += 1
                verdict.told += any(gap.last is not None for gap in gaps)  # it was dropped before it had arrived
            elif gaps:
                verdict.owed += 1
                verdict.told += 1
            elif self._always_visible(envelope, place, form):
                verdict.owed += 1
                filter = life.filters[window.filters[-1]]
                why = f"it passes {filter}, and everything up to number {window.upto[1]} has been acknowledged"
                missing = _Delivery(place, form, identity.published_at, Timeliness.IN_ORDER)
                verdict.find(self._finding(Kind.LOSS, envelope, missing, why))

    def _always_visible(self, envelope: Envelope, place: int, form: int) -> bool:
        """Whether every version of the graph that may have counted shows it."""
        identity = envelope.identity
        limit = identity.published_at + int(GRAPH_SECONDS * 1e6)
        later = [v for v in self._viewers.versions_since(identity.graph_epoch) if self._made[v] <= limit]
        return all(form in self._viewers.seen(envelope, version).get(place, ()) for version in later)

    def _unwanted(self, envelope: Envelope, delivery: _Delivery, verdict: Verdict) -> None:
        """It was sent to somebody who should not have got it, unless a later version of the graph allowed it."""
        life, identity = self._case.lives[delivery.life], envelope.identity
        for version in self._viewers.versions_since(identity.graph_epoch):
            allowed = self._viewers.seen(envelope, version).get(delivery.life, ())
            if self._made[version] <= delivery.at and delivery.form in allowed:
                return
        if identity.publisher == life.client and not life.receive_own:
            why = "the client published it itself, and does not want its own"
            verdict.find(self._finding(Kind.MISMATCH, envelope, delivery, why))
        elif self._viewers.visible(envelope, delivery.life):
            why = f"it passes none of its filters: {'; '.join(life.filters)}"
            verdict.find(self._finding(Kind.MISMATCH, envelope, delivery, why))
        else:
            why = f"no version of the scopes shows it to its client; '{identity.publisher}' published it"
            verdict.find(self._finding(Kind.LEAK, envelope, delivery, why))

    def _finding(self, kind: Kind, envelope: Envelope, delivery: _Delivery, why: str) -> Finding:
        life, identity = self._case.lives[delivery.life], envelope.identity
        return Finding(
            kind, identity.origin, identity.epoch, identity.seq, life.broker, life.client, life.id, delivery.at, why
        )


def _publications(piece: Piece) -> Iterator[list[Envelope]]:
    if piece.archive:
        from tidings.store.archive import ArchiveReader  # noqa: PLC0415 - an extra, and slow to load

        reader = ArchiveReader(piece.archive, origin=piece.origin)
        yield from reader.between(piece.epoch, piece.first, piece.last)
        for damage in reader.damage:
            raise StoreError(f"{damage.path} cannot be read: {damage.problem}; `tidings archive verify` says more")
        return
    with StoreReader(piece.data) as log:
        for batch in log.beyond(piece.epoch, piece.first - 1):
            chosen = [one for one in batch if one.identity.epoch == piece.epoch and one.identity.seq <= piece.last]
            yield chosen
            if len(chosen) < len(batch):
                return


def _sent(directory: str, piece: Piece) -> dict[int, list[_Delivery]]:
    """What was sent of a piece, by number."""
    found: dict[int, list[_Delivery]] = {}
    wanted = [("seq", ">=", piece.first), ("seq", "<=", piece.last)]
    for path in sorted(Path(directory).glob(f"{source_name(piece.origin, piece.epoch)}-*.parquet")):
        table = pq.read_table(path, filters=wanted, partitioning=None)
        columns = [table.column(name).to_pylist() for name in ("life", "form", "at", "timeliness")]
        for seq, *delivery in zip(table.column("seq").to_pylist(), *columns, strict=True):
            found.setdefault(seq, []).append(_Delivery(*delivery))
    return found


def source_name(origin: str, epoch: int) -> str:
    """How files of deliveries begin that are about an epoch of an origin."""
    return f"{origin.encode().hex()}-{epoch}"


def _buckets(latencies: list[int]) -> dict[int, int]:
    if not latencies:
        return {}
    values = pc.max_element_wise(pa.array(latencies, pa.int64()), 1)
    buckets = pc.cast(pc.floor(pc.multiply(pc.log2(pc.cast(values, pa.float64())), BUCKETS)), pa.int32())
    return {one["values"]: one["counts"] for one in pc.value_counts(buckets).to_pylist()}


@functools.lru_cache(maxsize=1)
def judge_of(case: bytes) -> Judge:
    """The judge of an encoded case; kept, because the next piece will most probably belong to the same one."""
    return Judge(decode_case(case))


_encode = msgspec.msgpack.Encoder().encode
decode_case = msgspec.msgpack.Decoder(Case).decode
decode_verdict = msgspec.msgpack.Decoder(Verdict).decode
decode_piece = msgspec.msgpack.Decoder(Piece).decode


def judged(case: bytes, piece: bytes) -> bytes:
    """Judge a piece; all as bytes, so that it can happen in another process."""
    return _encode(judge_of(case).judge(decode_piece(piece)))


def encoded(what: Case | Piece | Verdict) -> bytes:
    """As it travels."""
    return _encode(what)


assert math.isclose(2 ** (1 / BUCKETS), 1.035, rel_tol=0.001), "what docs/audit.md says of percentiles"
