"""Management over HTTP: looking at a broker and changing its scopes with nothing but curl, by those who may."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from net.certificates import Authority
from net.world import connected, options, running, take, until, url

import tidings
from tidings.mobility import MobilityOptions, Scheme
from tidings.net import Access, AccessEntry, Server, StartError, serve
from tidings.scopes import CreateScope, DestroyScope, Join

OPERATOR, ALICE = "operator-token-1234567", "alice-token-123456789"


async def ask(
    server: Server,
    what: str,
    body: object = None,
    *,
    token: str = "",
    headers: dict[str, str] | None = None,
    raw: bytes | None = None,
) -> tuple[int, Any]:
    """The status and the content of an answer."""
    sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    given = {"Host": f"localhost:{server.metrics_port}", "Content-Length": str(len(sent))}
    if body is not None or raw is not None:
        given["Content-Type"] = "application/json"
    if token:
        given["Authorization"] = f"Bearer {token}"
    given |= headers or {}
    head = "\r\n".join([f"{what} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())])
    assert server.metrics_port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.metrics_port)
    writer.write(head.encode() + b"\r\n\r\n" + sent)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    start, _, content = answer.partition(b"\r\n\r\n")
    kind = b"application/json" in start
    return int(start.split()[1]), json.loads(content) if kind else content.decode()


MARKET = {
    "changes": [
        {"type": "CreateScope", "id": "market", "interface": {"input": "FALSE", "output": "type = 'quote'"}},
        {"type": "Join", "member": "@alice", "scope": "market"},
        {"type": "Join", "member": "@bob", "scope": "market", "imposed": {"input": "price > 100"}},
    ]
}


LARGE = json.dumps(
    {
        "changes": [
            {"type": "Impose", "scope": "s", "interface": {"input": f"a = '{'x' * 1_000}{number}'"}}
            for number in range(150)
        ]
    }
).encode()
"""Changes that take long to read."""


@running
async def test_what_is_counted_is_served_with_values_versions_and_traffic() -> None:
    async with contextlib.AsyncExitStack() as stack:
        a = await stack.enter_async_context(serve(options("a")))
        b = await stack.enter_async_context(serve(options("b", neighbours=(url(a),), metrics_port=0, management=True)))
        await until(lambda: connected([a, b]))
        alice = await stack.enter_async_context(tidings.connect(url(a), name="alice"))
        bob = await stack.enter_async_context(tidings.connect(url(b), name="bob"))
        await alice.subscribe("price > 5")
        assert (await ask(b, "GET /aggregates"))[1]["watched"] == []
        async with bob.aggregates.watch("subscriber_count", filter="price > 3") as watch:
            async for told in watch:
                if told.complete and told.value == 1:
                    break
            status, page = await ask(b, "GET /aggregates")
            assert status == 200
            (one,) = page["watched"]
            assert (one["aggregate"], one["version"], one["value"], one["complete"]) == (
                "subscriber_count",
                "1",
                1,
                True,
            )
            (travelled,) = page["traffic"]
            assert (travelled["neighbour"], travelled["sent"]) == ("a", 0)
            assert travelled["ridden"] + travelled["alone"] > 0
            assert {"subscriber_count", "active_publishers"} <= {each["name"] for each in page["offered"]}


@pytest.mark.req("ARC-207")
@running
async def test_tools_watch_and_reconfigure_a_running_network_over_http(tmp_path: Path) -> None:
    """The authority is another broker: each has its agent, and each can change the graph of all."""
    async with contextlib.AsyncExitStack() as stack:
        a = await stack.enter_async_context(serve(options("a", authority="a", data=tmp_path / "a")))
        b = await stack.enter_async_context(
            serve(options("b", authority="a", neighbours=(url(a),), metrics_port=0, management=True))
        )
        await until(lambda: connected([a, b]) and b.host.broker.scoping.ready)
        alice = await stack.enter_async_context(tidings.connect(url(a), name="alice"))
        bob = await stack.enter_async_context(tidings.connect(url(b), name="bob"))
        heard = await bob.subscribe("TRUE")
        assert await ask(b, "POST /scopes", MARKET) == (200, {"version": 1, "warnings": [], "granted": []})
        for price in (99, 182):
            await (await alice.publish(type="quote", price=price))
        assert await take(heard, 1) == [tidings.Notification(type="quote", price=182)]
        _, graph = await ask(b, "GET /scopes")
        assert [scope["id"] for scope in graph["scopes"]] == ["", "market"]
        assert sorted(edge["member"] for edge in graph["memberships"]) == ["@alice", "@bob"]
        _, status = await ask(b, "GET /status")
        assert sorted((peer["kind"], peer["name"]) for peer in status["peers"]) == [("broker", "a"), ("client", "bob")]
        drained = {"changes": [{"type": "DestroyScope", "id": "market", "cascade": True}], "mode": "drain"}
        assert (await ask(b, "POST /scopes", drained))[0] == 200
        _, entries = await ask(b, "GET /scopes/log?limit=1")
        assert [entry["changes"] for entry in entries] == [["DestroyScope id=market cascade=True"]]


@pytest.mark.req("ARC-207")
@running
async def test_every_broker_has_an_agent_of_its_own_that_watches_and_changes(tmp_path: Path) -> None:
    """What one agent has changed, the other shows; what each watches is its own broker."""
    async with contextlib.AsyncExitStack() as stack:
        managed = {"authority": "a", "metrics_port": 0, "management": True}
        a = await stack.enter_async_context(serve(options("a", data=tmp_path / "a", **managed)))
        b = await stack.enter_async_context(serve(options("b", neighbours=(url(a),), **managed)))
        await until(lambda: connected([a, b]) and b.host.broker.scoping.ready)
        alice = await stack.enter_async_context(tidings.connect(url(a), name="alice"))
        carol = await stack.enter_async_context(tidings.connect(url(a), name="carol"))
        for version, agent in enumerate((a, b), 1):
            scope = {"type": "CreateScope", "id": agent.host.broker.name}
            answer = await ask(agent, "POST /scopes", {"changes": [scope]})
            assert answer == (200, {"version": version, "warnings": [], "granted": []})
        for agent in (a, b):
            await until(lambda agent=agent: agent.host.governance.scopes.graph.version == 2)
            _, graph = await ask(agent, "GET /scopes")
            assert [one["id"] for one in graph["scopes"]] == ["", "a", "b"]
        await carol.subscribe("type = 'quote'", callback=lambda _: None)
        await (await alice.publish(type="quote"))
        told = {agent.host.broker.name: (await ask(agent, "GET /status"))[1] for agent in (a, b)}
        assert {name: status["name"] for name, status in told.items()} == {"a": "a", "b": "b"}
        assert {name: sorted(peer["name"] for peer in status["peers"]) for name, status in told.items()} == {
            "a": ["alice", "b", "carol"],
            "b": ["a"],
        }
        counted = {name: status["scopes"]["tables"][0]["lookups"] for name, status in told.items()}
        assert counted == {"a": 1, "b": 0}  # nobody at b wants it


@pytest.mark.req("ARC-207")
def test_a_broker_is_watched_and_changed_from_other_machines(tmp_path: Path) -> None:
    """Over TLS and with a token, as from afar: the agent is the broker's own port, and HTTP stays on its machine."""
    authority = Authority(tmp_path)
    access = Access(tokens={OPERATOR: AccessEntry("operator", administer=True), ALICE: AccessEntry("alice")})

    @running
    async def run() -> None:
        async with serve(options("a", tls=authority.sign("broker"), access=access)) as server:
            far = f"tidings+tls://localhost:{server.port}"
            trust = authority.trust()
            async with (
                tidings.connect(far, name="operator", token=OPERATOR, tls=trust) as operator,
                tidings.connect(far, name="alice", token=ALICE, tls=trust) as alice,
            ):
                await operator.admin.change(CreateScope("market"), Join("@alice", "market"))
                heard = await alice.subscribe("TRUE")
                await (await alice.publish(n=1))
                assert await take(heard, 1) == [tidings.Notification(n=1)]
                status = await operator.status()
                assert {peer.name for peer in status.peers} == {"operator", "alice"}
                assert {one.scope: (one.lookups, one.copies) for one in status.scopes.tables} == {
                    "": (0, 0),
                    "market": (1, 1),
                }
                with pytest.raises(tidings.TidingsError, match="administer"):
                    await alice.status()
                with pytest.raises(tidings.TidingsError, match="not an administrator of 'market'"):
                    await alice.admin.change(DestroyScope("market", cascade=True))
                with pytest.raises(tidings.TidingsError, match="it is not an administrator of the root scope; ask one"):
                    await alice.admin.change(CreateScope("other"))
                with pytest.raises(tidings.TidingsError, match=r"'@a.nb' cannot name a client: write 1 to 256"):
                    await operator.admin.change(Join("@a\nb", "market"))
                assert [(await one.admin.who_sees()).partial for one in (operator, alice)] == [False, True]
                assert (await alice.admin.what_sees("@alice")).partial
                await operator.admin.change(DestroyScope("market", cascade=True))
                assert [scope for scope in (await operator.admin.graph()).scopes if scope] == []

    run()


