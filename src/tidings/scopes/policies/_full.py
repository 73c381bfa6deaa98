"""`full`: everybody gets it, as without a policy."""

from __future__ import annotations

from ._policy import Policy, PolicyContext, only


class Full(Policy):
    """All candidates, at once."""

    def init(self, context: PolicyContext) -> None:
        only(context)
