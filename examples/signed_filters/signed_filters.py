"""Signed filters: who may publish, subscribe and join what, written down and signed offline, checked by brokers.

Whoever holds the key issues grants. A broker needs the key and nothing else: no list of clients, nobody to ask.

    a client's grant       its name, what it may publish and advertise, what it may subscribe to, until when;
                           it is the token with which the client connects
    a membership's grant   a member, a scope, and the interface that it is admitted with;
                           it is a credential that an administrator presents with the join
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from tidings.model import Filter
from tidings.net import Access, AccessDenied, AccessEntry
from tidings.scopes import Decision, Interface

KEY_BYTES = 32
"""The fewest bytes of a key: it must not be guessed."""


class ClientGrant(msgspec.Struct, frozen=True, tag="client"):
    """What one client may do."""

    name: str
    until: float
    """Seconds since 1970."""
    publish: str = "FALSE"
    subscribe: str = "FALSE"


class MemberGrant(msgspec.Struct, frozen=True, tag="member"):
    """With which interface a member is admitted to a scope."""

    member: str
    scope: str
    until: float
    input: str = "FALSE"
    output: str = "FALSE"


_Grant = TypeVar("_Grant", ClientGrant, MemberGrant)


def sign(key: bytes, grant: ClientGrant | MemberGrant) -> str:
    """The grant as text that nobody can change, and nobody else can make."""
    if len(key) < KEY_BYTES:
        raise ValueError(f"a key of {len(key)} bytes can be guessed; use {KEY_BYTES}, from secrets.token_bytes")
    for text in (grant.publish, grant.subscribe) if isinstance(grant, ClientGrant) else (grant.input, grant.output):
        Filter.parse(text)  # a grant that no broker could read is not issued
    content = base64.urlsafe_b64encode(msgspec.json.encode(grant))
    return f"{content.decode()}.{_signature(key, content)}"


def verified(key: bytes, text: str, kind: type[_Grant]) -> _Grant | None:
    """The grant in a text, if it was signed with this key and has not run out."""
    content, _, signature = text.partition(".")
    if not hmac.compare_digest(_signature(key, content.encode()).encode(), signature.encode()):
        return None
    try:
        grant = msgspec.json.decode(base64.urlsafe_b64decode(content), type=kind)
    except (msgspec.MsgspecError, ValueError):
        return None  # signed, and something else
    return grant if grant.until > time.time() else None


def _signature(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class SignedAccess(Access):
    """Lets in who shows a signed grant, besides those whom the configuration names.

    Publications, subscriptions and advertisements are held to the filters of the grant, at the border broker.
    """

    key: bytes = field(default=b"", repr=False)

    @property
    def open(self) -> bool:
        """Never."""
        return False

    def identify(self, token: str | None, subject: str | None) -> AccessEntry:
        """Who this is, or `AccessDenied`."""
        grant = verified(self.key, token, ClientGrant) if token is not None else None
        if grant is not None:
            return AccessEntry(grant.name, Filter.parse(grant.publish), Filter.parse(grant.subscribe))
        try:
            return Access.identify(self, token, subject)
        except AccessDenied:
            raise AccessDenied("no valid grant: ask for one; an old one may have run out") from None


class SignedMembership:
    """An admission rule: a member needs a grant for the scope, and gets the interface that stands in it."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, member: str, scope: str, credentials: tuple[str, ...], action: str) -> Decision:
        """May this be?"""
        for text in credentials:
            grant = verified(self._key, text, MemberGrant)
            if grant is not None and (grant.member, grant.scope) == (member, scope):
                return Decision(True, imposed=Interface.parse(input=grant.input, output=grant.output))
        return Decision(False, reason=f"none of the credentials is a valid grant for {member} in {scope}")