@running
async def test_what_is_wrong_is_answered_and_changes_nothing() -> None:
    async with serve(options("a", metrics_port=0, management=True)) as server:
        cases = [
            (400, "cannot be read: it ends too early, after '{'; close", b"{"),
            (400, 'changes[0].type: "Explode" is not known here', b'{"changes": [{"type": "Explode"}]}'),
            (
                400,
                "a value is missing after <",
                b'{"changes": [{"type": "Impose", "scope": "s", "interface": {"input": "a <"}}]}',
            ),
            (400, "filters and constants in this change have more than 131,072 characters", LARGE),
            (400, "changes: 5 is a whole number, not a list", b'{"changes": 5}'),
            (400, "there is no 'modus' here", b'{"changes": [], "modus": "drain"}'),
            (400, "cannot be read: it is nested too deeply; flatten it", b"[" * 200_000),
            (409, "not a member of 's'", b'{"changes": [{"type": "Leave", "member": "@a", "scope": "s"}]}'),
        ]
        for status, text, body in cases:
            found, answer = await ask(server, "POST /scopes", raw=body)
            assert (found, text in answer["reason"]) == (status, True), answer
        assert (await ask(server, "POST /scopes", raw=b"{}", headers={"Content-Type": "text/plain"}))[0] == 415
        assert (await ask(server, "DELETE /scopes"))[0] == 405
        assert (await ask(server, "POST /status"))[0] == 405
        assert (await ask(server, "GET /scopes/log?limit=0"))[0] == 400
        assert (await ask(server, "GET /statuses"))[0] == 404
        assert (await ask(server, "POST /scopes", headers={"Content-Length": "9999999"}))[0] == 413
        assert (await ask(server, "POST /scopes", headers={"Content-Length": "x"}))[0] == 411
        assert (await ask(server, "GET /scopes"))[1]["version"] == 0


