"""`tidings neighbours` and `tidings mobility` against real brokers between which a client moves."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import serving
from typer.testing import CliRunner, Result

from tidings import sync
from tidings.cli import app
from tidings.cli._errors import ExitCode
from tidings.mobility import GraphMode, MobilityOptions, Scheme, pseudonym
from tidings.net import Access, AccessEntry, Options, Server, StartError
from tidings.spark import collect
from tidings.store import JournalKind, StoreReader

BUILDING = {
    "edges": [{"old": f"B{edge[0]}", "new": f"B{edge[1]}"} for edge in ("12", "23", "34", "35", "61", "62", "63", "64")]
}
Walked = tuple[str, str, Path]
TOKEN = "a-token-for-the-tests"


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=stdin)


def soon(check: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not check():
        assert time.monotonic() < until
        time.sleep(0.05)


@contextlib.contextmanager
def two(home: Path, mobility: MobilityOptions | None = None) -> Iterator[tuple[str, str]]:
    """Two brokers, linked."""
    chosen = mobility or MobilityOptions()
    with (
        serving(Options(name="a", port=0, mobility=chosen)) as a,
        serving(Options(name="b", port=0, neighbours=(a,), data=home, mobility=chosen)) as b,
    ):
        yield a, b


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """A phone that has moved from a to b, and stays there."""
    home = tmp_path_factory.mktemp("walked")
    with two(home) as (a, b):
        soon(lambda: json.loads(run("topology", "--json", "-b", a).stdout)["brokers"] == ["a", "b"])
        with sync.connect(a, name="phone") as phone:
            phone.move(b)
            soon(lambda: bool(json.loads(run("neighbours", "show", "--json", "-b", a).stdout)["edges"]))
            yield a, b, home


def test_the_graph_that_brokers_have_learned_is_shown_and_exported(walked: Walked, tmp_path: Path) -> None:
    a, b, _ = walked
    shown = run("neighbours", "show", "-b", a)
    assert shown.exit_code == 0
    assert shown.stdout.split()[:4] == ["from", "to", "weight", "last"]
    assert shown.stdout.splitlines()[1].split()[:2] == ["a", "b"]
    assert '"a" -- "b"' in run("neighbours", "show", "--dot", "-b", b).stdout
    out = tmp_path / "graph.json"
    assert run("neighbours", "export", "--out", str(out), "-b", b).exit_code == 0
    (edge,) = json.loads(out.read_text())["edges"]
    assert (edge["old"], edge["new"]) == ("a", "b")
    assert edge["weight"] == pytest.approx(1, abs=0.2)
    assert run("neighbours", "export", "--dot", "-b", b).stdout.startswith("graph neighbours {")


def test_what_a_broker_knows_of_roaming_clients_is_shown(walked: Walked) -> None:
    _, b, _ = walked
    shown = run("mobility", "status", "-b", b)
    assert shown.exit_code == 0
    assert "hand-offs  1 to this broker" in shown.stdout
    assert "phone" in shown.stdout
    found = json.loads(run("mobility", "status", "phone", "--json", "-b", b).stdout)
    assert [(one["client"], one["last"], one["away"]) for one in found["hosted"]] == [("phone", "a", False)]
    assert [(one["old"], one["new"], one["outcome"]) for one in found["moves"]] == [("a", "b", "")]
    assert found["counters"]["hand_offs"] == 1
    stranger = run("mobility", "status", "nobody", "-b", b)
    assert "nobody is not attached to b" in stranger.stdout
    assert "phone" not in stranger.stdout


def test_a_client_is_found_wherever_it_is_attached(walked: Walked) -> None:
    a, _, _ = walked
    shown = run("mobility", "status", "phone", "-b", a).stdout
    assert "phone is not attached to a\nphone is attached to b since " in shown
    assert shown.splitlines()[-1].endswith(", connected")
    (found,) = json.loads(run("mobility", "status", "phone", "--json", "-b", a).stdout)["presences"]
    assert (found["broker"], found["state"]) == ("b", "connected")
    assert "is attached" not in run("mobility", "status", "nobody", "-b", a).stdout
    assert not json.loads(run("mobility", "status", "--json", "-b", a).stdout)["presences"], "one is asked for, not all"


def test_top_and_metrics_show_hand_offs(walked: Walked) -> None:
    _, b, _ = walked
    found = json.loads(run("top", "--once", "--json", "--interval", "0.1", "-b", b).stdout)
    assert found["rates"]["hand_offs"] == 0
    assert found["status"]["mobility"]["hand_offs"] == 1
    assert "hand-offs 0.0/s, hits -" in run("top", "--once", "--interval", "0.1", "-b", b).stdout


def test_a_hand_off_is_written_to_the_journal_under_a_pseudonym(walked: Walked, tmp_path: Path) -> None:
    _, _, home = walked

    def written() -> list[tuple[str, object, object]]:
        with StoreReader(home) as store:
            records = [one for one in store.journal() if one.kind is JournalKind.HANDOFF]
        return [(one.who, one.what["old"], one.what["new"]) for one in records]

    soon(lambda: bool(written()))
    assert written() == [(pseudonym("phone", "phone"), "a", "b")]
    assert collect(home, tmp_path) == 1, "and mining finds it there"


def test_copies_and_what_clients_found_are_shown_where_brokers_are_ready(tmp_path: Path) -> None:
    ready = MobilityOptions(Scheme.PROACTIVE, roamers=("all",), new_edge_interval=0)
    with two(tmp_path / "data", ready) as (a, b):
        soon(lambda: json.loads(run("topology", "--json", "-b", a).stdout)["brokers"] == ["a", "b"])
        with sync.connect(a, name="phone") as phone:
            phone.subscribe("n EXISTS")

            def status(broker: str) -> Any:
                return json.loads(run("mobility", "status", "phone", "--json", "-b", broker).stdout)

            phone.move(b)
            soon(lambda: bool(status(a)["copies"]))
            (copy,) = status(a)["copies"]
            assert (copy["client"], copy["state"], copy["controller"], copy["subscriptions"]) == (
                "phone",
                "passive",
                "b",
                1,
            )
            shown = run("mobility", "status", "-b", a).stdout
            assert "phone" in shown
            assert "copies     1 of clients of other brokers; 0 listen and hold 0 B" in shown
            assert (status(a)["counters"]["copies"], status(b)["counters"]["copies"]) == (1, 0)
            assert "a has a copy of phone, passive\n" in run("mobility", "status", "phone", "-b", b).stdout
            assert [(one["broker"], one["state"]) for one in status(a)["presences"]] == [
                ("a", "passive"),
                ("b", "connected"),
            ]
            phone.move(a)
            soon(lambda: status(a)["counters"]["hand_offs"] == 1)
            counted, (move,) = status(a)["counters"], status(a)["moves"]
            assert move["outcome"] in ("hit", "early"), "the copy was there, whether or not its time had come"
            assert counted["hits"] + counted["early"] == 1
            assert "hits" in run("top", "--once", "--interval", "0.1", "-b", a).stdout


def test_a_graph_is_imported_and_forgotten_everywhere(tmp_path: Path) -> None:
    with two(tmp_path / "data") as (a, b):
        soon(lambda: json.loads(run("topology", "--json", "-b", a).stdout)["brokers"] == ["a", "b"])
        assert run("neighbours", "show", "-b", a).stdout == "no client has moved yet, as far as brokers know\n"
        graph = json.dumps({"edges": [{"old": "b", "new": "a", "weight": 4}]})
        assert run("neighbours", "import", "-", "-b", a, stdin=graph).stdout == "1 edge\n"
        assert json.loads(run("neighbours", "show", "--json", "-b", b).stdout)["edges"][0]["weight"] == pytest.approx(
            4, abs=0.5
        )
        wrong = json.dumps({"edges": [{"old": "b", "new": "nowhere"}]})
        refused = run("neighbours", "import", "-", "-b", a, stdin=wrong)
        assert refused.exit_code == ExitCode.FAILED
        assert "-: there is no broker 'nowhere'; start and link them first, or remove their edges" in refused.stderr
        missing = run("neighbours", "forget", "a", "c", "-b", b)
        assert missing.exit_code == ExitCode.FAILED
        assert "there is no edge between 'a' and 'c'; `tidings neighbours show` lists" in missing.stderr
        assert run("neighbours", "forget", "a", "-b", b).stdout == "1 edge forgotten\n"
        assert not json.loads(run("neighbours", "show", "--json", "-b", a).stdout)["edges"]


def test_only_administrators_see_and_change_how_clients_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_TOKEN", TOKEN)
    access = Access(tokens={TOKEN: AccessEntry("alice")})
    with serving(Options(name="a", port=0, access=access)) as a:
        graph = json.dumps({"edges": []})
        for words in (["neighbours", "show"], ["neighbours", "import", "-"], ["mobility", "status"]):
            refused = run(*words, "-b", a, stdin=graph)
            assert refused.exit_code == ExitCode.FAILED
            assert "'alice' may not see or change how clients move; that needs `administer`" in refused.stderr


def test_a_broker_does_not_start_with_a_graph_that_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text('{"edges": [{"old": "a", "new": "a"}]}')
    config = tmp_path / "tidings.toml"
    config.write_text('port = 0\n[mobility]\ngraph_mode = "static"\ngraph_file = "graph.json"\n')
    done = run("serve", "--config", str(config))
    assert done.exit_code == ExitCode.CANNOT_RUN
    assert "graph_file in [mobility]" in done.stderr
    assert "graph.json: edge 1: it leads from 'a' to itself" in done.stderr
    with pytest.raises(StartError, match=r"'gone.json' cannot be read: No such file .*; name a file that can"):
        Server(Options(name="a", mobility=MobilityOptions(graph_file=Path("gone.json"))))
    with pytest.raises(StartError, match=r'graph_mode = "seeded" in \[mobility\] needs edges; name a `graph_file`'):
        Server(Options(name="a", mobility=MobilityOptions(graph_mode=GraphMode.SEEDED)))


def test_configured_edges_are_there_from_the_start_and_pinned(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text('{"edges": [{"old": "a", "new": "z"}, {"old": "y", "new": "z"}]}')
    options = MobilityOptions(graph_mode=GraphMode.SEEDED, graph_file=tmp_path / "graph.json")
    with serving(Options(name="a", port=0, mobility=options)) as a:
        shown = run("neighbours", "show", "-b", a).stdout.splitlines()
        assert [line.split() for line in shown[1:]] == [["a", "z", "1", "-", "and", "back,", "pinned"]]


# --- planning -----------------------------------------------------------------------------------------


def test_a_plan_prints_what_to_expect_of_each_broker_and_warns_outside_the_fitted_range(tmp_path: Path) -> None:
    file = tmp_path / "building.json"
    file.write_text(json.dumps(BUILDING))
    done = run("mobility", "plan", str(file), "--clients", "200")
    assert done.exit_code == 0
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:-1]}
    assert rows["B3"] == ["44.0", "125.0", "15.1", "230", "kB", "270.6?"]
    assert rows["B1"][0] == "22.0"
    assert rows["B1"][-1] == "184.6"
    assert rows["all"][-1] == "1255.3"
    assert done.stdout.splitlines()[-1] == "2.20 hand-offs a second"
    assert "warning: 3 of 6 brokers have 33.0 to 44.0 clients, but the curve was fitted on 1.5 to 29.5" in done.stderr
    few = run("mobility", "plan", str(file), "--clients", "100", "--json")
    assert not few.stderr
    assert json.loads(few.stdout)["warning"] == ""


def test_a_plan_follows_the_weights_unless_it_is_told_not_to() -> None:
    graph = json.dumps({"edges": [{"old": "a", "new": "b", "weight": 3}, {"old": "a", "new": "c", "weight": 1}]})
    weighted = json.loads(run("mobility", "plan", "-", "--clients", "8", "--json", stdin=graph).stdout)["brokers"]
    evenly = json.loads(run("mobility", "plan", "-", "--clients", "8", "--evenly", "--json", stdin=graph).stdout)[
        "brokers"
    ]
    clients = {one["broker"]: one["clients"] for one in weighted}
    assert clients["b"] == pytest.approx(3 * clients["c"])
    assert {one["broker"]: one["clients"] for one in evenly}["b"] == pytest.approx(clients["a"] / 2)


@pytest.mark.parametrize(
    ("graph", "words", "complaint"),
    [
        ('{"edges": []}', [], "a graph of 0 brokers; give one of 2 to 500"),
        ('{"directed": true, "edges": [{"old": "a", "new": "b"}]}', [], "no client leaves 'b'; add an edge from it"),
        ('{"edges": [{"old": "a", "new": "b"}]}', ["--clients", "0"], "--clients 0: write a whole number, 1 or more"),
        (
            '{"edges": [{"old": "a", "new": "b"}]}',
            ["--connected", "0"],
            "connected: 0.0 seconds; give a mean time above 0",
        ),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(graph: str, words: list[str], complaint: str) -> None:
    done = run("mobility", "plan", "-", "--clients", "8", *words, stdin=graph)
    assert done.exit_code != 0
    assert complaint in done.stderr


# --- evacuation ---------------------------------------------------------------------------------------


def test_the_clients_of_a_broker_leave_and_those_that_stay_are_listed(tmp_path: Path) -> None:
    with two(tmp_path / "data") as (a, b):
        soon(lambda: json.loads(run("topology", "--json", "-b", a).stdout)["brokers"] == ["a", "b"])
        with sync.connect([a, b], name="phone") as phone, sync.connect(b, name="feed") as feed:
            news = phone.subscribe("n EXISTS")
            feed.publish(n=1)
            done = run("mobility", "evacuate", "a", "-b", a)
            assert done.exit_code == 0, done.stderr
            assert done.stdout == "1 client has left a: 1 to b\n0 stay\n"
            assert phone.statistics().broker == "b"
            with sync.connect(a, name="sensor") as sensor:
                done = run("mobility", "evacuate", "a", "-b", b, "--client", "sensor-2")
                assert done.exit_code == ExitCode.FAILED
                assert done.stdout.splitlines()[1:] == ["1 stays:", "  sensor  it has no other address"]
                found = json.loads(run("mobility", "evacuate", "a", "--json", "-b", b).stdout)
                assert (found["broker"], found["gone"], found["waiting"]) == ("a", {"b": 1}, 0)
                assert found["staying"] == [{"client": "sensor", "reason": "it has no other address"}]
                assert sensor.evacuate("a", begin=False).done
            feed.publish(n=2)
            assert [next(news)["n"] for _ in range(2)] == [1, 2]
        nowhere = run("mobility", "evacuate", "c", "-b", a)
        assert nowhere.exit_code == ExitCode.FAILED
        assert "broker 'c' cannot be reached; those that can are a, b" in nowhere.stderr


def test_square_brackets_in_names_are_shown_as_they_are() -> None:
    name = "eve/[/b] [red]"  # markup of the library that draws tables
    with serving(Options(name="a", port=0)) as a, sync.connect(a, name=name):
        for words in (("status",), ("status", name), ("evacuate", "a")):
            shown = run("mobility", *words, "-b", a, "--client", "operator")
            assert name in shown.stdout, shown.stderr
    plan = run("mobility", "plan", "-", "--clients", "8", stdin=json.dumps({"edges": [{"old": name, "new": "b"}]}))
    assert name in plan.stdout, plan.stderr


def test_only_administrators_may_send_clients_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_TOKEN", TOKEN)
    access = Access(tokens={TOKEN: AccessEntry("alice")})
    with serving(Options(name="a", port=0, access=access)) as a:
        refused = run("mobility", "evacuate", "a", "-b", a)
        assert refused.exit_code == ExitCode.FAILED
        assert "'alice' may not see or change how clients move; that needs `administer`" in refused.stderr
