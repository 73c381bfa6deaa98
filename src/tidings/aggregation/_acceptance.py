"""Acceptance: which statements of clients a broker takes.

A statement passes, in this order: the right of its client, what it says, whose the name is, the quota of its tenant,
the signature, what is known of the name already, and, if it is Python, what a worker answered that tested its laws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tidings.broker import Link
from tidings.model import AccessDenied, BudgetExceeded, DeploymentRefused

from ._options import AggregationOptions
from .definitions import Kind
from .deploying import EVERY, SIDE_BY_SIDE, Act, Manifest, Phase, Place, Registry, Signed, Tier
from .workers import Answer, Described, Failed

MAX_REMEMBERED = 10_000
"""How many identities and tenants are remembered that have made statements lately."""


class Clock(Protocol):
    """What acceptance needs of the broker: its name, and the time."""

    @property
    def name(self) -> str:
        """The broker's name."""
        ...

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...


class Acceptance:
    """The statements that one broker takes from its clients."""

    def __init__(
        self, clock: Clock, registry: Registry, options: AggregationOptions, unable: Callable[[Manifest], str]
    ) -> None:
        """`unable`: why this broker cannot run something; "": it can."""
        self._clock = clock
        self._registry = registry
        self._options = options
        self._unable = unable
        self._buckets: dict[tuple[str, str], tuple[float, int]] = {}
        """Of identities and of tenants, how many statements they may make at once, and as of when."""

    def check_right(self, link: Link) -> None:
        """Raise `AccessDenied` unless a client may deploy."""
        if link.guard is not None and not (link.guard.deploy or link.guard.administer):
            raise AccessDenied(
                f"'{link.guard.name}' may not deploy; ask the administrator for `deploy = true` for this identity"
            )

    def check_reader(self, link: Link, place: Place) -> None:
        """Raise `AccessDenied` unless a client may read the source of what is deployed under a name."""
        self.check_right(link)
        guard = link.guard
        if guard is not None and not guard.administer and place.tenant != guard.name:
            raise AccessDenied(f"'{guard.name}' may not read what {place.tenant or 'nobody':.80} has deployed")

    def check(self, statement: Signed, link: Link) -> None:
        """Count a statement of a client, or raise `TidingsError` unless it may make it."""
        manifest = statement.manifest
        self.check_right(link)
        manifest.check()
        self._check_owner(link, statement)
        self._spend("identity", identity(link))  # a signature costs time, and may be nobody's
        self._registry.check(statement)
        if not self._registry.knows(statement):  # who repeats what is known spends nobody else's
            self._spend("tenant", manifest.tenant or identity(link))

    def _check_owner(self, link: Link, statement: Signed) -> None:
        """What is unsigned belongs to the identity of the client."""
        guard, manifest = link.guard, statement.manifest
        if statement.signature or guard is None or guard.administer:
            return
        if manifest.name == EVERY:
            raise AccessDenied(f"'{guard.name}' may not quarantine everything; whoever may administer may")
        if manifest.tenant != guard.name:
            raise AccessDenied(
                f"{manifest.name} {manifest.version}: the names of {manifest.tenant} are not {guard.name}'s; "
                f"use {guard.name}.{manifest.name.rpartition('.')[2]}"
            )

    def _spend(self, kind: str, who: str) -> None:
        """One more statement of an identity or a tenant; `BudgetExceeded` if there are too many a second."""
        now, rate = self._clock.now(), self._options.deployments_per_second
        left, before = self._buckets.pop((kind, who), (rate, now))
        left = min(max(rate, 1.0), left + (now - before) / 1_000_000 * rate)
        self._buckets[kind, who] = (left - (left >= 1), now)
        while len(self._buckets) > MAX_REMEMBERED:  # the one that has said nothing for the longest time
            del self._buckets[next(iter(self._buckets))]
        if left < 1:
            raise BudgetExceeded(
                f"{who} deploys more than {rate:g} times a second; wait, or raise deployments_per_second in "
                "[aggregation]"
            )

    def check_install(self, manifest: Manifest) -> None:
        """Raise `DeploymentRefused` for what does not go with what is known."""
        place = Place(manifest.name, manifest.version)
        if "identity" in manifest.capabilities:
            raise DeploymentRefused(f"{place}: brokers give no code the capability identity; leave it out")
        if manifest.tier is not Tier.EXPRESSION and (reason := self._unable(manifest)):
            raise DeploymentRefused(f"{place} cannot be run at broker '{self._clock.name}': {reason}")
        others = [one for one in self._registry.versions(manifest.name) if one != place]
        if place in self._registry:
            standing, judged = self._registry.standing(place), self._registry.judge(place)
            if judged.phase in (Phase.REMOVED, Phase.QUARANTINED):
                raise DeploymentRefused(
                    f"{place} is {judged.phase} {judged.reason}; a version is used up with its end: choose a new one"
                )
            if manifest.digest not in standing.digests:
                raise DeploymentRefused(
                    f"{place} is installed with another source, {standing.digests[0][:12]}; choose a new version"
                )
            return
        if not manifest.replaces and others:
            raise DeploymentRefused(
                f"{others[0]} is installed; upgrade it to {manifest.version} with `tidings aggregate upgrade`, or "
                "remove it"
            )
        if manifest.replaces and Place(manifest.name, manifest.replaces) not in others:
            there = ", ".join(one.version for one in others) or "none"
            raise DeploymentRefused(f"{place} replaces {manifest.replaces}, which is not installed; there is {there}")
        if len(others) >= SIDE_BY_SIDE:
            raise DeploymentRefused(
                f"{others[0]} and {others[1].version} are installed, and at most {SIDE_BY_SIDE} versions run side by "
                "side; remove one"
            )
        if self._registry.running(place.tenant) >= self._options.max_deployed:
            raise BudgetExceeded(
                f"{place.tenant} has {self._options.max_deployed:,} aggregates; remove some, or raise max_deployed in "
                "[aggregation]"
            )

    def check_end(self, manifest: Manifest) -> None:
        """Raise `DeploymentRefused` for the end of what is not there, or is another one."""
        if manifest.name == EVERY:
            return
        place = Place(manifest.name, manifest.version)
        if place not in self._registry:
            raise DeploymentRefused(f"{place} is not deployed; `tidings aggregate status` lists what is")
        statement, judged = self._registry.statement(place), self._registry.judge(place)
        if judged.phase is Phase.REMOVED or (
            judged.phase is Phase.QUARANTINED and manifest.act is Act.QUARANTINE and place not in self._registry.struck
        ):
            raise DeploymentRefused(f"{place} is {judged.phase} already, {judged.reason}")
        if statement is None:
            raise DeploymentRefused(f"{place} is {judged.phase}: {judged.reason}")
        if statement.manifest.digest != manifest.digest:
            raise DeploymentRefused(
                f"{place} has the digest {statement.manifest.digest[:12]}, not {manifest.digest[:12]}; make the "
                "statement anew"
            )
        if statement.signature and manifest.tier < statement.manifest.tier:
            raise DeploymentRefused(
                f"{place} is signed; its end must be signed for tier {statement.manifest.tier:d}, too"
            )


def identity(link: Link) -> str:
    """For whom a client speaks."""
    return link.guard.name if link.guard is not None else link.name


def check_answers(place: Place, manifest: Manifest, answers: Sequence[Answer]) -> None:
    """Raise `DeploymentRefused` unless the code obeys the laws and is what the manifest says."""
    described, lawful = answers
    for one in answers:
        if isinstance(one, Failed):
            raise DeploymentRefused(f"{place} was tested and is not taken: {one.reason}")
    if not isinstance(described, Described):
        raise DeploymentRefused(f"{place}: the worker does not say what it is")
    del lawful
    if described.kind == Kind.GAUGE.value:
        raise DeploymentRefused(
            f"{place} has no window, and brokers run Python over windows; give the class a window, such as "
            "Tumbling('60s')"
        )
    kind = Kind.ONCE if manifest.once else Kind.WINDOW
    said = Described(manifest.name, manifest.version, manifest.window, manifest.where, kind.value, manifest.grouped)
    if described != said:
        raise DeploymentRefused(
            f"{place}: the code is {described.name} {described.version} with the window {described.window} and the "
            f"filter {described.where!r:.60}, the manifest says {said.window} and {said.where!r:.60}; make it anew"
        )
