"""Scopes at the boundary: who may change and see them, and what clients cannot do to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from net.scopes_world import ALICE, BOB, OPERATOR, access
from net.world import Raw, options, running, take, url

import tidings
from tidings.model import EVERYTHING, ScopeError
from tidings.net import serve
from tidings.scopes import (
    Answer,
    AnyChange,
    Ask,
    AuthorityUnreachable,
    CreateScope,
    Decision,
    Impose,
    Interface,
    Join,
    NotAllowed,
    Placement,
    Seen,
    SetMapping,
    SetPlacement,
    SetSelective,
    Snapshot,
    Transaction,
    decode,
    edge_mapping,
    encode,
    mapping,
)
from tidings.scopes._messages import Retire, State
from tidings.scopes.steps import Convert
from tidings.wire import Extension, Part, PublishAck, Refused, Reject, Subscribe, encode_body, part


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
@pytest.mark.req("VIS-711")
async def test_an_operator_is_asked_about_every_change_of_an_edge_with_the_credentials() -> None:
    """Whoever administers the scope, and even if it administers everything."""
    asked = []

    def rule(member: str, scope: str, credentials: tuple[str, ...], action: str) -> Decision:
        asked.append((member, scope, credentials, action))
        return Decision("gold" in credentials, reason="no gold")

    doubled = edge_mapping(outward=mapping(Convert("price", 2)), inward=mapping(Convert("price", 0.5)))
    narrow = Interface.parse(input="price > 100")
    changes: list[AnyChange] = [
        Join("@x", "market"),
        Join("floor", "market"),
        Impose("market", narrow, "@x"),
        Impose("market", narrow, "floor"),
        SetSelective("@x", "market", narrow),
        SetMapping("floor", "market", doubled),
        SetPlacement("floor", "market", Placement.EVERYWHERE),
    ]
    async with serve(options("a", admission=rule)) as server, tidings.connect(url(server)) as root:
        await root.admin.create_scope("market")
        await root.admin.create_scope("floor")
        for change in changes:
            what = (change.member, "market")
            before = await root.admin.graph()
            with pytest.raises(NotAllowed, match=f"'{change.member}' is not admitted to 'market': no gold"):
                await root.admin.change(change, credentials=["silver"])
            assert asked[-1] == (*what, ("silver",), type(change).__name__)
            assert await root.admin.graph() == before
            await root.admin.change(change, credentials=["gold"])
            assert asked[-1] == (*what, ("gold",), type(change).__name__)
            assert await root.admin.graph() != before
        assert len(asked) == 2 * len(changes)
        await root.admin.change(Impose("market", narrow))  # of the scope, and of no edge
        assert len(asked) == 2 * len(changes)


@running
@pytest.mark.req("VIS-712")
async def test_an_operator_may_narrow_what_is_imposed_on_a_member_or_what_it_lets_pass() -> None:
    narrow, wide = Interface.parse(input="price > 100"), Interface.parse(input="price > 1")

    def rule(member: str, scope: str, credentials: tuple[str, ...], action: str) -> Decision:
        return Decision(True, narrow, narrow) if action != "Join" else Decision(True)

    async with serve(options("a", admission=rule)) as server, tidings.connect(url(server)) as root:
        await root.admin.create_scope("market")
        await root.admin.join("@x", "market")
        done = await root.admin.change(Impose("market", wide, "@x"), SetSelective("@x", "market", wide))
        assert done.granted == (Impose("market", narrow, "@x"), SetSelective("@x", "market", narrow))
        edge = (await root.admin.graph()).membership("@x", "market")
        assert (edge.imposed, edge.selective) == (narrow, narrow)


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
        with pytest.raises(AuthorityUnreachable, match=r"no answer for .* it may still be carried out"):
            await client.admin.create_scope("m", timeout=0.2)


@running
async def test_nobody_takes_a_name_that_the_graph_speaks_of() -> None:
    async with serve(options("a", access=access())) as server:
        async with tidings.connect(url(server), name="root", token=OPERATOR) as root:
            async with await Raw.open(server) as liar:
                answer = await liar.hello("alice/pc", token=BOB)  # the graph does not speak of it yet
                assert isinstance(answer, Reject)
            await root.admin.create_scope("hers", administrators=["alice"])
            await root.admin.join("@alice/pc", "hers")
            for name in ("alice", "alice/pc"):
                with pytest.raises(tidings.ConnectionFailed, match=f"'{name}' does not belong to 'bob'"):
                    async with tidings.connect(url(server), name=name, token=BOB):
                        pass
                async with tidings.connect(url(server), name=name, token=ALICE):
                    pass
            async with tidings.connect(url(server), name="bob/phone", token=BOB) as bob:
                with pytest.raises(NotAllowed):
                    await bob.admin.join("@bob", "hers")


@pytest.mark.req("ARC-235")
@running
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
            message = ["Publish", 1, encode_body({"x": 1}), 1, None, [], None, *claims]
            hop = [0, None, {"scopes": encode(Retire(9, 9))}]
            liar.write(part(Part.DATA, msgspec.msgpack.encode([message, hop])))
            acknowledged = await liar.expect(PublishAck)
            assert acknowledged.origin == "a"
            assert (await take(outside, 1))[0]["x"] == 1  # in the root scope, where the liar is
            await bob.publish(x=2)
            assert (await take(inside, 1))[0]["x"] == 2  # and nothing in the secret one before
