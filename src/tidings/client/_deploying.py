"""Deploying: what a client says about aggregates that the whole network shall have, and what becomes of it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from tidings import aggregation
from tidings.aggregation.definitions import MAX_PARTIAL, Aggregate, RunOnce
from tidings.aggregation.deploying import (
    EVERY,
    QUESTION,
    Act,
    Manifest,
    Phase,
    Signed,
    Tier,
    digest_of,
    signed,
)
from tidings.aggregation.deploying.messages import (
    AnyMessage,
    Declined,
    Deploy,
    Fetch,
    Fetched,
    Known,
    Survey,
    Surveyed,
    decode,
    encode,
)
from tidings.model import AggregateError, ArgumentRefused, DeploymentRefused, TidingsError
from tidings.wire import Refused

from ._arguments import shown, timeout_of
from ._pending import Pending
from ._receipt import error_of

log = logging.getLogger("tidings.client")

DEPLOY_TIMEOUT = 30.0
"""Seconds to wait until all brokers have answered, unless the caller says otherwise."""
VALID_FOR = timedelta(days=30)
"""How long brokers take a statement, unless the caller says otherwise."""


_Answer = TypeVar("_Answer", Surveyed, Fetched)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What became of a statement."""

    name: str
    version: str
    digest: str
    network: str
    brokers: tuple[Known, ...]
    """What each broker knows of it."""
    complete: bool
    """Whether every broker has answered."""

    @property
    def installed(self) -> tuple[str, ...]:
        """The brokers that run it."""
        return tuple(one.broker for one in self.brokers if one.phase == Phase.INSTALLED)


class Signing(NamedTuple):
    """With what a statement is signed, if it is."""

    key: str
    """The private key, as text; "": it is not signed."""
    signer: str
    """Whose key it is; "": that of the tenant of the name."""
    network: str
    """For which network; what is not signed is for the one of the broker."""

    def check(self) -> None:
        """Raise `ArgumentRefused` if there is a key, and no network to sign for."""
        if self.key and not self.network:
            raise ArgumentRefused(
                "a signature is for one network, and the broker must not choose it; give network, what [aggregation] "
                "network says at your brokers"
            )

    def vouched(self, manifest: Manifest, source: str = "") -> Signed:
        """The statement, signed if there is a key."""
        self.check()
        manifest.check()
        who = self.signer or manifest.tenant
        if self.key:
            return signed(manifest, self.key, who, source)
        return Signed(manifest, who, b"", source)


