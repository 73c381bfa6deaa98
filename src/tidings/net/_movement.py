"""Movement: what administrators ask about clients that roam, and change in the neighbour graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidings.broker import Link
from tidings.mobility import HandOff, Roaming, Whole
from tidings.model import AccessDenied, TidingsError
from tidings.wire import (
    MAX_CLIENTS,
    CopyStatus,
    EdgeStatus,
    EvacuationStatus,
    HostedStatus,
    MobilityReply,
    MobilityRequest,
    MobilityStatus,
    MoveStatus,
    PresenceStatus,
    Refused,
    encode_evacuation,
    encode_mobility,
)

if TYPE_CHECKING:
    from ._host import Host

MAX_FILE = 1_000_000
"""The most bytes of a file that is imported."""
EVACUATING = ("evacuate", "evacuation")
"""Requests that are about one broker: begin, and tell how far it is."""


class Movement:
    """Answers for one broker."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.copies: Callable[[str], list[CopyStatus]] = lambda client: []
        """Set by whoever keeps copies: those of one client, or with "" all."""
        host.broker.on_client_message(MobilityRequest, self._asked)

    def _asked(self, link: Link, request: MobilityRequest) -> None:
        if link.guard is not None and not link.guard.administer:
            raise AccessDenied(f"'{link.guard.name}' may not see or change how clients move; that needs `administer`")

        def answer(message: MobilityReply | Refused) -> None:
            if self._host.broker.client(link.name) is link:
                self._host.broker.send(link, message)

        def told(status: EvacuationStatus | TidingsError) -> None:
            if isinstance(status, TidingsError):
                answer(Refused(type(status).__name__, str(status), request.id))
            else:
                answer(MobilityReply(request.id, encode_evacuation(status)))

        if request.action in EVACUATING:
            if not request.old:
                raise TidingsError("no broker is named; say which one is to be evacuated")
            begin = request.action == "evacuate"
            self._host.evacuation.order(request.old, link.name, told, begin=begin)
        else:
            self.order(request, lambda whole: answer(MobilityReply(request.id, self.encoded(whole, request.client))))

    def order(self, request: MobilityRequest, done: Callable[[Whole], None]) -> None:
        """Do what somebody who may asks for; raises `TidingsError` before anything changes."""
        neighbourhood = self._host.neighbourhood
        match request.action:
            case "look":
                neighbourhood.look(done, request.client)
            case "import" if len(request.file) <= MAX_FILE:
                neighbourhood.take(request.file, request.place or "the graph", done)
            case "import":
                raise TidingsError(f"{request.place}: {len(request.file):,} bytes; give at most {MAX_FILE:,}")
            case "forget" if request.old:
                neighbourhood.forget(request.old, request.new, done)
            case _:
                raise TidingsError(
                    f"'{request.action:.20}' is no request about mobility; use look, import, forget or evacuate"
                )

    def encoded(self, whole: Whole, client: str = "") -> bytes:
        """What is to be said, of all clients or of one."""
        neighbourhood, hosts = self._host.neighbourhood, self._host.hosts
        graph, now = neighbourhood.graph, self._host.now()
        hosted = [one for one in hosts.hosted() if client in ("", one.client)]
        return encode_mobility(
            MobilityStatus(
                broker=self._host.broker.name,
                scheme=self._host.options.mobility.scheme.value,
                directed=graph.options.directed,
                edges=tuple(
                    EdgeStatus(
                        old=edge.old,
                        new=edge.new,
                        weight=round(graph.weight(edge, now), 6),
                        created_at=edge.created_at,
                        last_used=edge.last_used,
                        pinned=edge.pinned,
                        dwell=round(edge.dwell, 3),
                    )
                    for edge in whole.edges
                ),
                missing=whole.missing,
                edge_timeout=graph.edge_timeout(),
                f_neg=graph.f_neg(now),
                f_pos=graph.f_pos(now),
                counters=self.counted(),
                hosted=tuple(
                    HostedStatus(client=one.client, epoch=one.epoch, since=one.since, away=one.away, last=one.last)
                    for one in itertools.islice(hosted, MAX_CLIENTS)
                ),
                copies=tuple(self.copies(client)[:MAX_CLIENTS]),
                presences=tuple(
                    PresenceStatus(broker=one.broker, state=one.state, since=one.since) for one in whole.presences
                ),
                moves=tuple(_move(one) for one in neighbourhood.moves if client in ("", one.client)),
                left_out=max(0, len(hosted) - MAX_CLIENTS),
            )
        )

    def counted(self) -> dict[str, int]:
        """What has happened since the broker started, and how large the graph is."""
        graph = self._host.neighbourhood.graph
        quality = graph.quality
        roaming = self._host.roaming
        keeping = roaming.keeping if roaming is not None else None
        virtual = keeping.virtual if keeping is not None else None
        return {
            "hand_offs": self._host.neighbourhood.arrived,
            "hits": quality.hits,
            "early": quality.early,
            "misses": quality.misses,
            "copies_refused": roaming.refused if roaming is not None else 0,
            "edges_added": quality.additions,
            "edges_removed": quality.removals,
            "edges": len(graph),
            "copies": len(keeping.copies) if keeping is not None else 0,
            "copies_listening": roaming.listening if roaming is not None else 0,
            "buffered_bytes": keeping.buffer.bytes if keeping is not None else 0,
            "copies_warm": len(keeping.warm) if keeping is not None else 0,
            "warm_bytes": keeping.warm.buffer.bytes if keeping is not None else 0,
            "warm_refused": keeping.warm.refused if keeping is not None else 0,
            "fetched": roaming.fetched if roaming is not None else 0,
            "overwritten": keeping.buffer.overwritten if keeping is not None else 0,
            "virtual_clients": len(virtual.clients) if virtual is not None else 0,
            "virtual_hits": virtual.used if virtual is not None else 0,
            "virtual_lead_ms": virtual.lead // 1_000 if virtual is not None else 0,
        }

    def quality(self) -> tuple[float, float]:
        """F_neg and F_pos of the window."""
        graph, now = self._host.neighbourhood.graph, self._host.now()
        return graph.f_neg(now), graph.f_pos(now)


def _move(one: HandOff) -> MoveStatus:
    return MoveStatus(
        client=one.client,
        old=one.old,
        new=one.new,
        at=one.at,
        away=one.away,
        outcome=one.outcome.value if one.outcome is not None else "",
        missed=one.missed,
        pause=one.pause,
    )


def copies_of(roaming: Roaming, client: str) -> list[CopyStatus]:
    """The copies that a broker keeps of one client, or with "" of all."""
    held = [*roaming.keeping.copies.values(), *roaming.homes.copies]
    return [
        CopyStatus(
            client=one.whose.name,
            state=one.state.value,
            controller=one.controller,
            subscriptions=one.subscriptions,
            buffered=len(one.references),
        )
        for one in held
        if client in ("", one.whose.name)
    ]
