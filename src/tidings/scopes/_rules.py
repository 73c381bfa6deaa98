"""Rules as the graph keeps them: the text of each, in whose name it acts, and what it makes.

A rule belongs to a scope. `tidings.scopes.language` reads it, brokers watch for its event, and the authority carries
out what it does (`service._watching`, `service._firing`).
"""

from __future__ import annotations

import hashlib

import msgspec

from tidings.model import ScopeError

MAX_RULES = 64
"""The most rules of one scope."""
MAX_RULE = 4_096
"""The most characters of one rule: reading them takes about 10 ms."""


class Rule(msgspec.Struct, frozen=True):
    """One rule of a scope."""

    text: str
    """An UPDATE of the scope language, as it is printed."""
    deploys: str = ""
    """If it creates scopes: the DEPLOY that it carries out."""
    who: str = ""
    """The client in whose name it acts. The authority sets it, and what follows: what others say is ignored."""
    everything: bool = False
    """Whether that client could change everything when it deployed the rule."""

    @property
    def key(self) -> str:
        """A short name of what it says, whoever has deployed it."""
        return hashlib.blake2b(f"{self.text}\n{self.deploys}".encode(), digest_size=8).hexdigest()

    def __str__(self) -> str:
        return " ".join(self.text.split())


def check_rules(scope: str, rules: tuple[Rule, ...]) -> None:
    """Raise `ScopeError` unless a scope may have these rules, whatever they say."""
    place = f"'{scope}'" if scope else "the root scope"
    if len(rules) > MAX_RULES:
        raise ScopeError(f"{place} would have {len(rules)} rules, at most {MAX_RULES} are allowed; take some away")
    for rule in rules:
        size = max(len(rule.text), len(rule.deploys))
        if size > MAX_RULE:
            raise ScopeError(
                f"a rule of {place} has {size:,} characters, at most {MAX_RULE:,} are allowed; divide it: {rule!s:.60}"
            )
    if len({rule.key for rule in rules}) < len(rules):
        raise ScopeError(f"{place} has a rule twice; keep one of the two")
