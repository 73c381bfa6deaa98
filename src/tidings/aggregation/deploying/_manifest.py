"""What is deployed: a manifest, the source, and who vouches for them.

A definition is known by its name, its version and the digest of its source, so that results of different code are
never mixed. The signature covers the whole statement: what is done, in which network, with which code, tier and
capabilities, and until when. A statement that removes code is signed like one that installs it.
"""

from __future__ import annotations

import enum
import hashlib
import re
from datetime import timedelta

import msgspec

from tidings.aggregation.definitions import MAX_PARTIAL, Sliding
from tidings.model import DeploymentRefused, Filter, TidingsError, shortened

INTERFACE = 1
"""The level of the interface that definitions are written for."""
MAX_SOURCE = 65_536
"""The most bytes of a source."""
MAX_NAME = 128
"""The most characters of a name and of a version."""

_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_]*)+")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+){0,2}([-+.]?[a-z0-9]+)*")
_ENTRY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")
EVERY = "*"
"""As a name, in a statement that quarantines: everything that was deployed up to then."""
QUESTION = "question"
"""As a class: the source is a question as text."""
CAPABILITIES = frozenset({"identity"})
"""What a definition may be allowed beyond counting."""


class Tier(enum.IntEnum):
    """How much is trusted."""

    CATALOGUE = 0
    EXPRESSION = 1
    PYTHON = 2
    """Python in a worker process."""
    ADVICE = 3
    """Advice of operators, within the broker."""


class Act(enum.StrEnum):
    """What a statement does."""

    INSTALL = "install"
    REMOVE = "remove"
    QUARANTINE = "quarantine"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A statement about one definition; what is signed is its canonical form."""

    act: Act = Act.INSTALL
    network: str
    name: str
    version: str
    digest: str
    entry: str
    """The class in the source."""
    valid_until: int
    """Seconds since 1970; after it, the statement is not taken any more."""
    tier: Tier = Tier.PYTHON
    capabilities: tuple[str, ...] = ()
    interface: int = INTERFACE
    max_bytes: int = MAX_PARTIAL
    issued_at: int = 0
    """Milliseconds since 1970, by the clock of whoever made the statement."""
    replaces: str = ""
    """The version that this one takes over from; "": there is none."""
    window: tuple[int, int] | None = None
    """Of Python: size and slide, in milliseconds; None: it runs once on each broker."""
    where: str = ""
    """Of Python: a filter; records that do not pass it are not handed to the code."""
    grouped: bool = True
    """Of Python: whether it has a value for each key; else for the key "" only."""

    @property
    def tenant(self) -> str:
        """Whose name it is: everything before the last dot."""
        return self.name.rpartition(".")[0]

    @property
    def once(self) -> bool:
        """Whether it is Python that runs once on each broker."""
        return self.tier is Tier.PYTHON and self.window is None

    def check(self) -> None:
        """Raise `DeploymentRefused` if this is not a statement that can be made."""
        if self.name == EVERY and self.act is Act.QUARANTINE:
            return
        _fits(_NAME, self.name, "name", "write TENANT.NAME in small letters, such as acme.topic_reach")
        _fits(_VERSION, self.version, "version", "write one like 1.0.0")
        _fits(_ENTRY, self.entry, "class", "name a class of the source")
        _fits(_DIGEST, self.digest, "digest", "it has 64 hexadecimal digits")
        if self.replaces:
            _fits(_VERSION, self.replaces, "version", "write one like 1.0.0")
        if unknown := set(self.capabilities) - CAPABILITIES:
            raise DeploymentRefused(f"{self.name}: there is no capability {min(unknown)!r:.40}; there is identity")
        if self.interface != INTERFACE:
            raise DeploymentRefused(
                f"{self.name} is written for level {self.interface} of the interface; this broker has level {INTERFACE}"
            )
        if not 0 < self.max_bytes <= MAX_SOURCE:
            raise DeploymentRefused(f"{self.name}: partials of {self.max_bytes:,} bytes; give 1 to {MAX_SOURCE:,}")
        if self.tier is Tier.PYTHON and self.act is Act.INSTALL:
            self._check_python()

    def _check_python(self) -> None:
        if self.window is None:
            if self.where:
                raise DeploymentRefused(
                    f"{self.name} has a filter and no window, and brokers run Python over windows; give the class a "
                    "window, such as Tumbling('60s')"
                )
            return
        try:
            self.sliding().check_live()
            Filter.parse(self.where or "TRUE")
        except TidingsError as error:
            raise DeploymentRefused(f"{self.name}: {error}") from None

    def sliding(self) -> Sliding:
        """The window of Python; `AggregateError` if it is none."""
        size, slide = self.window or (0, 0)
        return Sliding(timedelta(milliseconds=size), timedelta(milliseconds=slide))

    def signed_form(self) -> bytes:
        """The bytes that a signature is made of: one form for one statement."""
        return b"tidings aggregate 1\n" + msgspec.json.encode(self, order="sorted")


def digest_of(source: str, entry: str) -> str:
    """The digest of a source, with the class that is used of it; `DeploymentRefused` if it is too long.

    >>> digest_of("class A: pass", "A")[:12]
    '65d8e18549a7'
    """
    data = source.encode()
    if len(data) > MAX_SOURCE:
        raise DeploymentRefused(f"a source of {len(data):,} bytes, at most {MAX_SOURCE:,} are deployed; shorten it")
    return hashlib.sha256(len(data).to_bytes(8) + data + entry.encode()).hexdigest()


def _fits(pattern: re.Pattern[str], text: str, what: str, remedy: str) -> None:
    if len(text) > MAX_NAME or not pattern.fullmatch(text):
        raise DeploymentRefused(f"{shortened(text)!r} is not the {what} of a definition; {remedy}")
