"""Refusals: what an answer of the authority means as an exception.

ScopeError                   the change cannot be: the text says why, and what would help
├── NotAllowed               whoever asked may not
├── AuthorityUnreachable     nobody can say now; nothing was changed, or it is not known whether it was
├── NotTrusted               it would lead traffic over brokers that a scope does not trust
├── NoAuthority              nothing says which broker orders changes
└── MappingError and others of `tidings.model`
"""

from __future__ import annotations

from tidings import model
from tidings.model import ScopeError

from ._messages import Answer
from ._rights import FrozenGraph, NotAllowed


class AuthorityUnreachable(ScopeError):
    """The broker that orders changes of the scope graph does not answer; traffic goes on as it was."""


class NotTrusted(ScopeError):
    """A change that would lead the traffic of a scope over a broker that it does not trust."""


class NoAuthority(ScopeError):
    """No broker is named that orders changes of the scope graph."""


_KINDS = {kind.__name__: kind for kind in (NotAllowed, FrozenGraph, NotTrusted, AuthorityUnreachable, NoAuthority)}


def refusal_in(answer: Answer) -> ScopeError | None:
    """The exception that an answer stands for; None: the change was made."""
    if not answer.error:
        return None
    kind: object = _KINDS.get(answer.error) or getattr(model, answer.error, ScopeError)
    if isinstance(kind, type) and issubclass(kind, ScopeError):
        return kind(answer.reason)
    return ScopeError(answer.reason)
