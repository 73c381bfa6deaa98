"""What waits for others says what for: at the broker, to the client, and in the refusals of administrators."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from net.proxy import proxy
from net.world import brokers, options, running, until, url

import tidings
from tidings.broker import RoutingOptions
from tidings.net import serve

ABSENT = "broker 'b' has never heard of 'nobody', the authority of its scope graph"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.net._delays.PATIENCE", 0.2)
    monkeypatch.setattr("tidings.net._server.CENSUS_SECONDS", 0.05)


@running
async def test_an_authority_that_was_never_heard_of_is_named_to_everybody_who_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        async with serve(options("b", authority="nobody")) as server:
            client = await tidings.connect(url(server), name="alice")
            subscription = client.subscribe("TRUE")
            receipt = await client.publish(n=1)
            await until(lambda: receipt.waits_for)
            assert receipt.waits_for == f"{ABSENT}, at broker 'b'"
            await until(lambda: f"advertisement {subscription.id} waits: {ABSENT}" in caplog.text)
            with pytest.raises(tidings.AuthorityUnreachable, match="'b' has never heard of 'nobody'"):
                await client.admin.create_scope("team")
            assert not subscription.settled
            with pytest.raises(ZeroDivisionError):
                async with client:
                    raise ZeroDivisionError  # what waits is not waited for
    told = [one.getMessage() for one in caplog.records if one.name == "tidings.net" and ABSENT in one.getMessage()]
    assert len(told) == 1, "once in a minute"
    assert "Check `authority` in the configuration" in told[0]


@running
async def test_an_authority_that_was_heard_of_is_not_complained_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with brokers("ab", ["ab"]) as servers, tidings.connect(url(servers["b"])) as client:
            await client.subscribe("TRUE")
            await (await client.publish(n=1))
            await asyncio.sleep(0.5)
    assert not [one for one in caplog.records if one.name == "tidings.net"]


@running
async def test_what_waits_for_an_advertisement_to_settle_says_so(caplog: pytest.LogCaptureFixture) -> None:
    routing = RoutingOptions(advertisements=True)
    async with (
        brokers("a", routing=routing) as servers,
        proxy(servers["a"].port) as way,
        serve(options("b", routing=routing, neighbours=(way.url,))) as other,
        tidings.connect(url(servers["a"])) as client,
    ):
        await until(lambda: servers["a"].host.broker.adjacency.open_links and other.host.broker.recovery.baseline)
        way.stall()
        with caplog.at_level(logging.WARNING, "tidings.client"):
            advertising = asyncio.create_task(client.advertise("EXISTS(n)"))
            await asyncio.sleep(0)
            receipt = await client.publish(n=1)
            await until(lambda: receipt.waits_for)
            assert receipt.waits_for == "its advertisement has not settled: not confirmed by 'b', at broker 'a'"
            await until(
                lambda: "subscription or advertisement a1 waits: not confirmed by 'b', at broker 'a'" in caplog.text
            )
        assert not advertising.done()
        way.flow()
        await advertising
        await receipt


@running
async def test_what_goes_at_once_is_not_explained(caplog: pytest.LogCaptureFixture) -> None:
    routing = RoutingOptions(advertisements=True)
    async with brokers("ab", ["ab"], routing=routing) as servers, tidings.connect(url(servers["a"])) as client:
        with caplog.at_level(logging.WARNING, "tidings.client"):
            await client.advertise("EXISTS(n)")
            for n in range(20):
                receipt = await client.publish(n=n)
                await receipt
                await asyncio.sleep(0.02)
                assert not receipt.waits_for
    assert not caplog.records


@running
async def test_who_waits_for_a_scope_hears_that_the_authority_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serve(options("a", authority="a", data=tmp_path)) as a,
        serve(options("b", authority="a", neighbours=(url(a),))) as b,
    ):
        async with tidings.connect(url(a)) as administrator:
            await administrator.admin.create_scope("team")
            await administrator.admin.join("@alice", "team")
        await until(lambda: b.host.broker.scoping.active.version >= 2)
        await a.stop()
        await until(lambda: not b.host.broker.adjacency.open_links)
        client = await tidings.connect(url(b), name="alice")
        with caplog.at_level(logging.WARNING, "tidings.client"):
            subscription = client.subscribe("TRUE")
            why = "its scopes are not carried here yet; that is for the authority 'a' to admit, which cannot be reached"
            await until(lambda: f"advertisement {subscription.id} waits: {why}, at broker 'b'" in caplog.text)
        assert not subscription.settled
        with pytest.raises(ZeroDivisionError):
            async with client:
                raise ZeroDivisionError
