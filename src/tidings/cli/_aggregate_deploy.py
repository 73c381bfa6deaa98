"""`tidings aggregate deploy`, `upgrade`, `rollback`, `remove`, `quarantine`, `deployed`: aggregates of one's own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

import tidings
from tidings import aggregation
from tidings.aggregation.deploying import EVERY, Phase, Signed, Tier
from tidings.aggregation.workers import Code
from tidings.client import Deployment, Signing
from tidings.model import BoundError, duration

from ._connection import AsJson, entering
from ._errors import ExitCode, UsageError, complain
from ._help import Commands
from ._past import Archive, Master
from ._printable import printable, printable_json
from ._terminal import terminal

Definition = Annotated[
    str,
    typer.Argument(
        metavar="FILE|QUESTION",
        help="A Python file with a definition, or a question like \"p95(load) WINDOW 60s WHERE type = 'load'\".",
    ),
]
Named = Annotated[str, typer.Argument(metavar="NAME", help="What was deployed, like acme.load.")]
QuestionName = Annotated[
    str, typer.Option("--as", metavar="NAME", help="The name of a question, like acme.load. A class has its own.")
]
QuestionVersion = Annotated[
    str,
    typer.Option("--version", metavar="VERSION", help="The version of a question, like 1.0.0. A class has its own."),
]
WhichVersion = Annotated[str, typer.Option("--version", metavar="VERSION", help="Which version, if there are two.")]
SignKey = Annotated[
    Path | None,
    typer.Option(
        "--sign-key", metavar="FILE", help="The private key to sign with; made by `tidings aggregate keygen`."
    ),
]
SignedBy = Annotated[
    str,
    typer.Option(
        "--signer", metavar="IDENTITY", help="Whose key it is, as brokers call it. By default the tenant of the name."
    ),
]
ForNetwork = Annotated[
    str,
    typer.Option(
        "--network",
        metavar="NAME",
        envvar="TIDINGS_NETWORK",
        help="The network to sign for, as `network` in \\[aggregation] calls it. "
        "Needed with --sign-key: the broker must not choose it.",
    ),
]
Entry = Annotated[
    str, typer.Option("--class", metavar="NAME", help="The class to use, if the file has several definitions.")
]


def _valid(value: str | timedelta) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        return timedelta(microseconds=duration(value))
    except BoundError as error:
        raise UsageError(f"--valid-for {error}") from None


ValidFor = Annotated[
    timedelta,
    typer.Option(metavar="DURATION", parser=_valid, help="How long brokers take the signature, like 30d."),
]


def add_to(commands: Commands) -> None:
    """Add these commands."""
    for command in (deploy, upgrade, rollback, remove, quarantine, deployed):
        commands.command()(entering(command))


def deploy(
    client: tidings.Client,
    definition: Definition,
    name: QuestionName = "",
    version: QuestionVersion = "",
    entry: Entry = "",
    sign_key: SignKey = None,
    signer: SignedBy = "",
    network: ForNetwork = "",
    valid_for: ValidFor = timedelta(days=30),
    as_json: AsJson = False,
) -> None:
    """Deploy an aggregate at all brokers. Python is tested first, here and by the broker, and must be signed."""
    signing = _signing(sign_key, signer, network)
    if aggregation.is_question(definition):
        _run(
            client,
            lambda: client.aggregates.deploy(
                definition, name=name, version=version, valid_for=valid_for, **signing._asdict()
            ),
            as_json=as_json,
        )
        return
    described = _described(Path(definition), entry)
    _run(client, lambda: _install(client, described, signing, valid_for), as_json=as_json)


def upgrade(
    client: tidings.Client,
    definition: Definition,
    name: QuestionName = "",
    version: QuestionVersion = "",
    entry: Entry = "",
    replaces: Annotated[
        str, typer.Option(metavar="VERSION", help="The version to take over from. By default the newest.")
    ] = "",
    sign_key: SignKey = None,
    signer: SignedBy = "",
    network: ForNetwork = "",
    valid_for: ValidFor = timedelta(days=30),
    backtest: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="First show what it would have changed in this time, say 7d; --archive names where that is.",
        ),
    ] = None,
    archive: Archive = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Deploy a new version beside the old one. Watches go over to it when it has a complete value."""
    signing = _signing(sign_key, signer, network)
    if (backtest is None) != (archive is None):
        raise UsageError("--backtest says how far to look back, and --archive where; give both")
    if aggregation.is_question(definition):
        new: Any = definition
        chosen = name

        async def install() -> Deployment:
            return await client.aggregates.upgrade(
                definition, name=name, version=version, replaces=replaces, valid_for=valid_for, **signing._asdict()
            )
    else:
        described = _described(Path(definition), entry)
        new = Code(described["source"], described["class"])
        chosen = described["name"]

        async def install() -> Deployment:
            before = replaces or await client.aggregates.newest_version(chosen)
            return await _install(client, described, signing, valid_for, replaces=before)

    async def upgraded() -> Deployment:
        if backtest is not None and archive is not None:
            before = await client.aggregates.fetch(chosen, replaces)
            await asyncio.to_thread(_compare, before, new, backtest, archive, master)
        return await install()

    _run(client, upgraded, as_json=as_json)


