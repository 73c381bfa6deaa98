"""The waves by which a version of the graph comes to be, broker by broker. See `_service`; and `_census`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from tidings.broker import WaveKind
from tidings.model import ScopeError
from tidings.scopes._graph import client_node
from tidings.scopes._messages import decode_transaction

from ._census import CensusWave

if TYPE_CHECKING:
    from ._service import Scopes

MAX_HOLD = 15_000_000
"""Microseconds after which publications are no longer held back for a change, whatever has become of it."""


def graph_waves(service: Scopes) -> Mapping[str, WaveKind]:
    return {
        "prepare": _Prepare(service),
        "activate": _Activate(service),
        "hold": _Hold(service),
        "flush": _Flush(),
        "release": _Release(service),
        "census": CensusWave(service),
    }


def missing_anchors(answer: bytes) -> set[tuple[str, str]]:
    """Which (scope, broker) the answer of a wave of kind "prepare" asks for."""
    return set(msgspec.msgpack.decode(answer, type=list[tuple[str, str]])) if answer else set()


class _Answered:
    """A wave of which only completeness counts."""

    def combine(self, answers: list[bytes]) -> bytes:
        """Nothing to combine."""
        return b"ok"


class _Prepare:
    def __init__(self, service: Scopes) -> None:
        self._service = service

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Make the tables; answer when everything that is announced in them has settled: which anchors are missing."""
        service = self._service
        try:
            known = service.prepare([decode_transaction(one) for one in msgspec.msgpack.decode(body, type=list[bytes])])
        except (ScopeError, msgspec.MsgspecError):
            service.context.refused()
            known = False
        if known:
            service.context.settling.when_settled(lambda: answer(msgspec.msgpack.encode(service.anchors.missing())))
        else:
            answer(None)

    def combine(self, answers: list[bytes]) -> bytes:
        """All anchors that are missing."""
        return msgspec.msgpack.encode(sorted(set().union(*map(missing_anchors, answers))))


class _Activate(_Answered):
    def __init__(self, service: Scopes) -> None:
        self._service = service

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Judge by the new version."""
        version = int.from_bytes(body, "big")
        self._service.activate(version)
        answer(b"ok" if self._service.scoping.ready and self._service.versions.newest >= version else None)


class _Hold(_Answered):
    def __init__(self, service: Scopes) -> None:
        self._service = service

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Hold publications back: those of these nodes and of everything below them; of everybody, if none is named."""
        service = self._service
        version, *nodes = msgspec.msgpack.decode(body, type=list[str])
        graph = service.graph
        below = set().union(*(graph.below(node) for node in nodes))
        service.scoping.hold_for(
            f"change {version}", (lambda client: client_node(client) in below) if nodes else lambda client: True
        )
        service.context.call_later(MAX_HOLD, lambda: service.scoping.release(f"change {version}"))
        answer(b"ok")


class _Release(_Answered):
    def __init__(self, service: Scopes) -> None:
        self._service = service

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Publish what was held back."""
        self._service.scoping.release(f"change {body.decode()}")
        answer(b"ok")


class _Flush(_Answered):
    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Nothing but to have been here: what went before has arrived."""
        answer(b"ok")
