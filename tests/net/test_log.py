"""A client reads the log of its broker: everything that is synced, once, in order, in pages of bounded size."""

from __future__ import annotations

import random
import sqlite3
import time
from pathlib import Path

import pytest
from net.world import brokers, options, running, until, url
from store_world import Loop

import tidings
from tidings.model import EVERYTHING, NOWHERE, Filter, Notification, Position, Route, TidingsError
from tidings.model import Identity as ModelIdentity
from tidings.net import Access, AccessDenied, AccessEntry, serve
from tidings.store import Store
from tidings.wire import Envelope, Measure, Page, Quality, encode_body

TOKEN, ADMIN = "one-token-1234567890", "another-token-1234567"
END = (2**62, 0)


async def pages_of(client: tidings.Client, filter: str = "TRUE", after: tuple[int, int] = (0, 0)) -> list[Page]:
    return [page async for page in client.read_log(after, END, filter)]


async def numbers_of(client: tidings.Client, filter: str = "TRUE", after: tuple[int, int] = (0, 0)) -> list[int]:
    pages = await pages_of(client, filter, after)
    return [envelope.notification["n"] for page in pages for envelope in page.envelopes]


@running
async def test_a_log_is_read_in_order_after_restarts_too(tmp_path: Path) -> None:
    for start in (0, 3_000):
        async with serve(options("b", data=tmp_path)) as server, tidings.connect(url(server)) as client:
            await client.publish(n=-1, quality="accepted")  # not in the log
            await client.publish_many([{"n": n} for n in range(start, start + 3_000)], quality="stored")
    async with serve(options("b", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        assert await numbers_of(client) == list(range(6_000))
        assert await numbers_of(client, "n >= 2990 AND n < 3010") == list(range(2_990, 3_010))
        pages = await pages_of(client)
        assert max(len(page.envelopes) for page in pages) <= 2_000
        places = [(e.identity.epoch, e.identity.seq) for page in pages for e in page.envelopes]
        extent = await client.measure_log()
        assert (extent.origin, extent.forgotten, extent.end) == ("b", (0, 0), places[-1])
        for cut in random.Random(7).sample(range(6_000), 5):
            assert await numbers_of(client, after=places[cut]) == list(range(cut + 1, 6_000))
            found = [e async for page in client.read_log((0, 0), places[cut]) for e in page.envelopes]
            assert len(found) == cut + 1


@running
async def test_measuring_never_promises_more_rows_than_asked_for(tmp_path: Path) -> None:
    async with serve(options("b", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        for part in range(6):
            await client.publish_many([{"n": n} for n in range(part * 300)], quality="stored")
        for rows in (1, 7, 250, 1_000, 100_000):
            at, total = (0, 0), 0
            while at < (await client.measure_log()).end:
                reached = (await client.measure_log(at, rows=rows)).reached
                found = [e async for page in client.read_log(at, reached) for e in page.envelopes]
                assert at < reached
                assert len(found) <= rows
                at, total = reached, total + len(found)
                if rows == 1 and total > 20:
                    break
            else:
                assert total == sum(part * 300 for part in range(6))
        small = (await client.measure_log(size=1)).reached
        assert (0, 0) < small < (await client.measure_log(size=1_000_000)).reached


@running
async def test_what_was_forgotten_is_told(tmp_path: Path) -> None:
    async with serve(options("b", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        await client.publish_many([{"n": n} for n in range(1_000)], quality="stored")
        await client.publish(n=-1, quality="accepted")
        middle = (await client.measure_log()).end
        later = time.time_ns() // 1_000
        await client.publish_many([{"n": n} for n in range(1_000, 1_500)], quality="stored")
        assert server.store is not None
        server.store.retain(older_than=later)
        server.store.put("x", "y", b"")
        await until(lambda: server.store.measure().forgotten != (0, 0))
        assert (await client.measure_log()).forgotten == middle
        assert await numbers_of(client, after=middle) == list(range(1_000, 1_500))
        (first, *_) = await pages_of(client, after=(middle[0], 10))
        assert first.lost == ((middle[0], 11, middle[1]),)
        assert first.envelopes[0].notification["n"] == 1_000


def test_a_damaged_batch_is_told_as_lost(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        for first in (1, 11, 21):
            loop.append_all(store, *range(first, first + 10))
        with sqlite3.connect(tmp_path / "store.sqlite") as connection:
            rows = connection.execute("SELECT id, first, last FROM publications ORDER BY id").fetchall()
            connection.execute("UPDATE publications SET checksum = checksum + 1 WHERE id = ?", (rows[0][0],))
        page = store.page(NOWHERE, Position(store.epoch, 100), lambda envelope: True)
        assert page.lost == [(store.epoch, rows[0][1], rows[0][2])]
        assert [e.identity.seq for e in page.envelopes] == list(range(rows[0][2] + 1, 31))
        assert page.reached == (store.epoch, 30)


def test_what_is_not_synced_is_not_shown(tmp_path: Path) -> None:
    loop = Loop()
    with loop.open(tmp_path) as store:
        loop.append_all(store, 1, 2)
        assert len(list(store.read(store.epoch, 0))) == 2
        seen = _everything(store)
        loop.append(store, 3)
        at_once = _everything(store)
        while 3 not in loop.synced:
            loop.turn()
        assert [len(seen), len(_everything(store))] == [2, 3]
        assert len(at_once) in (2, 3)  # the disk may have been quick


def _everything(store: Store) -> list[Envelope]:
    return store.page(NOWHERE, END, lambda envelope: True).envelopes


@running
async def test_a_client_reads_what_it_may_subscribe_to(tmp_path: Path) -> None:
    quotes = AccessEntry("feed", EVERYTHING, Filter.parse("type = 'quote'"))
    access = Access(tokens={TOKEN: quotes, ADMIN: AccessEntry("root", administer=True)})
    async with (
        brokers("b", access=access, data=tmp_path) as servers,
        tidings.connect(url(servers["b"]), token=TOKEN) as client,
        tidings.connect(url(servers["b"]), token=ADMIN, name="root") as root,
    ):
        await client.publish_many([{"type": "quote", "n": 1}, {"type": "secret", "n": 2}], quality="stored")
        assert await numbers_of(client, "type = 'quote'") == [1]
        with pytest.raises(TidingsError, match="may only subscribe within"):
            await numbers_of(client, "TRUE")
        await root.admin.create_scope("market")
        with pytest.raises(TidingsError, match="needs the right to administer: ask for it, or subscribe"):
            await numbers_of(client, "type = 'quote'")
        with pytest.raises(TidingsError, match="needs the right to administer"):
            await client.measure_log()
        assert await numbers_of(root) == [1, 2]


@running
async def test_what_was_published_in_a_scope_is_shown_to_administrators_only(tmp_path: Path) -> None:
    """Even where nobody knows of scopes any more: the log remembers where it was published."""
    loop = Loop()
    with loop.open(tmp_path, owner="b") as store:
        for number, scope in ((1, ""), (2, "market"), (3, "")):
            body = encode_body(Notification(n=number))
            identity = ModelIdentity("b", store.epoch, number, "p", number, number)
            store.append(Envelope(identity, (Route(scope),), body, Quality.STORED), lambda: None)
    access = Access(tokens={TOKEN: AccessEntry("alice"), ADMIN: AccessEntry("root", administer=True)})
    async with (
        brokers("b", access=access, data=tmp_path) as servers,
        tidings.connect(url(servers["b"]), token=TOKEN) as alice,
        tidings.connect(url(servers["b"]), token=ADMIN) as root,
    ):
        assert await numbers_of(alice) == [1, 3]
        assert await numbers_of(root) == [1, 2, 3]


@running
async def test_bad_questions_are_refused_with_the_reason(tmp_path: Path) -> None:
    async with serve(options("b")) as server, tidings.connect(url(server)) as client:
        with pytest.raises(TidingsError, match="broker 'b' has no store, so it has no log; give it a data directory"):
            await client.measure_log()
    async with serve(options("b", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        with pytest.raises(TidingsError, match=r"after\[1\]=-1; give a whole number"):
            await client.measure_log((0, -1))
        with pytest.raises(TidingsError, match=r"cannot read this request: .* Expected `int` >= 0"):
            await client._questions.ask(lambda id: Measure(id, (0, -1)))  # as from a client that does not check
        with pytest.raises(TidingsError, match="myloc"):
            await numbers_of(client, "place WITHIN myloc")
        assert await numbers_of(client) == []
    assert issubclass(AccessDenied, TidingsError)