def _compare(before: Signed, new: Any, backtest: str, archive: Path, master: str | None) -> None:
    """Show on standard error what an upgrade would have changed."""
    from ._aggregate_history import compared, times_of  # noqa: PLC0415 - not needed to deploy

    manifest = before.manifest
    old = before.source if manifest.tier <= Tier.EXPRESSION else Code(before.source, manifest.entry)
    with contextlib.redirect_stdout(sys.stderr):
        different, windows = compared(old, new, archive, times_of(backtest, None), master=master, differing=True)
    if not windows:
        raise UsageError(f"--backtest {backtest}: {archive} has nothing of that time, and nothing was deployed")
    complain(f"{different} of {windows} windows differ from {manifest.name} {manifest.version}")


def rollback(
    client: tidings.Client,
    name: Named,
    sign_key: SignKey = None,
    signer: SignedBy = "",
    network: ForNetwork = "",
    as_json: AsJson = False,
) -> None:
    """Remove the newest version; the older one serves all watches again."""
    signing = _signing(sign_key, signer, network)
    _run(client, lambda: client.aggregates.rollback(name, **signing._asdict()), as_json=as_json, ends=True)


def remove(
    client: tidings.Client,
    name: Named,
    version: WhichVersion = "",
    force: Annotated[bool, typer.Option("--force", help="Also while clients watch it; they are told.")] = False,
    sign_key: SignKey = None,
    signer: SignedBy = "",
    network: ForNetwork = "",
    as_json: AsJson = False,
) -> None:
    """Remove a version from all brokers. Its version number is used up."""
    signing = _signing(sign_key, signer, network)
    _run(
        client,
        lambda: client.aggregates.remove(name, version, force=force, **signing._asdict()),
        as_json=as_json,
        ends=True,
    )


def quarantine(
    client: tidings.Client,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="What was deployed, like acme.load.")] = "",
    version: WhichVersion = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Everything that is deployed now; an operator signs it. Routing goes on.")
    ] = False,
    sign_key: SignKey = None,
    signer: SignedBy = "",
    network: ForNetwork = "",
    as_json: AsJson = False,
) -> None:
    """Stop a version at all brokers, at once, whoever watches it."""
    if bool(name) == everything:
        raise UsageError("name what to stop, or stop everything with --all")
    signing = _signing(sign_key, signer, network)
    chosen = EVERY if everything else name
    _run(
        client,
        lambda: client.aggregates.quarantine(chosen, version, **signing._asdict()),
        as_json=as_json,
        ends=True,
    )


