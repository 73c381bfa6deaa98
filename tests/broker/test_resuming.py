"""Clients that come back ask all origins at once, right behind their filters; what does not fit is asked for later."""

from __future__ import annotations

import pytest

from tidings.broker import RoutingOptions
from tidings.broker.outlets._resuming import KIND, Paid, Question, Resuming
from tidings.model import Filter
from tidings.scopes import CreateScope, Join, Scopes
from tidings.sim import Network, SimClient, Weather
from tidings.wire import AnyMessage, Deliver, Fetch, Fetched, Quality, Settled, Subscribe, Wave, WaveAnswer, pack

STILL = Weather(latency=(10_000, 10_000))
RADIO = Weather(latency=(1_000, 1_000))


class World:
    """A line of brokers with a publisher at each, and a reader that vanishes from one end and comes to the other."""

    def __init__(self, count: int = 5, *, routing: RoutingOptions | None = None, scopes: bool = False) -> None:
        self.names = [f"b{number}" for number in range(count)]
        self.network = Network(
            weather=STILL,
            client_weather=RADIO,
            routing=routing,
            features=lambda name: [Scopes("b0")] if scopes else [],
        )
        self.network.add_brokers(self.names, links=list(zip(self.names, self.names[1:], strict=False)))
        self.publishers = [self.network.add_client(f"p{number}", name) for number, name in enumerate(self.names)]
        self.frames: list[tuple[str, str, AnyMessage]] = []
        self.network.run()

    def reader(self, name: str = "reader", filter: str = "n EXISTS") -> SimClient:
        client = self.network.add_client(name, self.names[0])
        client.subscribe(filter)
        return client

    def publish(self, *numbers: int) -> None:
        for n in numbers:
            for publisher in self.publishers:
                publisher.publish(n=n, quality=Quality.STORED)
        self.network.run(2)

    def return_to_the_other_end(self, *readers: SimClient) -> None:
        """The readers vanish, miss what is published as 2, and come back at the other end."""
        for reader in readers:
            reader.vanish(noticed=500, kept=500)
        self.publish(2)
        self.network.tap = lambda broker, link, frame: self.frames.append((broker, link.name, frame.message))
        for reader in readers:
            reader.attach(self.names[-1])

    def sent(self, *kinds: type) -> int:
        return sum(isinstance(message, kinds) for _, _, message in self.frames)


def numbers(client: SimClient) -> list[object]:
    return [one["n"] for one in client.received]


def test_one_question_behind_the_filter_brings_everything_in_one_round_trip() -> None:
    world = World()
    reader = world.reader()
    world.network.run()
    world.publish(1)
    world.return_to_the_other_end(reader)
    world.network.run(0.003)
    assert numbers(reader) == [1] * 5 + [2]  # what its own broker has comes at once
    world.network.run(0.090)
    assert numbers(reader) == [1] * 5 + [2] * 5
    assert world.sent(Wave) == world.sent(WaveAnswer) == 4
    assert world.sent(Fetch, Fetched) == 0
    between = [message for _, to, message in world.frames if to in world.names]
    assert len(between) <= 4.2 * 4
    where = [type(message) for broker, _, message in world.frames if broker == "b4"]
    assert where.index(Subscribe) < where.index(Wave)
    assert where.index(Deliver) < where.index(Settled)  # nothing has to settle first
    world.network.run()
    assert numbers(reader) == [1] * 5 + [2] * 5
    assert not reader.gaps


def test_those_who_come_together_share_their_questions() -> None:
    world = World()
    readers = [world.reader(f"r{number}", f"n > 0 AND n < {number + 5}") for number in range(20)]
    world.network.run()
    world.publish(1)
    world.return_to_the_other_end(*readers)
    world.network.run()
    assert all(numbers(reader) == [1] * 5 + [2] * 5 for reader in readers)
    assert world.sent(Wave) <= 2 * 4
    assert world.sent(Fetch) == 0


def test_what_does_not_fit_is_fetched_from_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.broker.outlets._resuming.ANSWER", 3)
    world = World(3)
    reader = world.reader()
    world.network.run()
    world.publish(1)
    reader.vanish(noticed=500, kept=500)
    world.publish(*range(2, 10))
    world.return_to_the_other_end(reader)
    world.network.run()
    assert sorted(map(str, numbers(reader))) == sorted([*"123456789"] * 3 + ["2"] * 3)
    assert world.sent(Fetch) > 0
    assert not reader.gaps


