"""The pages of the documentation as a reader follows them: blocks run from top to bottom, as they are printed.

The Python blocks of a page share one namespace; one with `>>>` runs as a doctest, any other as a program. Console
blocks run in a shell. If lines begin with `$ `, what follows them is what they print, in which `...` stands for
anything. `tidings serve` and `tidings sub` go on in a terminal of their own until the page ends. A block
```` ```toml NAME ```` or ```` ```scopes NAME ```` is a file.

A fragment, which cannot run here, is marked ```` ```python norun ```` or ```` ```console norun ````, and the line
before it says why: `<!-- not run: because ... -->`.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from ports import free_ports

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")},
)
OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
PATIENCE = 60.0
"""Seconds that a command may take."""
PORTS = (7311, 7312, 9311)
"""What pages call ports. In tests others stand for them, since several tests run at once."""
_FENCE = re.compile(r"^(?P<before>[^\n]*)\n```(?P<info>[^\n`]*)\n(?P<body>.*?)^```\s*?$", re.MULTILINE | re.DOTALL)
_REASON = re.compile(r"<!-- not run: .{5,} -->")


class Block(NamedTuple):
    """What stands between two fences."""

    page: Path
    line: int
    kind: str
    words: tuple[str, ...]
    """What else stands behind the language."""
    body: str
    before: str
    """The line before it."""

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def runs(self) -> bool:
        return "norun" not in self.words

    @property
    def reason(self) -> bool:
        """Whether it is said why it does not run."""
        return bool(_REASON.fullmatch(self.before.strip()))


def blocks(page: Path) -> list[Block]:
    """All blocks of a page."""
    text = "\n" + page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        kind, *words = match["info"].split() or [""]
        line = text.count("\n", 0, match.start("body")) - 1
        found.append(Block(page, line, kind, tuple(words), match["body"], match["before"]))
    return found


def run(page: Path, directory: Path) -> None:
    """Follow a page, in a directory of its own."""
    namespace: dict[str, object] = {"__name__": "__docs__"}
    with Terminals(directory) as terminals:
        for block in filter(lambda block: block.runs, blocks(page)):
            match block.kind:
                case "python":
                    run_python(block, namespace)
                case "console":
                    terminals.run(block)
                case "toml" | "scopes" if block.words:
                    (directory / block.words[0]).write_text(terminals.as_here(block.body), encoding="utf-8")


def run_python(block: Block, namespace: dict[str, object]) -> None:
    """Run a Python block in the namespace of its page."""
    if ">>>" in block.body:
        test = doctest.DocTestParser().get_doctest(block.body, namespace, block.place, str(block.page), block.line)
        test.globs = namespace
        complaints: list[str] = []
        runner = doctest.DocTestRunner(optionflags=OPTIONS)
        runner.run(test, out=complaints.append, clear_globs=False)
        assert not runner.failures, "".join(complaints)
        return
    padding = "\n" * block.line  # so that a traceback names the line of the page
    exec(compile(padding + block.body, str(block.page), "exec", dont_inherit=True), namespace)


class Terminals:
    """The terminals of a reader, all in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = dict(zip(map(str, PORTS), map(str, free_ports(len(PORTS))), strict=True))
        self._going_on: list[_Terminal] = []
        self._env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONWARNINGS": "error",
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "200",
            "XDG_DATA_HOME": str(directory / "home"),
            "TIDINGS_BROKER": self.as_here("tidings://localhost:7311"),
        }

    def __enter__(self) -> Terminals:
        return self

    def __exit__(self, *_: object) -> None:
        told = [terminal.end() for terminal in reversed(self._going_on)]
        assert not any("Traceback" in text for text in told), told

    def as_here(self, text: str) -> str:
        """The same with the ports of this test."""
        return re.sub(rf"\b({'|'.join(self._ports)})\b", lambda found: self._ports[found[0]], text)

    def printed(self) -> str:
        """What the commands that go on have printed so far."""
        return "".join(terminal.printed for terminal in self._going_on)

    def run(self, block: Block) -> None:
        """Type what a block shows; whoever goes on does so in the background."""
        for command, expected in _commands(block.body):
            words = shlex.split(command, comments=True)
            here = self.as_here(command)
            if words[:2] == ["tidings", "serve"] and not {"--port", "--config"} & set(words):
                here = re.sub("tidings serve", f"tidings serve --port {self._ports['7311']}", here)
            if (sign := GO_ON.get(tuple(words[:2]))) is not None and "--count" not in words:
                self._going_on.append(_Terminal(here, self._directory, self._env, sign))
                continue
            done = subprocess.run(
                ["bash", "-c", here],
                cwd=self._directory,
                env=self._env,
                text=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
            fine = SUCCESS.get(tuple(words[:3]), (0,))
            assert done.returncode in fine, f"{block.place}: {command}\n{done.stdout}{done.stderr}"
            if expected:
                same = doctest.OutputChecker().check_output(expected, done.stdout, OPTIONS)
                assert same, f"{block.place}: {command}\nprints\n{done.stdout}\nand not\n{expected}"


GO_ON: dict[tuple[str, ...], str] = {("tidings", "serve"): "Ctrl-C", ("tidings", "sub"): "subscribed at"}
"""Commands that go on, and what they print when they are ready."""


SUCCESS: dict[tuple[str, ...], tuple[int, ...]] = {
    ("tidings", "scope", "plan"): (0, 2),
    ("tidings", "scope", "diff"): (0, 2),
}
"""Commands that say by more than 0 that all is well: these two, that something would change."""


class _Terminal:
    """A command that goes on."""

    def __init__(self, command: str, directory: Path, env: dict[str, str], sign: str) -> None:
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=directory,
            env=env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.printed = ""
        self._sign = sign
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reader.start()
        if not (self._ready.wait(PATIENCE) and sign in self.printed):
            raise AssertionError(f"{command}\nprints\n{self.end()}\nand never\n{sign}")

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self.printed += line
                if self._sign in self.printed:
                    self._ready.set()
        self._ready.set()

    def end(self) -> str:
        """End it as Ctrl-C would; what it has printed."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(2)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reader.join()
        return self.printed


def _commands(body: str) -> Iterator[tuple[str, str]]:
    """Each command, with what it prints if that is shown."""
    lines = body.splitlines(keepends=True)
    if not any(line.startswith("$ ") for line in lines):
        text = re.sub(r"\\\n", " ", body)
        quoted = re.split(r"\n(?=(?:[^']*'[^']*')*[^']*$)", text)  # a text between quotes may have several lines
        yield from ((line, "") for line in quoted if line.strip())
        return
    command, expected = "", ""
    for line in lines:
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line[2:].rstrip("\n"), ""
        else:
            expected += line
    yield command, expected
