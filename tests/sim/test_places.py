"""Random runs in which brokers stand somewhere, and subscriptions mean another place wherever their clients come.

`make replay SEED=l...` shows one of them; `lw` roams, `hl` and `hlw` have a past besides.
"""

from __future__ import annotations

import asyncio

import pytest
from soaking import spread_seeds

import tidings
from tidings.broker import LocalSubscription
from tidings.model import Location, Matches
from tidings.sim import Promises, Scenario, World

PROMISES = Promises.load()
LETTERS = ("l", "lw", "hl", "hlw")
ONCE_BROKEN = ("lw2000017",)  # a home copy lost what was under way, if another subscription was owed more


def run(name: str) -> None:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()


def violations(letters: str, seeds: int) -> list[str]:
    return [text for seed in range(seeds) for text in Scenario.named(f"{letters}{seed}").run(PROMISES).violations]


@pytest.mark.parametrize("letters", LETTERS)
def test_whoever_moves_sees_what_is_where_it_is(letters: str) -> None:
    for seed in range(3):
        run(f"{letters}{seed}")


@pytest.mark.parametrize("name", ["l7", "lw7", "hl7", "hlw7"])
def test_a_name_leads_back_to_its_run(name: str) -> None:
    assert Scenario.named(name).name == name


def test_positions_that_are_carried_from_place_to_place_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    begins_at = LocalSubscription.begins_at

    def carried(self: LocalSubscription, filter: Matches, number: int) -> None:
        last = self.last
        begins_at(self, filter, number)
        self.last = last

    monkeypatch.setattr(LocalSubscription, "begins_at", carried)
    assert any(text.startswith("past: of") for text in violations("hlw", 3))


def test_a_filter_that_stays_at_the_old_place_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    begins_at = LocalSubscription.begins_at
    monkeypatch.setattr(
        LocalSubscription, "begins_at", lambda self, filter, number: begins_at(self, self.filter, number)
    )
    assert any(text.startswith("matching-only") for text in violations("lw", 3))


def test_what_comes_again_at_another_place_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    begins_at = LocalSubscription.begins_at

    def forgets(self: LocalSubscription, filter: Matches, number: int) -> None:
        begins_at(self, filter, number)
        self.name = f"{self.name}#{number}"

    monkeypatch.setattr(LocalSubscription, "begins_at", forgets)
    assert any("this was delivered at another place" in text for text in violations("hlw", 4))


def test_an_application_can_be_tested_at_places() -> None:
    async def main() -> None:
        async with World(7, brokers=["hub"]) as world:
            for name in "xy":
                world.add_broker(name, place=f"/road/{name}")
                world.link("hub", name)
            async with (
                tidings.connect(world.url("x"), name="car") as car,
                tidings.connect(world.url("hub"), name="lights") as lights,
            ):
                light = await car.subscribe("place WITHIN myloc", past=tidings.last(1))
                await lights.publish(light="red", place=Location("/road/y"))
                await lights.publish(light="green", place=Location("/road/x"))
                assert (await anext(light))["light"] == "green"
                await car.move(world.url("y"))
                assert (await anext(light))["light"] == "red"
                await world.check()

    asyncio.run(main())


@pytest.mark.parametrize("name", ONCE_BROKEN)
def test_what_was_broken_once_stays_mended(name: str) -> None:
    run(name)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_thousands_of_journeys_between_places(part: int) -> None:
    for seed in spread_seeds(part):
        run(f"{LETTERS[seed % len(LETTERS)]}{seed}")
