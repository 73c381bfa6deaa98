"""Borders: what leaves a scope is sealed by its gateway, and what comes into one shows a seal, or does not come in.

Theory of operation
-------------------
Scopes that trust their own brokers may be joined by a scope whose brokers they do not trust: two security domains, and
a network between them. Where something crosses from the first into the one between, at the gateway of that edge, it
gets a *seal*: a signature by a key that only gateways have. Where it crosses into the second, the gateway checks it.

    scope has    what crosses                      at its gateway
    sign         upward, into a superscope         gets a seal, after the mapping of the edge; without the key: refused
    check        downward, from a superscope       its seal is checked, before the mapping of the edge
    neither      -                                 seals are neither added nor looked at

The seal is a tag of the route: `seal:<key>:<time>:<scopes>:<signature>`. What is signed, in one canonical form: the
name of the key, the time, the scopes that the copy came through up to the one that it enters here, its version, its
sessions, its identity, and its content. So a seal is good for nothing but this copy of this publication on its way out
of this scope: not for another scope, publication, publisher or session. The content is what it means, not how it is
written. A mapping between the two borders makes something else of it, for which nobody vouches.

A seal holds for a while after its time. Within it, whoever sends a copy again sends what its readers recognise as a
second copy.

What is refused is counted by its reason, and logged, at most once in a while for each border and reason. What comes
late, from the store of its origin, was judged by the reader's broker as a whole and crossed no gateway: it has no seal,
and a scope that checks refuses it (see `_owed`).
"""

from __future__ import annotations

import base64
import binascii
import enum
import itertools
import logging
import re
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec

from tidings.broker._causes import session_tags
from tidings.broker._runtime import Runtime
from tidings.broker._statistics import Statistics
from tidings.broker.interest import Border, View
from tidings.model import Identity, Route
from tidings.wire import Envelope, canonical_body

SEAL = "seal:"
"""Between brokers, what the tag of a sealed copy begins with."""
QUIET = 60_000_000
"""Microseconds for which the same border does not log the same reason again."""
_FORM = "tidings border 1"
_SEAL = re.compile(r"([0-9a-f]{1,16}):([0-9a-f]{1,4}):([A-Za-z0-9+/=]+)")  # when, over how many scopes, signature

log = logging.getLogger("tidings.broker")


