"""Session scopes: a scope with a session id. What is published in reaction to something in it stays out of the others.

The id and the mode are attributes of the scope, so everything that sets attributes makes and ends sessions. Ids are
unique: two scopes with one id would be one session, and whoever chose it second could look into the first. `"auto"`
stands for an id that no other scope has. `tidings.broker._causes` says what sessions do.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from tidings.model import ROOT_SCOPE, ScopeError

from ._attributes import AnyAttributes
from ._graph import Graph

SESSION_ID = "session-id"
"""The attribute that makes a scope a session scope."""
SESSION_MODE = "session-mode"
"""The attribute that says where reactions go."""
AUTO = "auto"
"""The id of a session whose administrator does not care."""
MAX_SESSION_ID = 256
"""The most characters of a session id."""


class SessionMode(enum.Enum):
    """Where reactions to what is in a session scope go."""

    DEFAULT = "default"
    """To its own scope, and to all that are no session scopes."""
    ORIGIN_ONLY = "origin_only"
    """To the scopes that handed over what they react to, and nowhere else."""


def check_session(graph: Graph, scope: str, attributes: AnyAttributes) -> None:
    """Raise `ScopeError` if the attributes of a scope speak of a session that cannot be."""
    id = attributes.get(SESSION_ID)
    mode = attributes.get(SESSION_MODE)
    if id is None and mode is None:
        return
    if id is None:
        raise ScopeError(f"scope '{scope}' has a {SESSION_MODE} but no {SESSION_ID}; set both, or remove the mode")
    if scope == ROOT_SCOPE:
        raise ScopeError("the root scope cannot be a session scope; make a scope in it, and let clients join that")
    if mode is not None and mode not in [one.value for one in SessionMode]:
        words = " or ".join(f"'{one.value}'" for one in SessionMode)
        raise ScopeError(f"{SESSION_MODE}={mode!r:.60} of scope '{scope}' is not a session mode; use {words}")
    if not isinstance(id, str) or not 0 < len(id) <= MAX_SESSION_ID or not id.isprintable():
        raise ScopeError(
            f"{SESSION_ID}={id!r:.60} of scope '{scope}' cannot be the id of a session; use a text of up to "
            f"{MAX_SESSION_ID} printable characters, or '{AUTO}'"
        )
    if id == AUTO:
        return
    for known in graph.scopes.values():
        if known.id != scope and known.attributes.get(SESSION_ID) == id:
            shown = "another scope" if known.hidden else f"scope '{known.id}'"
            raise ScopeError(
                f"{SESSION_ID}={id!r:.60} of scope '{scope}' belongs to {shown}; choose another, or '{AUTO}'"
            )


def sessions_of(graph: Graph) -> Iterator[tuple[str, str, SessionMode]]:
    """The session scopes of a graph, each with a text that tells its session from others, and its mode."""
    for scope in graph.scopes.values():
        if (id := scope.attributes.get(SESSION_ID)) is not None and not scope.abstract:
            confined = scope.attributes.get(SESSION_MODE) == SessionMode.ORIGIN_ONLY.value
            # No id that anybody chooses has a line break in it.
            session = f"\n{scope.id}" if id == AUTO else str(id)
            yield scope.id, session, SessionMode.ORIGIN_ONLY if confined else SessionMode.DEFAULT
