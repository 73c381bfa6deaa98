"""Brokers with an authority for their scopes, and who may enter them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from net.world import connected, options, until

from tidings.net import Access, AccessEntry, Server, serve

OPERATOR, ALICE, BOB = "operator-token-1234567", "alice-token-123456789", "bob-token-12345678901"


def access() -> Access:
    return Access(
        tokens={
            OPERATOR: AccessEntry("operator", administer=True, names=("root",)),
            ALICE: AccessEntry("alice"),
            BOB: AccessEntry("bob"),
        }
    )


@contextlib.asynccontextmanager
async def network(tmp_path: Path, ports: dict[str, int], **more: Any) -> AsyncIterator[dict[str, Server]]:
    """Three brokers in a row, b in the middle is the authority; each has a disk."""
    async with contextlib.AsyncExitStack() as stack:
        servers = {}
        for name, neighbours in (("b", ""), ("a", "b"), ("c", "b")):
            dialled = tuple(f"tidings://127.0.0.1:{ports[other]}" for other in neighbours)
            chosen = options(name, neighbours=dialled, authority="b", data=tmp_path / name, **more)
            servers[name] = await stack.enter_async_context(serve(replace(chosen, port=ports[name])))
        await until(lambda: connected(servers.values()) and all(s.host.broker.scoping.ready for s in servers.values()))
        yield servers
