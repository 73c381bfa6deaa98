"""The contracts of Maelstrom's workloads over our traces: kept by our brokers, and able to notice when they are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from soaking import SOAK_SECONDS, soak_seeds

import tidings
from tidings.sim import Op, Promises, Record, Scenario, World, broadcast, kafka

PROMISES = Promises.load()
NAMES = [*map(str, range(1, 13)), "r1", "r2", "h3", "h7"]


def at_rest(name: str) -> list[Record]:
    """The trace of a random run until it comes to rest."""
    records = Scenario.named(name).run(PROMISES).network.trace.records
    end = next(at for at, record in enumerate(records) if record.op is Op.QUIESCE)
    return records[: end + 1]


def simple() -> list[Record]:
    """Three publications, two readers, nothing goes wrong."""

    async def main() -> World:
        async with World(3, brokers=["berlin", "paris"]) as world:
            async with (
                tidings.connect(world.url("berlin"), name="writer") as writer,
                tidings.connect(world.url("paris"), name="one") as one,
                tidings.connect(world.url("paris"), name="two") as two,
            ):
                for reader in (one, two):
                    await reader.subscribe("n >= 0", callback=lambda n: None)
                await writer.publish_many([{"n": n} for n in range(4)])
                await world.check()
                main.records = list(world.trace.records)  # type: ignore[attr-defined]
            return world

    asyncio.run(main())
    return main.records  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_random_runs_keep_both_contracts(name: str) -> None:
    trace = at_rest(name)
    assert broadcast(trace) == []
    assert kafka(trace) == []


@pytest.mark.soak
def test_many_random_runs_keep_both_contracts() -> None:
    for seed in soak_seeds(SOAK_SECONDS * 0.05, 3_000_001):
        trace = at_rest(str(seed))
        assert broadcast(trace) == [], seed
        assert kafka(trace) == [], seed


def reads(records: list[Record], reader: str) -> list[int]:
    return [at for at, one in enumerate(records) if one.op is Op.NOTIFY and one.component == reader]


def without(records: list[Record], *places: int) -> list[Record]:
    return [record for at, record in enumerate(records) if at not in places]


def swapped(records: list[Record]) -> list[Record]:
    first, second = reads(records, "one")[:2]
    changed = list(records)
    changed[first], changed[second] = changed[second], changed[first]
    return changed


def repeated(records: list[Record]) -> list[Record]:
    at = reads(records, "one")[0]
    return [*records[: at + 1], *records[at:]]


def misplaced(records: list[Record]) -> list[Record]:
    at = reads(records, "two")[1]
    wrong = records[at]._replace(publication=records[at].publication + 100)
    return [*records[:at], wrong, *records[at + 1 :]]


BREAKS: list[tuple[Callable[[list[Record]], list[Record]], set[str]]] = [
    (lambda trace: trace, set()),
    (lambda trace: without(trace, reads(trace, "one")[1]), {"lost", "skip"}),
    (lambda trace: without(trace, reads(trace, "one")[-1]), {"lost"}),
    (lambda trace: without(trace, reads(trace, "one")[1], reads(trace, "two")[1]), {"lost", "skip", "lost write"}),
    (lambda trace: without(trace, reads(trace, "one")[-1], reads(trace, "two")[-1]), {"lost", "unobserved"}),
    (swapped, {"nonmonotonic"}),
    (repeated, {"duplicated", "nonmonotonic"}),
    (misplaced, {"inconsistent offsets", "lost", "skip"}),
]


@pytest.mark.parametrize(("change", "kinds"), BREAKS)
def test_what_is_broken_is_found_under_its_name(
    change: Callable[[list[Record]], list[Record]], kinds: set[str]
) -> None:
    trace = change(simple())
    assert {anomaly.kind for anomaly in [*broadcast(trace), *kafka(trace)]} == kinds


def test_what_was_told_as_a_gap_is_not_held_against_a_run() -> None:
    trace = simple()
    at = reads(trace, "one")[1]
    origin, epoch, number, *_ = trace[at].detail
    gap = trace[at]._replace(op=Op.GAP, notification=None, publisher="", publication=0)
    told = gap._replace(detail=(origin, epoch, number, number))
    assert broadcast([*trace[:at], told, *trace[at + 1 :]]) == []
    assert kafka([*trace[:at], told, *trace[at + 1 :]]) == []