@running
async def test_web_pages_cannot_reach_it() -> None:
    async with serve(options("a", metrics_port=0, management=True)) as server:
        for headers in (
            {"Origin": "http://localhost"},
            {"Host": "evil.example"},
            {"Host": "evil.example:80"},
            {"Host": ""},
        ):
            for what in ("GET /status", "GET /scopes", "POST /scopes"):
                status, answer = await ask(server, what, MARKET if what.startswith("POST") else None, headers=headers)
                assert (status, answer["error"]) == (403, "AccessDenied")
        for host in ("127.0.0.1", "localhost:1", "[::1]:7"):
            assert (await ask(server, "GET /status", headers={"Host": host}))[0] == 200


@pytest.mark.req("ARC-207")
@running
async def test_management_is_for_those_who_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.net._management.DENIAL_DELAY", 0)
    access = Access(tokens={OPERATOR: AccessEntry("operator", administer=True), ALICE: AccessEntry("alice")})
    async with serve(options("a", metrics_port=0, management=True, access=access)) as server:
        for what in ("GET /status", "GET /scopes", "GET /scopes/log", "POST /scopes"):
            for token in ("", "wrong"):
                assert (await ask(server, what, token=token))[0] == 401
        assert (await ask(server, "GET /status", token=ALICE))[0] == 403
        assert (await ask(server, "POST /scopes", MARKET, token=ALICE))[0] == 403
        hidden = {"changes": [{"type": "CreateScope", "id": "vault", "hidden": True}]}
        assert (await ask(server, "POST /scopes", hidden, token=OPERATOR))[0] == 200
        assert [scope["id"] for scope in (await ask(server, "GET /scopes", token=ALICE))[1]["scopes"]] == [""]
        assert len((await ask(server, "GET /scopes/log", token=OPERATOR))[1]) == 2
        assert [entry["error"] for entry in (await ask(server, "GET /scopes/log", token=ALICE))[1]] == ["NotAllowed"]


