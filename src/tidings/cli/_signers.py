"""`[[aggregation.signer]]`: from tables of a configuration to those whom a broker trusts with code."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from tidings.aggregation.deploying import Signer, Tier
from tidings.model import DeploymentRefused

KEYS = ("identity", "keys", "tier", "tenants")


def signers_in(tables: Sequence[Mapping[str, Any]]) -> tuple[Signer, ...]:
    """The signers, or `DeploymentRefused`, with the number of the entry that is wrong."""
    found: dict[str, Signer] = {}
    for number, table in enumerate(tables, 1):
        try:
            signer = _signer(table)
            if signer.identity in found:
                raise DeploymentRefused(f"{signer.identity!r:.60} appears twice; give it two keys in one entry")
        except DeploymentRefused as error:
            raise DeploymentRefused(f"entry {number}: {error}") from None
        found[signer.identity] = signer
    return tuple(found.values())


def _signer(table: Mapping[str, Any]) -> Signer:
    for key in table:
        if key not in KEYS:
            close = difflib.get_close_matches(key, KEYS, n=1)
            remedy = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(KEYS)}"
            raise DeploymentRefused(f"{key!r:.40} is unknown; {remedy}")
    identity = table.get("identity")
    if not isinstance(identity, str) or not identity:
        raise DeploymentRefused('the identity is missing; add identity = "acme", who signs and owns the names acme.*')
    tier = table.get("tier", int(Tier.PYTHON))
    if type(tier) is not int or tier not in (Tier.EXPRESSION, Tier.PYTHON, Tier.ADVICE):
        raise DeploymentRefused(
            f"tier {tier!r:.20} is none; write 1 for expressions, 2 for Python in a worker, or 3 for an operator"
        )
    keys = _texts(table.get("keys"), "keys", "the public keys that `tidings aggregate keygen` prints, one or two")
    tenants = _texts(table.get("tenants", []), "tenants", 'the beginnings of names that it owns, such as ["acme"]')
    signer = Signer(identity, keys, Tier(tier), tenants)
    signer.check()
    return signer


def _texts(given: object, key: str, what: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(one, str) and one for one in given):
        raise DeploymentRefused(f"{key} is not a list of texts; write {what}")
    return tuple(given)
