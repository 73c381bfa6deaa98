"""The examples with sessions: a signing service, and auctions."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
from net.world import brokers, running, url

import tidings

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(folder: str, name: str) -> ModuleType:
    sys.path.insert(0, str(EXAMPLES / folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(EXAMPLES / folder))


@pytest.mark.req("VIS-707")
@pytest.mark.parametrize("sessions", [True, False])
@running
async def test_what_is_signed_for_one_customer_is_seen_by_the_other_only_without_sessions(sessions: bool) -> None:
    example = load("signing_service", "signing_service")
    async with (
        brokers("a") as servers,
        tidings.connect(url(servers["a"]), name="admin") as admin,
        tidings.connect(url(servers["a"]), name="signer") as signer,
        tidings.connect(url(servers["a"]), name="alice") as alice,
        tidings.connect(url(servers["a"]), name="bob") as bob,
    ):
        for scope, customer in (("north", "alice"), ("south", "bob")):
            await admin.admin.create_scope(scope)
            await admin.admin.join("@signer", scope)
            await admin.admin.join(f"@{customer}", scope)
            if sessions:
                await admin.admin.make_session(scope)
        heard: list[object] = []
        await bob.subscribe("type = 'signed'", callback=lambda one: heard.append(one["text"]))
        signed = await alice.subscribe("type = 'signed'")
        service = await example.start(signer)
        await alice.publish(type="document", text="a will")
        assert (await anext(signed))["signature"] == example.signature("a will")
        reply = await alice.request(type="sign", text="a letter")
        assert reply["signature"] == example.signature("a letter")
        await asyncio.sleep(0.2)
        assert heard == ([] if sessions else ["a will"])
        service.cancel()


@running
async def test_a_request_that_cannot_be_answered_does_not_end_the_service() -> None:
    """One says nothing to sign; of the other, no scope lets the requester see the reply."""
    example = load("signing_service", "signing_service")
    async with (
        brokers("a") as servers,
        tidings.connect(url(servers["a"]), name="admin") as admin,
        tidings.connect(url(servers["a"]), name="signer") as signer,
        tidings.connect(url(servers["a"]), name="shut") as shut,
        tidings.connect(url(servers["a"]), name="alice") as alice,
    ):
        await admin.admin.create_scope("in", output=tidings.Filter.parse("type = 'sign'"))
        await admin.admin.create_scope("outer")
        await admin.admin.join("in", "outer")
        await admin.admin.join("@shut", "in")
        for client in ("signer", "alice"):
            await admin.admin.join(f"@{client}", "outer")
        service = await example.start(signer)
        for asker, request in ((shut, {"text": "a letter"}), (alice, {"nothing": 1})):
            with pytest.raises(tidings.NoReply if asker is shut else tidings.NoResponder):
                await asker.request({"type": "sign", **request}, timeout=0.5)
        await alice.publish(type="document", nothing=1)
        assert (await alice.request(type="sign", text="a letter"))["signature"] == example.signature("a letter")
        service.cancel()


@running
async def test_a_bid_or_a_call_that_is_no_price_does_not_end_an_auction() -> None:
    example = load("auction", "auction")
    async with (
        brokers("a") as servers,
        tidings.connect(url(servers["a"]), name="house") as house,
        tidings.connect(url(servers["a"]), name="ann") as ann,
        tidings.connect(url(servers["a"]), name="rude") as rude,
    ):
        bidder = await example.start_bidding(ann, 130)
        auction = asyncio.create_task(example.run_auction(house, 100))
        for price in ("much", 1e300, 2**63 - 1, None):
            attributes = {} if price is None else {"price": price}
            await rude.publish(type="call", leader="", **attributes)
            await rude.publish(type="call", price=1)
            await rude.publish(type="bid", bidder="rude", **attributes)
            await rude.publish(type="bid", price=200)
        assert await auction == ("ann", 110)
        bidder.cancel()


@pytest.mark.req("VIS-956")
@running
async def test_bids_stay_in_the_auction_that_they_were_called_in() -> None:
    example = load("auction", "auction")
    async with (
        brokers("a") as servers,
        tidings.connect(url(servers["a"]), name="house") as house,
        tidings.connect(url(servers["a"]), name="stamps") as stamps,
        tidings.connect(url(servers["a"]), name="coins") as coins,
        tidings.connect(url(servers["a"]), name="ann") as ann,
        tidings.connect(url(servers["a"]), name="ben") as ben,
        tidings.connect(url(servers["a"]), name="cleo") as cleo,
    ):
        await example.open_auction(house, "one", "stamps", "ann", "ben")
        await example.open_auction(house, "two", "coins", "ann", "cleo")
        bids: dict[str, set[object]] = {"stamps": set(), "coins": set()}
        for client in (stamps, coins):
            seen = bids[client.name]
            await client.subscribe("type = 'bid'", callback=lambda one, seen=seen: seen.add(one["bidder"]))
        # The prices of the two auctions have nothing in common, so a bid that went astray would win there.
        limits = ((ann, 10_060), (ben, 130), (cleo, 10_030))
        bidders = [await example.start_bidding(one, limit) for one, limit in limits]
        one, two = await asyncio.gather(example.run_auction(stamps, 100), example.run_auction(coins, 10_000))
        assert one[0] == "ann"
        assert 130 <= one[1] <= 150
        assert two[0] == "ann"
        assert 10_030 <= two[1] <= 10_060
        assert bids == {"stamps": {"ann", "ben"}, "coins": {"ann", "cleo"}}
        for task in bidders:
            task.cancel()
