"""The overlay by itself: trees, waves and marks among hosts that are no brokers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from tidings.broker import Link, LinkKind, Statistics, Tree
from tidings.broker.overlay import Adjacency, Gathering, Progress, Waves
from tidings.model import Position
from tidings.wire import AnyMessage, Attach, LinkState, Mark, TreeMarks, TreeReady, Wave, WaveAnswer


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """Hosts, and what is on its way between them: messages first, then timers, each in order."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.messages: deque[tuple[str, str, AnyMessage]] = deque()
        self.timers: list[tuple[int, int, Timer, Callable[[], None]]] = []
        self.now = 0

    def connect(self, one: str, other: str) -> None:
        self.hosts[one].adjacency.link_up(self.hosts[one].link(other))
        self.hosts[other].adjacency.link_up(self.hosts[other].link(one))

    def run(self) -> None:
        while self.messages or self.timers:
            if self.messages:
                source, target, message = self.messages.popleft()
                self.hosts[target].receive(source, message)
                continue
            self.timers.sort(key=lambda entry: entry[:2])
            self.now, _, timer, action = self.timers.pop(0)
            if not timer.cancelled:
                action()


class Host:
    """As much of a broker as an overlay needs."""

    def __init__(self, world: World, name: str) -> None:
        self.name, self.epoch, self.statistics = name, 1, Statistics()
        self.last, self.gateways = 0, frozenset[str]()
        self.trees: list[Tree] = []
        self.gathered: list[dict[str, Position]] = []
        self._world = world
        self._links: dict[str, Link] = {}
        world.hosts[name] = self
        self.adjacency = Adjacency(self, self.epoch, strict=False)
        self.waves = Waves(self, self.adjacency)
        self.progress = Progress(self, self.adjacency, self)
        self.gathering = Gathering(self, self.adjacency, lambda: self.last, self.gathered.append)

    def link(self, name: str) -> Link:
        return self._links.setdefault(name, Link(name, LinkKind.BROKER))

    def send(self, link: Link, message: AnyMessage) -> None:
        self._world.messages.append((self.name, link.name, message))

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        timer = Timer()
        self._world.timers.append((self._world.now + delay, len(self._world.timers), timer, action))
        return timer

    def at_tree(self, old: Tree, new: Tree) -> None:
        self.trees.append(new)
        self.adjacency.adopt(new)
        self.waves.end_all()
        self.gathering.new_tree()

    def neighbour_ready(self, link: Link, *, anew: bool) -> None:
        self.waves.neighbour_ready(link)
        self.gathering.neighbour_ready()

    def marked(self, mark: Mark) -> None:
        self.progress.advance(mark.origin, mark.epoch, mark.seq)

    def marks_of_clients(self) -> Iterable[tuple[Link, dict[str, Position]]]:
        return ()

    def receive(self, source: str, message: AnyMessage) -> None:
        link = self.link(source)
        match message:
            case LinkState():
                self.adjacency.learn(link, message)
            case Attach():
                self.adjacency.attach(link, message)
            case TreeReady():
                self.gathering.ready(link, message)
            case TreeMarks():
                self.gathering.marks(link, message)
            case Wave():
                self.waves.receive(link, message)
            case WaveAnswer():
                self.waves.answer(link, message)
            case Mark():
                self.progress.receive(link, message)


class Names:
    """A wave that asks everybody for its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        answer(self._name.encode())

    def combine(self, answers: list[bytes]) -> bytes:
        return bytes(sorted(b"".join(answers)))


def ring(names: str) -> World:
    world = World()
    for name in names:
        Host(world, name).waves.register("names", Names(name))
    for one, other in zip(names, names[1:] + names[0], strict=True):
        world.connect(one, other)
    world.run()
    return world


def test_hosts_agree_on_one_tree_and_gather_the_marks_of_all() -> None:
    world = World()
    for name in "abcd":
        Host(world, name).last = ord(name)
    for one, other in ("ab", "bc", "cd", "da"):
        world.connect(one, other)
    world.run()
    assert len({host.adjacency.tree.epoch for host in world.hosts.values()}) == 1
    assert sum(len(host.adjacency.open_links) for host in world.hosts.values()) == 2 * 3, "a tree, and no ring"
    everybody = {name: (1, ord(name)) for name in "abcd"}
    assert [host.gathered[-1] for host in world.hosts.values()] == [everybody] * 4


def test_a_wave_asks_every_host_once() -> None:
    world = ring("abcde")
    answers: list[tuple[bytes, bool]] = []
    world.hosts["c"].waves.start("names", b"", lambda *answer: answers.append(answer))
    world.run()
    assert answers == [(b"abcde", True)]


def test_a_mark_reaches_everybody_after_a_publication() -> None:
    world = ring("abc")
    world.hosts["a"].last = 7
    world.hosts["a"].progress.published()
    world.run()
    assert [world.hosts[name].progress.of("a") for name in "bc"] == [(1, 7)] * 2


def test_a_lost_link_makes_another_tree_over_the_others() -> None:
    world = ring("abcd")
    lost = next(link for link in world.hosts["a"].adjacency.open_links)
    world.hosts["a"].adjacency.link_down(lost)
    world.hosts[lost.name].adjacency.link_down(world.hosts[lost.name].link("a"))
    world.run()
    assert len({host.adjacency.tree.epoch for host in world.hosts.values()}) == 1
    assert lost not in world.hosts["a"].adjacency.open_links
    assert all(len(host.adjacency.tree.hops) == 3 for host in world.hosts.values())
