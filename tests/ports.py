"""Ports on which nobody listens, for brokers that must come back where they were."""

from __future__ import annotations

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """So many, and no two the same."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]
