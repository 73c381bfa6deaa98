"""The journal of a running broker: who came, what they wanted, how far they got."""

from __future__ import annotations

import asyncio
from pathlib import Path

import tidings
from tidings.net import Options, serve
from tidings.store import JournalKind, Store


def test_the_journal_tells_who_wanted_what_and_how_far_they_got(tmp_path: Path) -> None:
    async def run() -> None:
        async with serve(Options(name="a", port=0, data=tmp_path)) as server:
            url = f"tidings://127.0.0.1:{server.port}"
            async with tidings.connect(url, name="alice") as alice, tidings.connect(url, name="bob") as bob:
                subscription = await bob.subscribe("price > 100")
                await (await alice.publish(price=182, quality="stored"))
                assert (await anext(subscription))["price"] == 182
                subscription.update("price > 150")
                await subscription
                await asyncio.sleep(1.5)  # marks follow after a second, and are acknowledged
                subscription.unsubscribe()

    asyncio.run(run())
    with Store.open(tmp_path, post=lambda action: action(), owner="a") as store:
        records = [(record.kind, record.who, record.what.get("filter")) for record in store.journal()]
        acknowledged = [record.what for record in store.journal() if record.kind is JournalKind.ACKNOWLEDGE]
    of_bob = [(kind, text) for kind, who, text in records if who == "bob" and kind is not JournalKind.ACKNOWLEDGE]
    assert of_bob == [
        (JournalKind.ATTACH, None),
        (JournalKind.SUBSCRIBE, "price > 100"),
        (JournalKind.UNSUBSCRIBE, "price > 100"),
        (JournalKind.SUBSCRIBE, "price > 150"),
        (JournalKind.UNSUBSCRIBE, "price > 150"),
        (JournalKind.DETACH, None),
    ]
    assert [(what["origin"], what["seq"]) for what in acknowledged] == [("a", 1)]
