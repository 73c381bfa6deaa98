"""What `tidings aggregate check` and `keygen` do: with files, and without a broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tidings.aggregation.deploying import digest_of, keygen
from tidings.aggregation.laws import SECONDS
from tidings.aggregation.workers import Check, Code, Describe, Described, Failed, Fingerprint, Lawful, Printed, entry_of
from tidings.model import DeploymentRefused, LawBroken
from tidings.net.workers import Worker

from ._border_keys import write_key
from ._errors import UsageError


def new_keys(path: Path) -> dict[str, Any]:
    """Write a private key to a new file that only its owner reads; the public key, and where the private one is.

    Raises `UsageError` if the file exists or cannot be written: a key is never overwritten.
    """
    keys = keygen()
    write_key(path, keys.private)
    return {"private": str(path), "public": keys.public}


def checked(path: Path, entry: str = "", *, seed: int = 0) -> dict[str, Any]:
    """Test a definition as a broker would, in two workers: its digest and what was found out.

    Raises `DeploymentRefused` for a source that cannot be deployed, `LawBroken` for one that breaks a law.
    """
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{path} cannot be read: {reason}; name a file of Python") from None
    chosen = entry_of(source, str(path), entry)
    digest = digest_of(source, chosen)
    return {"class": chosen, "digest": digest, "source": source, **asyncio.run(_tried(Code(source, chosen), seed))}


async def _tried(code: Code, seed: int) -> dict[str, Any]:
    first, second = Worker("check"), Worker("check")
    try:
        for worker in (first, second):
            worker.install("definition", code)
        lawful, one, described = await first.submit("definition", [Check(seed, SECONDS), Fingerprint(seed), Describe()])
        if isinstance(lawful, Failed):
            raise LawBroken(lawful.reason)
        (other,) = await second.submit("definition", [Fingerprint(seed)])
    finally:
        await first.close()
        await second.close()
    if not isinstance(one, Printed) or not isinstance(other, Printed):
        failed = one if isinstance(one, Failed) else other
        raise DeploymentRefused(f"it could not be tried: {getattr(failed, 'reason', failed)}")
    if one != other:
        raise LawBroken(
            "two processes give different results for the same records; use no sets, hashes or random numbers"
        )
    assert isinstance(lawful, Lawful)
    assert isinstance(described, Described)
    return {
        "rounds": lawful.rounds,
        "bytes": lawful.bytes,
        "layers": list(first.supervisor.layers),
        "name": described.name,
        "version": described.version,
        "window": described.window,
        "where": described.where,
        "grouped": described.grouped,
    }