def test_answers_that_do_not_fit_together_are_left_out_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.broker.outlets._resuming.JOINED_BYTES", 5)
    world = World()
    reader = world.reader()
    world.network.run()
    world.publish(1)
    world.return_to_the_other_end(reader)
    world.network.run()
    assert numbers(reader) == [1] * 5 + [2] * 5
    assert world.sent(Fetch) > 0


def test_an_origin_is_asked_for_so_much_at_a_time_and_for_the_rest_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.broker.outlets._resuming.MAX_ASKED_OF_ONE", 3)
    world = World()
    readers = [world.reader(f"r{number}", f"n > {-number}") for number in range(8)]
    world.network.run()
    world.publish(1)
    for number, reader in enumerate(readers):  # each has seen something else
        reader.vanish(noticed=500, kept=500)
        world.publish(10 + number)
    world.return_to_the_other_end(*readers)
    world.network.run()
    expected = [[1, *range(10, 10 + number), *range(10 + number, 18), 2] for number in range(8)]
    assert [sorted(map(int, map(str, set(numbers(reader))))) for reader in readers] == [sorted(one) for one in expected]
    assert all(len(reader.received) == 10 * 5 for reader in readers)
    assert world.sent(Fetch) > 0


def test_a_new_tree_ends_the_question_and_nothing_of_it_counts() -> None:
    world = World()
    reader = world.reader()
    world.network.run()
    world.publish(1)
    world.return_to_the_other_end(reader)
    world.network.run(0.025)  # half of the way
    world.network.cut("b1", "b2")
    world.network.run(1)
    assert numbers(reader) == [1] * 5 + [2] * 3
    world.network.heal("b1", "b2")
    world.network.run()
    assert numbers(reader) == [1] * 5 + [2] * 5
    assert not reader.gaps


@pytest.mark.parametrize("why", ["scopes", "advertisements"])
def test_where_a_filter_may_come_late_nobody_is_asked_early(why: str) -> None:
    advertised = why == "advertisements"
    routing = RoutingOptions("covering", advertisements=True) if advertised else None
    world = World(routing=routing, scopes=not advertised)
    if advertised:
        for publisher in world.publishers:
            publisher.advertise("n EXISTS")
    reader = world.reader()
    world.network.run()
    if not advertised:
        clients = [*world.publishers, reader]
        world.network.change("b0", (CreateScope("S"), *(Join(f"@{client.name}", "S") for client in clients)))
        world.network.run()
    world.publish(1)
    world.return_to_the_other_end(reader)
    world.network.run()
    assert numbers(reader) == [1] * 5 + [2] * 5
    assert not [one for _, _, one in world.frames if isinstance(one, Wave) and one.kind == KIND]
    assert world.sent(Fetch) > 0


@pytest.mark.parametrize(
    "answer",
    [
        pack(Paid([Fetched("b4", 1, (), False)])),
        pack(Paid([Fetched("b4", 1, (), True, {-1: 5})])),
        pack(Paid([Fetched("b4", 99, (), True, {1: 5})])),
        pack([[1, 2, 3]]),
        b"nonsense",
    ],
)
def test_a_neighbour_that_answers_nonsense_stops_nobody(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(3)
    reader = world.reader()
    world.network.run()
    world.publish(1)
    monkeypatch.setattr(Resuming, "combine", lambda self, answers: answer)
    world.return_to_the_other_end(reader)
    world.network.run()
    assert numbers(reader) == [1] * 3 + [2] * 3
    assert not reader.gaps


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        pack(Question("x", [], {"b1": []})) + b"more",
        pack(Paid([])),
        pack(["x", [[]], {"b1": [[1, 7, 1, 0]]}]),
        pack(["x", [[Filter.parse("n = 1")]], {"b1": [[1, 0, -1, 2**63]]}]),
    ],
)
def test_what_makes_no_sense_is_counted_and_answered_as_incomplete(body: bytes) -> None:
    world = World(3)
    answers: list[tuple[bytes, bool]] = []
    broker = world.network.brokers["b0"]
    before = world.network.brokers["b1"].statistics.refused
    broker.waves.start(KIND, body, lambda *answer: answers.append(answer))
    world.network.run()
    assert [complete for _, complete in answers] == [False]
    assert world.network.brokers["b1"].statistics.refused > before