def deployed(client: tidings.Client, as_json: AsJson = False) -> None:
    """Show what is deployed, at every broker, and what isolates code at this one."""

    async def ask() -> Any:
        async with client:
            return await client.aggregates.deployed()

    found = asyncio.run(ask())
    if as_json:
        print(printable_json(msgspec.json.encode(msgspec.to_builtins(found)).decode()))
        return
    console = terminal()
    if found.known:
        once = any(one.value for one in found.known)
        names = ("name", "version", "broker", "phase", "watches", "strikes", "reason")
        table = Table(*names, *(("computed",) if once else ()), box=None)
        for one in found.known:
            row = (one.name, one.version, one.broker, one.phase, str(one.watches), str(one.strikes), one.reason)
            table.add_row(*map(printable, row), *((printable(one.value),) if once else ()))
        console.print(table)
    else:
        console.print("nothing is deployed")
    isolation = ", ".join(found.layers) or "nothing yet"
    console.print(
        f"code runs isolated by {isolation}" if not found.no_code else f"no code: {found.no_code}", markup=False
    )
    if not found.complete:
        complain("not every broker has answered")


def _signing(sign_key: Path | None, signer: str, network: str) -> Signing:
    if sign_key is not None and not network:
        raise UsageError(
            "--sign-key without --network: a signature is for one network, and the broker must not choose it; give "
            "--network, or set TIDINGS_NETWORK, to what [aggregation] network says at your brokers"
        )
    return Signing(_private(sign_key), signer, network)


def _private(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a key"
        raise UsageError(
            f"--sign-key {file} cannot be read: {reason}; make one with `tidings aggregate keygen`"
        ) from None


def _described(file: Path, entry: str) -> dict[str, Any]:
    """What there is to say about a file, after it was tested."""
    from ._aggregate_files import checked  # noqa: PLC0415 - loads workers

    if file.suffix != ".py" and not file.exists():
        raise UsageError(f'{file} is neither a file nor a question; write one like "count() WINDOW 60s"')
    return checked(file, entry)


async def _install(
    client: tidings.Client,
    described: dict[str, Any],
    signing: Signing,
    valid_for: timedelta,
    *,
    replaces: str = "",
) -> Deployment:
    source: str = described["source"]
    manifest = await client.aggregates.manifest(
        name=described["name"],
        version=described["version"],
        digest=described["digest"],
        entry=described["class"],
        window=described["window"],
        where=described["where"],
        grouped=described["grouped"],
        replaces=replaces,
        valid_for=valid_for,
        network=signing.network,
    )
    return await client.aggregates.state(signing.vouched(manifest, source))


def _run(
    client: tidings.Client, act: Callable[[], Awaitable[Deployment]], *, as_json: bool, ends: bool = False
) -> None:
    async def run() -> Deployment:
        async with client:
            return await act()

    done = asyncio.run(run())
    if as_json:
        brokers = [msgspec.to_builtins(one) for one in done.brokers]
        words = {"name": done.name, "version": done.version, "digest": done.digest, "network": done.network}
        print(printable_json(json.dumps({**words, "complete": done.complete, "brokers": brokers})))
    else:
        _say(done)
    there = {one.phase for one in done.brokers}
    if not done.complete or (not ends and there != {Phase.INSTALLED}):
        complain("not every broker has it; those that were not reached get it when they are back")
        raise typer.Exit(ExitCode.FAILED)


def _say(done: Deployment) -> None:
    if done.name == EVERY:
        versions = {(one.name, one.version) for one in done.brokers if one.phase == Phase.QUARANTINED}
        print(f"everything: {len(versions)} version{'s' * (len(versions) != 1)} quarantined")
        return
    counts: dict[str, int] = {}
    for one in done.brokers:
        counts[one.phase] = counts.get(one.phase, 0) + 1
    places = ", ".join(f"{phase} at {count} broker{'s' * (count != 1)}" for phase, count in sorted(counts.items()))
    print(printable(f"{done.name} {done.version}: {places}"))
    for one in done.brokers:
        if one.reason and one.phase == Phase.RECEIVED:
            print(printable(f"  {one.broker}: {one.reason}"))
