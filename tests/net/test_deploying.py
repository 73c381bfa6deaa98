"""Aggregates are deployed at brokers that run: by clients and on the command line, across links and restarts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from net.world import running
from serving import serving
from typer.testing import CliRunner, Result

import tidings
from tidings import sync
from tidings.aggregation import AggregationOptions
from tidings.cli import app
from tidings.cli._errors import ExitCode
from tidings.net import Access, AccessEntry, Options, Server, serve
from tidings.store import JournalKind, Store

QUESTION = "count(), max(load) BY rack WINDOW 200ms WHERE type = 'load'"
QUICK = AggregationOptions(deployments_per_second=1_000)


@contextlib.asynccontextmanager
async def two(options: Options) -> AsyncIterator[tuple[Server, Server, tidings.Client, tidings.Client]]:
    """Two brokers with a link, and a client at each."""
    async with serve(replace(options, name="a", port=0)) as one:
        address = f"tidings://127.0.0.1:{one.port}"
        async with (
            serve(replace(options, name="b", port=0, neighbours=(address,))) as other,
            tidings.connect(address, name="near") as near,
            tidings.connect(f"tidings://127.0.0.1:{other.port}") as far,
            asyncio.timeout(30),
        ):
            while not one.host.broker.adjacency.open_links:
                await asyncio.sleep(0.01)
            yield one, other, near, far


@pytest.mark.req("AGG-100", "AGG-101")
@running
async def test_a_question_is_deployed_watched_by_name_upgraded_and_removed_while_brokers_run() -> None:
    async with two(Options(aggregation=QUICK)) as (_, _, near, far):
        heard = await far.subscribe("type = 'load'")
        done = await near.aggregates.deploy(QUESTION, name="acme.load", version="1.0.0")
        assert (sorted(done.installed), done.complete) == (["a", "b"], True)
        assert "acme.load" in [one.name for one in await far.aggregates.list()]
        async with far.aggregates.watch("acme.load") as watch:
            async for value in watch:
                if value.complete and value.value:
                    break
                await near.publish(type="load", rack="r1", load=55)
            assert (value.version, set(value.value)) == ("1.0.0", {("r1",)})
            await near.aggregates.upgrade(
                "max(load) BY rack WINDOW 200ms WHERE type = 'load'", name="acme.load", version="1.1.0"
            )
            while value.version != "1.1.0" or not value.value:
                await near.publish(type="load", rack="r1", load=56)
                value = await anext(watch)
            assert value.complete
            assert value.value[("r1",)] in (55, 56)
            with pytest.raises(
                tidings.AggregateError, match=r"acme\.load has the versions 1\.1\.0, 1\.0\.0; say which"
            ):
                await near.aggregates.remove("acme.load")
            await near.aggregates.remove("acme.load", "1.0.0")
            await near.aggregates.remove("acme.load", force=True)
            with pytest.raises(tidings.AggregateError, match=r"acme\.load 1\.1\.0 is removed here: by near"):
                async for _ in watch:
                    pass
        assert (await anext(heard))["load"] == 55  # what was published meanwhile was delivered as ever


def test_what_is_deployed_is_there_after_a_restart_and_every_act_is_in_the_journal(tmp_path: Path) -> None:
    options = Options(name="kept", port=0, data=tmp_path / "data", aggregation=QUICK)
    with serving(options) as url, sync.connect(url, name="ops") as client:
        client.aggregates.deploy(QUESTION, name="acme.load", version="1.0.0")
        with pytest.raises(tidings.TidingsError, match="choose a new version"):
            client.aggregates.deploy("count() WINDOW 1s", name="acme.load", version="1.0.0")
    with serving(options) as url, sync.connect(url, name="ops") as client:
        (known,) = client.aggregates.deployed().known
        assert (known.name, known.version, known.phase) == ("acme.load", "1.0.0", "installed")
        client.aggregates.remove("acme.load")
    with serving(options) as url, sync.connect(url, name="ops") as client:
        assert [one.phase for one in client.aggregates.deployed().known] == ["removed"]
    store = Store.open(tmp_path / "data", post=lambda call: call(), owner="kept")
    try:
        records = [record for record in store.journal() if record.kind is JournalKind.DEPLOY]
    finally:
        store.close()
    assert [(one.who, one.what["act"], one.what["name"], one.what["outcome"]) for one in records] == [
        ("ops", "install", "acme.load", "installed"),
        ("ops", "install", "acme.load", "refused"),
        ("ops", "remove", "acme.load", "removed"),
    ]
    assert "choose a new version" in str(records[1].what["reason"])


def command(address: str, *words: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, ["aggregate", *words, "-b", address], env=env)


@pytest.mark.req("AGG-187")
def test_the_command_line_deploys_and_ends_questions_for_those_who_may() -> None:
    access = Access(
        tokens={
            "t-acme": AccessEntry("acme", deploy=True),
            "t-user": AccessEntry("user"),
            "t-root": AccessEntry("root", administer=True),
        }
    )
    acme, user, root = ({"TIDINGS_TOKEN": token} for token in access.tokens)
    with serving(Options(name="cli", port=0, access=access, aggregation=QUICK)) as url:
        words = ("deploy", QUESTION, "--as", "acme.load", "--version", "1.0.0")
        refused = command(url, *words, env=user)
        assert refused.exit_code == ExitCode.FAILED
        assert "'user' may not deploy; ask the administrator for `deploy = true` for this identity" in refused.stderr
        done = command(url, *words, env=acme)
        assert (done.exit_code, done.stdout) == (0, "acme.load 1.0.0: installed at 1 broker\n")
        other = command(url, "deploy", QUESTION, "--as", "other.load", "--version", "1.0.0", env=acme)
        assert "the names of other are not acme's; use acme.load" in other.stderr
        again = ("upgrade", "count() WINDOW 1s", "--as", "acme.load", "--version", "2.0.0", "--json")
        found = json.loads(command(url, *again, env=acme).stdout)
        assert [one["phase"] for one in found["brokers"]] == ["installed"]
        back = command(url, "rollback", "acme.load", env=acme)
        assert back.stdout == "acme.load 2.0.0: removed at 1 broker\n"
        none = command(url, "rollback", "acme.load", env=acme)
        assert "acme.load: there is no older version to go back to; deploy one" in none.stderr
        stopped = command(url, "quarantine", "acme.load", "--version", "1.0.0", env=root)
        assert stopped.stdout == "acme.load 1.0.0: quarantined at 1 broker\n"
        shown = command(url, "deployed", env=acme).stdout
        assert "quarantined" in shown
        assert "by root" in shown
        assert command(url, "quarantine", env=root).exit_code == ExitCode.USAGE
        everything = command(url, "quarantine", "--all", env=acme)
        assert "'acme' may not quarantine everything; whoever may administer may" in everything.stderr
        assert command(url, "quarantine", "--all", env=root).exit_code == 0
        wrong = command(url, "deploy", "no-such-file", env=acme)
        assert "no-such-file is neither a file nor a question" in wrong.stderr
        assert "a question has no name of its own" in command(url, "deploy", QUESTION, env=acme).stderr
