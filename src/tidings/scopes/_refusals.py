"""Refusals: what an answer of the authority means as an exception. The classes stand in `tidings.model`."""

from __future__ import annotations

from tidings.model import ScopeError, refusal

from ._messages import Answer


def refusal_in(answer: Answer) -> ScopeError | None:
    """The exception that an answer stands for; None: the change was made."""
    if not answer.error:
        return None
    error = refusal(answer.error, answer.reason)
    return error if isinstance(error, ScopeError) else ScopeError(answer.reason)
