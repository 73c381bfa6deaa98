"""Keys of borders: what a gateway signs with, and by what another one knows that it did.

A key has a name, by which scopes refer to it, and one of two kinds. A *secret* is shared by those who sign and those
who check (HMAC-SHA256); it needs nothing else installed. A *pair* (Ed25519, by the extra `aggregation`) has a private
half that signs and a public one that checks, so those who check cannot sign.

A key is replaced while everything runs: those who check take two at a time, the one in use and the next one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from tidings.model import ScopeError

from ._borders import MAX_KEY_NAME, is_key_name

MAX_CHECKS = 2
"""The most keys of one name that are taken for right: the one in use, and the next one."""
VALID = 300.0
"""Seconds for which a seal holds, unless a key says otherwise."""
_SECRET, _PRIVATE, _PUBLIC = "tidings-secret:", "tidings-private:", "tidings-public:"
_SIZE = 32

_Sign: TypeAlias = Callable[[bytes], bytes]
_Check: TypeAlias = Callable[[bytes, bytes], bool]


class BorderKey:
    """A key by which a gateway signs what leaves a scope, or checks what comes into one."""

    def __init__(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        sign: str | None = None,
        check: Iterable[str] = (),
        valid: float = VALID,
    ) -> None:
        """`scopes`: those that it vouches for. `sign` and `check` are keys as texts; `ScopeError` if one is none."""
        self.name = name
        self.scopes = frozenset(scopes)
        self.valid = round(valid * 1e6)
        checks = tuple(check)
        if not is_key_name(name):
            raise ScopeError(
                f"{name!r:.60} cannot name a key; use up to {MAX_KEY_NAME} letters, digits, '.', '_' and '-'"
            )
        if not self.scopes:
            raise ScopeError(f"the key '{name}' vouches for no scope; name those that may sign with it")
        if sign is None and not checks:
            raise ScopeError(f"the key '{name}' neither signs nor checks; give it sign_file, check_files or both")
        if len(checks) > MAX_CHECKS:
            raise ScopeError(
                f"the key '{name}' has {len(checks)} keys that check; give it the one in use and the next one"
            )
        self._sign = None if sign is None else _signing(name, sign)
        self._checks = [_checking(name, text) for text in checks]

    def sign(self, content: bytes) -> bytes | None:
        """A signature; None: this broker may only check."""
        return None if self._sign is None else self._sign(content)

    def vouches(self, content: bytes, signature: bytes) -> bool:
        """Whether one of the keys of this name has signed this."""
        return any(check(content, signature) for check in self._checks)

    def __repr__(self) -> str:
        return f"BorderKey({self.name!r}, {sorted(self.scopes)!r})"


def _signing(name: str, text: str) -> _Sign:
    kind, data = _parsed(name, text)
    if kind == _SECRET:
        return lambda content: hmac.digest(data, content, hashlib.sha256)
    if kind == _PRIVATE:
        return _library(name).private(data)
    raise ScopeError(f"the key '{name}' cannot sign with a public key; use the private one of the pair")


def _checking(name: str, text: str) -> _Check:
    kind, data = _parsed(name, text)
    if kind == _SECRET:
        return lambda content, signature: hmac.compare_digest(hmac.digest(data, content, hashlib.sha256), signature)
    if kind == _PUBLIC:
        return _library(name).public(data)
    raise ScopeError(f"the key '{name}' should not check with a private key; use the public one of the pair")


def _parsed(name: str, text: str) -> tuple[str, bytes]:
    """The kind of a key and its bytes. What is wrong with it is said without showing it."""
    text = text.strip()
    for kind in (_SECRET, _PRIVATE, _PUBLIC):
        if text.startswith(kind):
            try:
                data = base64.b64decode(text.removeprefix(kind), validate=True)
            except (binascii.Error, ValueError):
                break
            if len(data) == _SIZE:
                return kind, data
    raise ScopeError(
        f"the key '{name}' is no key: a line that begins with {_SECRET}, {_PRIVATE} or {_PUBLIC}, and {_SIZE} bytes in "
        "base64; make one with `tidings scope keygen`"
    )


class _Library(NamedTuple):
    private: Callable[[bytes], _Sign]
    public: Callable[[bytes], _Check]


def _library(name: str) -> _Library:
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    except ImportError:
        raise ScopeError(
            f"the key '{name}' is one of a pair, which needs the package cryptography; in a clone: "
            "pip install '.[aggregation]', or use a secret"
        ) from None

    def public(data: bytes) -> _Check:
        key = ed25519.Ed25519PublicKey.from_public_bytes(data)

        def check(content: bytes, signature: bytes) -> bool:
            try:
                key.verify(signature, content)
            except InvalidSignature:
                return False
            return True

        return check

    return _Library(lambda data: ed25519.Ed25519PrivateKey.from_private_bytes(data).sign, public)


def secret_key(data: bytes) -> str:
    """A secret as its file has it, from 32 bytes that nobody can guess."""
    return _SECRET + base64.b64encode(data).decode()
