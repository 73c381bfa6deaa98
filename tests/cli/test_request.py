"""`tidings request` against a broker in the same process."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from serving import serving
from typer.testing import CliRunner, Result

from tidings import sync
from tidings.cli import app
from tidings.model import RequestEnded
from tidings.net import Options


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A broker with two responders, who tell prices, and a mute one, who tells none."""
    with serving(Options(name="cli", port=0)) as url, sync.connect(url) as one, sync.connect(url) as other:
        for client, price in ((one, 182.4), (other, 182.5)):
            requests = client.subscribe("type IN ('price?', 'mute?')")

            def answer(client: sync.Client = client, price: float = price, requests: Any = requests) -> None:
                for request in requests:
                    if request["type"] == "price?":
                        with contextlib.suppress(RequestEnded):  # the other one was faster
                            client.reply(symbol=request["symbol"], price=price, note="two\nlines")

            threading.Thread(target=answer, daemon=True).start()
        yield url


def ask(address: str, *words: str) -> Result:
    return CliRunner().invoke(app, ["request", "--broker", address, *words])


def test_the_first_reply_is_printed(address: str) -> None:
    result = ask(address, "type=price?", "symbol=SAP")
    assert result.exit_code == 0, result.output
    assert "symbol=SAP" in result.stdout
    assert result.stdout.count("\n") == 1


def test_several_replies_are_printed_as_json(address: str) -> None:
    for number in ("2", "0"):
        result = ask(address, "type=price?", "symbol=SAP", "--replies", number, "--json", "--timeout", "3")
        assert result.exit_code == 0, result.output
        replies = [json.loads(line) for line in result.stdout.splitlines()]
        assert sorted(reply["price"] for reply in replies) == [182.4, 182.5]
        assert {reply["note"] for reply in replies} == {"two\nlines"}


def test_nobody_who_could_reply_is_told_at_once(address: str) -> None:
    result = ask(address, "type=weather?", "--timeout", "500")
    assert result.exit_code == 7
    assert result.stdout == ""
    assert result.stderr == "tidings: nobody subscribes to what this request says; start a responder first\n"


def test_too_few_replies_are_told_when_the_time_is_up(address: str) -> None:
    result = ask(address, "type=mute?", "--timeout", "0.2")
    assert result.exit_code == 8
    assert result.stderr == (
        "tidings: no reply has come within 0.2 s; give it a longer timeout, or see whether a responder is there\n"
    )
    result = ask(address, "type=mute?", "--timeout", "0.2", "--replies", "0")
    assert (result.exit_code, result.stdout) == (8, "")
    result = ask(address, "type=price?", "symbol=SAP", "--timeout", "2", "--replies", "3")
    assert result.exit_code == 8
    assert result.stdout.count("\n") == 2
    assert result.stderr == (
        "tidings: 2 of 3 replies have come within 2 s; wait longer with --timeout, or see whether a responder is "
        "there\n"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["price"], "'price' is not of the form name=value, like price=182.4"),
        (["n=1", "--replies", "-1"], "--replies"),
        (["n=1", "--timeout", "soon"], "--timeout"),
    ],
)
def test_a_wrong_command_line_is_said_to_be_wrong(address: str, words: list[str], expected: str) -> None:
    result = ask(address, *words)
    assert result.exit_code == 2
    assert expected in result.stderr