class Deploying:
    """What a client may say about deployments."""

    def __init__(self, send: Callable[[bytes], None], check: Callable[[], None]) -> None:
        self._tell = send
        self._may_send = check
        self._answers: Pending[Surveyed] = Pending()
        self._fetched: Pending[Fetched] = Pending()
        self._said = 0

    async def deploy(
        self,
        definition: str | type[Aggregate[Any] | RunOnce],
        *,
        name: str = "",
        version: str = "",
        key: str = "",
        signer: str = "",
        network: str = "",
        valid_for: timedelta = VALID_FOR,
        timeout: float | None = DEPLOY_TIMEOUT,
    ) -> Deployment:
        """Deploy a definition under a name, and return when all brokers have said what became of it.

        A question as text needs a `name` and a `version`, and no key. A class has its own; its module is the source,
        which runs in an isolated process of every broker, and must be signed: `key` is the private key as text, and
        `signer` its identity at the brokers; by default, the tenant of the name. A signature is for one `network`, as
        `[aggregation] network` calls it: name it, so that no broker obtains one for another network.
        """
        return await self._install(
            definition,
            name=name,
            version=version,
            signing=Signing(key, signer, network),
            valid_for=valid_for,
            timeout=timeout,
        )

    async def upgrade(
        self,
        definition: str | type[Aggregate[Any] | RunOnce],
        *,
        name: str = "",
        version: str = "",
        replaces: str = "",
        key: str = "",
        signer: str = "",
        network: str = "",
        valid_for: timedelta = VALID_FOR,
        timeout: float | None = DEPLOY_TIMEOUT,
    ) -> Deployment:
        """Deploy a version beside the one that it `replaces`, by default the newest. Watches go over to it as soon as
        it has a complete value; `rollback` takes it back, and `remove` of the old one makes it final.
        """
        if not replaces:
            chosen = name or getattr(definition, "name", "")
            replaces = (await self._newest(str(chosen), timeout)).version
        return await self._install(
            definition,
            name=name,
            version=version,
            signing=Signing(key, signer, network),
            valid_for=valid_for,
            timeout=timeout,
            replaces=replaces,
        )

    async def rollback(
        self,
        name: str,
        *,
        key: str = "",
        signer: str = "",
        network: str = "",
        timeout: float | None = DEPLOY_TIMEOUT,
    ) -> Deployment:
        """Remove the newest version of a name, if an older one runs: that one serves all watches again."""
        running = await self._running(name, timeout)
        if len({one.version for one in running}) < 2:
            raise DeploymentRefused(f"{name}: there is no older version to go back to; deploy one")
        return await self._end(Act.REMOVE, running[0], Signing(key, signer, network), timeout=timeout, force=True)

    async def remove(
        self,
        name: str,
        version: str = "",
        *,
        key: str = "",
        signer: str = "",
        network: str = "",
        force: bool = False,
        timeout: float | None = DEPLOY_TIMEOUT,
    ) -> Deployment:
        """Remove a version, by default the only one. It is refused while clients watch it, unless another version can
        serve them, or with `force`: their watches then end with `AggregateError`."""
        found = await self._chosen(name, version, timeout)
        return await self._end(Act.REMOVE, found, Signing(key, signer, network), timeout=timeout, force=force)

    async def quarantine(
        self,
        name: str,
        version: str = "",
        *,
        key: str = "",
        signer: str = "",
        network: str = "",
        timeout: float | None = DEPLOY_TIMEOUT,
    ) -> Deployment:
        """Stop a version everywhere, at once. `"*"` stops everything that is deployed now; routing goes on."""
        signing = Signing(key, signer, network)
        if name == EVERY:
            manifest = Manifest(
                act=Act.QUARANTINE,
                network=await self._network(signing, timeout),
                name=EVERY,
                version="",
                digest="",
                entry="",
                valid_until=_until(VALID_FOR),
                tier=Tier.ADVICE if key else Tier.EXPRESSION,
                issued_at=_now(),
            )
            return await self.state(signing.vouched(manifest), timeout=timeout)
        found = await self._chosen(name, version, timeout)
        return await self._end(Act.QUARANTINE, found, signing, timeout=timeout, force=True)

    async def deployed(self, *, timeout: float | None = DEPLOY_TIMEOUT) -> Surveyed:
        """Return what is deployed, at every broker."""
        return await self._ask(Survey, timeout)

    async def fetch(self, name: str, version: str = "", *, timeout: float | None = DEPLOY_TIMEOUT) -> Signed:
        """Return what installs a version, by default the newest: its manifest, and its source as text.

        Only the tenant of the name and administrators may read it.
        """
        return (await self._answer(self._fetched, lambda id: Fetch(id, name, version), timeout)).statement

    async def newest_version(self, name: str, *, timeout: float | None = DEPLOY_TIMEOUT) -> str:
        """Return the version that answers to a name, or raise `AggregateError`."""
        return (await self._running(name, timeout))[0].version

    async def manifest(
        self,
        *,
        name: str,
        version: str,
        digest: str,
        entry: str,
        tier: Tier = Tier.PYTHON,
        window: tuple[int, int] | None = None,
        where: str = "",
        grouped: bool = True,
        replaces: str = "",
        valid_for: timedelta = VALID_FOR,
        max_bytes: int = MAX_PARTIAL,
        network: str = "",
        timeout: float | None = DEPLOY_TIMEOUT,
    ) -> Manifest:
        """Return a statement that installs a definition in this network. To sign it, say which `network` that is:
        `DeploymentRefused` if the broker says that it belongs to another one."""
        return Manifest(
            network=await self._network(Signing("", "", network), timeout),
            name=name,
            version=version,
            digest=digest,
            entry=entry,
            tier=tier,
            window=window,
            where=where,
            grouped=grouped,
            replaces=replaces,
            valid_until=_until(valid_for),
            issued_at=_now(),
            max_bytes=max_bytes,
        )

    async def state(
        self, statement: Signed, *, force: bool = False, timeout: float | None = DEPLOY_TIMEOUT
    ) -> Deployment:
        """Make a statement, signed elsewhere, and return what became of it."""
        found = await self._ask(lambda id: Deploy(id, statement, force), timeout)
        manifest = statement.manifest
        known = tuple(
            one
            for one in found.known
            if manifest.name == EVERY or (one.name, one.version) == (manifest.name, manifest.version)
        )
        return Deployment(manifest.name, manifest.version, manifest.digest, found.network, known, found.complete)

    # --- making statements ----------------------------------------------------------------------------

    async def _install(
        self,
        definition: str | type[Aggregate[Any] | RunOnce],
        *,
        name: str,
        version: str,
        signing: Signing,
        valid_for: timedelta,
        timeout: float | None,
        replaces: str = "",
    ) -> Deployment:
        signing.check()
        more: dict[str, Any] = {"replaces": replaces, "valid_for": valid_for, "timeout": timeout}
        more["network"] = signing.network
        if isinstance(definition, str):
            if not aggregation.is_question(definition):
                raise ArgumentRefused(f'{shown(definition)} is no question; write one like "count() WINDOW 60s"')
            if not name or not version:
                raise ArgumentRefused(
                    "a question has no name of its own; give it a name like acme.load, and a version like 1.0.0"
                )
            source = aggregation.question_of(definition).name
            digest = digest_of(source, QUESTION)
            manifest = await self.manifest(
                name=name, version=version, digest=digest, entry=QUESTION, tier=Tier.EXPRESSION, **more
            )
        else:
            source, about = _of_class(definition)
            manifest = await self.manifest(**about, **more)
        return await self.state(signing.vouched(manifest, source), timeout=timeout)

    async def _network(self, signing: Signing, timeout: float | None) -> str:
        """The network that a statement is for: what the broker says, if that may be said.

        A broker must not choose what is signed: one of another network could have it signed for itself.
        """
        signing.check()
        said = (await self.deployed(timeout=timeout)).network
        if signing.network and signing.network != said:
            raise DeploymentRefused(
                f"the broker belongs to the network {shown(said)}, not to {shown(signing.network)}; nothing was "
                "signed: connect to the right one, or correct network"
            )
        return said

    async def _end(self, act: Act, found: Known, signing: Signing, *, timeout: float | None, force: bool) -> Deployment:
        manifest = Manifest(
            act=act,
            network=await self._network(signing, timeout),
            name=found.name,
            version=found.version,
            digest=found.digest,
            entry=QUESTION,
            tier=Tier(found.tier),
            valid_until=_until(VALID_FOR),
            issued_at=_now(),
        )
        return await self.state(signing.vouched(manifest), force=force, timeout=timeout)

    async def _running(self, name: str, timeout: float | None) -> list[Known]:
        """The versions of a name that run somewhere, the newest first: brokers tell them in order of their names."""
        found = [one for one in (await self.deployed(timeout=timeout)).known if one.name == name]
        running = [one for one in found if one.phase == Phase.INSTALLED]
        if not found:
            raise AggregateError(f"nothing is deployed as {name!r:.80}; `tidings aggregate list` shows what is")
        return sorted(running or found, key=lambda one: (-one.issued_at, one.version))

    async def _newest(self, name: str, timeout: float | None) -> Known:
        return (await self._running(name, timeout))[0]

    async def _chosen(self, name: str, version: str, timeout: float | None) -> Known:
        running = await self._running(name, timeout)
        if version:
            known = [one for one in (await self.deployed(timeout=timeout)).known if one.name == name]
            chosen = [one for one in known if one.version == version]
            if not chosen:
                there = ", ".join(sorted({one.version for one in known}))
                raise AggregateError(f"{name} has no version {version:.40}; it has {there}")
            return chosen[0]
        if len({one.version for one in running}) > 1:
            versions = ", ".join(dict.fromkeys(one.version for one in running))
            raise AggregateError(f"{name} has the versions {versions}; say which")
        return running[0]

    # --- for the client -------------------------------------------------------------------------------

    async def _ask(self, make: Callable[[str], AnyMessage], timeout: float | None) -> Surveyed:
        return await self._answer(self._answers, make, timeout)

    async def _answer(
        self, answers: Pending[_Answer], make: Callable[[str], AnyMessage], timeout: float | None
    ) -> _Answer:
        timeout_of(timeout)
        self._may_send()
        self._said += 1
        id = f"d{self._said}"
        try:
            async with asyncio.timeout(timeout):
                self._tell(encode(make(id)))
                return await answers.wait(id)
        except TimeoutError:
            raise AggregateError(
                f"the broker has not answered in {timeout:g} seconds; it may be of a version that deploys nothing, or "
                "have aggregation switched off"
            ) from None

    def deployment_heard(self, body: bytes) -> None:
        """The broker has said something about deployments."""
        try:
            message = decode(body)
        except TidingsError as error:
            log.warning("the broker has sent something that this client cannot read: %s", error)
            return
        match message:
            case Surveyed(id=id):
                self._answers.came(id, message)
            case Fetched(id=id):
                self._fetched.came(id, message)
            case Declined(id=id):
                refusal = error_of(Refused(message.error, message.reason, id))
                self._answers.refused(id, refusal)
                self._fetched.refused(id, refusal)

    def deploying_failed(self, error: TidingsError) -> None:
        """Nothing will come any more."""
        self._answers.failed(error)
        self._fetched.failed(error)


