"""Neighbourhood: the neighbour graph of one broker, as a feature.

Theory of operation
-------------------
The feature learns from `Hosts`: an edge is learned at both brokers of a move when the old one has confirmed that it
hosted this client under the epoch that the client showed. The old broker decides whether the client may make a new
edge, and hands on when it made its last one, so that the ration holds in the whole network and not at each broker. A
broker keeps its own edges only, on disk if there is one; configured ones come from the configuration at each start and
are not written.

Edges expire when somebody looks at them. If a feature must hear of it, a timer looks, and runs only while there are
learned edges: a broker whose clients stay pays nothing.

Administrators look at, import and forget the graph of the whole network, by waves: every broker answers with its edges,
takes those of an import that touch it, or forgets. Brokers out of reach are named to whoever asked. If they ask for one
client, every broker says what it is to that client, too: the one where it is attached, or one that has a copy of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from tidings.broker import Feature, WaveKind
from tidings.model import TidingsError
from tidings.wire import pack, unpacker

from ._graph_file import edges_of, read_graph
from ._handoffs import HandOff, seen
from ._hosted import Moved
from ._hosts import Hosts
from ._kept_edges import KeptEdges
from ._neighbour_graph import SECOND, Change, Edge, GraphMode, GraphOptions, NeighbourGraph

LOOK_TIME = 2 * SECOND
"""Microseconds within which brokers answer."""
ATTEMPTS = 3
"""How often they are asked, if not all have answered."""
AGAIN = SECOND // 5
"""Microseconds between two attempts."""
SWEEPS = 20
"""How often edges are looked at, and written, in one edge timeout."""
MAX_SHOWN = 5_000
"""The most edges that one broker shows, and that one import may have."""
MAX_MOVES = 100
"""The hand-offs that are remembered."""


class Presence(msgspec.Struct, frozen=True, array_like=True):
    """What one broker is to one client."""

    broker: str
    state: str
    """"connected" or "away": the client is attached there; "passive" or "active": it has a copy of the client."""
    since: int = 0
    """Of an attached client: since when, in microseconds since 1970 UTC."""


class Whole(NamedTuple):
    """The graph of the network, as far as its brokers have answered."""

    edges: tuple[Edge, ...]
    missing: tuple[str, ...]
    """Brokers that have not."""
    presences: tuple[Presence, ...] = ()
    """Where the client is that was asked for, and where there are copies of it."""


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    brokers: tuple[str, ...]
    edges: tuple[Edge, ...] = ()
    presences: tuple[Presence, ...] = ()


class _Order(msgspec.Struct, frozen=True, array_like=True):
    """What every broker is to do."""

    edges: tuple[Edge, ...] | None = None
    """Have those of these that touch it; None: keep what it has."""
    forget: tuple[str, str] | None = None
    """Forget the edge between two brokers; with "" for the second, all of one."""
    client: str = ""
    """Say what they are to this client; "": to none."""


_read_answer, _read_order = unpacker(_Answer), unpacker(_Order)


class Neighbourhood(Feature):
    """Where clients of this broker go, and come from."""

    name = "neighbours"
    fail_stop = False

    def __init__(self, hosts: Hosts, options: GraphOptions | None = None, configured: Iterable[Edge] = ()) -> None:
        """`configured` are edges of a file, of any brokers; those of this one are taken."""
        self._hosts = hosts
        self.copy_of: Callable[[str], str] = lambda client: ""
        """Says in which state the copy of a client is that this broker has; "": it has none."""
        self.options = options or GraphOptions()
        self.graph = NeighbourGraph(self.options)
        self._configured = list(configured)
        self._written: dict[tuple[str, str], int] = {}
        """When each edge was last written to disk."""
        self._sweeping = False
        self.on_change: list[Callable[[Change], None]] = []
        """Called when this broker has got or lost neighbours; put something in before the broker is built."""
        self.on_hand_off: list[Callable[[HandOff], None]] = []
        """Called at the new broker for each client that has come from another one."""
        self.reported = False
        """Whether somebody calls `handed_off`, who knows what clients found; else it is called here."""
        self.moves: deque[HandOff] = deque(maxlen=MAX_MOVES)
        """The latest hand-offs to this broker."""
        self.arrived = 0
        """How many there were."""
        hosts.on_move.append(self._moved)
        hosts.edge_of = lambda moved: (
            self.graph.edge(moved.old, moved.new) is not None,
            self.graph.learned_at(_learner(moved)),
        )

    def start(self) -> None:
        """Take the edges from disk, and those that are configured."""
        self._kept = KeptEdges(self.context.log)
        edges = {(edge.old, edge.new): edge for edge in self._kept.read() if not edge.pinned}
        edges |= {(edge.old, edge.new): edge for edge in self._configured}
        self.graph = NeighbourGraph(self.options, self._own(edges.values()))
        self._sweep_later()

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """Everybody is asked, or told."""
        return {"graph": self}

    def neighbours(self) -> tuple[str, ...]:
        """Where clients of this broker may go next, the likeliest first."""
        self._changed(self.graph.expire(self.context.now()))
        return self.graph.neighbours(self.context.name)

    # --- learning -------------------------------------------------------------------------------------

    def _moved(self, moved: Moved) -> None:
        now, learner = self.context.now(), _learner(moved)
        self._changed(self.graph.expire(now))
        self.graph.remember_learner(learner, moved.learned_at)
        client, stayed = "" if moved.edge_known else learner, moved.stayed / SECOND
        self._changed(self.graph.learn(moved.old, moved.new, now, client=client, stayed=stayed))
        if (edge := self.graph.edge(moved.old, moved.new)) is not None:
            self._keep(edge, now - self.graph.edge_timeout() // SWEEPS)
        if moved.new == self.context.name and not self.reported:
            self.handed_off(seen(moved, now))

    def handed_off(self, hand_off: HandOff) -> None:
        """A client has come from another broker, and this is what it found."""
        self.arrived += 1
        self.moves.append(hand_off)
        if hand_off.outcome is not None:
            self.graph.arrived(hand_off.outcome)
        for told in self.on_hand_off:
            told(hand_off)

    def _changed(self, change: Change) -> None:
        for edge in change.added:
            self._keep(edge)
        for edge in change.removed:
            self._kept.delete(edge)
            self._written.pop((edge.old, edge.new), None)
        if change.added or change.removed:
            for told in self.on_change:
                told(change)
        self._sweep_later()

    def _keep(self, edge: Edge, unless_since: int | None = None) -> None:
        """Write an edge, unless what is on disk is not much older."""
        key = (edge.old, edge.new)
        if not edge.pinned and (unless_since is None or self._written.get(key, 0) < unless_since):
            self._written[key] = edge.last_used
            self._kept.put(edge)

    def _sweep_later(self) -> None:
        if self.on_change and not self._sweeping and any(not edge.pinned for edge in self.graph.edges.values()):
            self._sweeping = True
            self.context.call_later(max(self.graph.edge_timeout() // SWEEPS, SECOND), self._sweep)

    def _sweep(self) -> None:
        self._sweeping = False
        self._changed(self.graph.expire(self.context.now()))

    def _own(self, edges: Iterable[Edge]) -> list[Edge]:
        return [edge for edge in edges if self.context.name in (edge.old, edge.new)]

    # --- for administrators ---------------------------------------------------------------------------

    def look(self, done: Callable[[Whole], None], client: str = "") -> None:
        """Gather the graph of the network, and where one client is."""
        self._tell(_Order(client=client), done)

    def take(self, text: bytes, place: str, done: Callable[[Whole], None]) -> None:
        """Let every broker have the edges of a file in the place of what it has learned.

        Raises `TidingsError` for a file that is wrong, before anything changes.
        """
        known = {self.context.name, *self.context.tree.hops}
        file = read_graph(text, place, known, most=MAX_SHOWN)
        if self.options.mode is GraphMode.STATIC:
            raise TidingsError(
                f"{place}: the neighbour graph of broker '{self.context.name}' is static; change its `graph_file`"
            )
        edges = edges_of(file, self.options, place, self.context.now())
        learned = tuple(msgspec.structs.replace(edge, pinned=False) for edge in edges)  # only a configuration pins
        self._tell(_Order(edges=learned), done)

    def forget(self, broker: str, other: str, done: Callable[[Whole], None]) -> None:
        """Let every broker forget what was learned of one, or the edge between two."""
        self._tell(_Order(forget=(broker, other)), done)

    def _tell(self, order: _Order, done: Callable[[Whole], None]) -> None:
        own, known = self._obey(order), self.context.tree.hops.keys() | set()
        attempts = ATTEMPTS

        def heard(body: bytes, complete: bool) -> None:
            nonlocal attempts
            attempts -= 1
            if not complete and attempts:
                self.context.call_later(AGAIN, ask)  # the tree has changed under it, or somebody is slow
                return
            try:
                answer = _combined([own, _read_answer(body)]) if body else own
            except (msgspec.MsgspecError, ValueError):
                self.context.refused()
                answer = own
            silent = (known | self.context.tree.hops.keys()) - set(answer.brokers)
            done(Whole(answer.edges, tuple(sorted(silent)), answer.presences))

        def ask() -> None:
            self.context.wave("graph", pack(order), heard, LOOK_TIME)

        ask()

    def _obey(self, order: _Order) -> _Answer:
        now = self.context.now()
        self._changed(self.graph.expire(now))
        if order.edges is not None and self.options.mode is not GraphMode.STATIC:
            edges = sorted(self._own(order.edges), key=lambda edge: (-edge.weight, edge.old, edge.new))
            edges = edges[: self.options.max_degree or None]  # the broker that was asked may be configured otherwise
            self._changed(self.graph.replace(edges, now))
            for edge in edges:
                self._keep(edge)
        if order.forget is not None:
            broker, other = order.forget
            self._changed(self.graph.forget(broker, other or None, at=now))
        shown = tuple(list(self.graph.edges.values())[:MAX_SHOWN])
        return _Answer((self.context.name,), shown, self._presences(order.client) if order.client else ())

    def _presences(self, client: str) -> tuple[Presence, ...]:
        here = self.context.name
        if (hosted := self._hosts.attached(client)) is not None:
            return (Presence(here, "away" if hosted.away else "connected", hosted.at),)
        return (Presence(here, state),) if (state := self.copy_of(client)) else ()

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Another broker's administrator asks."""
        try:
            order = _read_order(body)
        except (msgspec.MsgspecError, ValueError):
            self.context.refused()
            answer(None)
        else:
            answer(pack(self._obey(order)))

    def combine(self, answers: list[bytes]) -> bytes:
        """What several say."""
        return pack(_combined([_read_answer(one) for one in answers]))


def _learner(moved: Moved) -> str:
    return f"{moved.owner}\0{moved.client}"


def _combined(answers: list[_Answer]) -> _Answer:
    """Of an edge that two brokers know, what the one says that saw it used last."""
    brokers = sorted({broker for one in answers for broker in one.brokers})
    edges: dict[tuple[str, str], Edge] = {}
    for edge in (edge for one in answers for edge in one.edges):
        known = edges.get((edge.old, edge.new))
        if known is None or (edge.last_used, edge.weight) > (known.last_used, known.weight):
            edges[edge.old, edge.new] = edge
    presences = {one.broker: one for answer in answers for one in answer.presences}
    everywhere = tuple(presences[broker] for broker in sorted(presences))
    return _Answer(tuple(brokers), tuple(edges[key] for key in sorted(edges)), everywhere)
