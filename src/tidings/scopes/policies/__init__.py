"""Transmission policies: which of those that may get something do get it, and when. See `docs/policies.md`."""

from ._policy import Policy, PolicyContext, PolicyKind, PolicyUse, Wait
from ._registry import register_policy

__all__ = ["Policy", "PolicyContext", "PolicyKind", "PolicyUse", "Wait", "register_policy"]