def _of_class(definition: object) -> tuple[str, dict[str, Any]]:
    """The source of a class, which is all of its module, and what a manifest says of it."""
    if not inspect.isclass(definition) or not issubclass(definition, Aggregate | RunOnce):
        raise ArgumentRefused(f"{shown(definition)} cannot be deployed; give a question, or a class of Aggregate")
    try:
        module = inspect.getmodule(definition)
        source = inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError):
        source = ""
    if not source:
        raise ArgumentRefused(f"the source of {definition.__name__} is not known; put the class into a file of its own")
    made = definition()
    window = getattr(made, "window", None)
    return source, {
        "name": made.name,
        "version": made.version,
        "digest": digest_of(source, definition.__name__),
        "entry": definition.__name__,
        "window": None if window is None else (window.size_ms, window.slide_ms),
        "where": str(getattr(made, "where", "")),
        "grouped": bool(getattr(made, "grouped", True)),
        "max_bytes": made.max_bytes,
    }


def _now() -> int:
    return time.time_ns() // 1_000_000


def _until(valid_for: timedelta) -> int:
    if not timedelta(0) < valid_for <= timedelta(days=3_660):
        raise ArgumentRefused(f"valid_for={valid_for}; give a time of up to ten years")
    return int(time.time() + valid_for.total_seconds())
