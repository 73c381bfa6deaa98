"""Deploying definitions: what is said about one, who signs it, and what brokers agree on."""

from ._manifest import EVERY, INTERFACE, MAX_SOURCE, QUESTION, Act, Manifest, Tier, digest_of
from ._registry import SIDE_BY_SIDE, From, Judged, Phase, Place, Registry, check_unsigned, place_of
from ._signing import Keys, Signed, Signer, keygen, keys_of, signed, verify
from ._standing import Stage, Standing, joined, standing

__all__ = [
    "EVERY",
    "INTERFACE",
    "MAX_SOURCE",
    "QUESTION",
    "SIDE_BY_SIDE",
    "Act",
    "From",
    "Judged",
    "Keys",
    "Manifest",
    "Phase",
    "Place",
    "Registry",
    "Signed",
    "Signer",
    "Stage",
    "Standing",
    "Tier",
    "check_unsigned",
    "digest_of",
    "joined",
    "keygen",
    "keys_of",
    "place_of",
    "signed",
    "standing",
    "verify",
]
