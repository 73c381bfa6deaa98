"""`tidings scope`: defining, looking and auditing from the command line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.test_processes import Commands, Process
from ports import free_ports
from rich.console import Console
from serving import serving
from typer.testing import CliRunner, Result

from tidings import sync
from tidings.cli import app
from tidings.cli._scope_looks import trees
from tidings.model import TidingsError
from tidings.net import Access, AccessEntry, Options
from tidings.scopes import CreateScope, Graph, Join, apply

OPERATOR, ALICE = "operator-token-1234567", "alice-token-123456789"


@pytest.fixture
def address() -> Iterator[str]:
    with serving(Options(name="cli", port=0)) as url:
        yield url


@pytest.fixture
def run(address: str) -> Iterator[object]:
    def scope(*words: str, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(app, ["scope", *words, "--broker", address], env={"COLUMNS": "200", **(env or {})})

    return scope  # type: ignore[return-value]


def done(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_market_is_defined_changed_shown_and_destroyed(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert "version 1" in done(run("create", "market", "--attribute", "city=Berlin", "--administrator", "alice"))
    done(run("create", "floor", "--within", "market", "--output", "type = 'quote'"))
    done(run("join", "@alice", "market/floor", "--impose-output", "price > 0"))
    done(run("set", "market/floor", "--input", "type = 'order'"))
    done(run("set", "market/floor", "--in", "market", "--output", "price > 1"))
    done(run("set", "market", "--attribute", "city=", "--attribute", "country=DE"))
    words = json.loads(done(run("show", "market/floor", "--json")))
    assert words["interface"] == {"input": "type = 'order'", "output": "type = 'quote'"}
    assert words["member of"] == [{"name": "market", "selective": {"input": "TRUE", "output": "price > 1"}}]
    assert words["members"] == [{"name": "@alice", "imposed": {"input": "TRUE", "output": "price > 0"}}]
    assert json.loads(done(run("show", "market", "--json")))["attributes"] == {"country": "DE"}
    shown = done(run("show", "market/floor"))
    for text in ("output: type = 'quote'", "@alice  (imposed: ", "market  (selective: "):
        assert text in shown
    done(run("leave", "@alice", "market/floor"))
    kept = run("destroy", "market")
    assert (kept.exit_code, "--cascade" in kept.stderr) == (1, True)
    done(run("destroy", "market", "--cascade"))
    assert [scope["scope"] for scope in json.loads(done(run("tree", "--json")))["scopes"]] == ["root", "market/floor"]


@pytest.mark.req("ARC-216")
def test_a_name_is_taken_only_where_it_can_be_heard_and_the_command_checks_it(run) -> None:  # type: ignore[no-untyped-def]
    for place in ("bank", "market"):
        done(run("create", place))
        done(run("create", "floor", "--within", place))
    again = run("create", "floor", "--within", "bank")
    assert (again.exit_code, "a scope 'bank/floor' exists already; choose another name" in again.stderr) == (1, True)
    far = run("show", "floor")
    assert (far.exit_code, "there is 'bank/floor' or 'market/floor' elsewhere: write the id" in far.stderr) == (1, True)
    done(run("destroy", "market/floor", "--cascade"))
    done(run("join", "bank/floor", "root"))
    assert json.loads(done(run("show", "floor", "--json")))["scope"] == "bank/floor"
    done(run("create", "floor", "--within", "market"))
    done(run("join", "market/floor", "root"))
    both = run("show", "floor")
    assert (both.exit_code, "'floor' may be 'bank/floor' or 'market/floor', seen from the root" in both.stderr) == (
        1,
        True,
    )
    assert json.loads(done(run("show", "market/floor", "--json")))["scope"] == "market/floor"


def test_a_scope_has_a_rule_for_second_copies(run) -> None:  # type: ignore[no-untyped-def]
    done(run("create", "market", "--duplicates", "per_path"))
    assert json.loads(done(run("show", "market", "--json")))["duplicates"] == "per_path"
    done(run("set", "market", "--duplicates", "event"))
    assert "SetDelivery scope=market duplicates=event" in done(run("log"))
    assert run("set", "market", "--duplicates", "twice").exit_code == 2


def test_a_scope_is_extended_to_a_broker_and_retracted(run) -> None:  # type: ignore[no-untyped-def]
    done(run("create", "market"))
    done(run("set", "market", "--extend", "cli", "--extend", "other"))
    assert json.loads(done(run("show", "market", "--json")))["extended to"] == ["cli", "other"]
    done(run("set", "market", "--retract", "other"))
    words = json.loads(done(run("show", "market", "--json")))
    assert words["extended to"] == words["brokers"] == ["cli"]


@pytest.mark.req("VIS-328")
def test_a_scope_shows_its_traffic(run, address: str) -> None:  # type: ignore[no-untyped-def]
    done(run("create", "market"))
    done(run("join", "@alice", "market"))
    done(run("set", "market", "--extend", "cli"))
    words = json.loads(done(run("show", "market", "--json")))
    assert words["traffic here"] == {"looked up": 0, "copies": 0, "filters": 0}
    assert "looked up: 0" in done(run("show", "market"))
    with sync.connect(address, name="alice") as alice:
        alice.subscribe("n > 1", callback=lambda _: None)
        alice.subscribe("n > 5", callback=lambda _: None)
        alice.publish(n=3)
        words = json.loads(done(run("show", "market", "--json")))
        assert words["traffic here"] == {"looked up": 1, "copies": 1, "filters": 2}


def test_a_mapping_comes_from_a_file(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "mapping.json"
    file.write_text('{"outward": [{"step": "rename", "old": "price", "new": "preis"}]}')
    done(run("create", "outer"))
    done(run("create", "inner", "--output", "TRUE"))
    done(run("join", "inner", "outer", "--mapping", str(file)))
    edge = json.loads(done(run("show", "inner", "--json")))["member of"][0]
    assert edge["mapping"]["inward"] == ["Rename(old='preis', new='price')"]
    done(run("set", "inner", "--in", "outer", "--no-mapping"))
    assert "mapping" not in json.loads(done(run("show", "inner", "--json")))["member of"][0]
    file.write_text('{"outward": [{"step": "fly"}]}')
    wrong = run("join", "inner", "outer", "--mapping", str(file))
    assert wrong.exit_code == 2
    assert "is not a mapping" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["join", "@x", "nowhere"], 1, "there is no scope 'nowhere'"),
        (["create", "a", "--input", "price >"], 2, "column"),
        (["create", "root"], 2, "root scope"),
        (["create", "a//b"], 1, "cannot name a scope"),
        (["set", "root"], 2, "nothing to change"),
        (["create", "a", "--attribute", "x"], 2, "NAME=VALUE"),
        (["show", "nowhere"], 1, "no scope 'nowhere'"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(run, words: list[str], code: int, said: str) -> None:  # type: ignore[no-untyped-def]
    result = run(*words)
    assert result.exit_code == code
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_the_tree_shows_a_scope_under_each_of_its_superscopes() -> None:
    changes = [CreateScope(name) for name in ("a", "b", "both")]
    joins = [Join("both", "a"), Join("both", "b"), *(Join(f"@c{number:02}", "both") for number in range(25))]
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        for tree in trees(apply(Graph(), (*changes, *joins))):
            console.print(tree)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert lines[0:2] == ["a", "└── both  also in b"]
    assert lines[-2:] == ["b", "└── both  also in a  (members: see above)"]
    assert "    └── and 5 more clients" in lines


@pytest.mark.req("VIS-327")
def test_the_command_explains_who_sees_what(run) -> None:  # type: ignore[no-untyped-def]
    done(run("create", "market"))
    for client in ("@alice", "@bob"):
        done(run("join", client, "market"))
    done(run("set", "market", "--impose-input", "x > 1"))
    shown = done(run("explain", "@alice", "@bob", "x=1"))
    assert "@bob does not see Notification(x=1) of @alice" in shown
    assert "market to @bob: blocked by the input interface that market imposes on all members: x > 1" in shown
    assert json.loads(done(run("explain", "@alice", "@bob", "x=2", "--json")))["visible"] is True


def test_a_picture_goes_into_a_file(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done(run("create", "market"))
    file = tmp_path / "graph.svg"
    assert done(run("tree", "--svg", str(file))) == ""
    assert ">market</text>" in file.read_text()


def test_nothing_is_there_at_first(run) -> None:  # type: ignore[no-untyped-def]
    assert "no scopes yet" in done(run("tree"))
    assert done(run("log")) == ""


def test_the_log_and_the_status_from_the_command_line(tmp_path: Path) -> None:
    access = Access({OPERATOR: AccessEntry("operator", administer=True, names=("boss",)), ALICE: AccessEntry("alice")})
    secret = tmp_path / "secret"
    secret.write_text("open sesame\n")
    with serving(Options(name="cli", port=0, access=access)) as url:

        def run(token: str, *words: str) -> Result:
            return CliRunner().invoke(app, [*words, "--broker", url], env={"TIDINGS_TOKEN": token, "COLUMNS": "200"})

        done(run(OPERATOR, "scope", "create", "market", "--admission", str(secret), "--client-name", "boss"))
        refused = run(
            ALICE, "scope", "join", "@alice", "market", "--credentials", str(secret), "--client-name", "alice"
        )
        assert refused.exit_code == 1
        assert "not an administrator" in refused.stderr
        done(run(OPERATOR, "scope", "join", "@alice", "market", "--credentials", str(secret)))
        shown = done(run(OPERATOR, "scope", "log"))
        for text in ("boss  version 1", "CreateScope id=market admission=(1)", "alice  refused", "+ market -> @alice"):
            assert text in shown
        assert "- root -> @alice" in shown
        assert "sesame" not in shown
        entries = [json.loads(line) for line in done(run(OPERATOR, "scope", "log", "--json", "-n", "2")).splitlines()]
        assert [entry["error"] for entry in entries] == ["NotAllowed", ""]
        assert "1, of which 0 here, version 2, ordered by cli" in done(run(OPERATOR, "status"))
        assert "ordered by cli" in done(run(OPERATOR, "top", "--once", "--interval", "0.1"))


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    found = Commands(tmp_path)
    yield found
    found.end()


def test_an_authority_that_would_forget_does_not_start(commands: Commands) -> None:
    process = commands.start("serve", "--port", "0", "--name", "berlin", "--authority", "berlin", "--no-store")
    code, _, said = process.end()
    assert code == 5
    assert "'berlin' is the authority of its network but has no data directory" in said
    assert "set `data`" in said


def test_a_broker_that_is_killed_comes_back_with_its_scopes(commands: Commands) -> None:
    server, told = commands.serve("--data", "store")
    with sync.connect(str(told["url"]), name="root") as root:
        root.admin.create_scope("market", attributes={"city": "Berlin"})
        root.admin.join("@alice", "market")
        graph, log = root.admin.graph(), root.admin.log()
        server.signal(signal.SIGKILL)  # what was answered is on disk
    server.end()
    _, told = commands.serve("--data", "store")
    with sync.connect(str(told["url"]), name="root") as root, sync.connect(str(told["url"]), name="alice") as alice:
        found = root.admin.graph()
        assert dict(found.scopes) == dict(graph.scopes)
        assert found.version >= graph.version  # alice may have brought her broker into the scope already
        assert root.admin.log() == log
        inside, outside = alice.subscribe("x > 0"), root.subscribe("x > 0")
        alice.publish(x=1)
        assert dict(inside.receive(timeout=20) or {}) == {"x": 1}
        assert outside.receive(timeout=0.5) is None
        assert root.admin.leave("@alice", "market").version > graph.version


@pytest.mark.soak
def test_a_network_of_processes_keeps_its_scopes_when_all_are_killed_during_changes(commands: Commands) -> None:
    """Every change that was answered is there afterwards; the one under way is there as a whole or not at all."""
    ports = dict(zip("abc", free_ports(3), strict=True))

    def start() -> dict[str, Process]:
        found = {}
        for name, neighbour in (("b", ""), ("a", "b"), ("c", "b")):
            words = ["serve", "--json", "--name", name, "--port", str(ports[name]), "--data", name, "--authority", "b"]
            if neighbour:
                words += ["--neighbour", f"tidings://127.0.0.1:{ports[neighbour]}"]
            found[name] = commands.start(*words)
        for process in found.values():
            process.line()
        return found

    def address(name: str) -> str:
        return f"tidings://127.0.0.1:{ports[name]}"

    processes = start()
    answered = 0
    with sync.connect(address("c"), name="root") as root, contextlib.suppress(TidingsError):
        until_linked(root)
        root.admin.create_scope("market")
        killer = threading.Timer(1.0, lambda: [process.signal(signal.SIGKILL) for process in processes.values()])
        killer.start()
        for number in range(10_000):
            root.admin.change(CreateScope(f"s{number}"), Join(f"s{number}", "market"), timeout=3)
            answered = number + 1
    killer.join()
    for process in processes.values():
        process.end()
    assert answered > 0
    start()
    for name in "abc":
        with sync.connect(address(name), name="root") as root:
            until_linked(root)
            assert root.admin.create_scope(f"after-{name}").version > answered  # by now it has heard of everything
            graph = root.admin.graph()
            made = {scope for scope in graph.scopes if scope.startswith("s")}
            assert (
                {f"s{number}" for number in range(answered)} <= made <= {f"s{number}" for number in range(answered + 1)}
            )
            assert set(graph.members("market")) == made


def until_linked(root: sync.Client) -> None:
    """Wait until all three brokers are one tree and this one knows the graph."""
    for _ in range(400):
        status = root.status()
        if len(status.tree.hops) == 2 and status.scopes is not None and status.scopes.ready:
            return
        time.sleep(0.05)
    raise AssertionError("the brokers did not find each other")


def test_what_is_said_about_clients_is_typed_and_members_are_listed(run, address: str) -> None:  # type: ignore[no-untyped-def]
    done(run("create", "market", "--attribute", "floors=3", "--role", "house"))
    done(run("set", "@alice", "--attribute", "city=Berlin", "--attribute", "age=12.5", "--role", "boss", "--role", "x"))
    with sync.connect(address, name="alice", attributes={"age": 3, "sensor": True}):
        listed = [json.loads(line) for line in done(run("members", "--json")).splitlines()]
        (alice,) = [one for one in listed if one["name"] == "@alice"]
        assert alice == {
            "name": "@alice",
            "broker": "cli",
            "attributes": {"age": 12.5, "sensor": True, "city": "Berlin"},
            "roles": ["boss", "x"],
        }
        shown = done(run("members", "root"))
        assert "@alice" in shown
        assert "boss, x" in shown
    done(run("set", "@alice", "--no-roles", "--attribute", "age="))
    words = json.loads(done(run("show", "@alice", "--json")))
    assert words == {
        "client": "@alice",
        "attributes": {"city": "Berlin"},
        "roles": [],
        "policies": {},
        "member of": ["root"],
    }
    assert json.loads(done(run("show", "market", "--json")))["roles"] == ["house"]
    assert done(run("members", "market")) == "no members\n"
    mistake = run("set", "@alice", "--attribute", "age=null")
    assert (mistake.exit_code, "--attribute age: null is not a value" in mistake.stderr) == (2, True)


def test_who_sees_and_what_sees_list_filters_and_examples(run) -> None:  # type: ignore[no-untyped-def]
    done(run("create", "market", "--impose-input", "price > 10"))
    for client in ("alice", "bob", "carol"):
        done(run("join", f"@{client}", "market"))
    (entry,) = [
        json.loads(line) for line in done(run("who-sees", "price < 20", "--from", "@alice", "--json")).splitlines()
    ]
    assert entry == {
        "reader": "@bob",
        "source": "@alice",
        "filter": "price > 10 AND price < 20",
        "witness": {"price": 11},
        "seen": [{"price": 11}],
        "readers": ["@bob", "@carol"],
        "sources": [],
        "certain": True,
    }
    assert done(run("who-sees", "price < 20", "--from", "@alice")) == (
        "@bob, @carol  price > 10 AND price < 20\n    for example price=11\n"
    )
    assert done(run("who-sees", "price IS NULL", "--from", "@alice")) == "nobody\n"
    assert done(run("what-sees", "@bob", "--filter", "price = 12")) == (
        "@alice, @carol  price = 12\n    for example price=12\n"
    )
    assert "all clients that are in no scope" in done(run("who-sees", "TRUE"))
    assert done(run("what-sees", "market", "--filter", "FALSE")) == "nothing\n"
    mistake = run("who-sees", "price <")
    assert (mistake.exit_code, "column 8" in mistake.stderr) == (2, True)
    assert "'market' is no client" in run("who-sees", "TRUE", "--from", "market").stderr


def test_a_policy_is_set_shown_logged_and_taken_away(run) -> None:  # type: ignore[no-untyped-def]
    done(run("create", "market"))
    table = ("--parameter", "attribute=share", "--parameter", "others=@me")
    done(run("set", "market", "--policy", "internal=key-dispatch", *table, "--parameter", 'table="SAP=@sap"'))
    use = "key-dispatch(attribute='share', others='@me', table='SAP=@sap')"
    assert json.loads(done(run("show", "market", "--json")))["policies"] == {"internal": use}
    assert f"SetPolicy node=market kind=internal policy={use}" in done(run("log"))
    done(run("set", "@ann", "--policy", "publishing=full"))
    assert json.loads(done(run("show", "@ann", "--json")))["policies"] == {"publishing": "full()"}
    done(run("set", "market", "--policy", "internal="))
    assert json.loads(done(run("show", "market", "--json")))["policies"] == {}
    wrong = run("set", "market", "--policy", "sometimes=full")
    assert wrong.exit_code == 2
    assert (
        "'sometimes=full' is not of the form KIND=NAME; KIND is one of publishing, delivery, internal, traverse"
        in wrong.stderr
    )
    refused = run("set", "market", "--policy", "internal=release")
    assert (refused.exit_code, "commit is not given" in refused.stderr) == (1, True)
