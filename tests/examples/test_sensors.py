"""The sensors of the documents: members are chosen by what they are, and no program knows of it."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tidings.scopes.language import Source, check_script, parse, print_script

EXAMPLE = Path(__file__).parents[2] / "examples" / "sensors"


@pytest.fixture(scope="module")
def sensors() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLE))
    try:
        yield importlib.import_module("sensors")
    finally:
        sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def seen(sensors: ModuleType) -> dict[str, list[dict[str, object]]]:
    return asyncio.run(sensors.run())  # type: ignore[no-any-return]


def kinds(got: list[dict[str, object]]) -> set[object]:
    return {one["type"] for one in got}


def test_without_scopes_everybody_sees_everything(sensors: ModuleType) -> None:
    everything = asyncio.run(sensors.run(None))
    assert all(len(got) == 5 for got in everything.values())


@pytest.mark.req("VIS-952")
def test_temperatures_stay_among_the_nodes_with_a_sensor_and_only_alarms_leave(
    seen: dict[str, list[dict[str, object]]],
) -> None:
    assert seen["thermostat-north"] == [{"type": "Temperature", "celsius": 21.0}]
    assert kinds(seen["thermostat-south"]) == {"Temperature", "Alarm"}
    assert kinds(seen["control"]) == {"Presence", "Alarm"}
    assert seen["n1"] == seen["s1"] == [], "what sensors are not to receive does not reach them"


@pytest.mark.req("VIS-953")
def test_presence_of_several_buildings_is_told_apart_without_a_change_of_the_sensors(
    seen: dict[str, list[dict[str, object]]],
) -> None:
    presence = [one for one in seen["control"] if one["type"] == "Presence"]
    assert sorted(str(one["building"]) for one in presence) == ["north", "south"]
    assert {one["room"] for one in presence} == {7}
    program = (EXAMPLE / "sensors.py").read_text(encoding="utf-8")
    assert "building=" not in program
    assert not re.search(r"north|south", program.split("QUIET", 1)[1]), "no program says where it publishes"


@pytest.mark.req("VIS-954")
def test_degrees_fahrenheit_are_seen_as_degrees_celsius_outside(seen: dict[str, list[dict[str, object]]]) -> None:
    (alarm,) = [one for one in seen["control"] if one["type"] == "Alarm"]
    assert alarm == {"type": "Alarm", "celsius": 100.0, "building": "south"}
    inside = [one for one in seen["thermostat-south"] if one["type"] == "Alarm"]
    assert inside == [{"type": "Alarm", "fahrenheit": 212.0}]


@pytest.mark.parametrize("file", sorted(EXAMPLE.parent.rglob("*.scopes")), ids=lambda file: file.name)
def test_the_files_of_the_examples_are_right_and_formatted(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert check_script([Source(text, file.name)]).statements > 0
    assert print_script(parse(text, file.name)) == text
