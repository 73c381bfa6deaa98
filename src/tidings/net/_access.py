"""Who may connect, and what each may do: checked at the border, before anything enters.

An identity comes from a token or from the subject of a client certificate. Each identity has names that it may use, see
`_names`, and filters for what it may publish and what it may subscribe to. Without any identity configured everybody
may do everything; such a server only listens on this machine, unless it is told otherwise.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidings.model import EVERYTHING, AccessDenied, Filter, Matches, Notification

from ._patterns import matches


@dataclass(frozen=True, slots=True)
class AccessEntry:
    """Somebody who may connect."""

    name: str
    publish: Filter = EVERYTHING
    subscribe: Filter = EVERYTHING
    administer: bool = False
    broker: bool = False
    """Whether it may connect as a neighbour broker."""
    deploy: bool = False
    """Whether it may deploy aggregates, and end them; those who may administer may, too."""
    names: tuple[str, ...] = ()
    """Patterns of the names that it may use besides its own and those below it; `*` stands for any characters."""
    attributes: tuple[str, ...] = ()
    """Patterns of the attributes that its clients may bring when they connect."""
    count: tuple[str, ...] = ()
    """Patterns of the scopes in which it may ask how many there are; `root` is the root scope."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names that its clients may have, its own first."""
        return (self.name, f"{self.name}/*", *self.names)

    def may_be_called(self, name: str, *, broker: bool = False) -> bool:
        """Whether this name belongs to it. Brokers have a name each: none below another."""
        return any(matches(pattern, name) for pattern in ((self.name, *self.names) if broker else self.patterns))

    def may_count(self, scope: str) -> bool:
        """Whether it may ask how many there are in a scope."""
        return any(matches(pattern, scope or "root") for pattern in self.count)

    @property
    def publishes(self) -> Filter:
        """The filter that says all of what `check_publish` refuses."""
        return self.publish

    def check_publish(self, notification: Notification) -> None:
        """Raise `AccessDenied` unless it may publish this."""
        if not self.publish.matches(notification):
            raise AccessDenied(f"'{self.name}' may only publish notifications that pass {self.publish}")

    def check_subscribe(self, filter: Matches) -> None:
        """Raise `AccessDenied` unless everything that the filter accepts may be seen."""
        if self.subscribe is not EVERYTHING and not (isinstance(filter, Filter) and self.subscribe.covers(filter)):
            raise AccessDenied(f"'{self.name}' may only subscribe within {self.subscribe}")

    def check_advertise(self, filter: Matches) -> None:
        """Raise `AccessDenied` unless everything that the filter accepts may be published."""
        if self.publish is not EVERYTHING and not (isinstance(filter, Filter) and self.publish.covers(filter)):
            raise AccessDenied(f"'{self.name}' may only advertise within {self.publish}")

    def check_attributes(self, brought: Iterable[str]) -> None:
        """Raise `AccessDenied` unless its clients may bring all of these attributes."""
        for name in brought:
            if not any(matches(pattern, name) for pattern in self.attributes):
                allowed = ", ".join(self.attributes) or "none"
                raise AccessDenied(
                    f"clients of '{self.name}' may not bring the attribute '{name:.80}', only: {allowed}; "
                    "leave it out, or ask the administrator to add it to `attributes` of this identity"
                )


ANYBODY = AccessEntry("anybody", administer=True, broker=True, attributes=("*",))


@dataclass(frozen=True, slots=True)
class Access:
    """The identities, by token and by certificate subject."""

    tokens: Mapping[str, AccessEntry] = field(default_factory=dict)
    certificates: Mapping[str, AccessEntry] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether everybody may do everything."""
        return not self.tokens and not self.certificates

    @property
    def identities(self) -> list[AccessEntry]:
        """All of them, each once."""
        return list(dict.fromkeys((*self.tokens.values(), *self.certificates.values())))

    def identify(self, token: str | None, subject: str | None) -> AccessEntry:
        """Who this is, or `AccessDenied`. All tokens are compared, each in constant time."""
        if self.open:
            return ANYBODY
        found = None
        if token is not None:
            for known, identity in self.tokens.items():
                if hmac.compare_digest(known.encode(), token.encode()):
                    found = identity
        if found is None and subject is not None:
            found = self.certificates.get(subject)
        if found is None:
            why = "no credentials: this client showed neither a token nor a certificate"
            if token is not None or subject is not None:
                why = f"this {'token' if token is not None else 'certificate'} is not known here"
            raise AccessDenied(f"{why}; ask the administrator for a token or certificate")
        return found

    def __repr__(self) -> str:
        names = sorted({identity.name for identity in (*self.tokens.values(), *self.certificates.values())})
        return f"Access({', '.join(names) or 'open'})"  # never the tokens themselves