class BorderKey(Protocol):
    """A key by which borders sign and check."""

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that it vouches for."""
        ...

    @property
    def valid(self) -> int:
        """Microseconds for which a seal holds."""
        ...

    def sign(self, content: bytes) -> bytes | None:
        """A signature; None: this broker may only check."""
        ...

    def vouches(self, content: bytes, signature: bytes) -> bool:
        """Whether one of the keys of this name has signed this."""
        ...


class Unsealed(enum.Enum):
    """Why a border refuses something."""

    UNSIGNED = "no key to sign"
    UNCHECKED = "no key to check"
    MISSING = "missing"
    EXPIRED = "expired"
    EARLY = "of the future"
    STRANGE = "of another scope"
    WRONG = "wrong"
    LATE = "late"


class _Seal(NamedTuple):
    """What the tag of a sealed copy says."""

    made_at: int
    scopes: int
    """How many scopes of its path it had come through then."""
    signature: bytes


class Borders:
    """What one broker does at the borders of scopes that sign and check."""

    def __init__(self, name: str, runtime: Runtime, statistics: Statistics) -> None:
        self._name = name
        self._runtime = runtime
        self._refusals = statistics.border_refusals
        self.keys: Mapping[str, BorderKey] = {}
        """Those of this broker, by name; whoever runs it knows them."""
        self._logged: dict[tuple[str, Unsealed], tuple[int, int]] = {}
        """For each border and reason, when it was logged last, and how often it has happened since."""

    def sealed(self, route: Route, envelope: Envelope, border: Border) -> tuple[str, ...] | None:
        """The tags of a copy that leaves a scope, with its seal; None: it may not leave. `route` is its new one."""
        scope, key = route.source, self.keys.get(border.sign)
        others = tuple([tag for tag in route.tags if not tag.startswith(f"{SEAL}{border.sign}:")])
        if key is not None and scope in key.scopes:
            now = self._runtime.now()
            signature = key.sign(_signed(border.sign, now, route.path, route, envelope))
            if signature is not None:
                text = base64.b64encode(signature).decode()
                return (*others, f"{SEAL}{border.sign}:{now:x}:{len(route.path):x}:{text}")
        lacks = f"broker '{self._name}' has no key '{border.sign}' to sign for '{scope}'"
        what = f"{lacks}; add it as [[border_key]], with sign_file"
        self._refuse(envelope.identity, f"out of '{scope}'", scope, Unsealed.UNSIGNED, what)
        return None

    def admits(self, route: Route, envelope: Envelope, scope: str, border: Border) -> bool:
        """Whether a copy, as it is outside, shows what it needs to come into a scope."""
        found = self._judged(route, envelope, border.check)
        if found is None:
            return True
        self._refuse(envelope.identity, f"from '{route.scope}' into '{scope}'", scope, *found)
        return False

    def _judged(self, route: Route, envelope: Envelope, name: str) -> tuple[Unsealed, str] | None:
        """What is wrong with the seal of a copy; None: nothing."""
        key = self.keys.get(name)
        if key is None:
            what = f"broker '{self._name}' has no key '{name}' to check it; add it as [[border_key]]"
            return Unsealed.UNCHECKED, what
        begin = f"{SEAL}{name}:"
        tag = next((tag for tag in route.tags if tag.startswith(begin)), None)
        if tag is None:
            return (
                Unsealed.MISSING,
                f"it has no signature with key '{name}'; let the scope that it comes from sign with that key",
            )
        seal = _parsed(tag[len(begin) :])
        if seal is None or not 1 < seal.scopes <= len(route.path):
            return Unsealed.WRONG, f"its signature with key '{name}' cannot be read; a broker on its way has changed it"
        path = route.path[: seal.scopes]
        if path[-2] not in key.scopes:
            scopes = ", ".join(f"'{scope}'" for scope in sorted(key.scopes))
            return (
                Unsealed.STRANGE,
                f"its signature with key '{name}' is of '{path[-2]:.60}'; the key vouches here for {scopes}",
            )
        age = self._runtime.now() - seal.made_at
        if age > key.valid:
            late = f"its signature with key '{name}' is {age / 1e6:.1f} s old, and holds for {key.valid / 1e6:g} s"
            return Unsealed.EXPIRED, f"{late}; compare the clocks of both brokers"
        if age < -key.valid:
            return (
                Unsealed.EARLY,
                f"its signature with key '{name}' was made {-age / 1e6:.1f} s from now; compare the clocks",
            )
        if not key.vouches(_signed(name, seal.made_at, path, route, envelope), seal.signature):
            wrong = f"its signature with key '{name}' does not match its content"
            return Unsealed.WRONG, f"{wrong}; a key is wrong, or a broker has changed it"
        return None

    def late(self, identity: Identity, path: tuple[str, ...]) -> None:
        """A subscription does not get something that came late, because nothing vouches for it."""
        what = "it comes late, from the store of its origin and by no gateway, so nothing vouches for it"
        self._refuse(identity, f"to a reader in '{path[-1]}'", path[-1], Unsealed.LATE, what)

    def _refuse(self, identity: Identity, where: str, scope: str, reason: Unsealed, what: str) -> None:
        self._refusals[reason.value] += 1
        now = self._runtime.now()
        logged, more = self._logged.get((scope, reason), (-QUIET, 0))
        if now - logged < QUIET:
            self._logged[scope, reason] = logged, more + 1
            return
        self._logged[scope, reason] = now, 0
        event = f"{identity.origin}:{identity.epoch}:{identity.seq} of '{identity.publisher}'"
        others = f" ({more:,} more since the last report)" if more else ""
        log.warning("border: %s was not let %s: %s%s", event, where, what, others)


def is_checked(path: tuple[str, ...], view: View) -> bool:
    """Whether a way leads down into a scope that checks what comes in."""
    checking = [scope for scope, border in view.borders.items() if border.check]
    return any(scope in checking and scope not in view.supers(before) for before, scope in itertools.pairwise(path))


def _parsed(text: str) -> _Seal | None:
    found = _SEAL.fullmatch(text)
    if found is None:
        return None
    try:
        return _Seal(int(found[1], 16), int(found[2], 16), base64.b64decode(found[3], validate=True))
    except (ValueError, binascii.Error):
        return None


def _signed(name: str, made_at: int, path: tuple[str, ...], route: Route, envelope: Envelope) -> bytes:
    """What a seal vouches for, the same bytes wherever they are made."""
    sessions = sorted(session_tags(route.tags))
    content = canonical_body(envelope.notification)
    return msgspec.msgpack.encode((_FORM, name, made_at, path, route.version, sessions, envelope.identity, content))
