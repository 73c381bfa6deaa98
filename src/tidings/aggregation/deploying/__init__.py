"""Deploying definitions: what is said about one, who signs it, and what brokers agree on."""

from ._manifest import INTERFACE, MAX_SOURCE, Act, Manifest, Tier, digest_of
from ._screening import entry_of
from ._signing import Keys, Signed, Signer, keygen, signed, verify
from ._standing import Stage, Standing, joined, standing

__all__ = [
    "INTERFACE",
    "MAX_SOURCE",
    "Act",
    "Keys",
    "Manifest",
    "Signed",
    "Signer",
    "Stage",
    "Standing",
    "Tier",
    "digest_of",
    "entry_of",
    "joined",
    "keygen",
    "signed",
    "standing",
    "verify",
]
