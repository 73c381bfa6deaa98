"""Deployments: a feature that takes statements from clients, keeps them, and tells them to every broker.

A statement from a client must be accepted (`_acceptance`); if it is Python, its laws are tested once, here, in a
worker. Then it is kept, attached, and only then passed on; so a broker that hears of a definition from a neighbour
never lacks what that one asks about.
Links are FIFO, and questions about values follow the statement. What two neighbours know is compared by marks
whenever they become ready for each other: see `Registry`, which has all states.

Every act, done or refused, is told to `on_audit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from tidings.broker import Feature, Link, WaveKind
from tidings.model import DeploymentRefused, StoreFull, TidingsError
from tidings.wire import UNREADABLE, pack, unpacker

from ._acceptance import Acceptance, check_answers, identity
from ._once import RunsOnce
from ._options import AggregationOptions
from .deploying import (
    EVERY,
    Act,
    From,
    Judged,
    Manifest,
    Phase,
    Place,
    Registry,
    Signed,
    Tier,
    place_of,
    verify,
)
from .deploying.messages import (
    FEATURE,
    AnyMessage,
    Declined,
    Deploy,
    Fetch,
    Fetched,
    Have,
    Known,
    Spread,
    Survey,
    Surveyed,
    decode,
    encode,
    read_known,
)
from .workers import Answer, Check, Code, Describe, Job

MAX_SURVEYED = 2_000
"""The most names and versions that one broker tells of."""
CHECK_SECONDS = 2.0
"""How long the laws of a definition are tested, at most."""
_TABLE, _STRIKES = "deployments", "deployment-strikes"

_read_statement: Callable[[bytes], Signed] = unpacker(Signed)


class Audited(NamedTuple):
    """What somebody did about a deployment, or tried to."""

    at: int
    """Microseconds since 1970 UTC."""
    who: str
    """The identity of the client; of what came from elsewhere, the broker."""
    act: str
    name: str
    version: str
    digest: str
    signer: str
    outcome: str
    """A phase, or `refused`."""
    reason: str = ""


class Workers(Protocol):
    """Where code of tenants runs: processes of `net`, or what stands for them in a simulator."""

    @property
    def unavailable(self) -> str:
        """Why no code can be run here; "": it can."""
        ...

    @property
    def layers(self) -> tuple[str, ...]:
        """What isolates the code, as far as that is known."""
        ...

    def submit(
        self, place: Place, code: Code, jobs: Sequence[Job], done: Callable[[Sequence[Answer] | str], None]
    ) -> None:
        """Run jobs; in a later turn, call `done` with the answers, or with why there are none."""
        ...

    def strikes(self, place: Place) -> int:
        """How often the code has failed lately."""
        ...

    def forget(self, place: Place) -> None:
        """Run it no more."""
        ...


class Deployments(Feature):
    """What is deployed, as one broker knows it."""

    name = FEATURE
    priority = -10
    fail_stop = False

    def __init__(self, options: AggregationOptions, workers: Workers | None = None) -> None:
        self.options = options
        self.workers = workers
        self.registry = Registry(self._verify)
        self.registry.unable = self._unable
        self.on_audit: Callable[[Audited], None] = lambda audited: None
        self.changed: Callable[[str], None] = lambda name: None
        """Told of each name whose versions may have changed; `EVERY`: of all."""
        self.watches: Callable[[Place], int] = lambda place: 0
        """How many clients of this broker watch a version by its name."""
        self.refused = 0
        """Statements that were refused, from clients and neighbours."""
        self._signers = {signer.identity: signer for signer in options.signer}
        self._unkept: dict[str, Signed] = {}
        """Statements that the disk has not taken."""
        self._once: RunsOnce | None = None
        """What has run once; None: there are no workers."""
        self._testing: dict[Place, str] = {}
        """Whose laws are being tested, by digest."""

    def start(self) -> None:
        """Take up what is kept on disk."""
        self._acceptance = Acceptance(self.context, self.registry, self.options, self._unable)
        if self.workers is not None:
            self._once = RunsOnce(self.context.name, self.registry, self.workers, self.context.call_later)
        log = self.context.log
        if log is None:
            return
        for key, data in log.items(_TABLE).items():
            try:
                self.registry.take(_read_statement(data), From.DISK)
            except (TidingsError, *UNREADABLE):  # of another version, or damaged: neighbours may know better
                self.refused += 1
                log.delete(_TABLE, key)
        for key, data in log.items(_STRIKES).items():
            name, _, version = key.partition(" ")
            self.registry.strike(Place(name, version), data.decode(errors="replace"))
        if self._once is not None:
            for place in self.registry.places:
                self._once.look(place)

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """Every broker is asked what it has."""
        return {"survey": _Surveying(self)}

    def _verify(self, given: Signed) -> None:
        verify(given, self._signers, network=self.options.network, now=self.context.now() / 1_000_000)

    def _unable(self, manifest: Manifest) -> str:
        if manifest.tier <= Tier.EXPRESSION:
            return ""
        if manifest.tier > Tier.PYTHON:
            return "brokers run no advice that comes over the network"
        return "this broker has no workers" if self.workers is None else self.workers.unavailable

    # --- neighbours -----------------------------------------------------------------------------------

    def neighbour_ready(self, link: Link) -> None:
        """Compare what is known."""
        self._keep()
        self._send(link, Have(self.registry.marks()))

    def on_message(self, link: Link, body: bytes) -> None:
        """A neighbour or a client says something."""
        if link.is_client:
            self._from_client(link, body)
            return
        try:
            message = decode(body)
            match message:
                case Have(marks):
                    for statement in self.registry.lacking(marks):
                        self._send(link, Spread(statement))
                case Spread(statement):
                    self._heard(link, statement)
                case _:
                    self.context.refused()
        except TidingsError:
            self.context.refused()

    def _heard(self, link: Link, statement: Signed) -> None:
        place = place_of(statement)
        try:
            new = self.registry.take(statement, From.NEIGHBOUR)
        except DeploymentRefused as error:
            self._refuse(link.name, statement.manifest, statement.signer, error)
            raise
        if new:
            self._taken(link.name, statement, place, link)

    def _taken(self, who: str, statement: Signed, place: Place, source: Link | None) -> None:
        """Keep a statement, act on it, and only then pass it on."""
        manifest = statement.manifest
        self._unkept[f"{place} {manifest.act} {manifest.digest}".strip()] = statement
        self._keep()
        everything = Judged(Phase.QUARANTINED, "everything up to now")
        judged = everything if place.name == EVERY else self.registry.judge(place)
        if self.workers is not None:
            ended = self.registry.places if place.name == EVERY else [place]
            for one in ended:
                if self.registry.judge(one).phase is not Phase.INSTALLED:
                    self.workers.forget(one)
        if self._once is not None and place.name != EVERY:
            self._once.look(place)
        self._audit(who, manifest, statement.signer, judged.phase.value, judged.reason)
        self.changed(manifest.name)
        for link in self.context.neighbours:
            if link is not source:
                self._send(link, Spread(statement))

    def _keep(self) -> None:
        """Put on disk what is not there yet.

        A disk that takes nothing now must not stop an end on its way: it is tried again with the next statement and
        the next neighbour, and after a crash the neighbours know it.
        """
        log = self.context.log
        for key, statement in list(self._unkept.items()):
            if log is not None:
                try:
                    log.put(_TABLE, key, pack(statement))
                except TidingsError:
                    return
            del self._unkept[key]

    def struck(self, place: Place, reason: str) -> None:
        """The code of a definition has failed too often here."""
        if place in self.registry and place not in self.registry.struck:
            self.registry.strike(place, reason)
            if (log := self.context.log) is not None:
                log.put(_STRIKES, str(place), reason.encode()[:2_000])
            statement = self.registry.statement(place)
            if statement is not None:
                self._audit(self.context.name, statement.manifest, statement.signer, Phase.QUARANTINED.value, reason)
            self.changed(place.name)

    # --- clients --------------------------------------------------------------------------------------

    def _from_client(self, link: Link, body: bytes) -> None:
        message = decode(body)
        try:
            match message:
                case Deploy():
                    self._deploy(link, message)
                case Survey(id):
                    self._acceptance.check_right(link)
                    self._survey(link, id)
                case Fetch():
                    self._send(link, Fetched(message.id, self._fetched(link, message)))
                case _:
                    raise TidingsError(f"a client may not send {type(message).__name__}")
        except TidingsError as error:
            if isinstance(message, Deploy):
                self._refuse(identity(link), message.statement.manifest, message.statement.signer, error)
            self._decline(link, getattr(message, "id", ""), error)

    def _fetched(self, link: Link, message: Fetch) -> Signed:
        """What installs a version; a source is told to those whose name it has, and to administrators."""
        place = Place(message.name, message.version)
        self._acceptance.check_reader(link, place)
        if not place.version:
            running = self.registry.versions(place.name)
            place = running[0] if running else place
        statement = self.registry.statement(place) if place in self.registry else None
        if statement is None:
            raise DeploymentRefused(
                f"{str(place).strip():.200} is not installed; `tidings aggregate deployed` shows what is"
            )
        return statement

    def _decline(self, link: Link, id: str, error: TidingsError) -> None:
        self.context.refused()
        self._send(link, Declined(id, type(error).__name__, str(error)))

    def _deploy(self, link: Link, deploy: Deploy) -> None:
        statement = deploy.statement
        manifest = statement.manifest
        self._acceptance.check(statement, link)
        if manifest.act is Act.INSTALL:
            self._acceptance.check_install(manifest)
            if manifest.tier is Tier.PYTHON:
                self._test(link, deploy)
                return
        else:
            self._acceptance.check_end(manifest)
            if manifest.act is Act.REMOVE and not deploy.force:
                self._remove_unwatched(link, deploy)
                return
        self._apply(link, deploy)

    def _remove_unwatched(self, link: Link, deploy: Deploy) -> None:
        """Remove it if no client in the network watches it."""
        place = place_of(deploy.statement)

        def asked(answer: bytes, complete: bool) -> None:
            if self.context.client(link.name) is not link:
                return
            watches = sum(one.watches for one in _known_in(answer) if (one.name, one.version) == place)
            try:
                if watches and self._successor(place) is None:
                    raise DeploymentRefused(
                        f"{place} is watched by {watches} clients; end that, or remove it with --force, and they will "
                        "be told"
                    )
                self._apply(link, deploy)
            except TidingsError as error:
                self._refuse(identity(link), deploy.statement.manifest, deploy.statement.signer, error)
                self._decline(link, deploy.id, error)

        self.context.wave("survey", place.name.encode(), asked)

    def _successor(self, place: Place) -> Place | None:
        """The version that answers to the name once this one has gone."""
        return next((one for one in self.registry.versions(place.name) if one != place), None)

    def _test(self, link: Link, deploy: Deploy) -> None:
        """Test the laws of Python, once, in a worker, before anybody else hears of it."""
        statement = deploy.statement
        manifest, place = statement.manifest, place_of(statement)
        if place in self.registry:
            self._apply(link, deploy)
            return
        if place in self._testing:
            raise DeploymentRefused(f"{place} is being tested already; wait for the answer")
        assert self.workers is not None
        self._testing[place] = manifest.digest

        def tested(answers: Sequence[Answer] | str) -> None:
            del self._testing[place]
            try:
                if isinstance(answers, str):
                    raise DeploymentRefused(f"{place} could not be tested: {answers}")
                check_answers(place, manifest, answers)
                self._acceptance.check_install(manifest)  # something may have come meanwhile
                self._apply(link, deploy)
            except TidingsError as error:
                if self.workers is not None:
                    self.workers.forget(place)
                self._refuse(identity(link), manifest, statement.signer, error)
                if self.context.client(link.name) is link:
                    self._decline(link, deploy.id, error)

        jobs: list[Job] = [Describe(), Check(0, CHECK_SECONDS)]
        self.workers.submit(place, Code(statement.source, manifest.entry), jobs, tested)

    def _apply(self, link: Link, deploy: Deploy) -> None:
        """Take the statement, pass it on, and say where it arrived. What is unsigned is the client's own word."""
        statement = deploy.statement
        if (log := self.context.log) is not None and log.full:
            raise StoreFull(
                f"the store of broker '{self.context.name}' cannot take more for now, and nothing was changed; deploy "
                "again later"
            )
        if not statement.signature:
            statement = msgspec.structs.replace(statement, signer=identity(link))
        if self.registry.take(statement, From.CLIENT):
            self._taken(identity(link), statement, place_of(statement), None)
        self._survey(link, deploy.id, deploy.statement.manifest.name)

    def _survey(self, link: Link, id: str, name: str = "") -> None:
        brokers = len(self.context.tree.parents)

        def asked(answer: bytes, complete: bool) -> None:
            if self.context.client(link.name) is link:
                workers = self.workers
                layers = workers.layers if workers is not None else ()
                why = "it has no workers" if workers is None else workers.unavailable
                known = _known_in(answer)
                self._send(link, Surveyed(id, self.options.network, known, complete, brokers, layers, why))

        self.context.wave("survey", name.encode(), asked)

    # --- telling --------------------------------------------------------------------------------------

    def known(self, name: str) -> list[Known]:
        """What this broker has of a name; "": of all."""
        places = self.registry.places if name in ("", EVERY) else self.registry.places_of(name)
        return [self._known(place) for place in places[:MAX_SURVEYED]]

    def _known(self, place: Place) -> Known:
        judged, standing = self.registry.judge(place), self.registry.standing(place)
        statement = self.registry.statement(place)
        tier = int(statement.manifest.tier) if statement is not None else 0
        strikes = self.workers.strikes(place) if self.workers is not None else 0
        value, failure = self._once.result(place) if self._once is not None else ("", "")
        return Known(
            self.context.name,
            *place,
            standing.digests[0],
            tier,
            judged.phase.value,
            judged.reason or failure,
            self.watches(place),
            strikes,
            statement.manifest.issued_at if statement is not None else 0,
            value,
        )

    def _refuse(self, who: str, manifest: Manifest, signer: str, error: TidingsError) -> None:
        self.refused += 1
        self._audit(who, manifest, signer, "refused", str(error))

    def _audit(self, who: str, manifest: Manifest, signer: str, outcome: str, reason: str) -> None:
        what = (manifest.act.value, manifest.name, manifest.version, manifest.digest)
        self.on_audit(Audited(self.context.now(), who, *what, signer, outcome, reason))

    def _send(self, link: Link, message: AnyMessage) -> None:
        self.context.send(link, encode(message))


class _Surveying:
    """The wave that asks every broker what it has."""

    def __init__(self, deployments: Deployments) -> None:
        self._deployments = deployments

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """What this broker has of the name in the body."""
        answer(pack(self._deployments.known(body.decode(errors="replace"))))

    def combine(self, answers: list[bytes]) -> bytes:
        """All of them."""
        return pack([one for answer in answers for one in _known_in(answer)])


def _known_in(answer: bytes) -> list[Known]:
    try:
        return read_known(answer) if answer else []
    except UNREADABLE:
        return []
