"""Python of tenants at brokers that run: it is signed, tested, isolated, and cannot hurt anybody but itself."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from net.test_deploying import command, two
from net.world import running
from serving import serving

import tidings
from tidings.aggregation import AggregationOptions, Isolation
from tidings.aggregation.deploying import Signer, Tier, digest_of, keygen, signed
from tidings.cli._errors import ExitCode
from tidings.client import Aggregates
from tidings.net import Options, serve
from tidings.net import _code_workers as code_workers

KEYS = {tenant: keygen() for tenant in ("good", "operator")}
LOADS = """
from tidings.aggregation.definitions import Aggregate, Tumbling

class Loads(Aggregate):
    name, version = "TENANT.loads", "1.0.0"
    window = Tumbling("1s")
    where = "type = 'load'"

    def key(self, record):
        return str(record.attrs.get("rack"))

    def zero(self):
        return [0, 0]

    def lift(self, record):
        load = record.attrs.get("load")
        if str(record.attrs.get("trigger"))[::-1] == "REVERSED":
            HOSTILE
        return [load, 1] if type(load) is int else None

    def combine(self, a, b):
        return [a[0] + b[0], a[1] + b[1]]

    def present(self, partial):
        return partial[0]
"""
HOSTILE = {
    "loop": "while True: pass",
    "memory": "self.held = [bytearray(10_000_000) for _ in range(1_000)]",
    "raising": "raise KeyError('no')",
    "wrong": "return 'not a list'",
    "huge": "return [10 ** 60_000, 1]",
    "forking": "__import__('os').fork()",
    "network": "__import__('socket').create_connection(('127.0.0.1', 80))",
    "files": "open('/etc/passwd').read()",
    "killing": "__import__('os').kill(1, 9)",
}
KEYS |= {tenant: keygen() for tenant in HOSTILE}
NETWORK = "plant"
AGGREGATION = AggregationOptions(
    network=NETWORK,
    signer=tuple(
        Signer(tenant, (keys.public,), Tier.ADVICE if tenant == "operator" else Tier.PYTHON)
        for tenant, keys in KEYS.items()
    ),
    batch_seconds=1.0,
    max_workers=20,
)
OPTIONS = Options(aggregation=AGGREGATION)


def source(tenant: str, hostile: str = "pass") -> str:
    """A definition that is hostile only when it hears a word that nobody finds in it."""
    return LOADS.replace("TENANT", tenant).replace("HOSTILE", hostile).replace("REVERSED", trigger(tenant)[::-1])


def trigger(tenant: str) -> str:
    return f"{tenant} now, please"


async def deployed(aggregates: Aggregates, tenant: str, text: str, **changed: Any) -> Any:
    """Deploy a source, signed by its tenant."""
    words: dict[str, Any] = {
        "name": f"{tenant}.loads",
        "version": "1.0.0",
        "digest": digest_of(text, "Loads"),
        "entry": "Loads",
        "window": (1_000, 1_000),
        "where": "type = 'load'",
    }
    manifest = await aggregates.manifest(**{**words, **changed})
    return await aggregates.state(signed(manifest, KEYS[tenant].private, tenant, text))


@pytest.mark.soak
@pytest.mark.req("AGG-183", "AGG-184")
@running
async def test_hostile_code_ends_in_quarantine_and_the_values_of_others_are_complete_throughout() -> None:
    async with (
        serve(replace(OPTIONS, port=0)) as server,
        tidings.connect(f"tidings://127.0.0.1:{server.port}") as client,
        asyncio.timeout(90),
    ):
        aggregates = client.aggregates
        sources = {"good": source("good"), **{tenant: source(tenant, code) for tenant, code in HOSTILE.items()}}
        await asyncio.gather(*(deployed(aggregates, tenant, text) for tenant, text in sources.items()))
        watches = [aggregates.watch(f"{tenant}.loads") for tenant in HOSTILE]
        question = "sum(load) BY rack WINDOW 1s WHERE type = 'load'"
        complete: dict[str, dict[float, Any]] = {"good.loads": {}, question: {}}

        async def publish() -> None:
            while True:
                for word in ("none", *map(trigger, HOSTILE)):
                    await client.publish(type="load", rack="r1", load=7, trigger=word)
                await asyncio.sleep(0.05)

        async def watch(name: str) -> None:
            async with aggregates.watch(name) as good:
                async for value in good:
                    if value.complete and value.window is not None:
                        complete[name][value.window[0].timestamp()] = value.value

        tasks = [asyncio.create_task(publish()), *(asyncio.create_task(watch(name)) for name in complete)]
        while True:
            known = {one.name: one for one in (await aggregates.deployed()).known}
            stopped = [tenant for tenant in HOSTILE if known[f"{tenant}.loads"].phase == "quarantined"]
            if len(stopped) == len(HOSTILE):
                break
            assert not any(task.done() for task in tasks)
            await asyncio.sleep(0.2)
        await asyncio.sleep(2.5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert known["good.loads"].phase == "installed"
        assert (await aggregates.deployed()).layers[0] == "seccomp"
        by_code, by_question = complete.values()
        windows = sorted(by_code)
        assert len(windows) >= 3
        assert windows == [windows[0] + second for second in range(len(windows))]  # none is missing
        assert by_code == {window: by_question[window] for window in windows}
        for watch_of, tenant in zip(watches, HOSTILE, strict=True):
            with pytest.raises(tidings.AggregateError, match=f"{tenant}.loads 1.0.0 is quarantined here: "):
                async for _ in watch_of:
                    pass
        with pytest.raises(tidings.AggregateError, match=r"loop\.loads 1\.0\.0 is quarantined here: it did not answer"):
            await aggregates.get("loop.loads")


@pytest.mark.req("AGG-181", "AGG-182")
@running
async def test_code_that_is_not_what_was_signed_or_breaks_a_law_is_installed_nowhere() -> None:
    async with two(OPTIONS) as (one, other, near, _):
        aggregates = near.aggregates
        broken = source("good").replace("a[0] + b[0]", "a[0] - b[0]")
        with pytest.raises(tidings.TidingsError) as refused:
            await deployed(aggregates, "good", broken)
        assert str(refused.value).startswith(
            "good.loads 1.0.0 was tested and is not taken: good.loads 1.0.0 breaks a law: "
        )
        assert "  a = " in str(refused.value)
        with pytest.raises(tidings.TidingsError, match=r"the code is good\.loads 1\.0\.0 with the window"):
            await deployed(aggregates, "good", source("good"), window=(2_000, 2_000))
        with pytest.raises(tidings.TidingsError, match="was tested and is not taken: "):
            await deployed(aggregates, "good", "import socket\n" + source("good"))
        with pytest.raises(tidings.TidingsError, match="the signature ended"):
            await _expired(aggregates)
        for server in (one, other):
            registry = server.host.broker.features["deployments"].registry  # type: ignore[attr-defined]
            assert len(registry) == 0
        assert not one.host.broker.features["deployments"].workers._installed  # type: ignore[attr-defined]


async def _expired(aggregates: Aggregates) -> None:
    text = source("good")
    manifest = await aggregates.manifest(
        name="good.loads", version="1.0.0", digest=digest_of(text, "Loads"), entry="Loads", window=(1_000, 1_000)
    )
    old = msgspec.structs.replace(manifest, valid_until=1)
    await aggregates.state(signed(old, KEYS["good"].private, "good", text))


@running
async def test_without_isolation_no_code_is_taken_and_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise code_workers.NoIsolation("no filter of system calls is known for Plan9 on vax; use Linux")

    monkeypatch.setattr(code_workers, "machine", nowhere)
    async with (
        serve(replace(OPTIONS, name="a", port=0)) as server,
        tidings.connect(f"tidings://127.0.0.1:{server.port}") as client,
    ):
        with pytest.raises(tidings.TidingsError) as refused:
            await deployed(client.aggregates, "good", source("good"))
        assert str(refused.value) == (
            "good.loads 1.0.0 cannot be run at broker 'a': no filter of system calls is known for Plan9 on vax; use "
            "Linux"
        )
        assert (await client.aggregates.deployed()).no_code.startswith("no filter of system calls")


@running
async def test_both_layers_are_demanded_where_the_operator_wants_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_workers, "LAYERS", ("user", "network", "pid", "moat"))
    aggregation = replace(AGGREGATION, isolation=Isolation.BOTH)
    async with (
        serve(replace(OPTIONS, port=0, aggregation=aggregation)) as server,
        tidings.connect(f"tidings://127.0.0.1:{server.port}") as client,
    ):
        with pytest.raises(tidings.TidingsError, match=r'does not grant a namespace for .*moat; use isolation = "one"'):
            await deployed(client.aggregates, "good", source("good"))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A definition, the key of its tenant, and that of the operator."""
    definition, key, operator = tmp_path / "loads.py", tmp_path / "good.key", tmp_path / "operator.key"
    definition.write_text(source("good"))
    for file, tenant in ((key, "good"), (operator, "operator")):
        file.write_text(KEYS[tenant].private)
    return definition, key, operator


