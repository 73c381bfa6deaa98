"""The examples of aggregation: a data centre, and advertisers who learn numbers and no names."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from net.world import running

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / name / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.req("AGG-141", "AGG-143")
@running
async def test_a_monitor_asks_for_its_racks_then_for_servers_and_then_listens_to_one() -> None:
    found = await example("monitoring").main()
    assert (found["channel"], found["now"]) == ("pager", "tidings")
    assert found["racks"] == {"r1": 22, "r2": pytest.approx(97, abs=3), "r3": 28}
    assert (found["sick"], found["load"]) == ("r2-s3", 97)


@pytest.mark.req("AGG-092", "AGG-144")
@running
async def test_an_advertiser_learns_how_many_want_what_and_of_small_groups_only_that_they_are() -> None:
    known = await example("advertising").main()
    assert {kind: known[kind] for kind in ("cars", "books", "yachts", "planes")} == {
        "cars": 12,
        "books": 7,
        "yachts": "a few",
        "planes": 0,
    }
    assert "only count them" in str(known["more"])
