"""With scopes, the audit knows who may see what, in which form, under the graph of that time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from spark.audit_world import Planted, World, found, publish

from tidings.scopes import CreateScope, Interface, Join, Leave, SetInterface, edge_mapping, mapping, steps
from tidings.spark import Kind

MARKET = [
    CreateScope("market"),
    CreateScope("market/desk", interface=Interface.parse(input="price > 100", output="price > 100")),
    Join("market/desk", "market"),
    Join("@alice", "market"),
    Join("@bob", "market"),
    Join("@carol", "market/desk"),
]


async def trade(world: World) -> None:
    """Bob is in the market, carol at a desk that lets dear things in, and mallory nowhere."""
    names = {"alice": "a", "bob": "b", "carol": "b", "mallory": "b"}
    clients = {name: world.client(name, at) for name, at in names.items()}
    async with clients["alice"] as alice, clients["bob"] as bob, clients["carol"] as carol, clients["mallory"] as eve:
        await alice.admin.change(*MARKET)
        for client in (bob, carol, eve):
            await client.subscribe("type = 'quote'", callback=lambda _: None)
        await publish(alice, *range(1, 11), price=50)
        await publish(alice, *range(11, 21), price=150)
        await world.acknowledged()
        await alice.admin.change(Leave("@bob", "market"))
        await publish(alice, *range(21, 31), price=50)
        await world.acknowledged()


def run(home: Path, fault: Planted | None = None) -> World:
    world = World(home)

    async def main() -> None:
        async with world.running("ab", {"b": fault} if fault is not None else {}, authority="a"):
            await trade(world)

    asyncio.run(main())
    return world


def test_scopes_decide_what_is_owed(tmp_path: Path) -> None:
    report = run(tmp_path).audit()
    assert report.clean, report.findings[:5]
    assert report.verdict.publications == 30
    assert report.verdict.sent == 30  # twenty for bob, ten for carol, none for mallory
    assert report.verdict.owed >= 28


def test_interfaces_are_judged_as_they_were_when_something_was_published(tmp_path: Path) -> None:
    """Judged by the first version, the last ones would be lost; by the last version, the first ones would be leaks."""
    world = World(tmp_path)

    async def main() -> None:
        async with world.running("ab", authority="a"):
            async with world.client("alice", "a") as alice, world.client("carol", "b") as carol:
                await alice.admin.change(*MARKET)
                await carol.subscribe("type = 'quote'", callback=lambda _: None)
                await publish(alice, *range(1, 11), price=150)
                await world.acknowledged()
                await alice.admin.change(SetInterface("market/desk", Interface.parse(input="price > 200")))
                await publish(alice, *range(11, 21), price=150)
                await publish(alice, *range(21, 26), price=250)
                await world.acknowledged()

    asyncio.run(main())
    report = world.audit()
    assert report.clean, report.findings[:5]
    assert (report.verdict.publications, report.verdict.sent) == (25, 15)
    assert report.verdict.owed >= 5


def test_a_leak_across_scopes_is_found_and_named(tmp_path: Path) -> None:
    report = run(tmp_path, Planted("leak", 7)).audit()
    leaks = [one for one in report.findings if one.kind is Kind.LEAK]
    assert {(one.client, one.seq) for one in leaks} == {("carol", 7), ("mallory", 7)}
    assert "alice" in leaks[0].why
    assert {kind for kind, _, _ in found(report)} == {"leak"}


def test_what_a_mapping_makes_of_it_is_another_form(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def main() -> None:
        async with world.running("ab", {"b": Planted("loss", 3)}, authority="a"):
            alice, bob = world.client("alice", "a"), world.client("bob", "b")
            async with alice, bob:
                german = edge_mapping(mapping(steps.Rename("preis", "price")))
                await alice.admin.change(CreateScope("shop"), Join("@alice", "shop"))
                await alice.admin.change(Join("@bob", "shop", mapping=german))
                await bob.subscribe("preis > 10", callback=lambda _: None)
                await publish(alice, 1, price=5)
                await publish(alice, 2, 3, 4, price=50)
                await world.acknowledged()

    asyncio.run(main())
    report = world.audit()
    assert found(report) == [("loss", "bob", 3)]
    assert report.verdict.sent == 2