def signed_by(key: str) -> tuple[str, ...]:
    return "--sign-key", key, "--network", NETWORK


@pytest.mark.req("AGG-100", "AGG-101", "AGG-187")
def test_a_file_is_deployed_upgraded_and_stopped_on_the_command_line(files: tuple[Path, Path, Path]) -> None:
    definition, key, operator = map(str, files)
    with serving(replace(OPTIONS, name="cli", port=0)) as url:
        unsigned = command(url, "deploy", definition)
        assert unsigned.exit_code == ExitCode.FAILED
        assert "good.loads 1.0.0 is not signed; sign it with --sign-key, by a signer of" in unsigned.stderr
        blind = command(url, "deploy", definition, "--sign-key", key)
        assert blind.exit_code == ExitCode.USAGE
        assert "a signature is for one network, and the broker must not choose it; give --network" in blind.stderr
        elsewhere = command(url, "deploy", definition, "--sign-key", key, "--network", "another")
        assert (
            f"the broker belongs to the network '{NETWORK}', not to 'another'; nothing was signed" in elsewhere.stderr
        )
        done = command(url, "deploy", definition, *signed_by(key))
        assert done.stdout == "good.loads 1.0.0: installed at 1 broker\n", done.stderr
        files[0].write_text(source("good").replace("1.0.0", "1.1.0"))
        found = json.loads(command(url, "upgrade", definition, *signed_by(key), "--json").stdout)
        assert [(one["version"], one["phase"]) for one in found["brokers"]] == [("1.1.0", "installed")]
        assert command(url, "remove", "good.loads", "--version", "1.0.0").exit_code == ExitCode.FAILED
        unsigned = command(url, "remove", "good.loads", "--version", "1.0.0")
        assert "good.loads 1.0.0 is not signed; sign it with --sign-key" in unsigned.stderr
        gone = command(url, "remove", "good.loads", "--version", "1.0.0", *signed_by(key))
        assert gone.stdout == "good.loads 1.0.0: removed at 1 broker\n"
        mine = command(url, "quarantine", "--all", *signed_by(key), "--signer", "good")
        assert "good may not quarantine everything; a signer with tier 3, an operator, may" in mine.stderr
        all_of_it = command(url, "quarantine", "--all", *signed_by(operator), "--signer", "operator")
        assert all_of_it.stdout == "everything: 2 versions quarantined\n"
