"""How much a broker keeps on disk is said where somebody looks: in the banner, and by `tidings config show`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidings.cli import app
from tidings.cli._config import load
from tidings.cli._settings_text import kept
from tidings.net import Bound, Bounds

run = CliRunner()


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        (
            Bounds(10**9, None, True),
            "at most 1 GB, and drops the oldest first (by default; [store] retain_bytes changes it)",
        ),
        (
            Bounds(25 * 10**7, 75 * 10**7, True),
            "at most 250 MB in the store and 750 MB in the archive, and drops the oldest first "
            "(by default; [store] retain_bytes changes it)",
        ),
        (Bounds(10**10, None, False), "at most 10 GB, and drops the oldest first ([store] retain_bytes changes it)"),
        (Bounds(None, None, False), "everything, until its disk is full; [store] retain_bytes sets a bound"),
    ],
)
def test_the_bound_in_words(bounds: Bounds, told: str) -> None:
    assert kept(bounds) == told


def test_the_banner_and_the_configuration_have_the_number_that_holds(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    for file, expected in (
        ("", "(by default;"),
        ('[store]\nretain_bytes = "5MB"\n', "at most 5 MB, and drops the oldest"),
    ):
        (tmp_path / "broker.toml").write_text(f'data = "data"\nport = 0\n{file}')
        command = [sys.executable, "-m", "tidings", "serve", "--config", "broker.toml"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as server:
            assert server.stdout is not None
            banner = [server.stdout.readline() for _ in range(3)]
            server.send_signal(signal.SIGINT)
            server.stdout.read()
        (line,) = [line for line in banner if line.startswith("  keeps")]
        assert expected in line
    shown = run.invoke(app, ["config", "show", str(tmp_path / "broker.toml")]).stdout
    assert "keeps at most 5 MB" in shown.splitlines()[0]
    told = json.loads(run.invoke(app, ["config", "show", "--json", str(tmp_path / "broker.toml")]).stdout)
    assert told["bounds"] == {"store": 5_000_000, "archive": None}


def test_unlimited_is_a_word_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('[store]\nretain_bytes = "unlimited"\n[archive]\ndirectory = "a"\nretain_bytes = "20GB"\n')
    options = load(file).options
    assert options.store.retain_bytes is Bound.UNLIMITED
    assert options.archive is not None
    assert options.archive.retain_bytes == 20 * 10**9
    file.write_text('[store]\nretain_bytes = "endless"\n')
    assert 'or "unlimited"' in run.invoke(app, ["config", "check", str(file)]).stdout
