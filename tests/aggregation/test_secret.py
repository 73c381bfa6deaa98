"""The secret of pseudonyms: one for all brokers that answer a question, kept, and never guessed."""

from __future__ import annotations

import itertools
import stat
from pathlib import Path

import pytest

from tidings.aggregation import Aggregation, AggregationOptions
from tidings.aggregation._secret import Drawn
from tidings.aggregation.messages import FEATURE, Compare, decode
from tidings.broker import Link
from tidings.model import TidingsError
from tidings.net._pseudonyms import PSEUDONYM_KEY, PseudonymFile
from tidings.sim import Network
from tidings.sim._aggregates import kept_aggregates
from tidings.wire import Extension, Frame

PEOPLE = "publishers() WINDOW 1s"


class World:
    """Brokers that draw numbered secrets."""

    def __init__(self, brokers: str, links: list[str]) -> None:
        self.drawn = itertools.count(1)
        self.network = Network(seed=1, features=lambda name: [self._made()])
        self.network.add_brokers(brokers, links=links)
        self.network.run()
        for name in brokers:
            self.network.add_client(f"c{name}", name)
        self.told: list[Compare] = []
        self.network.tap = self._note

    def _made(self) -> Aggregation:
        return Aggregation(AggregationOptions(), draw=lambda: bytes([next(self.drawn)]) * 32)

    def _note(self, broker: str, link: Link, frame: Frame) -> None:
        carried = [(frame.hop.attachments or {}).get(FEATURE, b"")]
        if isinstance(frame.message, Extension) and frame.message.feature == FEATURE and link.is_broker:
            carried.append(frame.message.body)
        self.told += (said for body in filter(None, carried) if isinstance(said := decode(body), Compare))

    def secrets(self) -> dict[str, int | None]:
        """The first byte of what each broker holds."""
        found = {}
        for name, broker in self.network.brokers.items():
            feature = broker.features["aggregation"]
            assert isinstance(feature, Aggregation)
            drawn = feature._secret._drawn
            found[name] = drawn.value[0] if drawn is not None else None
        return found


def test_brokers_that_answer_one_question_have_one_secret_and_nobody_has_one_before() -> None:
    here = World("abc", ["ab", "bc"])
    here.network.clients["ca"].watch("count() WINDOW 1s")
    here.network.run(5)
    assert here.secrets() == {"a": None, "b": None, "c": None}
    assert here.told == []
    watch = here.network.clients["cc"].watch(PEOPLE)
    here.network.run(2)
    assert len(set(here.secrets().values())) == 1
    for _ in range(20):
        for name in "abc":
            here.network.clients[f"c{name}"].publish(n=1)
        here.network.run(0.2)
    here.network.run(3)
    assert 3 in {result.value for result in watch.results if result.complete}
    assert {result.value for result in watch.results if result.complete} <= {0, 3}


def test_when_two_networks_meet_the_older_secret_holds_and_a_client_is_one() -> None:
    here = World("abcd", ["ab", "bc", "cd"])
    network = here.network
    network.cut("b", "c")
    network.run(1)
    network.clients["ca"].watch(PEOPLE)
    network.run(3)
    watch = network.clients["cc"].watch(PEOPLE)
    network.run(3)
    before = here.secrets()
    assert before["a"] == before["b"] != before["c"] == before["d"]
    network.run((1_000_000 - network.scheduler.now % 1_000_000) / 1_000_000)  # a window begins
    roamer = network.clients["cd"]
    roamer.publish(n=1)
    network.run(0.1)
    network.heal("b", "c")
    network.run(0.3)
    roamer.detach()
    roamer.attach("a")
    roamer.publish(n=1)  # in the same window, and under the other secret
    network.run(6)
    assert set(here.secrets().values()) == {before["a"]}
    assert any(result.complete for result in watch.results[-3:])
    assert {result.value for result in watch.results} <= {0, 1}


def test_a_secret_survives_a_restart() -> None:
    here = World("ab", ["ab"])
    here.network.clients["ca"].watch(PEOPLE)
    here.network.run(3)
    before = here.secrets()
    for name in "ab":
        here.network.crash(name)
    here.network.run(1)
    for name in "ab":
        here.network.restart(name)
    here.network.run(10)
    here.network.clients["cb"].watch(PEOPLE)
    here.network.run(5)
    assert here.secrets() == before


@pytest.mark.parametrize("said", [Drawn(-1, b"x" * 32), Drawn(1, b""), Drawn(1, b"x" * 33)])
def test_what_is_no_secret_is_refused_and_changes_nothing(said: Drawn) -> None:
    here = World("ab", ["ab"])
    feature = here.network.brokers["a"].features["aggregation"]
    assert isinstance(feature, Aggregation)
    (link,) = here.network.brokers["a"].adjacency.open_links
    with pytest.raises(TidingsError, match="a secret of"):
        feature._secret.heard(link, said)
    assert here.secrets() == {"a": None, "b": None}


def test_nothing_is_kept_when_nobody_asks_any_more() -> None:
    here = World("ab", ["ab"])
    here.network.clients["ca"].watch(PEOPLE)
    here.network.run(3)
    here.network.clients["ca"].unwatch("w1")
    here.network.run()
    assert kept_aggregates(here.network) == []


def test_a_broker_leaves_it_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    file = PseudonymFile(tmp_path)
    for secret in (b"\x01" * 32, b"\x02" * 32):
        file(secret)
        written = tmp_path / PSEUDONYM_KEY
        assert bytes.fromhex(written.read_text()) == secret
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == [PSEUDONYM_KEY]