@running
async def test_wrong_credentials_are_logged_once_in_a_minute_with_their_number(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidings.net._management.DENIAL_DELAY", 0)
    access = Access(tokens={ALICE: AccessEntry("alice")})
    async with serve(options("a", metrics_port=0, management=True, access=access)) as server:
        for _ in range(4):
            await ask(server, "GET /status", token="wrong")
        assert caplog.text.count("wrong credentials") == 1
        monkeypatch.setattr("tidings.net._management.COMPLAINT_SECONDS", 0)
        await ask(server, "GET /scopes", token="wrong")
    assert "turned away 4 requests with wrong credentials, the last one for /scopes" in caplog.text


@running
async def test_it_is_not_there_unless_it_is_wanted() -> None:
    async with serve(options("a", metrics_port=0)) as server:
        assert await ask(server, "GET /scopes") == (404, "not found; there are /metrics, /health and /ready\n")
        assert (await ask(server, "POST /scopes", MARKET))[0] == 405


@pytest.mark.parametrize(
    ("more", "said"),
    [({}, "set `metrics_port`"), ({"metrics_port": 0, "metrics_host": "0.0.0.0"}, "reached from others")],
)
def test_it_is_served_on_this_machine_only(more: dict[str, Any], said: str) -> None:
    @running
    async def run() -> None:
        with pytest.raises(StartError, match=said):
            async with serve(options("a", management=True, **more)):
                pass

    run()


@running
async def test_clients_that_roam_are_shown_over_http_with_the_graph_of_the_network() -> None:
    access = Access(tokens={OPERATOR: AccessEntry("ops", administer=True), ALICE: AccessEntry("alice")})
    mobility = MobilityOptions(Scheme.PROACTIVE, roamers=("all",), new_edge_interval=0)
    managed = options("a", metrics_port=0, management=True, access=access, mobility=mobility)
    async with serve(managed) as a:
        assert (await ask(a, "GET /mobility", token=ALICE))[0] == 403
        async with tidings.connect(url(a), token=ALICE, name="alice") as alice:
            await alice.subscribe("n EXISTS")
            status, shown = await ask(a, "GET /mobility", token=OPERATOR)
            assert status == 200
            assert (shown["broker"], shown["scheme"], shown["edges"]) == ("a", "proactive", [])
            assert [(one["client"], one["away"]) for one in shown["hosted"]] == [("alice", False)]
            assert shown["counters"]["copies"] == shown["counters"]["buffered_bytes"] == 0


@running
async def test_a_broker_is_evacuated_over_http_by_those_who_may() -> None:
    access = Access(tokens={OPERATOR: AccessEntry("ops", administer=True), ALICE: AccessEntry("alice")})
    managed = options("a", metrics_port=0, management=True, access=access)
    async with serve(managed) as a:
        begin = {"evacuate": "a"}
        status, refused = await ask(a, "POST /mobility", begin, token=ALICE)
        assert (status, refused["reason"][:38]) == (403, "'alice' may not send clients elsewhere")
        async with tidings.connect(url(a), token=ALICE, name="alice"):
            assert (await ask(a, "POST /mobility", {"evacuation": "a"}, token=OPERATOR))[1]["began"] == 0
            assert (await ask(a, "POST /mobility", begin, token=OPERATOR))[0] == 200

            async def told() -> Any:
                return (await ask(a, "POST /mobility", {"evacuation": "a"}, token=OPERATOR))[1]

            async with asyncio.timeout(10):
                while (await told())["waiting"]:
                    await asyncio.sleep(0.05)
            assert (await told())["staying"] == [{"client": "alice", "reason": "it has no other address"}]
        for wrong in ({}, {"evacuate": "a", "evacuation": "a"}, {"evacuate": 1}, {"other": "a"}):
            assert (await ask(a, "POST /mobility", wrong, token=OPERATOR))[0] == 400
        assert (await ask(a, "POST /mobility", {"evacuate": "b"}, token=OPERATOR))[0] == 409
