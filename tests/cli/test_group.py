"""`tidings group` against a real broker."""

from __future__ import annotations

import json
import time

import pytest
from serving import serving
from typer.testing import CliRunner, Result

from tidings import Acks, sync
from tidings.cli import _group, app
from tidings.cli._errors import ExitCode
from tidings.net import Options


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["group", *words], input=stdin)


def shown(address: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(run("show", "billing", "--json", "-b", address).stdout)
    return found


def test_a_group_is_listed_shown_and_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Options(name="a", port=0)) as address, sync.connect(address, name="till") as till:
        assert "no groups" in run("list", "-b", address).stdout
        till.subscribe("n > 0", group="billing", ack=Acks(max_in_flight=1))
        till.publish_many([{"n": n} for n in (1, 2, 3)])
        until = time.monotonic() + 20
        while shown(address)["waiting"] != 2:
            assert time.monotonic() < until
        (listed,) = json.loads(run("list", "--json", "-b", address).stdout)
        assert (listed["name"], listed["members"], listed["held"]) == ("billing", 1, 1)
        assert "listed" not in listed
        assert "billing" in run("list", "-b", address).stdout
        page = run("show", "billing", "-b", address).stdout
        assert "1 of 1" in page
        assert "within 30 s, given 5 times" in page

        refused = run("reset", "billing", "-b", address)
        assert (refused.exit_code, "give --yes" in refused.stderr) == (ExitCode.USAGE, True)
        monkeypatch.setattr(_group, "at_a_terminal", lambda: True)
        assert run("reset", "billing", "-b", address, stdin="n\n").exit_code == ExitCode.FAILED
        assert shown(address)["waiting"] == 2
        done = run("reset", "billing", "-b", address, stdin="y\n")
        assert "Drop 2 jobs that wait for billing?" in done.stderr
        assert "dropped 2 jobs of billing; members may finish the 1 that they hold" in done.stdout
        assert shown(address)["waiting"] == 0
        unknown = run("show", "lions", "-b", address)
        assert (unknown.exit_code, "there is no group 'lions'" in unknown.stderr) == (ExitCode.FAILED, True)
