"""One buffer for all copies of a broker: each notification once, within its limit, the oldest overwritten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.mobility import OwnRoom
from tidings.mobility._buffer import REFERENCE_BYTES, Holder, SharedBuffer
from tidings.model import Identity, Position, Route
from tidings.wire import Envelope, encode_body


def envelope(seq: int, size: int = 100, origin: str = "o") -> Envelope:
    identity = Identity(origin, 1, seq, "feed", seq, 0, 0)
    return Envelope(identity, (Route(""),), encode_body({"n": seq, "filler": "x" * size}))


@pytest.mark.req("MOB-070")
def test_a_notification_is_held_once_for_all_copies_that_want_it() -> None:
    buffer, holders = SharedBuffer(1_000_000), [Holder() for _ in range(100)]
    one = envelope(1, 1_000)
    for holder in holders:
        buffer.add(one, holder, ("s1",))
    assert len(buffer) == 1
    assert buffer.bytes == len(one.body) + 100 * REFERENCE_BYTES
    assert all(buffer.of(holder, "s1") == [one] for holder in holders)


@pytest.mark.req("MOB-069")
@pytest.mark.req("MOB-071")
@pytest.mark.req("MOB-072")
def test_the_oldest_goes_first_and_each_lost_reference_is_counted() -> None:
    buffer, first, second = SharedBuffer(1_000), Holder(), Holder()
    several = [envelope(n) for n in range(1, 20)]
    for one in several:
        buffer.add(one, first, ("s1",))
        buffer.add(one, second, ("s2",))
        assert buffer.bytes <= 1_000
    kept = buffer.of(first, "s1")
    assert kept == several[-len(kept) :]
    lost = len(several) - len(kept)
    assert buffer.overwritten == len([*several * 2]) - len(kept) - len(buffer.of(second, "s2"))
    assert first.overwritten == {"o": Position(1, lost)}


def test_whoever_has_most_loses_it_and_leaves_others_what_they_have() -> None:
    buffer = SharedBuffer(50_000)
    vera, mallory, again = Holder("vera"), Holder("mallory"), Holder("mallory")
    few = [envelope(n) for n in range(1, 11)]
    for one in few:
        buffer.add(one, vera, ("s",))
    for n in range(11, 2_000):
        buffer.add(envelope(n, 500), (mallory, again)[n % 2], ("s",))
    assert buffer.of(vera, "s") == few
    assert not vera.overwritten
    assert [one.identity.seq for one in buffer.of(mallory, "s")][-1] == 1_998
    buffer.add(few[0], mallory, ("s",))  # what both have is hers as well, and stays hers
    for n in range(2_000, 2_200):
        buffer.add(envelope(n, 500), mallory, ("s",))
    assert buffer.of(vera, "s") == few


def test_of_very_many_who_have_about_as_much_any_may_lose_it() -> None:
    buffer, crowd = SharedBuffer(100_000), [Holder(f"one-{n}") for n in range(300)]
    small = Holder("small")
    buffer.add(envelope(1, 10), small, ("s",))
    for n in range(2, 3_000):
        buffer.add(envelope(n, 700), crowd[n % 300], ("s",))
        assert buffer.bytes <= 100_000
    assert len(buffer.of(small, "s")) == 1
    assert sum(len(buffer.of(one, "s")) for one in crowd) > 100


@pytest.mark.req("MOB-073")
def test_space_is_given_back_subscription_by_subscription() -> None:
    buffer, holder = SharedBuffer(1_000_000), Holder()
    buffer.add(envelope(1), holder, ("s1", "s2"))
    buffer.add(envelope(2), holder, ("s2",))
    buffer.release(holder, "s1")
    assert len(buffer) == 2
    buffer.release(holder, "s2")
    assert (len(buffer), buffer.bytes) == (0, 0)


@pytest.mark.req("MOB-069")
@pytest.mark.req("MOB-071")
@pytest.mark.req("MOB-073")
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "same", "release", "drop"]),
            st.integers(0, 3),
            st.sampled_from("xyz"),
            st.integers(1, 400),
        ),
        max_size=60,
    ),
    st.integers(300, 3_000),
)
def test_whatever_happens_the_limit_holds_and_nothing_stays_behind(
    steps: list[tuple[str, int, str, int]], most: int
) -> None:
    room = OwnRoom(per_identity=2_000)
    buffer, holders = SharedBuffer(most, room), [Holder(owner) for owner in ("one", "one", "two", "three")]
    last = envelope(0)
    model: dict[int, list[tuple[int, str]]] = {n: [] for n in range(4)}
    for seq, (what, who, id, size) in enumerate(steps, 1):
        holder = holders[who]
        if what == "release":
            buffer.release(holder, id)
            model[who] = [one for one in model[who] if one[1] != id]
        elif what == "drop":
            buffer.release(holder)
            model[who] = []
        else:
            last = envelope(seq, size) if what == "add" else last
            buffer.add(last, holder, (id,))
            model[who].append((last.identity.seq, id))
        assert buffer.bytes <= most
        assert room.total == buffer.bytes
        assert all(room.has_room(one.owner) for one in holders)
        for n, one in enumerate(holders):
            for some in "xyz":
                held = [found.identity.seq for found in buffer.of(one, some)]
                wanted = [number for number, known in model[n] if known == some]
                assert held == (wanted[-len(held) :] if held else [])
    for holder in holders:
        buffer.release(holder)
    assert (len(buffer), buffer.bytes, room.total) == (0, 0, 0)
    assert all(room.has_room(one.owner, 2_000) for one in holders)
