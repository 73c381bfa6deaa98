"""Scopes on real brokers: who orders them, that they survive restarts, and what the log tells."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from net.scopes_world import ALICE, OPERATOR, access, network
from net.world import brokers, connected, options, running, take, until, url
from ports import free_port, free_ports

import tidings
from tidings.model import ScopeError
from tidings.net import Server, StartError, serve
from tidings.scopes import (
    AnyChange,
    AuthorityUnreachable,
    CreateScope,
    FrozenGraph,
    Graph,
    Mode,
    NoAuthority,
    NotAllowed,
    ScopeEnded,
    Snapshot,
    Transaction,
    Undefine,
    apply,
    encode,
)
from tidings.scopes.language.syntax import AlterScope, DefineScope, DeployScope, Name, Roles, Selection
from tidings.store import JournalKind, Store

# --- who orders them ----------------------------------------------------------------------------------


@running
async def test_a_broker_of_its_own_needs_no_setting() -> None:
    async with brokers("a") as servers, tidings.connect(url(servers["a"]), name="root") as root:
        assert (await root.admin.create_scope("market")).version == 1
        assert set((await root.admin.graph()).scopes) == {"", "market"}
        status = (await root.status()).scopes
        assert status is not None
        assert (status.count, status.version, status.active, status.authority) == (1, 1, 1, "a")


@running
async def test_a_member_that_is_there_joins_at_once() -> None:
    """Its broker has to be admitted first, in a version of its own; nothing waits for a timer or for other traffic."""
    async with brokers("a") as servers, tidings.connect(url(servers["a"]), name="root") as root:
        await root.admin.create_scope("market")
        async with asyncio.timeout(5):  # half of what a wave waits for answers that do not come
            await root.admin.join("@root", "market")
        assert servers["a"].host.governance.scopes.graph.anchors == {"market": frozenset({"a"})}


@running
async def test_an_operator_can_freeze_the_graph(tmp_path: Path) -> None:
    async with brokers("a", data=tmp_path) as servers, tidings.connect(url(servers["a"])) as client:
        await client.admin.create_scope("market")
    async with brokers("a", data=tmp_path, frozen_scopes=True) as servers, tidings.connect(url(servers["a"])) as client:
        with pytest.raises(FrozenGraph, match="static: its operator has frozen it"):
            await client.admin.destroy_scope("market")
        assert set((await client.admin.graph()).scopes) == {"", "market"}


@running
async def test_a_client_hears_that_its_scope_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        brokers("a") as servers,
        tidings.connect(url(servers["a"]), name="root") as root,
        tidings.connect(url(servers["a"]), name="alice") as alice,
        tidings.connect(url(servers["a"]), name="bob"),
    ):
        ended: list[ScopeEnded] = []
        alice.admin.on_scope_end = ended.append
        await root.admin.create_scope("market")
        for client in ("@alice", "@bob"):
            await root.admin.join(client, "market")
        with caplog.at_level(logging.WARNING, "tidings.client"):
            await root.admin.destroy_scope("market", cascade=True)
            await until(lambda: ended and caplog.messages)
        assert ended == [ScopeEnded("market", isolated=True)]
        assert caplog.messages == [
            "scope 'market', of which this client was a member, has ended; "
            "it is now a member of nothing, and neither hears nor is heard"
        ]


@running
async def test_a_network_without_an_authority_refuses_changes_and_says_what_to_set() -> None:
    async with brokers("ab", ["ab"]) as servers:
        for server in servers.values():
            async with tidings.connect(url(server)) as client:
                with pytest.raises(NoAuthority, match='set `authority = "'):
                    await client.admin.create_scope("market")
                received = await client.subscribe("x > 0")
                await client.publish(x=1)  # and nobody waits for a graph
                assert (await take(received, 1))[0]["x"] == 1


@running
async def test_a_broker_without_an_authority_waits_for_nobody() -> None:
    dead = (f"tidings://127.0.0.1:{free_port()}",)
    async with serve(options("b", neighbours=dead)) as server, tidings.connect(url(server)) as client:
        received = await client.subscribe("x > 0")
        await client.publish(x=1)
        assert (await take(received, 1))[0]["x"] == 1


@running
async def test_brokers_that_name_different_authorities_are_not_linked() -> None:
    async with brokers("a") as servers:
        neighbours = (url(servers["a"]),)
        async with serve(options("b", neighbours=neighbours, authority="z")) as other:
            await until(lambda: other.diallers[0].problem)
            assert "'z' orders the scope graph of 'b', and 'a' that of 'a'" in str(other.diallers[0].problem)


@running
async def test_a_broker_with_scopes_takes_no_neighbour_that_would_not_know_them() -> None:
    async with brokers("a") as servers:
        async with tidings.connect(url(servers["a"])) as root:
            await root.admin.create_scope("market")
        neighbours = (url(servers["a"]),)
        async with serve(options("b", neighbours=neighbours)) as ignorant:
            await until(lambda: ignorant.diallers[0].problem)
            assert "start 'b' with --authority a, or set `authority = \"a\"` in its configuration" in str(
                ignorant.diallers[0].problem
            )
        async with serve(options("b", neighbours=neighbours, authority="a")) as told:
            scopes = told.host.governance.scopes
            await until(lambda: connected([servers["a"], told]) and "market" in scopes.graph.scopes)


def test_an_authority_without_a_disk_is_refused() -> None:
    with pytest.raises(StartError, match="no data directory"):
        Server(options("a", authority="a"))


@running
async def test_an_authority_that_is_away_changes_nothing(tmp_path: Path) -> None:
    dead = f"tidings://127.0.0.1:{free_port()}"
    ports = dict(zip("abc", free_ports(3), strict=True))
    async with network(tmp_path, ports) as servers:
        async with tidings.connect(url(servers["b"])) as root:
            await root.admin.create_scope("market")
    async with serve(options("a", neighbours=(dead,), authority="b", data=tmp_path / "a")) as alone:
        async with tidings.connect(url(alone)) as client:
            with pytest.raises(AuthorityUnreachable, match="'b' cannot be reached"):
                await client.admin.create_scope("other")
            assert set((await client.admin.graph()).scopes) == {"", "market"}
            received = await client.subscribe("x > 0")
            await client.publish(x=1)
            assert (await take(received, 1))[0]["x"] == 1


# --- they work, and survive -----------------------------------------------------------------------------


async def _sees(publisher: tidings.Client, reader: tidings.Client) -> bool:
    """Whether what one publishes reaches the other, within a time that is long for one machine."""
    heard = await reader.subscribe("probe > 0", receive_own=False)
    await publisher.publish(probe=1)
    await publisher.flush()
    try:
        async with asyncio.timeout(1.5):
            await anext(heard)
            return True
    except TimeoutError:
        return False
    finally:
        heard.unsubscribe()


@running
@pytest.mark.req("VIS-312", "VIS-324", "VIS-305")
async def test_scopes_of_three_brokers_survive_a_restart_of_all(tmp_path: Path) -> None:
    ports = dict(zip("abc", free_ports(3), strict=True))
    async with network(tmp_path, ports) as servers:
        async with contextlib.AsyncExitStack() as stack:
            clients = {}
            for name, broker in (("alice", "a"), ("carol", "c"), ("eve", "c")):
                clients[name] = await stack.enter_async_context(tidings.connect(url(servers[broker]), name=name))
            admin = clients["eve"].admin  # an administrator need not be at the authority
            await admin.create_scope("market")
            for member in ("@alice", "@carol"):
                await admin.join(member, "market")
            assert await _sees(clients["alice"], clients["carol"])
            assert not await _sees(clients["alice"], clients["eve"])
    async with network(tmp_path, ports) as servers:
        graphs = [server.host.governance.scopes.graph for server in servers.values()]
        assert all(set(graph.scopes) == {"", "market"} for graph in graphs)
        async with contextlib.AsyncExitStack() as stack:
            clients = {}
            for name, broker in (("alice", "a"), ("carol", "c"), ("eve", "c")):
                clients[name] = await stack.enter_async_context(tidings.connect(url(servers[broker]), name=name))
            assert await _sees(clients["alice"], clients["carol"])
            assert not await _sees(clients["alice"], clients["eve"])
            assert (await clients["eve"].admin.leave("@carol", "market")).version > 3
            assert not await _sees(clients["alice"], clients["carol"])


def _server_options(name: str, neighbours: str, ports: dict[str, int], data: Path | None) -> Any:
    dialled = tuple(f"tidings://127.0.0.1:{ports[other]}" for other in neighbours)
    chosen = options(name, neighbours=dialled, authority="b", data=data, limits={"broker_resume": 0.5})
    return replace(chosen, port=ports[name])


@running
async def test_the_authority_comes_back_while_others_go_on(tmp_path: Path) -> None:
    ports = dict(zip("ab", free_ports(2), strict=True))
    async with serve(_server_options("a", "b", ports, tmp_path / "a")) as other:
        async with serve(_server_options("b", "", ports, tmp_path / "b")) as authority:
            await until(lambda: connected([other, authority]) and other.host.broker.scoping.ready)
            async with tidings.connect(url(other), name="root") as root:
                await root.admin.create_scope("market")
                await root.admin.join("@alice", "market")
        async with tidings.connect(url(other), name="root") as root:
            await until(lambda: not other.host.broker.adjacency.open_links)
            with pytest.raises(AuthorityUnreachable):
                await root.admin.join("@bob", "market")
            async with serve(_server_options("b", "", ports, tmp_path / "b")) as authority:
                await until(lambda: connected([other, authority]))
                assert (await root.admin.join("@bob", "market")).version >= 3
                assert set((await root.admin.graph()).members("market")) == {"@alice", "@bob"}


@running
async def test_a_broker_without_a_disk_waits_for_the_graph_before_it_lets_anything_out(tmp_path: Path) -> None:
    ports = dict(zip("ab", free_ports(2), strict=True))
    async with serve(_server_options("b", "", ports, tmp_path / "b")) as authority:
        async with tidings.connect(url(authority), name="root") as root, tidings.connect(url(authority)) as stranger:
            await root.admin.create_scope("market")
            await root.admin.join("@alice", "market")
            overheard = await stranger.subscribe("x > 0")
            chosen = _server_options("a", "b", ports, None)
            alone = replace(chosen, neighbours=(f"tidings://127.0.0.1:{free_port()}",))
            async with serve(alone) as waiting, tidings.connect(url(waiting), name="alice") as alice:
                await alice.publish(x=1, quality="fire")  # nobody here knows yet that alice is in the market
                status = await alice.status()
                assert status.scopes is not None
                assert not status.scopes.ready
                await asyncio.sleep(0.3)
                assert waiting.host.broker.scoping.passages(waiting.host.broker.clients[0]) is None
            async with serve(chosen) as server, tidings.connect(url(server), name="alice") as alice:
                await until(lambda: connected([server, authority]))
                inside = await alice.subscribe("x > 0")
                await alice.publish(x=2)
                assert (await take(inside, 1))[0]["x"] == 2
                await stranger.publish(x=3)
                assert (await take(overheard, 1))[0]["x"] == 3  # and nothing of alice before


@running
async def test_a_whole_graph_on_disk_replaces_the_changes_before_it(tmp_path: Path) -> None:
    """A broker that was away for long is told a whole graph; what it had kept before may still be on its disk."""
    made = [Transaction(n, (CreateScope(f"s{n}"),), "root", 0, f"r{n}") for n in range(1, 6)]
    base = Graph()
    for one in made[:3]:
        base = apply(base, one.changes)
    with Store.open(tmp_path, post=lambda call: call(), owner="a") as store:
        store.put("graph", "base", encode(Snapshot.of(base)))
        for one in made:
            store.put("graph", f"{one.version:015d}", encode(one))
    async with serve(options("a", data=tmp_path)) as server, tidings.connect(url(server)) as root:
        graph = await root.admin.graph()
        assert (graph.version, len(graph.scopes)) == (5, 6)
        assert (await root.admin.create_scope("next")).version == 6


@running
@pytest.mark.req("VIS-312", "VIS-319", "ARC-211", "VIS-815", "VIS-816")
async def test_every_method_of_the_administrator(tmp_path: Path) -> None:
    from tidings.scopes import mapping
    from tidings.scopes.mappings._steps import Drop, Rename

    async with brokers("a") as servers, tidings.connect(url(servers["a"]), name="root") as root:
        admin = root.admin
        await admin.create_scope("m", output="type = 'quote'", attributes={"city": "Berlin"}, administrators=["alice"])
        await admin.create_scope("floor", within="m", input=tidings.attr.type == "order", admission=["secret"])
        await admin.set_interface("m", input="type = 'order'")
        await admin.impose("m", output="price > 0")
        await admin.impose("m", output="price > 1", member="m/floor")
        await admin.set_selective("m/floor", "m", input="size > 0")
        await admin.set_mapping("m/floor", "m", mapping(Rename("price", "preis")))
        await admin.set_placement("m/floor", "m", "gateway", "a")
        await admin.set_attributes("m", {"city": None, "country": "DE"})
        await admin.set_attributes("@x", {"floor": 3})
        await admin.set_roles("@x", "trader")
        await admin.set_administration("m", administrators=["bob"])
        with pytest.raises(NotAllowed, match="credentials presented"):
            await admin.join("@x", "m/floor")
        await admin.join("@x", "m/floor", credentials=["secret"], mode="drain")
        graph = await admin.graph()
        market, edge = graph.scope("m"), graph.membership("m/floor", "m")
        assert (str(market.interface.input), str(market.interface.output)) == ("type = 'order'", "FALSE")
        assert str(market.imposed.output) == "price > 0"
        assert (market.attributes, market.administrators) == ({"country": "DE"}, ("bob",))
        assert (str(edge.imposed.output), str(edge.selective.input)) == ("price > 1", "size > 0")
        assert edge.mapping is not None
        assert edge.gateway == "a"
        assert "secret" not in str(graph.scopes)
        await admin.leave("@x", "m/floor", mode=Mode.INSTANT)
        await admin.forget("@x")
        with pytest.raises(ScopeError, match="cascade"):
            await admin.destroy_scope("m")
        await admin.destroy_scope("m", cascade=True)
        assert set((await admin.graph()).scopes) == {"", "m/floor"}
        with pytest.raises(ScopeError, match="'input' and 'output'"):
            await admin.join("@x", "m/floor", selective={"in": "TRUE"})
        with pytest.raises(ScopeError, match="cannot be inverted"):
            await admin.set_mapping("m/floor", "m", mapping(Drop(("price",))))
        await admin.set_delivery("m/floor", ordered=True)
        await admin.set_policy("m/floor", "internal", "delay", {"seconds": 1})
        await admin.extend("m/floor", "a")
        assert (await admin.graph()).scope("m/floor").brokers == {"a"}
        await admin.retract("m/floor", "a")
        assert not (await admin.graph()).scope("m/floor").brokers
        await admin.define(DefineScope("kind", (Selection((Name("@x"),), label="m"),)))
        await admin.deploy(DeployScope(Name("kind"), "shop"))
        await admin.alter(AlterScope(Name("kind"), features=(Roles(("shop",)),)))
        await admin.change(Undefine("kind"))
        await admin.execute(
            "ALTER SCOPE shop ADD UPDATE ON join(*, self) DO ALTER SCOPE self SET newest = trigger.name"
        )
        made = {change.split(" ")[0] for entry in await admin.log() for change in entry.changes}
        kinds = {change.__name__ for change in get_args(AnyChange)}
        assert made == kinds - {"Anchor", "Unanchor"}, "every kind; where scopes are carried is not logged"


@running
async def test_a_change_warns_of_an_edge_that_nothing_can_cross() -> None:
    async with brokers("a") as servers, tidings.connect(url(servers["a"])) as root:
        await root.admin.create_scope("m")
        await root.admin.create_scope("n", output="type = 'quote'")
        changed = await root.admin.join("n", "m", imposed={"output": "type = 'order'"})
        assert any("nothing can pass from 'n' to 'm'" in warning for warning in changed.warnings)


# --- the log --------------------------------------------------------------------------------------------


@running
async def test_the_log_tells_who_made_what_visible_to_whom_and_who_was_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    chosen = options("a", access=access(), data=tmp_path)
    async with serve(chosen) as server:
        async with (
            tidings.connect(url(server), name="root", token=OPERATOR) as root,
            tidings.connect(url(server), name="alice", token=ALICE) as alice,
        ):
            await root.admin.create_scope("market", admission=["open sesame"])
            await root.admin.create_scope(
                "floor", within="market", output="type = 'quote'", credentials=["open sesame"]
            )
            await root.admin.join("@bob", "market", credentials=["open sesame"])
            with pytest.raises(NotAllowed):
                await alice.admin.join("@alice", "market", credentials=["open sesame"])
            entries = await root.admin.log()
            assert [entry.who for entry in entries] == ["root", "root", "root", "alice"]
            assert [entry.version > 0 for entry in entries] == [True, True, True, False]
            assert [str(sight) for sight in entries[1].gained] == ["market/floor -> market (type = 'quote')"]
            joined = {str(sight) for sight in entries[2].gained}
            assert joined == {"@bob -> market", "market -> @bob", "market/floor -> @bob (type = 'quote')"}
            assert {str(sight) for sight in entries[2].lost} == {"@bob -> root", "root -> @bob"}
            assert entries[3].error == "NotAllowed"
            assert [entry.who for entry in await alice.admin.log()] == ["alice"]
            assert len(await root.admin.log(limit=2)) == 2
    async with serve(chosen) as server, tidings.connect(url(server), name="root", token=OPERATOR) as root:
        assert await root.admin.log() == entries
    with Store.open(tmp_path, post=lambda call: call(), owner="a") as store:
        records = [record for record in store.journal() if record.kind is JournalKind.SCOPE]
        assert [record.who for record in records] == ["root", "root", "root", "alice"]
        assert "Join member=@bob scope=market" in str(records[2].what["change"])
        assert "market/floor -> @bob" in str(records[2].what["gained"])
    everything = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert b"open sesame" not in everything
    assert "sesame" not in caplog.text
    assert not any(token in caplog.text for token in (OPERATOR, ALICE))
