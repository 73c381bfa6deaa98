"""Scopes on real brokers: who orders them, that they survive restarts, and what clients cannot do to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from net.world import Raw, brokers, connected, options, running, take, until, url

import tidings
from tidings.model import EVERYTHING, ScopeError
from tidings.net import Access, Identity, Server, StartError, serve
from tidings.scopes import (
    Answer,
    Ask,
    AuthorityUnreachable,
    CreateScope,
    Decision,
    FrozenGraph,
    Graph,
    Interface,
    Join,
    Mode,
    NoAuthority,
    NotAllowed,
    ScopeEnded,
    Seen,
    Snapshot,
    Transaction,
    apply,
    decode,
    encode,
)
from tidings.scopes._messages import Retire, State
from tidings.store import JournalKind, Store
from tidings.wire import Extension, Part, PublishAck, Refused, Subscribe, encode_body, part

OPERATOR, ALICE, BOB = "operator-token-1234567", "alice-token-123456789", "bob-token-12345678901"


def access() -> Access:
    return Access(
        tokens={
            OPERATOR: Identity("operator", administer=True, broker=True),
            ALICE: Identity("alice"),
            BOB: Identity("bob"),
        }
    )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.asynccontextmanager
async def network(tmp_path: Path, ports: dict[str, int], **more: Any) -> AsyncIterator[dict[str, Server]]:
    """Three brokers in a row, b in the middle is the authority; each has a disk."""
    async with contextlib.AsyncExitStack() as stack:
        servers = {}
        for name, neighbours in (("b", ""), ("a", "b"), ("c", "b")):
            dialled = tuple(f"tidings://127.0.0.1:{ports[other]}" for other in neighbours)
            chosen = options(name, neighbours=dialled, authority="b", data=tmp_path / name, **more)
            chosen = type(chosen)(**{**_fields(chosen), "port": ports[name]})
            servers[name] = await stack.enter_async_context(serve(chosen))
        await until(lambda: connected(servers.values()) and all(s.host.broker.scoping.ready for s in servers.values()))
        yield servers


def _fields(chosen: Any) -> dict[str, Any]:
    return {name: getattr(chosen, name) for name in chosen.__dataclass_fields__}


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
            "it is a member of nothing now, and neither hears nor is heard"
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
            assert "set `authority = \"a\"` in the configuration of 'b'" in str(ignorant.diallers[0].problem)
        async with serve(options("b", neighbours=neighbours, authority="a")) as told:
            scopes = told.host.governance.scopes
            await until(lambda: connected([servers["a"], told]) and "market" in scopes.graph.scopes)


def test_an_authority_without_a_disk_is_refused() -> None:
    with pytest.raises(StartError, match="no data directory"):
        Server(options("a", authority="a"))


@running
async def test_an_authority_that_is_away_changes_nothing(tmp_path: Path) -> None:
    dead = f"tidings://127.0.0.1:{free_port()}"
    ports = {name: free_port() for name in "abc"}
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
    ports = {name: free_port() for name in "abc"}
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
    return type(chosen)(**{**_fields(chosen), "port": ports[name]})


@running
async def test_the_authority_comes_back_while_others_go_on(tmp_path: Path) -> None:
    ports = {name: free_port() for name in "ab"}
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
    ports = {name: free_port() for name in "ab"}
    async with serve(_server_options("b", "", ports, tmp_path / "b")) as authority:
        async with tidings.connect(url(authority), name="root") as root, tidings.connect(url(authority)) as stranger:
            await root.admin.create_scope("market")
            await root.admin.join("@alice", "market")
            overheard = await stranger.subscribe("x > 0")
            chosen = _server_options("a", "b", ports, None)
            alone = type(chosen)(**{**_fields(chosen), "neighbours": (f"tidings://127.0.0.1:{free_port()}",)})
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
@pytest.mark.req("VIS-312", "VIS-319", "ARC-211")
async def test_every_method_of_the_administrator(tmp_path: Path) -> None:
    from tidings.scopes import mapping
    from tidings.scopes._steps import Drop, Rename

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
        with pytest.raises(ScopeError, match="cascade"):
            await admin.destroy_scope("m")
        await admin.destroy_scope("m", cascade=True)
        assert set((await admin.graph()).scopes) == {"", "m/floor"}
        with pytest.raises(ScopeError, match="'input' and 'output'"):
            await admin.join("@x", "m/floor", selective={"in": "TRUE"})
        with pytest.raises(ScopeError, match="cannot be taken back"):
            await admin.set_mapping("m/floor", "m", mapping(Drop(("price",))))


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


# --- at the boundary ------------------------------------------------------------------------------------


def _scopes(message: Any) -> Extension:
    return Extension("scopes", encode(message))


@running
@pytest.mark.req("VIS-313")
async def test_only_administrators_change_scopes_and_only_theirs() -> None:
    async with serve(options("a", access=access())) as server:
        async with (
            tidings.connect(url(server), name="root", token=OPERATOR) as root,
            tidings.connect(url(server), name="alice", token=ALICE) as alice,
        ):
            with pytest.raises(NotAllowed, match="'alice' may not CreateScope"):
                await alice.admin.create_scope("mine")
            await root.admin.create_scope("hers", administrators=["alice"])
            await root.admin.create_scope("other")
            await alice.admin.join("@alice", "hers")
            await alice.admin.create_scope("inner", within="hers")
            for member, scope in (("@alice", "other"), ("hers", "other"), ("other", "hers")):
                with pytest.raises(NotAllowed):
                    await alice.admin.join(member, scope)
            with pytest.raises(NotAllowed):
                await alice.admin.destroy_scope("other")
            assert set((await root.admin.graph()).scopes) == {"", "hers", "hers/inner", "other"}


@running
@pytest.mark.req("ARC-220")
async def test_whoever_may_not_change_a_scope_can_still_read_how_it_is_configured() -> None:
    async with serve(options("a", access=access())) as server:
        async with (
            tidings.connect(url(server), name="root", token=OPERATOR) as root,
            tidings.connect(url(server), name="alice", token=ALICE) as alice,
        ):
            await root.admin.create_scope("market", output="price > 1", attributes={"city": "Berlin"})
            await root.admin.create_scope("floor", within="market", output="TRUE", imposed={"input": "x > 2"})
            await root.admin.set_selective("market/floor", "market", output="price > 3")
            with pytest.raises(NotAllowed):
                await alice.admin.set_attributes("market", {"city": "Paris"})
            seen = await alice.admin.graph()
            assert (str(seen.scope("market").interface.output), seen.scope("market").attributes["city"]) == (
                "price > 1",
                "Berlin",
            )
            assert str(seen.scope("market/floor").imposed.input) == "x > 2"
            assert str(seen.membership("market/floor", "market").selective.output) == "price > 3"


@running
@pytest.mark.req("VIS-711", "VIS-712", "ARC-142", "ARC-214", "ARC-215")
async def test_an_operator_decides_who_is_admitted_and_with_which_interface() -> None:
    asked = []

    def rule(member: str, scope: str, credentials: tuple[str, ...], action: str) -> Decision:
        asked.append((member, scope, action))
        if "gold" in credentials:
            return Decision(True)
        if "silver" in credentials:
            return Decision(True, imposed=Interface.parse(input="price > 100"))
        return Decision(False, reason="neither gold nor silver")

    async with serve(options("a", admission=rule)) as server, tidings.connect(url(server)) as root:
        await root.admin.create_scope("market")
        with pytest.raises(NotAllowed, match="'@x' is not admitted to 'market': neither gold nor silver"):
            await root.admin.join("@x", "market")
        assert not (await root.admin.join("@x", "market", credentials=["gold"])).granted
        granted = (await root.admin.join("@y", "market", credentials=["silver"])).granted
        assert granted == (Join("@y", "market", imposed=Interface.parse(input="price > 100")),)
        edge = (await root.admin.graph()).membership("@y", "market")
        assert str(edge.imposed.input) == "price > 100"
        with pytest.raises(NotAllowed):
            await root.admin.set_selective("@y", "market", input="TRUE")  # a change of an edge is asked about, too
        assert asked[-1] == ("@y", "market", "SetSelective")


@running
async def test_an_admission_rule_that_fails_refuses_and_stops_nothing() -> None:
    def rule(member: str, scope: str, credentials: tuple[str, ...], action: str) -> Decision:
        raise RuntimeError("no database")

    async with serve(options("a", admission=rule)) as server, tidings.connect(url(server)) as root:
        await root.admin.create_scope("market")
        with pytest.raises(ScopeError, match="no database"):
            await root.admin.join("@x", "market")
        assert (await root.admin.create_scope("other")).version == 2


@running
async def test_hidden_scopes_are_shown_to_members_and_administrators_only() -> None:
    async with serve(options("a", access=access())) as server:
        async with (
            tidings.connect(url(server), name="root", token=OPERATOR) as root,
            tidings.connect(url(server), name="alice", token=ALICE) as alice,
            tidings.connect(url(server), name="bob", token=BOB) as bob,
        ):
            await root.admin.create_scope("secret", hidden=True)
            await root.admin.join("@bob", "secret")
            assert set((await root.admin.graph()).scopes) == {"", "secret"}
            assert set((await bob.admin.graph()).scopes) == {"", "secret"}
            seen = await alice.admin.graph()
            assert set(seen.scopes) == {""}
            assert "secret" not in repr(seen)


@running
async def test_what_a_client_says_about_itself_is_overwritten() -> None:
    async with serve(options("a", access=access())) as server, await Raw.open(server) as raw:
        await raw.hello("alice", token=ALICE)
        raw.send(_scopes(Ask("mine", (CreateScope("m"),), who="root", administrator=True)))
        answer = decode((await raw.expect(Extension)).body)
        assert isinstance(answer, Answer)
        assert (answer.request, answer.error) == ("mine", "NotAllowed")
        assert "'alice'" in answer.reason
        raw.send(_scopes(Ask("broker", (CreateScope("m"),), who="")))
        answer = decode((await raw.expect(Extension)).body)
        assert isinstance(answer, Answer)
        assert answer.error == "NotAllowed"
        assert set(server.host.governance.scopes.graph.scopes) == {""}


@running
async def test_a_client_cannot_speak_as_a_broker_about_scopes() -> None:
    transaction = Transaction(1, (CreateScope("evil"), Join("@alice", "evil")), "root", 0, "r")
    empty = Snapshot(0, (), (), {})
    forged = [
        State(empty, (transaction,), 1),
        Retire(7, 7),
        Answer("a/1/1", version=1),
        Seen("x", empty),
    ]
    async with serve(options("a")) as server, await Raw.open(server) as raw:
        await raw.hello("mallory")
        for message in forged:
            before = server.host.broker.statistics.refused
            raw.send(_scopes(message))
            refused = await raw.expect(Refused)
            assert f"a client may not send {type(message).__name__}" in refused.reason
            assert server.host.broker.statistics.refused == before + 1
        assert server.host.governance.scopes.graph.version == 0


@running
async def test_garbage_about_scopes_is_refused_and_others_go_on() -> None:
    odd = msgspec.msgpack.encode({"type": "Ask", "request": "odd", "changes": [{"type": "Join", "member": 7}]})
    nowhere = [Join("@x", "nowhere"), Join("nowhere", ""), Join("", "nowhere"), CreateScope("a//b"), CreateScope("@c")]
    async with serve(options("a")) as server, await Raw.open(server) as raw:
        await raw.hello("mallory")
        for body in (b"", b"\xc1", b"\x80", msgspec.msgpack.encode([1, 2]), odd[:-3]):
            raw.send(Extension("scopes", body))
            assert await raw.expect(Refused)
        raw.send(Extension("scopes", odd))
        answer = decode((await raw.expect(Extension)).body)
        assert isinstance(answer, Answer)
        assert (answer.request, answer.error) == ("odd", "ScopeError")
        for number, change in enumerate(nowhere):
            raw.send(_scopes(Ask(str(number), (change,))))
            answer = decode((await raw.expect(Extension)).body)
            assert isinstance(answer, Answer)
            assert answer.error, change
        async with tidings.connect(url(server)) as root:
            assert (await root.admin.create_scope("m")).version == 1


@running
async def test_a_client_that_goes_on_elsewhere_is_told_that_no_answer_will_come(tmp_path: Path) -> None:
    async with serve(options("a")) as server, tidings.connect(url(server)) as client:
        server.host.governance.scopes.authority.asked = lambda ask, reply: None  # type: ignore[union-attr,method-assign]
        with pytest.raises(AuthorityUnreachable, match="nobody answered"):
            await client.admin.create_scope("m", timeout=0.2)


@running
async def test_nobody_takes_a_name_that_the_graph_speaks_of() -> None:
    async with serve(options("a", access=access())) as server:
        async with tidings.connect(url(server), name="root", token=OPERATOR) as root:
            async with await Raw.open(server) as liar:
                await liar.hello("alice/pc", token=BOB)  # so far the name is free
                await root.admin.create_scope("hers", administrators=["alice"])
                await root.admin.join("@alice/pc", "hers")
                assert "speaks of 'alice/pc', and 'bob' is somebody else" in (await liar.rejection()).reason
            for name in ("alice", "alice/pc"):
                with pytest.raises(tidings.ConnectionFailed, match="'bob' is somebody else"):
                    async with tidings.connect(url(server), name=name, token=BOB):
                        pass
                async with tidings.connect(url(server), name=name, token=ALICE):
                    pass
            async with tidings.connect(url(server), name="alice/phone", token=BOB) as free:
                with pytest.raises(NotAllowed):
                    await free.admin.join("@bob", "hers")


@running
@pytest.mark.req("ARC-145")
async def test_what_a_client_claims_about_scopes_and_identity_is_refused_or_ignored() -> None:
    """A member publishes with forged fields, and a stranger subscribes in a scope that it is no member of."""
    async with serve(options("a")) as server, await Raw.open(server) as liar, await Raw.open(server) as stranger:
        async with tidings.connect(url(server), name="root") as root, tidings.connect(url(server), name="bob") as bob:
            await root.admin.create_scope("secret")
            await root.admin.join("@bob", "secret")
            inside, outside = await bob.subscribe("x > 0"), await root.subscribe("x > 0")
            await stranger.hello("stranger")
            refused = server.host.broker.statistics.refused
            stranger.send(Subscribe("s", EVERYTHING, scope="secret"))
            assert "a client does not choose its scopes" in (await stranger.expect(Refused)).reason
            assert server.host.broker.statistics.refused == refused + 1
            await liar.hello("liar")
            claims = ["secret", {"origin": "z", "seq": 7}, "secret"]
            message = ["Publish", 1, encode_body({"x": 1}), 1, None, *claims]
            hop = [0, None, {"scopes": encode(Retire(9, 9))}]
            liar.write(part(Part.DATA, msgspec.msgpack.encode([message, hop])))
            acknowledged = await liar.expect(PublishAck)
            assert acknowledged.origin == "a"
            assert (await take(outside, 1))[0]["x"] == 1  # in the root scope, where the liar is
            await bob.publish(x=2)
            assert (await take(inside, 1))[0]["x"] == 2  # and nothing in the secret one before
