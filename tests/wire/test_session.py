"""Sessions over a connection that delivers bytes in any pieces and may be cut between any two of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tidings.wire import MAX_PART, Parser, Part, Session, WireError, ack, ack_number, data_parts, part

MAX_PARTS, MAX_BYTES = 6, 120


class Side:
    """One end: sends numbered payloads while its window has room, and notes what arrives."""

    def __init__(self) -> None:
        self.session = Session("s", max_parts=MAX_PARTS, max_bytes=MAX_BYTES)
        self.parser = Parser()
        self.sent: list[bytes] = []
        self.got: list[bytes] = []
        self.outgoing = bytearray()
        """What is on its way to the other end."""

    def send(self, size: int) -> None:
        payload = len(self.sent).to_bytes(4, "big") + b"." * size
        data = part(Part.DATA, payload)
        self.session.sent(data)
        self.sent.append(payload)
        self.outgoing += data

    def send_together(self, sizes: list[int]) -> None:
        payloads = [(len(self.sent) + at).to_bytes(4, "big") + b"." * size for at, size in enumerate(sizes)]
        batch = b"".join(data_parts(payloads))
        if self.session.offer(batch, len(payloads)):
            self.sent += payloads
            self.outgoing += batch

    def acknowledge(self) -> None:
        number = self.session.tell()
        if number is not None:
            self.outgoing += ack(number)

    def receive(self, data: bytes) -> None:
        for kind, payload in self.parser.feed(data):
            if kind == Part.DATA:
                self.got.append(payload)
                self.session.arrived(1)
            else:
                self.session.acknowledge(ack_number(payload))

    def reconnect(self, received: int) -> None:
        self.parser = Parser()
        self.outgoing = bytearray(b"".join(self.session.resume(received)))


class Sessions(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.sides = (Side(), Side())

    @rule(end=st.integers(0, 1), size=st.integers(0, 40))
    def send(self, end: int, size: int) -> None:
        if not self.sides[end].session.full:
            self.sides[end].send(size)

    @rule(end=st.integers(0, 1), sizes=st.lists(st.integers(0, 20), min_size=1, max_size=4))
    def send_together(self, end: int, sizes: list[int]) -> None:
        """Acknowledgements and cuts may come between parts that were sent together."""
        self.sides[end].send_together(sizes)

    @rule(end=st.integers(0, 1))
    def acknowledge(self, end: int) -> None:
        self.sides[end].acknowledge()

    @rule(end=st.integers(0, 1), count=st.integers(1, 200))
    def transmit(self, end: int, count: int) -> None:
        """Some bytes arrive, wherever that cuts a part in two."""
        sender, receiver = self.sides[end], self.sides[1 - end]
        data = bytes(sender.outgoing[:count])
        del sender.outgoing[:count]
        receiver.receive(data)

    @rule()
    def cut(self) -> None:
        """What is under way is lost; each side says the last number that it has."""
        one, two = self.sides
        has = one.session.received, two.session.received
        one.reconnect(has[1])
        two.reconnect(has[0])

    @invariant()
    def nothing_is_lost_doubled_or_reordered(self) -> None:
        for sender, receiver in (self.sides, self.sides[::-1]):
            assert receiver.got == sender.sent[: len(receiver.got)]
            assert receiver.session.received == len(receiver.got)

    @invariant()
    def the_window_is_bounded(self) -> None:
        for side in self.sides:
            assert side.session.waiting <= MAX_PARTS
            assert side.session._bytes <= MAX_BYTES + 49

    @precondition(lambda self: any(side.outgoing for side in self.sides))
    @rule()
    def come_to_rest(self) -> None:
        """With a connection that works, everything arrives and every window empties."""
        one, two = self.sides
        for _ in range(2):
            for end in (0, 1):
                self.transmit(end, len(self.sides[end].outgoing))
            one.acknowledge()
            two.acknowledge()
        assert one.got == two.sent
        assert two.got == one.sent
        assert one.session.waiting == two.session.waiting == 0


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.lists(st.tuples(st.sampled_from(Part), st.binary(max_size=300)), max_size=20), st.data())
def test_a_stream_in_any_pieces_gives_the_same_parts(parts: list[tuple[Part, bytes]], data: st.DataObject) -> None:
    stream = b"".join(part(kind, payload) for kind, payload in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    parser, got = Parser(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += parser.feed(stream[start:end])
    assert got == [(int(kind), payload) for kind, payload in parts]


def test_a_large_part_in_tiny_pieces_takes_time_in_proportion_to_its_size() -> None:
    parser, data = Parser(), part(Part.DATA, bytes(300_000))
    got = [one for byte in data for one in parser.feed(bytes([byte]))]
    assert got == [(0, bytes(300_000))]


@given(st.integers(0, 2**32 - 1).filter(lambda length: not 0 < length <= 1_000))
def test_a_length_that_cannot_be_is_refused_before_the_part_has_come(length: int) -> None:
    with pytest.raises(WireError, match="1,000"):
        Parser(1_000).feed(length.to_bytes(4, "big") + b"\x00")


@given(st.integers(8, 255))
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(WireError, match="unknown"):
        Parser().feed(b"\x00\x00\x00\x01" + bytes([kind]))


def test_the_limit_can_change_between_parts() -> None:
    parser = Parser(10)
    with pytest.raises(WireError):
        parser.feed(part(Part.DATA, bytes(10)))
    parser = Parser(10)
    parser.limit = MAX_PART
    assert parser.feed(part(Part.DATA, bytes(10))) == [(0, bytes(10))]


@given(st.integers(0, 20), st.integers(0, 40))
def test_what_was_not_sent_cannot_be_acknowledged(sent: int, number: int) -> None:
    session = Session("s")
    for _ in range(sent):
        session.sent(b"x")
    if number > sent:
        with pytest.raises(WireError, match=f"only {sent} were sent"):
            session.acknowledge(number)
        with pytest.raises(WireError):
            session.resume(number)
        assert session.waiting == sent
    else:
        session.acknowledge(number)
        session.acknowledge(number // 2)  # an old one changes nothing
        assert session.waiting == sent - number


def test_what_was_acknowledged_cannot_be_asked_for_again() -> None:
    session = Session("s")
    for _ in range(5):
        session.sent(b"x")
    session.acknowledge(4)
    with pytest.raises(WireError, match="4 was acknowledged"):
        session.resume(3)


@given(st.binary(max_size=20).filter(lambda payload: len(payload) != 8))
def test_an_acknowledgement_has_eight_bytes(payload: bytes) -> None:
    with pytest.raises(WireError, match="8 bytes"):
        ack_number(payload)
