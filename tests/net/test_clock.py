"""The clocks of neighbours: how far they are off, who is told, and that time bounds rest on the broker's own stamps."""

from __future__ import annotations

import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from net.test_status import fetch, metrics
from net.world import brokers, running, take, until, url

import tidings
from tidings.net import Server
from tidings.net._clock import SAMPLES, Clock, Offset
from tidings.net._host import Host

SECOND = 1_000_000
delays = st.integers(0, 3 * SECOND)


def round_trip(clock: Clock, at: int, ahead: int, there: int, back: int) -> None:
    """One question at that time, to a clock that is ahead, with these delays on both ways."""
    clock.answered(clock.ask(at), at + there + ahead, at + there + back)


@given(st.integers(-(10**9), 10**9), st.lists(st.tuples(delays, delays), min_size=1, max_size=20))
def test_the_offset_is_never_further_from_the_truth_than_it_says(ahead: int, ways: list[tuple[int, int]]) -> None:
    clock = Clock("berlin", 1.0)
    for number, (there, back) in enumerate(ways):
        round_trip(clock, (1_000 + 10 * number) * SECOND, ahead, there, back)
    offset = clock.offset
    assert offset is not None
    assert abs(offset.ahead - ahead) <= offset.error + 1
    assert offset.error == min((there + back + 1) // 2 for there, back in ways[-SAMPLES:])
    assert not clock.is_off or abs(ahead) > SECOND


def test_a_clock_that_is_set_counts_at_once_and_an_old_answer_does_not() -> None:
    clock = Clock("berlin", 1.0)
    round_trip(clock, 1_000 * SECOND, 0, 10, 10)
    assert (clock.offset, clock.is_off) == (Offset(0, 10), False)
    round_trip(clock, 1_010 * SECOND, 5 * SECOND, 1_000, 1_000)
    assert (clock.offset, clock.is_off) == (Offset(5 * SECOND, 1_000), True)
    asked = clock.ask(1_020 * SECOND)
    clock.ask(1_030 * SECOND)
    clock.answered(asked, 0, 1_031 * SECOND)
    clock.answered(17, 0, 1_031 * SECOND)
    clock.answered(1_030 * SECOND, 0, 1_029 * SECOND)  # this broker's own clock was set back meanwhile
    assert clock.offset == Offset(5 * SECOND, 1_000)


def test_what_a_slow_answer_may_explain_is_no_reason_to_warn() -> None:
    clock = Clock("berlin", 1.0)
    round_trip(clock, 1_000 * SECOND, 0, 5 * SECOND, 0)
    assert clock.offset == Offset(2_500_000, 2_500_000)
    assert not clock.is_off


@pytest.mark.req("HIS-105")
@running
async def test_brokers_stamp_what_is_published_and_watch_the_clocks_of_their_neighbours(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = {"a": 0, "b": 0}
    now = Host.now
    monkeypatch.setattr(Host, "now", lambda self: now(self) + ahead[self.options.name] * SECOND)
    caplog.set_level(logging.INFO, logger="tidings.net")
    async with (
        brokers("ab", ["ab"], limits={"heartbeat": 0.2}, metrics_port=0) as servers,
        tidings.connect(url(servers["a"])) as alice,
        tidings.connect(url(servers["b"])) as bob,
    ):

        async def seen_at(client: tidings.Client) -> float | None:
            (neighbour,) = (peer for peer in (await client.status()).peers if peer.kind == "broker")
            return neighbour.clock_offset

        def knows(server: Server, ahead: float) -> bool:
            (peer,) = (peer for peer in server.host.peers if peer.link.is_broker)
            assert peer.clock is not None
            offset = peer.clock.offset
            return offset is not None and abs(offset.ahead / SECOND - ahead) < 1

        await until(lambda: knows(servers["a"], 0) and knows(servers["b"], 0))
        assert not [record for record in caplog.records if "clock" in record.message]
        ahead["b"] = 3_600
        await until(lambda: knows(servers["a"], 3_600) and knows(servers["b"], -3_600))
        assert await seen_at(alice) == pytest.approx(3_600, abs=1)
        assert await seen_at(bob) == pytest.approx(-3_600, abs=1)
        shown = metrics((await fetch(servers["a"].metrics_port, "/metrics"))[1])
        assert shown["tidings_clock_offset_seconds", "peer=b"] == pytest.approx(3_600, abs=1)
        assert shown["tidings_clock_error_seconds", "peer=b"] < 10
        warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert any("clock of broker b is 3600" in text or "clock of broker b is 3599" in text for text in warnings)
        assert any("clock of broker a" in text and "behind" in text for text in warnings)

        before = time.time()
        for client in (alice, bob):
            await client.publish(price=1, quality="accepted")
            await client.flush()
        stamps = {}
        subscription = alice.subscribe("price > 0", past=tidings.last(2), with_origin=True)
        for one in await take(subscription, 2):
            assert isinstance(one, tidings.Traced)
            stamps[one.identity.origin] = one.published_at.timestamp() - before
        assert -1 < stamps["a"] < 60
        assert 3_599 < stamps["b"] < 3_660

        ahead["b"] = 0
        await until(lambda: "the clock of broker b is right again" in caplog.text)
