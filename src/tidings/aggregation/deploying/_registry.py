"""What one broker knows of everything that was deployed, and in which phase each name and version is.

Theory of operation
-------------------
A *statement* installs, removes or quarantines one name, version and digest. A broker keeps the statements that it has
taken, and works everything else out of them, so two brokers that know the same statements agree, in whichever order
these came. Taking a statement is idempotent; what was not known before is told to the other neighbours. When two
brokers meet, they compare *marks*, and each tells the other what it lacks. Statements that end something are kept for
as long as the broker remembers the version, so a broker that was away during a removal cannot bring it back.

The phase of a name and version, from the statements, from top to bottom; the first that applies:

    phase        | when                                                       | runs | asked by name
    -------------|------------------------------------------------------------|------|---------------------------
    QUARANTINED  | two digests: two sides of a cut have used one version      | no   | an older version, or refused
    QUARANTINED  | a statement quarantines it, or everything up to then       | no   | an older version, or refused
    REMOVED      | a statement removes it                                     | no   | an older version, or refused
    QUARANTINED  | no key of its signer here has signed it                    | no   | an older version, or refused
    QUARANTINED  | its code has had too many strikes at this broker           | no   | an older version, or refused
    RECEIVED     | this broker cannot judge or run it: unknown signer, ended  | no   | refused, with the reason
                 | signature, no isolation; it is passed on all the same      |      |
    INSTALLED    | otherwise                                                  | yes  | if it is the newest

Nothing goes back up in this table but by configuration: a signer that is added turns RECEIVED into INSTALLED, a key
that is taken out turns INSTALLED into QUARANTINED. A version that has ended is used up; its source comes back as a
new version.

*Versions* of one name run side by side, two at most: the two that were issued last. The newest answers to the name.
An upgrade installs a version that replaces another; a rollback removes it again, and the older one answers once more.

An unsigned statement speaks of questions as text only, which need no trust; whoever takes it from a client has checked
that client's rights.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidings.aggregation.expressions import compiled
from tidings.model import DeploymentRefused, SignatureEnded, TidingsError, UnknownSigner

from ._manifest import EVERY, QUESTION, Act, Manifest, Tier, digest_of
from ._signing import Signed
from ._standing import MAX_DIGESTS, Stage, Standing, joined, standing

SIDE_BY_SIDE = 2
"""How many versions of one name run at a time."""
MAX_VERSIONS = 1_000
"""The most versions of one tenant that are remembered, those included that have ended."""


class Phase(enum.StrEnum):
    """Where a name and version is at one broker."""

    RECEIVED = "received"
    INSTALLED = "installed"
    REMOVED = "removed"
    QUARANTINED = "quarantined"


class From(enum.Enum):
    """Where a statement comes from."""

    CLIENT = "client"
    """It is made now: it must be valid now."""
    NEIGHBOUR = "neighbour"
    """It was made some time ago. An end holds for ever; what has not ended in time is passed on and not run."""
    DISK = "disk"
    """It was taken before. What nobody vouches for any more does not run."""


class Place(NamedTuple):
    """What statements are about."""

    name: str
    version: str

    @property
    def tenant(self) -> str:
        """Whose name it is."""
        return self.name.rpartition(".")[0]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Judged(NamedTuple):
    """A phase, and why."""

    phase: Phase
    reason: str = ""


class Taken(NamedTuple):
    """A statement that is kept, with what this broker thinks of it."""

    given: Signed
    doubt: str = ""
    """Why this broker does not act on it; "": it does."""
    void: bool = False
    """Whether the doubt is that nobody vouches for it here any more."""


Verify = Callable[[Signed], None]
"""Raises `DeploymentRefused`, or `UnknownSigner` if this broker cannot tell."""


class Registry:
    """The statements of one broker."""

    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self._taken: dict[Place, dict[tuple[Act, str], Taken]] = {}
        self._struck: dict[Place, str] = {}
        self._names: dict[str, dict[Place, None]] = {}
        self._tenants: dict[str, dict[Place, None]] = {}
        self._phases: dict[Place, Judged] = {}
        """What was found out about places since something was taken that concerns them."""
        self.unable: Callable[[Manifest], str] = lambda manifest: ""
        """Why this broker cannot run something, whoever has signed it; "": it can."""

    def __len__(self) -> int:
        return len(self._taken)

    def __contains__(self, place: Place) -> bool:
        return place in self._taken

    @property
    def places(self) -> list[Place]:
        """Every name and version that was ever heard of, in order."""
        return sorted(place for place in self._taken if place.name != EVERY)

    def places_of(self, name: str) -> list[Place]:
        """Every version of a name, in order."""
        return sorted(self._names.get(name, ()))

    # --- taking ---------------------------------------------------------------------------------------

    def take(self, given: Signed, source: From) -> bool:
        """Take a statement, and whether it says something new. `DeploymentRefused` if it is wrong."""
        taken = self._judged(given, source)
        place, key = place_of(given), key_of(given)
        known = self._taken.get(place, {})
        if self.knows(given):
            return False
        if key not in known and given.manifest.name != EVERY:
            self._check_room(place, given)
        self._taken.setdefault(place, known)[key] = taken
        if place.name == EVERY:
            self._phases.clear()
        else:
            self._phases.pop(place, None)
            self._names.setdefault(place.name, {})[place] = None
            self._tenants.setdefault(place.tenant, {})[place] = None
        return True

    def knows(self, given: Signed) -> bool:
        """Whether a statement says nothing new."""
        before = self._taken.get(place_of(given), {}).get(key_of(given))
        return before is not None and _later(before.given) >= _later(given)

    def _judged(self, given: Signed, source: From) -> Taken:
        try:
            self.check(given)
        except SignatureEnded as error:
            if source is From.CLIENT:
                raise
            ends = given.manifest.act is not Act.INSTALL
            return Taken(given, "" if ends or source is From.DISK else str(error))
        except UnknownSigner as error:
            if source is From.CLIENT:
                raise
            return Taken(given, str(error))
        except DeploymentRefused as error:
            if source is not From.DISK:
                raise
            return Taken(given, str(error), void=True)
        return Taken(given)

    def check(self, given: Signed) -> None:
        """Raise `DeploymentRefused` unless this is vouched for, here and now, or needs nobody to."""
        if given.manifest.tier <= Tier.EXPRESSION and not given.signature:
            check_unsigned(given)
        else:
            self._verify(given)
            _check_question(given)

    def _effective(self, place: Place) -> list[Taken]:
        """The statements that count: those that somebody has signed, if the code is signed; of others, those that are
        in no doubt. So neither strangers nor the unsigned end or dispute what is signed."""
        known = list(self._taken[place].values())
        sure = [one for one in known if not one.doubt]
        if any(one.given.signature and one.given.manifest.act is Act.INSTALL for one in sure):
            return [one for one in sure if one.given.signature]
        return sure if any(one.given.manifest.act is Act.INSTALL for one in sure) else known

    def _check_room(self, place: Place, given: Signed) -> None:
        digests = {digest for act, digest in self._taken.get(place, {}) if act is Act.INSTALL}
        if given.manifest.act is Act.INSTALL and len(digests) >= MAX_DIGESTS:
            raise DeploymentRefused(
                f"{place} has {len(digests)} sources already, and is in quarantine; use a new version"
            )
        if place not in self._taken:
            versions = len(self._tenants.get(place.tenant, ()))
            if versions >= MAX_VERSIONS:
                raise DeploymentRefused(
                    f"{place.tenant} has {versions:,} versions that brokers remember, at most {MAX_VERSIONS:,}; "
                    "use another tenant"
                )

    def strike(self, place: Place, reason: str) -> None:
        """Run it no more here: its code has failed too often."""
        self._struck[place] = reason
        self._phases.pop(place, None)

    @property
    def struck(self) -> dict[Place, str]:
        """What does not run here any more because its code failed, and why."""
        return dict(self._struck)

    # --- what follows ---------------------------------------------------------------------------------

    def judge(self, place: Place) -> Judged:
        """The phase of a name and version that is known; see the table."""
        judged = self._phases.get(place)
        if judged is None:
            judged = self._phases[place] = self._judge(place)
        return judged

    def _judge(self, place: Place) -> Judged:
        if (ended := self._ended(place)) is not None:
            return ended
        installs = self._installs(place)
        if not installs:
            return Judged(Phase.RECEIVED, "only its end was heard of")
        (install,) = installs
        if install.void:
            return Judged(Phase.QUARANTINED, install.doubt)
        if reason := self._struck.get(place):
            return Judged(Phase.QUARANTINED, reason)
        if reason := install.doubt or self.unable(install.given.manifest):
            return Judged(Phase.RECEIVED, reason)
        return Judged(Phase.INSTALLED)

    def is_over(self, place: Place) -> bool:
        """Whether it shall run nowhere any more; what stops this broker alone does not count."""
        return self._ended(place) is not None

    def _ended(self, place: Place) -> Judged | None:
        """The phase of what runs nowhere any more, by what all brokers will know; None: it may run."""
        standing = self.standing(place)
        if standing.conflict:
            marks = " and ".join(digest[:12] for digest in standing.digests[:2])
            reason = f"one version with two sources, {marks}; deploy one of them as a new version"
            return Judged(Phase.QUARANTINED, reason)
        known = self._effective(place)
        for act, phase in ((Act.QUARANTINE, Phase.QUARANTINED), (Act.REMOVE, Phase.REMOVED)):
            ended = [one for one in known if one.given.manifest.act is act and not one.void]
            if ended:
                return Judged(phase, f"by {ended[0].given.signer}")
            if act is Act.QUARANTINE and (switch := self._switch(self._installs(place))) is not None:
                return Judged(phase, f"with everything else, by {switch.given.signer}")
        return None

    def _installs(self, place: Place) -> list[Taken]:
        return [one for one in self._effective(place) if one.given.manifest.act is Act.INSTALL]

    def standing(self, place: Place) -> Standing:
        """What the statements of a name and version say together."""
        stages = {Act.INSTALL: Stage.INSTALLED, Act.REMOVE: Stage.REMOVED, Act.QUARANTINE: Stage.QUARANTINED}
        said = [one.given.manifest for one in self._effective(place)]
        return joined(standing(one.digest, stages[one.act]) for one in said)

    def _switch(self, installs: list[Taken]) -> Taken | None:
        """The statement that quarantines everything, if it concerns these."""
        for one in self._taken.get(Place(EVERY, ""), {}).values():
            signed = bool(one.given.signature)
            if one.void or one.doubt:
                continue
            for install in installs:
                manifest = install.given.manifest
                if one.given.manifest.issued_at >= manifest.issued_at and (signed or manifest.tier <= Tier.EXPRESSION):
                    return one
        return None

    def statement(self, place: Place) -> Signed | None:
        """What installs it; None: nothing, or two statements do."""
        installs = [one.given for one in self._installs(place)] if place in self._taken else []
        return installs[0] if len(installs) == 1 else None

    def versions(self, name: str) -> list[Place]:
        """The versions of a name that run, the newest first: beside it the one that it replaces, else the next newest.

        Upgrades of one version that meet leave that one running, which serves until the newest can.
        """
        running = [place for place in self._names.get(name, ()) if self._runs(place)]
        running.sort(key=lambda place: (-self._issued(place), place.version))
        if len(running) > SIDE_BY_SIDE and (newest := self.statement(running[0])) is not None:
            replaced = Place(name, newest.manifest.replaces)
            running[1:] = sorted(running[1:], key=lambda place: place != replaced)
        return running[:SIDE_BY_SIDE]

    def runs(self, place: Place) -> bool:
        """Whether it runs here."""
        return place in self.versions(place.name)

    def _runs(self, place: Place) -> bool:
        return self.judge(place).phase is Phase.INSTALLED

    def _issued(self, place: Place) -> int:
        statement = self.statement(place)
        return statement.manifest.issued_at if statement is not None else 0

    def running(self, tenant: str) -> int:
        """How many versions of a tenant run."""
        return sum(map(self._runs, self._tenants.get(tenant, ())))

    # --- comparing with a neighbour -------------------------------------------------------------------

    def marks(self) -> list[tuple[str, str, bytes]]:
        """For each name and version something that differs if what is known differs."""
        return [(*place, _mark(known.values())) for place, known in sorted(self._taken.items())]

    def lacking(self, theirs: Iterable[tuple[str, str, bytes]]) -> Iterator[Signed]:
        """The statements that somebody with these marks may not know, in the order in which they were taken."""
        known = {Place(name, version): mark for name, version, mark in theirs}
        for place, taken in self._taken.items():
            if known.get(place) != _mark(taken.values()):
                yield from (one.given for one in taken.values())


def place_of(given: Signed) -> Place:
    """What a statement is about."""
    manifest = given.manifest
    return Place(EVERY, "") if manifest.name == EVERY else Place(manifest.name, manifest.version)


def key_of(given: Signed) -> tuple[Act, str]:
    """Which of several statements about one name and version this is."""
    return given.manifest.act, given.manifest.digest


def check_unsigned(given: Signed) -> None:
    """Raise `DeploymentRefused` unless a statement may go without a signature."""
    manifest = given.manifest
    manifest.check()
    if manifest.name == EVERY:
        return
    if manifest.tier is not Tier.EXPRESSION or manifest.entry != QUESTION:
        raise DeploymentRefused(
            f"{manifest.name} {manifest.version} is not signed; sign it with --sign-key, by a signer of "
            "[[aggregation.signer]]"
        )
    if manifest.act is Act.INSTALL and digest_of(given.source, QUESTION) != manifest.digest:
        raise DeploymentRefused(f"{manifest.name}: the digest is not that of the question; make the statement anew")
    _check_question(given)


def _check_question(given: Signed) -> None:
    manifest = given.manifest
    if manifest.tier is Tier.EXPRESSION and manifest.act is Act.INSTALL:
        try:
            compiled(given.source)
        except TidingsError as error:
            raise DeploymentRefused(f"{manifest.name}: {error}") from None


def _later(given: Signed) -> tuple[int, int, bytes]:
    """Of two statements that say the same, the one that is larger is kept."""
    return given.manifest.issued_at, given.manifest.valid_until, given.signature


def _mark(known: Iterable[Taken]) -> bytes:
    said = sorted(one.given.manifest.signed_form() + one.given.signature for one in known)
    return hashlib.sha256(b"\0".join(said)).digest()[:12]
