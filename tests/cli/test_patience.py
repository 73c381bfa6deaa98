"""The command line while its broker is away, or makes it wait."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port
from serving import serving
from typer.testing import CliRunner, Result

from tidings.cli import app
from tidings.net import Options


def tidings_(*words: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=input)


@pytest.mark.parametrize("words", [("n=1",), ("-",)])
def test_publishing_gives_up_after_a_time_and_says_what_it_waited_for(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.net._delays.PATIENCE", 0.1)
    monkeypatch.setattr("tidings.net._server.CENSUS_SECONDS", 0.05)
    with serving(Options(name="b", port=0, authority="nobody")) as address:
        result = tidings_("pub", *words, "-b", address, "--timeout", "1", input='{"n": 1}\n')
    assert result.exit_code == 1
    assert "no answer from broker 'b' for 1 seconds" in result.output
    assert ("The notification was sent" if words == ("n=1",) else "; 1 line had been sent") in result.output
    assert "may still be published; --timeout" in result.output
    assert "--timeout waits longer" in result.output
    if words == ("n=1",):
        assert "broker 'b' has never heard of 'nobody'" in result.output.replace("\n", " ")


def test_an_advertisement_that_does_not_settle_ends_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidings.broker import RoutingOptions

    routing = RoutingOptions(advertisements=True)
    with serving(Options(name="b", port=0, authority="nobody", routing=routing)) as address:
        result = tidings_("pub", "n=1", "-b", address, "--advertise", "EXISTS(n)", "--timeout", "0.2")
    assert result.exit_code == 1
    assert "the advertisement has not settled after 0.2 seconds" in result.output


def test_a_subscriber_sees_that_its_connection_is_lost_and_back(tmp_path: Path) -> None:
    port = free_port()
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "tidings", "sub", "EXISTS(n)", "-b", f"tidings://127.0.0.1:{port}", "--count", "1"]
    with serving(Options(name="b", port=port)):
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
        assert process.stderr is not None
        assert "subscribed at b" in process.stderr.readline()
    try:
        assert "lost broker 'b'" in process.stderr.readline()
        with serving(Options(name="b", port=port)) as address:
            assert "is connected again, to broker 'b', after" in process.stderr.readline()
            published = tidings_("pub", "n=1", "-b", address)
            assert published.exit_code == 0
            out, _ = process.communicate(timeout=30)
            assert "n=1" in out
    finally:
        process.kill()
        process.communicate()
