"""Engines on a tree, with FIFO links and nothing else: every order of messages can be tried."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

from tidings.aggregation import Below, Engine, Policy, Request, State, Subject, Terms, Update
from tidings.aggregation._forms import Form, Ranges
from tidings.aggregation._riding import Traffic

SUBJECT = Subject("test", "1", "TRUE")


class Node:
    """One engine, and what a broker would do for it."""

    def __init__(self, world: World, name: int) -> None:
        self.world, self.name = world, name
        self.links: list[int] = []
        self.engine: Engine[int] = Engine(self)
        self.local: Any = world.form.zero()
        self.results: dict[Request[int], Any] = {}
        self.sent = self.rebounds = 0
        self.counted = Traffic()

    def neighbours(self, subject: Subject) -> list[int]:
        return self.links

    def all_ready(self, subject: Subject) -> bool:
        return True

    def below(self, link: int) -> Below:
        return self.world.below(self.name, link)

    def terms(self, subject: Subject) -> Terms:
        return Terms(self.world.form, self.world.policy)

    def began(self, subject: Subject) -> None:
        self.world.soon(lambda: self.engine.changed(subject, self.local))

    def ended(self, state: State[int]) -> None:
        pass

    def ask(self, link: int, number: int, subject: Subject, bound: float) -> None:
        self._send(link, lambda node: node.engine.asked(self.name, number, subject, bound))

    def rebound(self, link: int, number: int, bound: float) -> None:
        self.rebounds += 1
        self._send(link, lambda node: node.engine.rebound(self.name, number, bound))

    def cancel(self, link: int, number: int) -> None:
        self._send(link, lambda node: node.engine.cancelled(self.name, number))

    def wake(self, link: int) -> None:
        self.world.riding.setdefault((self.name, link))

    def leave(self, link: int) -> None:
        """A message leaves: what is to be told rides on it."""
        for update in self.engine.produce(link, 10_000):
            self.sent += 1
            self._send(link, lambda node, update=update: node.engine.told(self.name, update))  # type: ignore[misc]

    def traffic(self, subject: Subject, link: int) -> Traffic:
        return self.counted

    def tell(self, request: Request[int]) -> None:
        if (found := self.engine.result(request)) is not None:
            self.results[request] = found

    def set_local(self, local: Any) -> None:
        self.local = local
        self.engine.changed(SUBJECT, local)

    def _send(self, link: int, act: Callable[[Node], None]) -> None:
        self.world.queues.setdefault((self.name, link), deque()).append(act)


class World:
    """A tree of engines."""

    def __init__(
        self, parents: Iterable[int], form: Form | None = None, policy: Policy = Policy.UNIFORM, seed: int = 0
    ) -> None:
        """`parents[i]` is the parent of node i + 1."""
        self.random = random.Random(seed)
        self.form: Form = form if form is not None else Ranges()
        self.policy = policy
        self.queues: dict[tuple[int, int], deque[Callable[[Node], None]]] = {}
        self.riding: dict[tuple[int, int], None] = {}
        self.later: deque[Callable[[], None]] = deque()
        self.nodes = [Node(self, 0)]
        for child, parent in enumerate(parents, 1):
            self.nodes.append(Node(self, child))
            self.nodes[parent].links.append(child)
            self.nodes[child].links.append(parent)

    def soon(self, action: Callable[[], None]) -> None:
        self.later.append(action)

    def side(self, name: int, link: int) -> set[int]:
        """The nodes behind a link."""
        found, queue = {name, link}, [link]
        for one in queue:
            onward = [other for other in self.nodes[one].links if other not in found]
            found.update(onward)
            queue += onward
        return found - {name}

    def below(self, name: int, link: int) -> Below:
        behind = self.side(name, link)
        leaves = sum(len(self.nodes[one].links) == 1 for one in behind)
        height, layer, seen = 0, {link}, {name}
        while layer:
            height += 1
            seen |= layer
            layer = {other for one in layer for other in self.nodes[one].links} - seen
        return Below(len(behind), leaves, height)

    def step(self) -> bool:
        """Let something happen, if anything is left."""
        choices: list[Callable[[], None]] = [
            lambda key=key: self.queues[key].popleft()(self.nodes[key[1]])  # type: ignore[misc]
            for key, queue in self.queues.items()
            if queue
        ]
        choices += [lambda key=key: self._ride(key) for key in self.riding]  # type: ignore[misc]
        if self.later:
            choices.append(self._take_up)
        if choices:
            self.random.choice(choices)()
        return bool(choices)

    def _take_up(self) -> None:
        self.later.popleft()()

    def _ride(self, key: tuple[int, int]) -> None:
        del self.riding[key]
        self.nodes[key[0]].leave(key[1])

    def rest(self) -> None:
        """Let everything happen."""
        while self.step():
            pass

    def watch(self, name: int, bound: float = 0) -> Request[int]:
        request: Request[int] = Request(None, f"{name}", bound)
        self.nodes[name].engine.register(SUBJECT, request)
        return request

    def read(self, request: Request[int]) -> Any:
        """What a client was told last, and with which error."""
        (value, error, *_), complete = next(node.results[request] for node in self.nodes if request in node.results)
        assert complete
        return value, error

    @property
    def sent(self) -> int:
        """How often anything was told to a neighbour."""
        return sum(node.sent for node in self.nodes)

    @property
    def is_empty(self) -> bool:
        return all(node.engine.is_empty for node in self.nodes)


class Bags:
    """Bags of names: whoever is counted twice is seen twice."""

    def zero(self) -> Counter[str]:
        return Counter()

    def combine(self, a: Counter[str], b: Counter[str]) -> Counter[str]:
        return a + b

    def distance(self, a: Counter[str], b: Counter[str]) -> float:
        return sum(((a - b) + (b - a)).values())

    def present(self, partial: Counter[str]) -> Counter[str]:
        return partial

    def encode(self, partial: Counter[str]) -> bytes:
        return repr(sorted(partial.items())).encode()

    def decode(self, data: bytes) -> Counter[str]:
        return Counter(dict(eval(data)))


class Largest:
    """A maximum."""

    def zero(self) -> float:
        return -100

    def combine(self, a: float, b: float) -> float:
        return max(a, b)

    def distance(self, a: float, b: float) -> float:
        return abs(a - b)

    def present(self, partial: float) -> float:
        return partial

    def encode(self, partial: float) -> bytes:
        return str(partial).encode()

    def decode(self, data: bytes) -> float:
        return float(data)


__all__ = ["SUBJECT", "Bags", "Largest", "Node", "Update", "World"]
