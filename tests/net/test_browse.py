"""What clients are shown of the advertisements in the network."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from net.world import brokers, options, running, url
from serving import serving

import tidings
from tidings import sync
from tidings.broker import RoutingOptions
from tidings.model import Filter
from tidings.net import Access, AccessEntry, _offers, serve
from tidings.wire import Browse

ADVERTISED = {"routing": RoutingOptions("covering", advertisements=True)}


async def shown(client: tidings.Client, filter: str = "TRUE") -> list[str]:
    offers = await client.browse(filter)
    assert not offers.left_out
    return [str(one) for one in offers.filters]


@pytest.mark.req("MOB-009")
@pytest.mark.req("HIS-013")
@running
async def test_consumers_see_what_is_advertised_anywhere_while_it_is() -> None:
    async with (
        brokers("abc", ["ab", "bc"], **ADVERTISED) as servers,
        tidings.connect(url(servers["a"])) as alice,
        tidings.connect(url(servers["b"])) as bob,
        tidings.connect(url(servers["c"])) as carol,
    ):
        assert await shown(carol) == []
        quotes = await alice.advertise("type = 'quote' AND price > 100")
        await bob.advertise("type = 'news'")
        await bob.advertise("type = 'quote' AND price > 200")  # covered: nobody has to be told
        assert await shown(carol) == ["price > 100 AND type = 'quote'", "type = 'news'"]
        assert "type = 'news'" in await shown(alice)
        assert await shown(carol, "price = 150") == ["price > 100 AND type = 'quote'", "type = 'news'"]
        assert await shown(carol, "type = 'quote' AND price < 50") == []
        assert await shown(carol, "type = 'news'") == ["type = 'news'"]
        alice.unadvertise(quotes)
        while "price > 100 AND type = 'quote'" in await shown(carol):
            await asyncio.sleep(0.01)
        assert await shown(carol) == ["price > 200 AND type = 'quote'", "type = 'news'"]
        with pytest.raises(tidings.TidingsError, match="myloc"):
            await carol.browse("place = myloc")


@pytest.mark.req("HIS-013")
@running
async def test_nobody_sees_more_than_it_may_subscribe_to() -> None:
    access = Access(
        {
            "p": AccessEntry("publisher"),
            "r": AccessEntry("reader", subscribe=Filter.parse("type = 'quote' AND price < 500")),
        }
    )
    async with (
        serve(options("b", access=access, **ADVERTISED)) as server,
        tidings.connect(url(server), token="p") as publisher,
        tidings.connect(url(server), token="r") as reader,
    ):
        await publisher.advertise("type = 'quote' AND price > 100")
        await publisher.advertise("type = 'order' AND price > 100")
        await publisher.advertise("type = 'quote' AND price > 1000")
        await publisher.advertise("type = 'quote' AND price < 7")
        (narrow, part) = await shown(reader)
        assert narrow == "price < 7 AND type = 'quote'"
        assert Filter.parse(part) == Filter.parse("type = 'quote' AND price > 100 AND price < 500")
        for filter in (narrow, part):
            await reader.subscribe(filter)  # what is shown can be had
        assert len(await shown(publisher)) == 4


@running
async def test_without_advertisements_there_is_nothing_to_show() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        with pytest.raises(tidings.TidingsError, match=r"'b' routes without advertisements.*advertisements = true"):
            await client.browse()
        assert await client.publish(n=1)  # and it goes on


@running
async def test_many_are_looked_through_in_steps_and_what_does_not_fit_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_offers, "MAX_OFFERS", 50)
    monkeypatch.setattr(_offers, "STEP", 7)
    async with brokers("b", **ADVERTISED) as servers, tidings.connect(url(servers["b"])) as client:
        await asyncio.gather(*(client.advertise(f"n = {n}") for n in range(70)))
        offers = await client.browse()
        assert (len(offers.filters), offers.left_out) == (50, 20)
        assert await shown(client, "n >= 10 AND n < 12") == ["n = 10", "n = 11"]
        monkeypatch.setattr(_offers, "MAX_CHARACTERS", 60)
        offers = await client.browse()
        assert (len(offers.filters), offers.left_out) == (10, 60)
        several = await asyncio.gather(client.browse(), client.browse(), return_exceptions=True)
        assert sorted(type(one).__name__ for one in several) == ["Offers", "TidingsError"]


@running
async def test_where_there_are_scopes_only_administrators_look_at_tables(tmp_path: Path) -> None:
    access = Access({"root": AccessEntry("root", administer=True), "app": AccessEntry("app")})
    async with (
        serve(options("b", access=access, authority="b", data=tmp_path, **ADVERTISED)) as server,
        tidings.connect(url(server), token="root", name="root") as root,
        tidings.connect(url(server), token="app", name="app") as application,
    ):
        await application.advertise("n > 0")
        assert await shown(application) == await shown(root) == ["n > 0"]
        await root.admin.create_scope("market")
        with pytest.raises(tidings.TidingsError, match="needs the right to administer: ask for it, or subscribe"):
            await application.browse()
        assert await shown(root) == ["n > 0"]


def test_the_blocking_client_can_look_too() -> None:
    with serving(options("b", **ADVERTISED)) as address, sync.connect(address) as client:
        client.advertise("n > 0")
        assert [str(one) for one in client.browse("n = 3").filters] == ["n > 0"]
        assert Browse("q1").filter == Filter.parse("TRUE")
