"""Where a deciding point chooses one of several members, the audit goes by what the journals say was decided."""

from __future__ import annotations

import asyncio
from pathlib import Path

from spark.audit_world import Planted, World, found, publish

from tidings.scopes import CreateScope, Join, PolicyKind, PolicyUse, SetPolicy
from tidings.spark import Kind, Report

DESK = [
    CreateScope("desk"),
    *(Join(f"@{name}", "desk") for name in ("alice", "bob", "carol")),
    SetPolicy("desk", PolicyKind.INTERNAL, PolicyUse("one-of-n")),
]


def audited(home: Path, fault: Planted | None = None) -> Report:
    """Bob and carol share what alice publishes; mallory is nowhere."""
    world = World(home)

    async def main() -> None:
        async with world.running("ab", {"b": fault} if fault is not None else {}, authority="a"):
            names = {"alice": "a", "bob": "b", "carol": "b", "mallory": "b"}
            clients = {name: world.client(name, at) for name, at in names.items()}
            async with clients["alice"] as alice, clients["bob"] as bob, clients["carol"] as carol:
                async with clients["mallory"] as mallory:
                    await alice.admin.change(*DESK)
                    for client in (bob, carol, mallory):
                        await client.subscribe("type = 'quote'", callback=lambda _: None)
                    await publish(alice, *range(1, 11))
                    await world.acknowledged()

    asyncio.run(main())
    return world.audit()


def test_what_was_given_to_one_of_several_is_no_leak(tmp_path: Path) -> None:
    report = audited(tmp_path)
    assert report.clean, report.findings[:5]
    assert (report.verdict.publications, report.verdict.sent) == (10, 10)


def test_a_planted_second_delivery_is_found(tmp_path: Path) -> None:
    report = audited(tmp_path, Planted("leak", 7))
    seconds = [one for one in report.findings if one.kind is Kind.DUPLICATE]
    assert [one.seq for one in seconds] == [7]
    assert {one.client for one in seconds} < {"bob", "carol"}
    first = ({"bob", "carol"} - {seconds[0].client}).pop()
    assert seconds[0].why == f"scope 'desk' gives it to one of its members, and '{first}' had got it"
    assert [one for one in found(report) if one[0] != "duplicate"] == [("leak", "mallory", 7)]
