"""Plans for deployments: who deploys which version, who upgrades and ends one, and who watches.

The code of a version gives its own prime for each publication, and there are fewer publications than the smallest of
them. So a sum to which two versions have contributed is a multiple of neither.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from tidings.aggregation.deploying import Act, Keys, Manifest, Signed, Signer, Tier, digest_of, keys_of, signed

from ._actions import Action, Verb

SECOND = 1_000_000
NAME = "acme.units"
SIGNER = "acme"
NETWORK = "simulated"
WATCHES = 2
"""The ids that one client uses for what it watches by name."""
_PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061)
_VALID = 10_000_000_000
_SOURCE = """
from tidings.aggregation.definitions import Aggregate, Tumbling

class Units(Aggregate):
    name, version = "acme.units", "{number}.0.0"
    window = Tumbling("1s")
    grouped = False
    def zero(self): return 0
    def lift(self, record): return {unit}
    def combine(self, a, b): return a + b
"""


def unit(version: str) -> int:
    """What one publication counts for in a version."""
    return _PRIMES[int(version.partition(".")[0]) - 1]


@cache
def _keys() -> Keys:
    return keys_of(b"the signer of a simulated world.")


def signer() -> Signer:
    """Whose code simulated brokers take."""
    return Signer(SIGNER, (_keys().public,))


class DeployingPlan:
    """Draws what is deployed in one run."""

    def __init__(self, rng: random.Random, clients: Sequence[str]) -> None:
        self._rng = rng
        self._clients = clients
        self._statements: list[Signed] = []
        self._issued = 0

    def steps(self, length: int) -> Iterator[Action]:
        """Everything about deployments, in any order; nobody watches any more at the end."""
        rng = self._rng
        at = rng.randrange(1 + length // 10)
        yield self._deploy(at, self._install())
        begun = at
        for _ in range(rng.randint(1, 4)):
            watch = self._watch(at + rng.choice((100_000, SECOND, rng.randrange(length + 1))))
            begun = max(begun, watch.at)
            yield watch
        quiet = rng.random() < 0.4
        for _ in range(rng.randint(2, 9)):
            at += rng.choice((1_000, SECOND // 5, 2 * SECOND, 4 * SECOND))
            draw = rng.random()
            if quiet or draw < 0.4:
                yield self._deploy(at, self._install())
            elif draw < 0.55:
                yield self._deploy(at, self._another(rng.choice(self._statements)))
            else:
                act = rng.choice((Act.REMOVE, Act.REMOVE, Act.QUARANTINE))
                older = self._statements[-2:-1] or self._statements
                ended = (
                    rng.choice(self._statements) if rng.random() < 0.4 else older[0]
                )  # of an upgrade, the one before
                yield self._deploy(at, self._end(ended, act))
        last = max(at, length, begun) + 6 * SECOND  # a watch that never ends is told of every window, for ever
        for client in self._clients:
            for number in range(WATCHES):
                yield Action(last, Verb.UNWATCH, (client,), f"n{number}")

    def _watch(self, at: int) -> Action:
        who, id = (self._rng.choice(self._clients),), f"n{self._rng.randrange(WATCHES)}"
        return Action(at, Verb.WATCH, who, id, aggregate=NAME)

    def _deploy(self, at: int, statement: Signed) -> Action:
        return Action(at, Verb.DEPLOY, (self._rng.choice(self._clients),), statement=statement)

    def _install(self) -> Signed:
        """The next version, which replaces the one before, or another one that may have ended."""
        number = len(self._statements) + 1
        replaces = self._rng.choice(self._statements[-2:]).manifest.version if self._statements else ""
        statement = self._signed(f"{number}.0.0", _SOURCE.format(number=number, unit=unit(str(number))), replaces)
        self._statements.append(statement)
        return statement

    def _another(self, given: Signed) -> Signed:
        """The same version with another source: one of the two was not the author's."""
        return self._signed(given.manifest.version, f"{given.source}\n# changed\n", given.manifest.replaces)

    def _signed(self, version: str, source: str, replaces: str) -> Signed:
        self._issued += 1
        manifest = Manifest(
            network=NETWORK,
            name=NAME,
            version=version,
            digest=digest_of(source, "Units"),
            entry="Units",
            valid_until=_VALID,
            tier=Tier.PYTHON,
            issued_at=self._issued,
            replaces=replaces,
            window=(1_000, 1_000),
            grouped=False,
        )
        return signed(manifest, _keys().private, SIGNER, source)

    def _end(self, given: Signed, act: Act) -> Signed:
        self._issued += 1
        manifest = msgspec.structs.replace(given.manifest, act=act, issued_at=self._issued, replaces="")
        return signed(manifest, _keys().private, SIGNER)
