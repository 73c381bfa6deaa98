"""Keys and signatures: Ed25519, by the extra `aggregation`. Catalogue and questions need neither."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tidings.model import DeploymentRefused, SignatureEnded, UnknownSigner

from ._manifest import EVERY, Act, Manifest, Tier, digest_of

MAX_KEYS = 2
"""The most public keys of a signer: the one in use, and the next one."""
_PRIVATE = "tidings-private:"
_PUBLIC = "tidings-public:"


class Keys(NamedTuple):
    """A new pair, as texts."""

    private: str
    public: str


class Signer(msgspec.Struct, frozen=True):
    """Whom a broker trusts: an identity, its public keys, the highest tier that it may deploy, and its namespaces."""

    identity: str
    keys: tuple[str, ...]
    tier: Tier = Tier.PYTHON
    tenants: tuple[str, ...] = ()
    """Without any, the identity itself is its namespace."""

    def check(self) -> None:
        """Raise `DeploymentRefused` if this signer cannot be used."""
        if not 1 <= len(self.keys) <= MAX_KEYS:
            raise DeploymentRefused(f"signer {self.identity!r:.60} has {len(self.keys)} keys; give it 1 or {MAX_KEYS}")
        for key in self.keys:
            _bytes_of(key, _PUBLIC)


class Signed(msgspec.Struct, frozen=True):
    """A statement with its signature; the source comes with those that install."""

    manifest: Manifest
    signer: str
    signature: bytes
    source: str = ""


def keygen() -> Keys:
    """A new pair of keys. The private one belongs into a file that only its owner reads."""
    return _keys(_library().Ed25519PrivateKey.generate())


def keys_of(secret: bytes) -> Keys:
    """The pair of keys that belongs to 32 secret bytes: for simulated worlds, in which nothing is drawn twice."""
    return _keys(_library().Ed25519PrivateKey.from_private_bytes(secret))


def _keys(private: Any) -> Keys:
    return Keys(_text(_PRIVATE, private.private_bytes_raw()), _text(_PUBLIC, private.public_key().public_bytes_raw()))


def signed(manifest: Manifest, private: str, signer: str, source: str = "") -> Signed:
    """A statement, signed. Raises `DeploymentRefused` if it cannot be made."""
    manifest.check()
    if manifest.act is Act.INSTALL and digest_of(source, manifest.entry) != manifest.digest:
        raise DeploymentRefused(f"{manifest.name}: the digest is not that of the source; make the manifest anew")
    key = _library().Ed25519PrivateKey.from_private_bytes(_bytes_of(private, _PRIVATE))
    return Signed(manifest, signer, key.sign(manifest.signed_form()), source)


def verify(given: Signed, signers: Mapping[str, Signer], *, network: str, now: float) -> None:
    """Raise `DeploymentRefused` unless somebody whom this broker trusts vouches for exactly this, here and now.

    `UnknownSigner` and `SignatureEnded` say that nothing else is known to be wrong.

    Nothing of the source is looked at before the signature has been found right.
    """
    manifest = given.manifest
    manifest.check()
    name = f"{manifest.name} {manifest.version}"
    if not given.signature:
        raise DeploymentRefused(f"{name} is not signed; sign it with --sign-key, by a signer of [[aggregation.signer]]")
    signer = signers.get(given.signer)
    if signer is None:
        raise UnknownSigner(f"{name}: {given.signer!r:.60} is not a signer here; add it as [[aggregation.signer]]")
    signer.check()
    if not _vouched(signer.keys, given.signature, manifest.signed_form()):
        raise DeploymentRefused(f"{name}: the signature is not by {signer.identity}; sign it with the right key")
    if manifest.network != network:
        raise DeploymentRefused(f"{name} is signed for the network {manifest.network!r:.60}, this is {network!r:.60}")
    if manifest.name == EVERY:
        if signer.tier < Tier.ADVICE:
            raise DeploymentRefused(
                f"{signer.identity} may not quarantine everything; a signer with tier 3, an operator, may"
            )
    elif manifest.tier > signer.tier:
        raise DeploymentRefused(f"{name}: {signer.identity} may sign up to tier {signer.tier:d}, not {manifest.tier:d}")
    elif manifest.tenant not in (signer.tenants or (signer.identity,)):
        raise DeploymentRefused(
            f"{name}: the names of {manifest.tenant} are not {signer.identity}'s; "
            f"use {(signer.tenants or (signer.identity,))[0]}.{manifest.name.rpartition('.')[2]}"
        )
    if manifest.act is Act.INSTALL and digest_of(given.source, manifest.entry) != manifest.digest:
        raise DeploymentRefused(f"{name}: the source is not the one that was signed; deploy that")
    if now > manifest.valid_until:
        raise SignatureEnded(f"{name}: the signature ended {now - manifest.valid_until:,.0f} s ago; sign it anew")


def _vouched(keys: Sequence[str], signature: bytes, statement: bytes) -> bool:
    library = _library()
    for key in keys:
        try:
            library.Ed25519PublicKey.from_public_bytes(_bytes_of(key, _PUBLIC)).verify(signature, statement)
        except library.InvalidSignature:
            continue
        return True
    return False


def _text(prefix: str, data: bytes) -> str:
    return prefix + base64.b64encode(data).decode()


def _bytes_of(text: str, prefix: str) -> bytes:
    word = prefix.split("-")[1].rstrip(":")
    try:
        data = base64.b64decode(text.strip().removeprefix(prefix), validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not text.strip().startswith(prefix) or len(data) != 32:
        shown = f"{text.strip()[:24]!r}..." if word == "public" else "the text"
        raise DeploymentRefused(f"{shown} is not a {word} key; make one with `tidings aggregate keygen`")
    return data


class _Library(NamedTuple):
    Ed25519PrivateKey: Any
    Ed25519PublicKey: Any
    InvalidSignature: type[Exception]


def _library() -> _Library:
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    except ImportError:
        raise DeploymentRefused(
            "signatures need the package cryptography; in a clone: pip install '.[aggregation]'"
        ) from None
    return _Library(ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey, InvalidSignature)
