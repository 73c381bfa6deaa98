"""What type checkers see of the client."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
ROOT = Path(__file__).parents[2]

PROGRAM = """
from dataclasses import dataclass
from typing import assert_type

import tidings
import tidings.sync


@dataclass
class Quote:
    symbol: str


async def handle(quote: Quote) -> None: ...


async def main() -> None:
    client = await tidings.connect(wait=30)
    assert_type(client, tidings.Client)
    quotes = client.subscribe("TRUE", as_=Quote, callback=handle, past="5m")
    assert_type(quotes, tidings.Subscription[Quote])
    async for quote in quotes:
        assert_type(quote, Quote)
    plain: tidings.Subscription = await client.subscribe("TRUE", past=10)
    assert_type(await anext(plain), tidings.Notification)
    await client.publish(Quote("SAP"), ttl=5)
    await client.publish(symbol="SAP", price=1.5)


def blocking() -> None:
    with tidings.sync.connect() as client:
        assert_type(client.subscribe("TRUE", as_=Quote), tidings.sync.Subscription[Quote])
        assert_type(next(client.subscribe("TRUE")), tidings.Notification)
        client.subscribe("TRUE", as_=Quote, callback=lambda quote: print(quote.nothing))
    raise tidings.StoreFull
"""


def test_a_strict_checker_sees_the_type_of_what_comes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "MYPYPATH": "src"}
    # With the settings of `make check`, so that what it has cached holds.
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(program)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert 'error: "Quote" has no attribute "nothing"' in done.stdout
    assert done.stdout.count("error:") == 1, done.stdout
