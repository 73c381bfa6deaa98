"""A phone that walks and dies on the way misses nothing."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path

import pytest

from tidings.sim import World

EXAMPLE = Path(__file__).parents[2] / "examples" / "roaming"


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_and_nothing_comes_twice(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    roaming = importlib.import_module("roaming")

    async def main() -> tuple[int, int]:
        async with World(seed=seed, brokers=roaming.ROOMS, links=roaming.DOORS) as world:
            outcome: tuple[int, int] = await roaming.walk(world, tmp_path / "phone.tidings")
            return outcome

    assert asyncio.run(main()) == (0, 0)
    assert len(capsys.readouterr().out.splitlines()) == roaming.STEPS
    sys.modules.pop("roaming")
