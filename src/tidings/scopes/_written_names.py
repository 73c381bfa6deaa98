"""Names in changes: what clients, brokers and credentials may be called.

They are looked at where a change comes in, whoever made it, and not where it is applied: a store may hold transactions
of a time when nobody looked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidings.model import ScopeError

from ._changes import Anchor, AnyChange, CreateScope, Join, SetAdministration, SetAttributes, SetRoles
from ._graph import CLIENT, is_client

MAX_CLIENT = 256
"""The most characters of the name of a client or a broker, as the network takes it."""
MAX_NAMED = 1_000
"""The most administrators of a scope, brokers that it trusts, and secrets that it admits, of each: all brokers keep
them, and send them to everybody who looks."""
DIGEST = re.compile(r"[0-9a-f]{32}")
"""How a scope remembers a secret; see `credential`."""


def check_names(changes: Iterable[AnyChange]) -> None:
    """Raise `ScopeError` for a name that nobody can have, and for a secret where its digest belongs."""
    for change in changes:
        match change:
            case Join(member=node) | SetAttributes(node=node) | SetRoles(node=node):
                if is_client(node):
                    _check(node.removeprefix(CLIENT), node, "a client")
            case Anchor(stay=True):
                _check(change.broker, change.broker, f"a broker that carries '{change.scope or 'root'}'")
            case CreateScope(id=scope) | SetAdministration(scope=scope):
                for word in ("administrators", "trusted", "admission"):
                    if (count := len(getattr(change, word) or ())) > MAX_NAMED:
                        raise ScopeError(
                            f"{word} of '{scope or 'root'}': {count:,} names, at most {MAX_NAMED:,} are allowed; "
                            "name fewer"
                        )
                for name in change.administrators or ():
                    _check(name, name, f"an administrator of '{scope or 'root'}'")
                    if is_client(name):  # taken as it is, it would give the right to nobody, and nobody would notice
                        raise ScopeError(
                            f"{name!r} cannot name an administrator of '{scope or 'root'}': write the name of the "
                            f"client without {CLIENT}, {name.lstrip(CLIENT)!r}"
                        )
                for name in change.trusted or ():
                    _check(name, name, f"a broker that '{scope or 'root'}' trusts")
                if not all(map(DIGEST.fullmatch, change.admission or ())):
                    raise ScopeError(
                        f"the admission of '{scope or 'root'}' holds something that is no digest: everybody who may "
                        "read the graph would read the secret; write what `tidings.scopes.credential` makes of it"
                    )


def _check(name: str, shown: str, what: str) -> None:
    if not 0 < len(name) <= MAX_CLIENT or not name.isprintable():
        raise ScopeError(
            f"{shown[:60]!r} cannot name {what}: write 1 to {MAX_CLIENT} characters, all of which can be printed"
        )
