"""Components over real connections: what clients bring, and what administrators are told of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from net.scopes_world import OPERATOR, network
from net.world import Raw, options, running, url
from ports import free_ports

import tidings
from tidings import sync
from tidings.client import NotAdmitted
from tidings.model import ArgumentRefused, NotAllowed, ScopeError, StaleGraph, ValueRefused
from tidings.net import Access, AccessEntry, serve
from tidings.scopes import SetAttributes, SetRoles, inverse
from tidings.wire import Reject, encode_body

SENSOR = "sensor-token-123456789"
GUARDED = Access(
    tokens={
        OPERATOR: AccessEntry("operator", administer=True),
        SENSOR: AccessEntry("sensor", names=("sensor-*",), attributes=("city", "has-*")),
    }
)


@running
async def test_an_identity_says_which_attributes_its_clients_may_bring() -> None:
    async with serve(options("a", access=GUARDED)) as server:
        brought = {"city": "Berlin", "has-temp-sensor": 1}
        async with (
            tidings.connect(url(server), name="operator", token=OPERATOR) as root,
            tidings.connect(url(server), name="sensor-1", token=SENSOR, attributes=brought),
        ):
            (found,) = [one for one in await root.admin.components() if one.node == "@sensor-1"]
            assert (found.broker, found.attributes) == ("a", brought)
        with pytest.raises(NotAdmitted) as error:
            await tidings.connect(url(server), name="sensor-2", token=SENSOR, attributes={"experience": 99})
        assert (
            "clients of 'sensor' may not bring the attribute 'experience', only: city, has-*; leave it out, or ask the "
            "administrator to add it to `attributes` of this identity"
        ) in str(error.value)


@running
async def test_an_identity_brings_nothing_unless_it_may() -> None:
    access = Access(tokens={SENSOR: AccessEntry("sensor")})
    async with serve(options("a", access=access)) as server:
        with pytest.raises(NotAdmitted, match="may not bring the attribute 'x', only: none;"):
            await tidings.connect(url(server), token=SENSOR, attributes={"x": 1})


@running
async def test_what_is_no_attribute_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueRefused, match="None is not a value"):
        tidings.connect(attributes={"x": None})
    with pytest.raises(ArgumentRefused, match="give a mapping like"):
        tidings.connect(attributes="city=Berlin")  # type: ignore[arg-type]
    with pytest.raises(ArgumentRefused, match="a client brings at most 16,384: leave some out"):
        tidings.connect(attributes={"x": "y" * 20_000})


@running
@pytest.mark.parametrize(
    "body",
    [b"\xc1", encode_body({"x": "y" * 20_000}), encode_body({"x": 1})[:-1]],
    ids=["no msgpack", "too long", "cut off"],
)
async def test_a_hello_with_attributes_that_are_none_is_turned_away(body: bytes) -> None:
    async with serve(options("a")) as server, await Raw.open(server) as raw:
        assert isinstance(await raw.hello("x", attributes=body), Reject)
        assert not server.host.broker.clients


@running
async def test_the_members_of_the_root_scope_are_listed_across_the_network(tmp_path: Path) -> None:
    ports = dict(zip("abc", free_ports(3), strict=True))
    async with network(tmp_path, ports) as servers:
        async with (
            tidings.connect(url(servers["a"]), name="x", attributes={"floor": 3}) as x,
            tidings.connect(url(servers["c"]), name="y"),
        ):
            await x.admin.create_scope("S")
            await x.admin.set_attributes("@y", {"floor": 7})
            members = await x.admin.members()
            assert [(one.node, one.broker, dict(one.attributes)) for one in members] == [
                ("@x", "a", {"floor": 3}),
                ("@y", "c", {"floor": 7}),
            ]
            await x.admin.join("@y", "S")
            assert [one.node for one in await x.admin.members()] == ["@x"]
            assert [(one.node, one.broker) for one in await x.admin.members("S")] == [("@y", "c")]
        async with tidings.connect(url(servers["b"]), name="z") as z:
            assert [(one.node, one.broker, dict(one.attributes)) for one in await z.admin.members("S")] == [
                ("@y", "", {"floor": 7})
            ]


@running
async def test_a_stale_change_raises_and_clients_that_administer_nothing_are_told_nothing() -> None:
    async with serve(options("a", access=GUARDED)) as server:
        async with (
            tidings.connect(url(server), name="operator", token=OPERATOR) as root,
            tidings.connect(url(server), name="sensor-1", token=SENSOR) as sensor,
        ):
            made = await root.admin.create_scope("S")
            await root.admin.change(SetAttributes("S", {"x": 1}), expected=made.version)
            with pytest.raises(StaleGraph, match="worked out on version 1 of the scope graph, and version 2 is the"):
                await root.admin.change(SetRoles("S", ("r",)), expected=made.version)
            before, made = await root.admin.revision(2)
            assert made.changes == (SetAttributes("S", {"x": 1}),)
            assert inverse(before, made, await root.admin.graph()) == (SetAttributes("S", {"x": None}),)
            with pytest.raises(ScopeError, match=r"version 3 .* is not remembered; those that are: 1 to 2"):
                await root.admin.revision(3)
            with pytest.raises(NotAllowed, match="only clients that may change everything"):
                await sensor.admin.revision(1)
            with pytest.raises(NotAllowed, match="'sensor-1' administers no scope"):
                await sensor.admin.components()
            with pytest.raises(NotAllowed):
                await sensor.admin.set_attributes("@sensor-1", {"experience": 99})


def test_a_blocking_client_brings_attributes_too() -> None:
    from serving import serving

    with serving(options("a")) as address, sync.connect(address, name="x", attributes={"city": "Rome"}) as client:
        (found,) = client.admin.components(inputs=["n = 1"])
        assert (found.node, dict(found.attributes), found.inputs) == ("@x", {"city": "Rome"}, (False,))
        client.admin.set_roles("@x", "boss")
        assert client.admin.members()[0].roles == ("boss",)
