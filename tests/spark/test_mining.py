"""Mining the neighbour graph: from journals to an archive, by Spark to a graph, judged on days held out."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tidings.cli import app
from tidings.mobility import GraphOptions, edges_of, read_graph
from tidings.model import TidingsError
from tidings.spark import Mined, collect, mine
from tidings.spark._mining import DIRECTORY
from tidings.store import JournalKind, JournalRecord, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3_600_000_000
START = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp()) * 1_000_000


def keep(home: Path, broker: str, *moves: tuple[str, str, int, int]) -> None:
    """What a broker writes down: (client, old, hour, minutes away) for each that comes to it."""
    store = Store.open(home / broker, post=lambda call: call(), owner=broker)
    for client, old, hour, away in moves:
        what = {"old": old, "new": broker, "away": away * HOUR // 60, "outcome": None, "missed": 0, "pause": 0}
        store.record(JournalRecord(JournalKind.HANDOFF, START + hour * HOUR, client, what))
        store.record(JournalRecord(JournalKind.ATTACH, START + hour * HOUR, client))
    store.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two commuters: home to office at 8 and back at 17, ten days; one goes to the pub on three evenings."""
    home = tmp_path_factory.mktemp("mining")
    days = range(10)
    to_office = [(who, "home", 24 * day + 8, 30) for day in days for who in ("ann", "bob")]
    at_pub = {("bob", day) for day in days if day % 3 == 0}
    to_home = [(who, "office", 24 * day + 17, 30) for day in days for who in ("ann", "bob") if (who, day) not in at_pub]
    to_pub = [("bob", "office", 24 * day + 17, 0) for day in days if day % 3 == 0]
    home_late = [("bob", "pub", 24 * day + 22, 0) for day in days if day % 3 == 0]
    keep(home, "office", *to_office)
    keep(home, "home", *sorted(to_home + home_late, key=lambda move: move[2]))
    keep(home, "pub", *to_pub)
    return home


@pytest.fixture(scope="module")
def mined(world: Path, spark: SparkSession) -> Mined:
    return mine(world / "archive", data=[world / name for name in ("home", "office", "pub")])


def test_edges_have_support_confidence_dwell_and_the_weight_of_their_age(mined: Mined) -> None:
    edges = {(edge.old, edge.new): edge for edge in mined.graph.edges}
    assert mined.graph.directed
    assert {pair: edge.support for pair, edge in edges.items()} == {
        ("home", "office"): 20,
        ("office", "home"): 16,
        ("office", "pub"): 4,
        ("pub", "home"): 4,
    }
    assert edges["office", "pub"].confidence == 0.2
    assert edges["pub", "home"].confidence == 1
    # They come at 8 and go at 16:30, away for half an hour; into the pub at once, and out of it after five hours.
    assert edges["office", "home"].dwell == 8.5 * 3_600
    assert edges["pub", "home"].dwell == 5 * 3_600
    last = 9 * 24 + 22
    expected = sum(0.5 ** ((last - (24 * day + 17)) / (14 * 24)) for day in (0, 3, 6, 9))
    assert edges["office", "pub"].weight == pytest.approx(expected, abs=1e-5)
    assert edges["pub", "home"].last_used == datetime(2026, 11, 10, 22, tzinfo=UTC)


def test_the_graph_is_judged_by_the_days_that_were_held_out(mined: Mined) -> None:
    # The last day: two to the office, ann home, bob to the pub and home. The heavier neighbour of the office is home.
    assert (mined.moves, mined.clients, mined.held_out) == (44, 2, 5)
    assert [(one.neighbours, one.copies, one.hit_rate) for one in mined.judged] == [(1, 1, 0.8), (2, 1.4, 1)]


def test_brokers_can_load_what_was_mined(mined: Mined, world: Path) -> None:
    out = world / "graph.json"
    done = CliRunner().invoke(
        app, ["neighbours", "mine", "--archive", str(world / "archive"), "--out", str(out), "--undirected"]
    )
    assert done.exit_code == 0, done.output
    assert "3 edges from 44 hand-offs of 2 clients, 2026-11-01 08:00 to 2026-11-10 22:00 UTC" in done.stdout
    assert "on the 5 hand-offs that were held out:" in done.stdout
    found = read_graph(out.read_bytes(), "graph.json", known=("home", "office", "pub"))
    assert not found.directed
    assert {(edge.old, edge.new): edge.support for edge in found.edges} == {
        ("home", "office"): 36,
        ("home", "pub"): 4,
        ("office", "pub"): 4,
    }
    assert len(edges_of(found, GraphOptions(), "graph.json", 2 * 10**15)) == 3


def test_a_bound_keeps_the_heaviest_neighbours_and_half_lives_let_old_habits_go(world: Path, mined: Mined) -> None:
    found = mine(world / "archive", max_degree=1, half_life=timedelta(hours=1), held_out=timedelta(days=99))
    edges = {(edge.old, edge.new): edge for edge in found.graph.edges}
    # Both went from the office at 17 on the last day; the pub comes second by its name, as both weigh the same.
    assert edges.keys() == {("home", "office"), ("office", "home"), ("pub", "home")}
    assert edges["office", "home"].weight == pytest.approx(0.5**5, abs=1e-6), "only the last evening counts"
    assert not found.judged, "nothing is left to learn from"


def test_collecting_again_adds_only_what_is_new(tmp_path: Path) -> None:
    keep(tmp_path, "office", ("ann", "home", 8, 0), ("bob", "home", 9, 0))
    assert collect(tmp_path / "office", tmp_path / "archive") == 2
    assert collect(tmp_path / "office", tmp_path / "archive") == 0
    keep(tmp_path, "office", ("ann", "home", 32, 0))
    assert collect(tmp_path / "office", tmp_path / "archive") == 1
    assert len(list((tmp_path / "archive" / DIRECTORY).iterdir())) == 2


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--half-life", "0s"], "give a half-life above 0"),
        (["--half-life", "soon"], "--half-life: 'soon' is not a duration; write a duration like"),
        ([], "there are no hand-offs in the archive"),
        (["--data", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_mined_is_said(tmp_path: Path, words: list[str], complaint: str) -> None:
    done = CliRunner().invoke(
        app, ["neighbours", "mine", "--archive", str(tmp_path), "--out", str(tmp_path / "graph.json"), *words]
    )
    assert done.exit_code != 0
    assert complaint in done.stderr
    assert not (tmp_path / "graph.json").exists()


def test_hand_offs_from_a_broker_to_itself_are_nothing_to_mine(tmp_path: Path, spark: SparkSession) -> None:
    keep(tmp_path, "office", ("ann", "office", 8, 0))
    with pytest.raises(TidingsError, match="lead from a broker to itself; there is nothing to mine"):
        mine(tmp_path / "archive", data=[tmp_path / "office"])


def test_the_result_is_printed_as_json(world: Path, mined: Mined, tmp_path: Path) -> None:
    out = tmp_path / "graph.json"
    done = CliRunner().invoke(
        app, ["neighbours", "mine", "--archive", str(world / "archive"), "--out", str(out), "--json"]
    )
    found = json.loads(done.stdout)
    assert (found["moves"], found["edges"], found["held_out"]) == (44, 4, 5)
    assert found["judged"][0] == {"neighbours": 1, "copies": 1.0, "hit_rate": 0.8}
