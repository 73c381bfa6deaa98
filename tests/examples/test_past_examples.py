"""The examples of history run, and show what their pages say."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.req("HIS-022")
def test_the_chart_starts_with_the_last_twenty_rates_of_two_banks(capsys: pytest.CaptureFixture[str]) -> None:
    rates = loaded(EXAMPLES / "exchange_rates" / "rates.py")
    shown = asyncio.run(rates.main())
    assert [one.from_past for one in shown] == [True] * 20 + [False]
    by_broker = {
        name: [one["rate"] for one in shown[:20] if one.identity.origin == name] for name in ("frankfurt", "london")
    }
    expected = [1.05 + 0.002 * step + 0.003 * (step % 3) for step in range(20)]
    assert by_broker == {"frankfurt": expected[::2], "london": expected[1::2]}
    assert "20 of 20 from the past, of 3 brokers" in capsys.readouterr().out


@pytest.mark.req("HIS-022")
def test_a_car_knows_the_light_before_it_changes_again(capsys: pytest.CaptureFixture[str]) -> None:
    light = loaded(EXAMPLES / "traffic_light" / "light.py")
    assert asyncio.run(light.main()) == ["stop", "go"]
    page = (EXAMPLES / "traffic_light" / "README.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out in page


@pytest.mark.req("HIS-138")
def test_a_car_that_is_expected_knows_the_light_when_it_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    car = loaded(EXAMPLES / "traffic_light" / "car.py")
    asyncio.run(car.main())
    page = (EXAMPLES / "traffic_light" / "README.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out in page
