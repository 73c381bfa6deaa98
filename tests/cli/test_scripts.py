"""`tidings scope check|plan|apply|diff|fmt|export|undo`: files of the scope language and a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import serving
from typer.testing import CliRunner, Result

from tidings import sync
from tidings.cli import app
from tidings.cli._script_files import MAX_BYTES
from tidings.client import Components
from tidings.model import StaleGraph
from tidings.net import Access, AccessEntry, Options
from tidings.scopes import CreateScope, Join, digest
from tidings.scopes.language import export, export_files

MARKET = """\
-- One market.
DEPLOY SCOPE AS market
    INTERFACES INPUT(1), OUTPUT(1)
    INTEGRATED_ROUTING;

DEPLOY SCOPE AS floor
    SUPERSCOPE ALL FROM market
    ALL FROM @engine, @database
    INTERFACES INPUT(Order), OUTPUT(Quote, Accept)
    INTEGRATED_ROUTING;  -- what leaves it
"""


@pytest.fixture
def address() -> Iterator[str]:
    with serving(Options(name="cli", port=0)) as url:
        yield url


Run = Callable[..., Result]


@pytest.fixture
def run(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)

    def scope(*words: str, input: bytes | None = None) -> Result:
        env = {"COLUMNS": "200", "TIDINGS_BROKER": address}
        return CliRunner().invoke(app, ["scope", *words], env=env, input=input)

    return scope


@pytest.fixture
def market(tmp_path: Path) -> Path:
    file = tmp_path / "market.scopes"
    file.write_text(MARKET, encoding="utf-8")
    return file


def graph_at(address: str):  # type: ignore[no-untyped-def]
    with sync.connect(address) as client:
        return client.admin.graph()


def test_a_file_is_checked_planned_applied_and_then_changes_nothing(run: Run, market: Path, address: str) -> None:
    assert run("check", "market.scopes").stdout == "no mistakes in 2 statements\n"
    planned = run("plan", "market.scopes")
    assert planned.exit_code == 2
    assert graph_at(address).version == 0, "a plan changes nothing"
    assert planned.stdout.startswith(
        "5 changes on version 0 of the scope graph: 2 CreateScope, 3 Join\n"
        "something else will be seen in 3 scopes and by 2 clients: "
    )
    assert "    + of @database, @engine, floor: type = 'Accept' OR type = 'Quote', for example" in planned.stdout
    assert "  Join member=@database,@engine scope=floor\n" in planned.stdout
    assert "hear and are heard only where they are members then: @database, @engine" in planned.stdout
    applied = run("apply", "market.scopes", "--yes")
    assert applied.exit_code == 0
    assert applied.stdout.endswith("done, version 1 of the scope graph\n")
    again = run("plan", "market.scopes")
    assert (again.exit_code, again.stdout) == (0, "nothing would change\n")
    assert (run("diff", "market.scopes").exit_code, run("apply", "market.scopes").exit_code) == (0, 0)
    assert graph_at(address).version == 1


@pytest.mark.req("VIS-815")
def test_what_a_plan_foretells_is_what_then_is_delivered(run: Run, market: Path, address: str) -> None:
    with sync.connect(address, name="engine") as engine, sync.connect(address, name="watcher") as watcher:
        seen = watcher.subscribe("type = 'Quote'")
        engine.publish(type="Quote", price=1)
        assert next(seen)["price"] == 1, "without scopes everybody sees everything"
        done = run("apply", "market.scopes", "--yes")
        assert "  root\n    - of @database, @engine: TRUE, for example no attributes\n" in done.stdout
        market.write_text(MARKET + "ALTER SCOPE market ADD FROM @watcher;\n", encoding="utf-8")
        planned = run("plan", "market.scopes", "--json")
        sights = json.loads(planned.stdout)["sights"]
        (gained,) = [
            one for one in sights if (one["source"], one["target"], one["outcome"]) == ("floor", "@watcher", "gained")
        ]
        engine.publish(type="Quote", price=2)
        assert run("apply", "market.scopes", "--yes").exit_code == 0
        engine.publish(type="Secret", price=3)
        engine.publish(**gained["witness"], price=4)
        everything = watcher.subscribe("price > 0")
        engine.publish(type="Quote", price=5)
        assert next(everything)["price"] == 5
        assert gained["witness"]["type"] in ("Quote", "Accept")


def test_a_plan_is_kept_and_applied_only_to_the_graph_that_it_was_made_for(
    run: Run, market: Path, address: str
) -> None:
    assert run("plan", "market.scopes", "--out", "market.plan", "--svg", "market.svg").exit_code == 2
    assert "<svg" in Path("market.svg").read_text(encoding="utf-8")
    assert run("apply", "market.plan", "--yes").exit_code == 0
    stale = run("apply", "market.plan", "--yes")
    assert stale.exit_code == 1
    assert stale.stderr == (
        "tidings: 'market.plan' was made for version 0 of the scope graph, which is at version 1 and says something "
        "else now; plan anew\n"
    )
    assert run("create", "bank").exit_code == 0
    assert run("plan", "market.scopes", "--prune", "--out", "later.plan").exit_code == 2
    with serving(Options(name="other", port=0)) as elsewhere:
        env = {"TIDINGS_BROKER": elsewhere}
        other = CliRunner().invoke(app, ["scope", "apply", "later.plan", "--yes"], env=env)
        assert other.exit_code == 1
        assert other.stderr == (
            "tidings: 'later.plan' was made for another network: its graph of version 2 is not the one here, which is "
            "at version 0; plan anew\n"
        )
    Path("broken.plan").write_text("{", encoding="utf-8")
    broken = run("apply", "broken.plan", "--yes")
    assert broken.exit_code == 1
    assert broken.stderr.startswith("tidings: 'broken.plan': not a plan of a change")


def test_a_plan_that_was_edited_cannot_lie_about_who_sees_what(run: Run, market: Path) -> None:
    planned = run("plan", "market.scopes", "--out", "market.plan")
    plan = json.loads(Path("market.plan").read_text(encoding="utf-8"))
    emptied = {key: [] if isinstance(value, list) and key != "changes" else value for key, value in plan.items()}
    assert emptied != plan
    Path("market.plan").write_text(json.dumps(emptied), encoding="utf-8")
    applied = run("apply", "market.plan", "--yes")
    assert applied.exit_code == 0
    told = [line for line in planned.stdout.splitlines() if "@" in line]
    assert told
    assert set(told) <= set(applied.stdout.splitlines())


def test_a_long_plan_is_read_to_its_end(run: Run, market: Path) -> None:
    assert run("plan", "market.scopes", "--out", "market.plan").exit_code == 2
    long = Path("market.plan").read_text(encoding="utf-8") + " " * (MAX_BYTES + 1)
    Path("market.plan").write_text(long, encoding="utf-8")
    assert run("apply", "market.plan", "--yes").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "market.scopes"], "--out would overwrite it: 'market.scopes' is read; name another file"),
        (["--svg", "./market.scopes"], "--svg would overwrite it: 'market.scopes' is read; name another file"),
        (["--out", "x", "--svg", "x"], "--svg would overwrite it: 'x' is written by --out; name another file"),
    ],
)
def test_what_is_read_is_not_overwritten(run: Run, market: Path, options: list[str], message: str) -> None:
    refused = run("plan", "market.scopes", *options)
    assert (refused.exit_code, refused.stderr) == (1, f"tidings: {message}\n")
    assert market.read_text(encoding="utf-8") == MARKET
    assert not Path("x").exists()


def test_a_plan_is_applied_to_an_equal_graph_of_a_later_version(run: Run, market: Path, address: str) -> None:
    assert run("plan", "market.scopes", "--out", "market.plan").exit_code == 2
    for attribute in ("SET city = 'Ulm'", "DEL SET city = ''"):
        with sync.connect(address) as client:
            client.admin.execute(f"ALTER SCOPE @engine {attribute}")
    applied = run("apply", "market.plan", "--yes")
    assert (applied.exit_code, applied.stderr) == (0, "")
    assert applied.stdout.endswith("done, version 3 of the scope graph\n")


def test_a_graph_that_changes_all_the_time_ends_in_one_error(
    run: Run, market: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    async def change(*_: object, **__: object) -> None:
        tried.append(1)
        raise StaleGraph("another one")

    monkeypatch.setattr("tidings.client._admin.Admin.change", change)
    assert run("plan", "market.scopes", "--out", "market.plan").exit_code == 2
    for file in ("market.plan", "market.scopes"):
        tried.clear()
        stale = run("apply", file, "--yes")
        assert (stale.exit_code, len(tried)) == (1, 5)
        assert (
            stale.stderr == "tidings: the scope graph changes all the time: 5 plans were out of date; try again later\n"
        )


def test_nobody_is_asked_where_nobody_is(run: Run, market: Path, address: str) -> None:
    asked = run("apply", "market.scopes")
    assert asked.exit_code == 2
    assert asked.stderr == "tidings: standard input is no terminal; give --yes to make the change without a question\n"
    assert graph_at(address).version == 0


def test_who_is_asked_may_say_no_and_is_told_if_the_plan_has_changed_meanwhile(
    run: Run, market: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidings.cli import _scope_plans

    answers: list[bool] = []

    def confirm(text: str, **more: object) -> bool:
        answers.append(len(answers) > 0)
        if len(answers) == 2:
            with sync.connect(address) as client:
                client.admin.create_scope("market", input="TRUE", output="TRUE")
        return answers[-1]

    monkeypatch.setattr(_scope_plans, "at_a_terminal", lambda: True)
    monkeypatch.setattr(_scope_plans.typer, "confirm", confirm)
    refused = run("apply", "market.scopes")
    assert (refused.exit_code, refused.stderr) == (1, "tidings: nothing was changed\n")
    done = run("apply", "market.scopes")
    assert done.exit_code == 0, done.output
    assert "the graph, or what is connected, has changed meanwhile, and with it the plan:" in done.stderr
    assert done.stdout.count("CreateScope id=market") == 1, "it was planned before somebody else had made it"
    assert len(answers) == 3, "and asked again"


def test_a_file_is_compared_as_lines_of_the_language_and_what_is_in_no_file_is_pruned_on_request(
    run: Run, market: Path, address: str
) -> None:
    run("apply", "market.scopes", "--yes")
    run("create", "bank", "--attribute", "city=Bonn")
    assert (run("diff", "market.scopes").exit_code, run("diff", "market.scopes").stdout) == (0, "")
    pruned = run("diff", "market.scopes", "--prune")
    assert pruned.exit_code == 2
    assert "-DEPLOY SCOPE AS bank\n" in pruned.stdout
    assert run("apply", "market.scopes", "--prune", "--yes").exit_code == 0
    assert set(graph_at(address).scopes) == {"", "market", "floor"}


def test_the_running_graph_is_exported_as_a_file_that_gives_it(run: Run, market: Path, address: str) -> None:
    run("apply", "market.scopes", "--yes")
    exported = run("export").stdout
    assert run("export", "--out", "copy.scopes").exit_code == 0
    assert Path("copy.scopes").read_text(encoding="utf-8") == exported == export(graph_at(address))
    assert run("plan", "copy.scopes").exit_code == 0
    with serving(Options(name="other", port=0)) as elsewhere:
        env = {"TIDINGS_BROKER": elsewhere}
        assert CliRunner().invoke(app, ["scope", "apply", "copy.scopes", "--yes"], env=env).exit_code == 0
        assert digest(graph_at(elsewhere)) == digest(graph_at(address))


def test_a_version_is_undone_and_later_ones_stay_or_stand_in_the_way(run: Run, market: Path, address: str) -> None:
    run("create", "bank")
    before = digest(graph_at(address))
    run("apply", "market.scopes", "--yes")
    undone = run("undo", "2", "--yes")
    assert undone.exit_code == 0, undone.output
    assert digest(graph_at(address)) == before
    assert run("apply", "market.scopes", "--yes").exit_code == 0
    run("create", "stall", "--within", "market")
    refused = run("undo", "4", "--yes")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "tidings: version 4 cannot be undone, because of what was changed since then:\n"
        "  'market/stall' joined 'market' in version 5\n"
        "undo that first, or change it by hand\n"
    )
    assert (
        "version 99 of the scope graph is not remembered; those that are: 1 to 5" in run("undo", "99", "--yes").stderr
    )


def test_files_are_formatted_and_comments_stay(run: Run, market: Path) -> None:
    assert run("fmt", "market.scopes", "--check").exit_code == 0
    market.write_text("-- why\nDEPLOY AS a FROM @x,@y -- these\nINTEGRATED_ROUTING", encoding="utf-8")
    checked = run("fmt", "market.scopes", "--check")
    assert (checked.exit_code, checked.stdout) == (2, "market.scopes would be changed\n")
    assert run("fmt", "market.scopes").stdout == "market.scopes was changed\n"
    written = "-- why\nDEPLOY SCOPE AS a\n    ALL FROM @x, @y  -- these\n    INTEGRATED_ROUTING;\n"
    assert market.read_text(encoding="utf-8") == written
    assert run("fmt", "-", input=b"DEFINE SCOPE a AS").stdout == "DEFINE SCOPE a AS;\n"


@pytest.mark.req("VIS-901")
def test_mistakes_have_file_line_column_caret_and_remedy_and_all_are_told(run: Run, market: Path) -> None:
    market.write_text("DEFINE SCOPE a AS\n  ALL FROM x WHERE;\nDEPLOY a;\n", encoding="utf-8")
    wrong = run("check", "market.scopes")
    assert wrong.exit_code == 1
    assert wrong.stderr == (
        "tidings: market.scopes:2:19: a condition is missing after WHERE\n"
        "      ALL FROM x WHERE;\n"
        "                      ^\n"
        '  Write one like city = "Berlin" or IS ROLE(boss).\n'
        "market.scopes:3:9: no architecture is named\n"
        "    DEPLOY a;\n"
        "            ^\n"
        "  Write INTEGRATED_ROUTING at the end of the DEPLOY.\n"
    )
    for command in ("plan", "apply", "diff"):
        assert run(command, "market.scopes").exit_code == 1
    checked = run("check", "market.scopes", "--json").stdout
    for command in ("plan", "apply"):
        told = run(command, "market.scopes", "--json")
        assert (told.exit_code, told.stdout, told.stderr) == (1, checked, "")
    found = json.loads(run("check", "market.scopes", "--json").stdout)["mistakes"]
    assert [(one["line"], one["column"], one["problem"]) for one in found] == [
        (2, 19, "a condition is missing after WHERE"),
        (3, 9, "no architecture is named"),
    ]


def test_a_file_that_cannot_be_read_is_refused(run: Run, tmp_path: Path) -> None:
    assert "'none.scopes' cannot be read: No such file or directory" in run("check", "none.scopes").stderr
    (tmp_path / "latin.scopes").write_bytes("DEFINE SCOPE a AS\n-- größer\n".encode("latin-1"))
    assert run("check", "latin.scopes").stderr == (
        "tidings: 'latin.scopes' is no UTF-8 text: line 2 has the byte 0xf6; save it as UTF-8\n"
    )
    (tmp_path / "large.scopes").write_bytes(b"(" * 10_000_000)
    large = run("check", "large.scopes")
    assert (large.exit_code, large.stderr) == (
        1,
        "tidings: 'large.scopes' is larger than 4,000,000 bytes, the most that is read; divide it into several files\n",
    )
    (tmp_path / "bom.scopes").write_bytes(b"\xef\xbb\xbfDEFINE SCOPE a AS;\r\n")
    assert run("check", "bom.scopes").exit_code == 0


def test_a_wrong_command_line_is_an_error_and_not_a_difference(run: Run, market: Path) -> None:
    for words in (("plan", "market.scopes", "--prun"), ("diff",), ("plan", "market.scopes", "--timeout", "x")):
        assert run(*words).exit_code == 1, words


def test_members_are_chosen_among_those_that_are_connected(run: Run, tmp_path: Path, address: str) -> None:
    text = "DEPLOY AS warm FROM MEMBERS(world) WHERE sensor = 'temperature' INTEGRATED_ROUTING"
    (tmp_path / "warm.scopes").write_text(text, encoding="utf-8")
    here = [
        sync.connect(address, name="s1", attributes={"sensor": "temperature"}),
        sync.connect(address, name="s2", attributes={"sensor": "light"}),
    ]
    for client in here:
        client.__enter__()
    try:
        assert run("apply", "warm.scopes", "--yes").exit_code == 0
        assert set(graph_at(address).members("warm")) == {"@s1"}
    finally:
        for client in here:
            client.__exit__(None, None, None)


def test_the_commands_are_in_the_help(run: Run) -> None:
    shown = run("--help").stdout
    for command in ("check", "plan", "apply", "diff", "fmt", "export", "undo"):
        assert f" {command} " in shown


def test_a_plan_tells_who_gets_other_copies_and_what_is_not_checked_yet(run: Run, market: Path) -> None:
    assert run("apply", "market.scopes", "--yes").exit_code == 0
    told = run("plan", "-", input=b"ALTER SCOPE market SET duplicates = 'event'").stdout
    assert told.endswith(
        "who will get other copies of what they see, or in another order:\n"
        "  the members of 'market': duplicates suppress becomes event\n"
        "rights, admission and trust are checked when it is applied\n"
    )
    assert "nobody will see anything else" not in told


def test_whoever_sees_a_part_of_the_graph_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root, ann = "operator-token-1234567", "ann-token-12345678901"
    access = Access(tokens={root: AccessEntry("root", administer=True), ann: AccessEntry("ann")})
    with serving(Options(name="cli", port=0, access=access)) as address:

        def run(token: str, *words: str, input: str | None = None) -> Result:
            env = {"COLUMNS": "200", "TIDINGS_BROKER": address, "TIDINGS_TOKEN": token}
            return CliRunner().invoke(app, ["scope", *words], env=env, input=input)

        hidden = "DEPLOY AS lair FROM @spy SET hidden = TRUE INTEGRATED_ROUTING;"
        shared = "DEPLOY AS club SET administrators = 'ann' INTEGRATED_ROUTING;"
        assert run(root, "apply", "-", "--yes", input=hidden + shared).exit_code == 0
        planned = run(ann, "plan", "-", input="ALTER SCOPE club ROLES r")
        assert "nobody will see anything else by it, as far as you may see the graph\n" in planned.stdout
        assert "worked out on the part of the graph that you may see" in planned.stdout
        assert json.loads(run(ann, "plan", "-", "--json", input="ALTER SCOPE club ROLES r").stdout)["partial"] is True
        exported = run(ann, "export").stdout
        assert exported.startswith("-- This is the part of the graph")
        assert "spy" not in exported
        assert run(ann, "explain", "@ann", "@x", "n=1").stdout.startswith("as far as you may see the graph, ")
        assert "part of the graph" not in run(root, "plan", "-", input="ALTER SCOPE club ROLES r").stdout
        assert not run(root, "export").stdout.startswith("--")


def test_a_graph_that_is_longer_than_a_file_may_be_becomes_several(
    run: Run, market: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("apply", "market.scopes", "--yes").exit_code == 0
    monkeypatch.setattr("tidings.cli._scope_scripts.export_files", lambda graph: export_files(graph, 100))
    assert "--out FILE writes 2 files" in run("export").stderr
    assert run("export", "--out", "all.scopes").stdout == "all.scopes was written\nall-2.scopes was written\n"
    assert run("plan", "all.scopes", "all-2.scopes", "--prune").stdout == "nothing would change\n"


def test_a_file_that_is_written_anew_keeps_its_mode_and_its_links(run: Run, market: Path) -> None:
    messy = "DEPLOY AS a INTEGRATED_ROUTING"
    market.write_text(messy, encoding="utf-8")
    market.chmod(0o640)
    link = market.with_name("link.scopes")
    link.symlink_to(market)
    assert run("fmt", "link.scopes").exit_code == 0
    assert link.is_symlink()
    assert market.read_text(encoding="utf-8") != messy
    assert market.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("option", ["--out", "--svg"])
def test_a_file_that_cannot_be_written_is_named_with_the_remedy(run: Run, market: Path, option: str) -> None:
    failed = run("plan", "market.scopes", option, "nowhere/x")
    assert failed.exit_code == 1
    assert failed.stderr == (
        "tidings: 'nowhere/x' cannot be written: No such file or directory; name a file in a directory that is there "
        "and that you may write to\n"
    )


def test_a_long_plan_is_grouped_and_summed_up_and_all_of_it_is_shown_on_request(run: Run, market: Path) -> None:
    many = ", ".join(f"@c{number:03}" for number in range(300))
    scopes = "".join(f"DEPLOY AS s{number} FROM @d{number} INTEGRATED_ROUTING;" for number in range(60))
    market.write_text(f"DEPLOY AS big label: FROM {many} INTEGRATED_ROUTING;{scopes}", encoding="utf-8")
    short = run("plan", "market.scopes").stdout.splitlines()
    assert short[0] == "422 changes on version 0 of the scope graph: 61 CreateScope, 360 Join, 1 SetOrigin"
    assert short[1].startswith("something else will be seen in 62 scopes and by 360 clients: ")
    assert "  and 73 more changes; --all shows them" in short
    assert any(line.endswith("more lines; --all shows them") for line in short)
    assert len(short) < 270
    whole = run("plan", "market.scopes", "--all").stdout
    assert "--all" not in whole
    assert "  Join member=@c000,@c001," in whole
    assert all(f"@c{number:03}" in whole and f"scope=s{number % 60}\n" in whole for number in range(300))
    assert len(json.loads(run("plan", "market.scopes", "--json").stdout)["changes"]) == 422


def test_a_plan_comes_from_standard_input_as_a_file_does(run: Run, market: Path, address: str) -> None:
    assert run("plan", "market.scopes", "--out", "market.plan").exit_code == 2
    plan = Path("market.plan").read_bytes()
    broken = run("apply", "-", "--yes", input=b"{}")
    assert broken.stderr.startswith("tidings: standard input: not a plan of a change: ")
    assert run("apply", "-", input=plan).stderr == (
        "tidings: standard input is no terminal; give --yes to make the change without a question\n"
    )
    assert run("apply", "-", "--yes", input=plan).stdout.endswith("done, version 1 of the scope graph\n")
    assert run("apply", "-", "--yes", input=plan).stderr == (
        "tidings: standard input was made for version 0 of the scope graph, which is at version 1 and says something "
        "else now; plan anew\n"
    )


def test_a_change_has_the_version_that_the_log_tells_and_that_is_undone(run: Run, market: Path, address: str) -> None:
    with sync.connect(address, name="engine"):  # so a broker comes to carry the scope, in a version of its own
        applied = run("apply", "market.scopes", "--yes")
        assert applied.stdout.endswith("done, version 1 of the scope graph\n")
        assert graph_at(address).version == 2
        assert [json.loads(line)["version"] for line in run("log", "--json").stdout.splitlines()] == [1]
        assert run("undo", "1", "--yes").exit_code == 0
    assert not graph_at(address).nodes() - {""}


def test_a_large_change_is_undone_at_once(run: Run, address: str) -> None:
    with sync.connect(address) as client:
        before = digest(client.admin.graph())
        client.admin.change(CreateScope("big"), *(Join(f"@c{number}", "big") for number in range(5_001)))
    undone = run("undo", "1", "--yes")
    assert undone.exit_code == 0, undone.output
    assert undone.stdout.startswith("10,003 changes on version 1 of the scope graph: 5,001 Leave, 5,001 Forget, 1 Dest")
    assert digest(graph_at(address)) == before


def test_what_takes_long_says_what_it_is_doing(run: Run, market: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidings.cli import _progress
    from tidings.cli._scope_plans import plan_change

    def slow(*given: object, **more: object) -> object:
        time.sleep(0.4)
        return plan_change(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(_progress, "PATIENCE", 0.2)
    monkeypatch.setattr(_progress, "AGAIN", 0.1)
    monkeypatch.setattr("tidings.cli._scope_plans.plan_change", slow)
    told = run("plan", "market.scopes").stderr.splitlines()
    assert "tidings: working out what 5 changes would do; 0 s so far" in told
    assert len(told) > 1


def test_a_plan_names_the_brokers_whose_clients_it_does_not_know(
    run: Run, market: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def components(*_: object, **more: object) -> Components:
        assert more["partial"]
        return Components(silent=("paris",), absent=("oslo", "rome"))

    monkeypatch.setattr("tidings.client._admin.Admin.components", components)
    text = b"DEPLOY AS warm FROM MEMBERS(world) WHERE x = 1 INTEGRATED_ROUTING"
    told = run("plan", "-", "--partial", input=text).stdout
    assert (
        "broker paris did not say which clients are connected there: no selection picks them, unless the graph knows "
        "them\n"
        "brokers oslo, rome cannot be reached: clients that were connected there count as not connected, so selections "
        "may leave them out\n"
    ) in told
    words = json.loads(run("plan", "-", "--partial", "--json", input=text).stdout)
    assert (words["silent"], words["absent"]) == (["paris"], ["oslo", "rome"])
    assert "paris" not in run("plan", "market.scopes", "--partial").stdout, "nothing in that depends on it"
