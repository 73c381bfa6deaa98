"""What a broker and a worker say to each other, as frames on two pipes: four bytes of length, then msgpack.

The worker is not trusted. Whatever it says is decoded into these types, within limits, and nothing else: no code
and no objects come back. A frame that does not fit counts as the death of the worker.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from tidings.aggregation.definitions import JP, Record
from tidings.model import AggregateError
from tidings.wire import decode_body, encode_body

MAX_FRAME = 8 * 1_048_576
"""The most bytes of a frame."""
MAX_REASON = 2_000
"""The most characters of a reason that a worker gives."""
HEADER = 4


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A record, with its attributes as the encoded body that the broker holds."""

    ts_ms: int
    broker: str
    jp: str
    topic: str
    peer: str
    ingress: bool
    edge: int
    filter: str
    body: bytes

    def record(self) -> Record:
        """The record that a definition sees."""
        return Record(
            ts_ms=self.ts_ms,
            broker=self.broker,
            jp=JP(self.jp),
            topic=self.topic,
            peer=self.peer,
            ingress=self.ingress,
            edge=self.edge,
            filter=self.filter,
            attrs=decode_body(self.body),
        )

    @classmethod
    def of(cls, record: Record, body: bytes | None = None) -> Row:
        """The row of a record; `body` saves encoding its attributes again."""
        encoded = encode_body(record.attrs) if body is None else body
        words = (record.ts_ms, record.broker, str(record.jp), record.topic, record.peer)
        return cls(*words, record.ingress, record.edge, record.filter, encoded)


class Lift(msgspec.Struct, frozen=True, tag="lift"):
    """Lift these records, and combine what belongs to one key and pane."""

    rows: list[Row]


class Combine(msgspec.Struct, frozen=True, tag="combine"):
    """Combine each group of partials into one."""

    groups: list[list[bytes]]


class Present(msgspec.Struct, frozen=True, tag="present"):
    """Present each partial."""

    partials: list[bytes]


class Check(msgspec.Struct, frozen=True, tag="check"):
    """Test the laws."""

    seed: int
    seconds: float


class Fingerprint(msgspec.Struct, frozen=True, tag="fingerprint"):
    """Say what the definition makes of the records of a seed: workers hash differently, so two of them tell what is
    random.
    """

    seed: int


class Describe(msgspec.Struct, frozen=True, tag="describe"):
    """Say what the definition says of itself."""


Job = Lift | Combine | Present | Check | Fingerprint | Describe


class Code(msgspec.Struct, frozen=True):
    """The source of a definition, and the name of its class."""

    source: str
    entry: str


class Batch(msgspec.Struct, frozen=True):
    """Jobs for one definition. `code` comes with the first batch of a definition in the life of a worker."""

    number: int
    definition: str
    jobs: list[Job]
    code: Code | None = None


class Lifted(msgspec.Struct, frozen=True, tag="lifted"):
    """For each key and pane the partial of the records; `taken` were relevant. Without a window the pane is 0."""

    partials: list[tuple[str, int, bytes]]
    taken: int


class Combined(msgspec.Struct, frozen=True, tag="combined"):
    """One partial for each group."""

    partials: list[bytes]


class Presented(msgspec.Struct, frozen=True, tag="presented"):
    """For each partial its value as JSON, and its error."""

    values: list[tuple[bytes, float]]


class Lawful(msgspec.Struct, frozen=True, tag="lawful"):
    """The laws hold, as far as they were tested."""

    rounds: int
    bytes: int


class Printed(msgspec.Struct, frozen=True, tag="printed"):
    """A fingerprint."""

    digest: str


class Described(msgspec.Struct, frozen=True, tag="described"):
    """What a definition says of itself."""

    name: str
    version: str
    window: tuple[int, int] | None
    """Size and slide, in milliseconds."""
    where: str
    """A filter; "": everything."""
    kind: str
    grouped: bool = True


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The code raised something, or gave something that it must not give."""

    reason: str


Answer = Lifted | Combined | Presented | Lawful | Printed | Described | Failed


class Reply(msgspec.Struct, frozen=True):
    """The answers to a batch, one for each job. The reply numbered 0 says that the worker is ready, and which
    layers hold.
    """

    number: int
    answers: list[Answer]
    layers: tuple[str, ...] = ()


S = TypeVar("S", Batch, Reply)
_ENCODER = msgspec.msgpack.Encoder()
_DECODERS: dict[type, Any] = {kind: msgspec.msgpack.Decoder(kind) for kind in (Batch, Reply)}


def framed(message: Batch | Reply) -> bytes:
    """A message with its length before it."""
    data = _ENCODER.encode(message)
    if len(data) > MAX_FRAME:
        raise AggregateError(f"a batch of {len(data):,} bytes, at most {MAX_FRAME:,} are sent; send fewer records")
    return len(data).to_bytes(HEADER) + data


def length_of(header: bytes) -> int:
    """How many bytes follow a header; `AggregateError` if they are too many."""
    length = int.from_bytes(header)
    if length > MAX_FRAME:
        raise AggregateError(f"a frame of {length:,} bytes is announced, at most {MAX_FRAME:,} are read")
    return length


def unframed(data: bytes, kind: type[S]) -> S:
    """The message of a frame, or `AggregateError`."""
    try:
        return _DECODERS[kind].decode(data)  # type: ignore[no-any-return]
    except (msgspec.DecodeError, RecursionError) as error:
        raise AggregateError(
            f"a frame of {len(data):,} bytes is not a {kind.__name__.lower()}: {error!s:.120}"
        ) from None
