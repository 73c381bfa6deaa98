"""What docs/operations.md says of the commands is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from tidings.cli._app import app

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


def _commands() -> dict[tuple[str, ...], Any]:
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    found: dict[tuple[str, ...], Any] = {}
    for name, later in root.commands.items():
        command = later.load()
        if isinstance(command, TyperGroup):
            found |= {(name, below): one for below, one in command.commands.items()}
        else:
            found[name,] = command
    return found


def test_every_command_is_in_the_table() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `tidings ")]
    for words in _commands():
        named = [row for row in rows if row.startswith(f"| `tidings {words[0]}")]
        assert any(re.search(rf"\b{words[-1]}\b", row) for row in named), words


def test_who_does_not_know_json_is_named() -> None:
    said = re.search(r"All but (.*) know `--json`", PAGE)
    assert said is not None
    without = [words[-1] for words, one in _commands().items() if not any("--json" in p.opts for p in one.params)]
    assert re.findall(r"`(\w+)`", said[1]) == without
