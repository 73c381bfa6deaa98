"""`tidings demo`: what it shows, and that nothing is left of it, however it ends."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tidings.cli import app
from tidings.cli.demo import Scene, _play
from tidings.cli.demo._stage import GOOD, WIDTH, Stage

RECORDING = Path(__file__).parents[3] / "docs" / "demo.txt"
PATIENCE = 120.0


class Demonstration:
    """One that runs, in a process and a process group of its own."""

    def __init__(self, home: Path, *words: str, **env: str) -> None:
        ours = {"TMPDIR": str(home), "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidings", "demo", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **ours, **env},
            start_new_session=True,
            encoding="utf-8",
        )
        self.shown = ""

    def until(self, text: str) -> None:
        """Read up to the line that has this."""
        assert self.process.stdout is not None
        while text not in self.shown:
            line = self.process.stdout.readline()
            assert line, self.shown
            self.shown += line

    def end(self) -> tuple[int, str]:
        """The exit code, and what it wrote to stderr."""
        out, errors = self.process.communicate(timeout=PATIENCE)
        self.shown += out
        return self.process.returncode, errors

    @property
    def brokers(self) -> list[int]:
        """The numbers of their processes."""
        return [int(number) for number in re.findall(r"  process (\d+)", self.shown)]


@contextlib.contextmanager
def demonstration(home: Path, *words: str, **env: str) -> Iterator[Demonstration]:
    started = Demonstration(home, *words, **env)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.communicate()


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def gone(processes: list[int]) -> bool:
    """Whether they have ended; a process that nobody has waited for yet takes a moment."""
    deadline = time.monotonic() + PATIENCE
    while any(map(runs, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(runs, processes))


def steady(text: str) -> str:
    """Without what differs from one run to the next."""
    text = re.sub(r"127\.0\.0\.1:\d+ *", "127.0.0.1:PORT ", text)
    return re.sub(r"(process|kill -9) \d+ *", r"\1 NUMBER ", text)


def test_the_recording_is_what_it_shows_and_nothing_is_left(tmp_path: Path) -> None:
    with demonstration(tmp_path, "--fast") as demo:
        assert demo.end() == (0, "")
    assert steady(demo.shown) == steady(RECORDING.read_text(encoding="utf-8"))
    assert "\x1b" not in demo.shown
    assert all(len(line) <= WIDTH for line in demo.shown.splitlines())
    assert len(demo.brokers) == 3
    assert gone(demo.brokers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scene", ["history", pytest.param("network", marks=pytest.mark.soak)])
def test_one_scene_can_be_played_alone_and_in_letters_that_every_terminal_knows(tmp_path: Path, scene: str) -> None:
    with demonstration(tmp_path, "--fast", "--scene", scene, PYTHONIOENCODING="ascii", PYTHONUTF8="0") as demo:
        assert demo.end() == (0, "")
    titles = re.findall(r"^-- (.*?) -+", demo.shown, re.MULTILINE)
    assert len(titles) == 3, "its own, between the first and the last"
    assert demo.shown.isascii()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(one, marks=pytest.mark.soak) for one in (signal.SIGTERM, signal.SIGHUP))]
)
def test_it_can_be_ended_at_any_time(tmp_path: Path, number: signal.Signals) -> None:
    with demonstration(tmp_path) as demo:
        demo.until("published at berlin")
        os.killpg(demo.process.pid, number)  # as a terminal does
        code, errors = demo.end()
    assert (code, errors) == (130, "")
    assert "Stopped" in demo.shown
    assert gone(demo.brokers)
    assert list(tmp_path.iterdir()) == []


def test_its_brokers_end_with_it_even_if_it_is_killed(tmp_path: Path) -> None:
    with demonstration(tmp_path) as demo:
        demo.until("published at berlin")
        assert all(map(runs, demo.brokers))
        demo.process.kill()
        demo.end()
    assert gone(demo.brokers)


@pytest.mark.soak
def test_a_scene_that_does_not_show_what_it_should_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wrong(stage: Stage, net: object, where: str) -> bool:
        return False

    monkeypatch.setitem(_play.SCENES, Scene.FILTERS, wrong)
    done = CliRunner().invoke(app, ["demo", "--fast", "--scene", "filters"])
    assert done.exit_code == 1


def test_colour_says_nothing_that_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = {}
    for name, options in {
        "colour": {"force_terminal": True, "color_system": "256"},
        "none": {"force_terminal": True, "no_color": True},
        "pipe": {},
    }.items():
        file = io.StringIO()
        stage = Stage(Console(file=file, highlight=False, **options))
        stage.headline("A scene", "1 of 2")
        stage.line("one ", ("two", GOOD))
        stage.wrapped("  word " * 30)
        shown[name] = file.getvalue()
    assert "\x1b[1;32m" in shown["colour"]
    assert "32m" not in shown["none"]
    assert re.sub(r"\x1b\[[\d;]*m", "", shown["colour"]) == shown["pipe"]
    assert max(map(len, shown["pipe"].splitlines())) == WIDTH
