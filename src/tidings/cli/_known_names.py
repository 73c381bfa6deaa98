"""Names of scopes and clients, for a shell that completes them.

They are asked of the broker that the command line names, as whoever it names, so nobody is told more than by
`tidings scope tree`. A shell asks at every TAB; so the answer is kept for some seconds, in a file that only its owner
can read. A broker that is not there, or does not answer within a second, has no names to offer, and says nothing: the
line that is being typed is no place for errors.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

KEPT_SECONDS = 20.0
"""How long an answer is good."""
PATIENCE = 1.0
"""Seconds that a broker has to answer."""
MAX_NAMES = 5_000
"""The most names that are kept, and offered."""
MAX_FILES = 16
"""The most answers that are kept, one for each broker and identity."""
_COMPLETING = "_TIDINGS_COMPLETE"
"""What a shell sets that completes a line."""


class Names(enum.Enum):
    """Which names a parameter takes."""

    SCOPES = "scopes"
    CLIENTS = "clients"
    BOTH = "both"


NAMED = {
    "SCOPE": Names.SCOPES,
    "[SCOPE]": Names.SCOPES,
    "MEMBER": Names.BOTH,
    "READER": Names.BOTH,
    "SCOPE|@CLIENT": Names.BOTH,
    "@CLIENT": Names.CLIENTS,
    "@PUBLISHER": Names.CLIENTS,
}
"""Which names a parameter takes, by how `--help` writes it."""


def completer(which: Names) -> Callable[[Any, str], list[str]]:
    """A function that offers the names that begin with what was typed."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        if _COMPLETING not in os.environ:
            return []
        return [name for name in _known(ctx.params) if _is_one(name, which) and name.startswith(incomplete)]

    return complete


def _is_one(name: str, which: Names) -> bool:
    return which is Names.BOTH or name.startswith("@") == (which is Names.CLIENTS)


def _known(options: Mapping[str, Any]) -> list[str]:
    """All names, as kept or as asked."""
    with contextlib.suppress(Exception):  # whatever is wrong, a shell has no use for it
        file = _file(options)
        kept = _kept(file)
        if kept is not None:
            return kept
        names = _asked(options)
        _keep(file, names)
        return names
    return []


def _asked(options: Mapping[str, Any]) -> list[str]:
    import asyncio  # noqa: PLC0415 - this, and the client, take longer to load than everything else here

    from ._connection import DEFAULT_BROKER, connect  # noqa: PLC0415

    def path(name: str, variable: str = "") -> Path | None:
        given = options.get(name) or os.environ.get(variable)
        return Path(given) if given else None

    async def names() -> list[str]:
        client = connect(
            list(options.get("broker") or os.environ.get("TIDINGS_BROKER", "").split() or [DEFAULT_BROKER]),
            token_file=path("token_file"),
            ca=path("ca", "TIDINGS_CA"),
            certificate=path("cert", "TIDINGS_CERT"),
            key=path("key", "TIDINGS_KEY"),
            name=options.get("client_name"),
            insecure=bool(options.get("insecure") or os.environ.get("TIDINGS_INSECURE")),
        )
        async with client:
            graph = await client.admin.graph(timeout=PATIENCE)
        return sorted(filter(None, graph.nodes()))[:MAX_NAMES]

    return asyncio.run(asyncio.wait_for(names(), PATIENCE))


def _kept(file: Path) -> list[str] | None:
    try:
        if not 0 <= time.time() - file.stat().st_mtime <= KEPT_SECONDS:
            return None
        names = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else None


def _keep(file: Path, names: list[str]) -> None:
    mine = file.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            json.dump(names, out)
        mine.replace(file)
        old = sorted(file.parent.glob("names-*.json"), key=lambda one: one.stat().st_mtime)[:-MAX_FILES]
        for one in old:
            one.unlink(missing_ok=True)


def _file(options: Mapping[str, Any]) -> Path:
    """Where the answer for these options is kept: one name for each broker and each who asks."""
    variables = [os.environ.get(f"TIDINGS_{name}", "") for name in ("BROKER", "TOKEN", "CA", "CERT", "KEY")]
    asked = [options.get(name) for name in ("broker", "token_file", "ca", "cert", "key", "client_name")]
    key = hashlib.blake2b(repr((asked, variables)).encode(), digest_size=12).hexdigest()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "tidings" / f"names-{key}.json"
