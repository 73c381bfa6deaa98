"""How the command starts: it loads what it needs and no more, and Ctrl-C finds it ready at any time."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from serving import serving

import tidings
from tidings import cli
from tidings._native import describe
from tidings.cli import _completion, _known_names
from tidings.cli._app import COMMANDS, _Later
from tidings.cli._completion import described, note, noted, stand_in
from tidings.net import Options

HEAVY = {"asyncio", "lark", "msgspec", "prometheus_client", "tidings.model", "tidings.net", "tidings.client"}
"""What nobody needs who does not run anything."""
SLOW = {*HEAVY, "pydantic", "rich", "typer"}

INTERRUPTED = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.write(1, b"now ")
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["tidings", *{words!r}]
from tidings.cli import main
main()
"""


def loaded(*words: str, **env: str) -> tuple[set[str], str]:
    """The modules that a command loads, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tidings", *words],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE)), done.stdout


def completing(*words: str) -> dict[str, str]:
    """What bash says when somebody presses TAB."""
    line = " ".join(("tidings", *words))
    return {"_TIDINGS_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}


def test_the_version_needs_nothing_but_itself() -> None:
    modules, printed = loaded("--version")
    assert printed == f"tidings {tidings.__version__} ({describe()})\n"
    assert not modules & SLOW
    assert len([name for name in modules if name.startswith("tidings")]) < 6


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which the words of all commands are noted."""
    home = tmp_path_factory.mktemp("home")
    loaded("--help", XDG_CACHE_HOME=str(home))
    return home


def test_the_names_of_commands_are_completed_without_loading_them(home: Path) -> None:
    modules, printed = loaded(**completing("s"), XDG_CACHE_HOME=str(home))
    assert set(printed.split()) == {"serve", "sub", "status", "scope"}
    assert not modules & (HEAVY | {"rich"})


def test_options_are_completed_without_loading_a_command_from_the_second_time_on(tmp_path: Path) -> None:
    _, first = loaded(**completing("pub", "--q"), XDG_CACHE_HOME=str(tmp_path))
    modules, second = loaded(**completing("pub", "--q"), XDG_CACHE_HOME=str(tmp_path))
    assert first == second == "--quality\n"
    assert not modules & (HEAVY | {"rich"})
    modules, words = loaded(**completing("scope", "cr"), XDG_CACHE_HOME=str(tmp_path))
    assert words == "create\n"
    assert not modules & (HEAVY | {"rich"})
    (tmp_path / "tidings" / "completion.json").write_text("nonsense")
    assert loaded(**completing("serve", "--role", "i"), XDG_CACHE_HOME=str(tmp_path))[1] == "inner\n"


def test_a_home_that_cannot_be_written_to_costs_time_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert loaded(**completing("pub", "--q"), XDG_CACHE_HOME=str(tmp_path / "file"))[1] == "--quality\n"


def words_of(command: Any) -> list[object]:
    """Everything that a shell may be told of a command."""
    context = typer.Context(command)
    told: list[object] = [
        (one.value, one.help) for start in ("", "-", "--") for one in command.shell_complete(context, start)
    ]
    told += [(one.name, one.opts, [word.value for word in one.shell_complete(context, "")]) for one in command.params]
    return told + [words_of(one) for one in getattr(command, "commands", {}).values()]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_stand_in_has_the_words_of_its_command(name: str) -> None:
    command = _Later(name).load()
    assert words_of(stand_in(name, json.loads(json.dumps(described(command))))) == words_of(command)


def test_a_note_is_made_anew_when_a_command_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert noted() is None
    note({"warm": _Later("warm").load()})
    assert set(noted() or ()) == {"warm"}
    monkeypatch.setattr(_completion.tidings, "__version__", "another")
    assert noted() is None


def test_help_loads_no_command(home: Path) -> None:
    modules, printed = loaded("--help", XDG_CACHE_HOME=str(home))
    assert all(name in printed for name in COMMANDS)
    assert not modules & HEAVY


def test_help_says_of_each_command_what_its_own_help_begins_with(home: Path) -> None:
    _, printed = loaded("--help", XDG_CACHE_HOME=str(home), COLUMNS="300")
    for name in COMMANDS:
        own = " ".join(_Later(name).load().help.partition("\n\n")[0].split())
        assert re.search(rf"{name} +{re.escape(own)}", printed), name


def test_the_app_is_still_there_for_those_who_ask_for_it() -> None:
    assert isinstance(cli.app, typer.Typer)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        cli.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("tidings.cli._app", ["--help"]),
        ("typer", ["--help"]),
        ("tidings.cli._errors", ["pub", "n=1"]),
        ("tidings.cli._pub", ["pub", "n=1"]),
        ("asyncio", ["pub", "n=1"]),
        ("msgspec", ["pub", "n=1"]),
        ("tidings.cli.demo._play", ["demo"]),
    ],
)
def test_ctrl_c_prints_no_traceback_while_something_is_loaded(module: str, words: list[str]) -> None:
    code = INTERRUPTED.format(module=module, words=words)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("now "), "it was loaded"
    assert done.stderr == ""
    assert done.returncode in {-signal.SIGINT, 130}


def test_every_name_of_the_package_is_the_one_that_a_type_checker_sees() -> None:
    tree = ast.parse(inspect.getsource(tidings))
    seen = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module != "typing":
            seen |= {alias.name: node.module for alias in node.names}
    assert set(seen) == set(tidings.__all__)
    for name, module in seen.items():
        home = importlib.import_module(module or f"tidings.{name}")
        assert getattr(tidings, name) is (getattr(home, name) if module else home)
    assert set(tidings.__all__) <= set(dir(tidings))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        tidings.nonsense  # noqa: B018


def test_names_of_scopes_and_clients_are_completed_as_the_broker_knows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_known_names, "PATIENCE", 30.0)  # no test depends on how busy a machine is
    monkeypatch.setattr(_known_names, "KEPT_SECONDS", 3600.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    scope = stand_in("scope", described(_Later("scope").load()))

    async def given(url: str) -> None:
        async with tidings.connect(url) as client:
            await client.admin.create_scope("market")
            await client.admin.create_scope("marsh")
            await client.admin.join("@maria", "market")

    def offered(command: str, param: str, typed: str) -> list[str]:
        found = scope.commands[command]
        context = typer.Context(found)
        context.params = {"broker": [url]}
        return [
            word.value
            for one in found.get_params(context)
            if one.name == param
            for word in one.shell_complete(context, typed)
        ]

    with serving(Options(name="cli", port=0)) as url:
        asyncio.run(given(url))
        assert offered("show", "name", "mar") == []  # nobody completes a line
        monkeypatch.setenv("_TIDINGS_COMPLETE", "complete_bash")
        assert offered("show", "name", "mar") == ["market", "marsh"]
    # The answer is kept: the broker is not there any more.
    assert offered("join", "member", "@m") == ["@maria"]
    assert offered("join", "member", "mark") == ["market"]
    assert offered("who-sees", "source", "") == ["@maria"]
    kept = next((tmp_path / "tidings").glob("names-*.json"))
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text("nonsense")
    assert offered("show", "name", "mar") == []  # nor is there a complaint
