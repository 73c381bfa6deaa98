"""What the documentation shows, runs: the Python blocks of every page and the examples of every docstring.

The blocks of a page run from top to bottom in one namespace, as a reader would type them. A block with
`>>>` runs as a doctest, any other as a program, in which `await` may stand at the top. A block that
cannot run here is marked ```` ```python norun ````; console blocks are not run.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from tidings.model import _operator_words

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
SPARK = ROOT / "docs" / "spark.md"
"""Runs with the other tests of Spark, which share a session: tests/spark/test_page.py."""
PAGES = [*sorted(set((ROOT / "docs").rglob("*.md")) - {SPARK}), ROOT / "README.md"]
OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```\s*?$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    page: Path
    line: int
    body: str

    def run(self, namespace: dict[str, object]) -> None:
        """Run the block in the namespace of its page."""
        if ">>>" in self.body:
            self._run_as_doctest(namespace)
        else:
            self._run_as_program(namespace)

    def _run_as_doctest(self, namespace: dict[str, object]) -> None:
        test = doctest.DocTestParser().get_doctest(
            self.body, namespace, f"{self.page.name}:{self.line}", str(self.page), self.line
        )
        test.globs = namespace
        complaints: list[str] = []
        runner = doctest.DocTestRunner(optionflags=OPTIONS)
        runner.run(test, out=complaints.append, clear_globs=False)
        assert not runner.failures, "".join(complaints)

    def _run_as_program(self, namespace: dict[str, object]) -> None:
        padding = "\n" * self.line  # so that a traceback names the line of the page
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(padding + self.body, str(self.page), "exec", flags=flags, dont_inherit=True)
        result = eval(code, namespace)
        if inspect.iscoroutine(result):
            asyncio.run(result)


def _blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start("body")), match["body"])
        for match in _FENCE.finditer(text)
        if match["info"].strip() == "python"
    ]


def _modules() -> list[str]:
    """The names of all modules, found without importing any: a broken one fails its own test only."""
    paths = (path.relative_to(SOURCE).with_suffix("") for path in sorted((SOURCE / "tidings").rglob("*.py")))
    return [".".join(path.parts).removesuffix(".__init__") for path in paths if path.name != "__main__"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_blocks_of_a_page_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_operator_words, "_FACTORIES", {})  # what a page registers ends with the page
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for block in _blocks(page):
        block.run(namespace)


@pytest.mark.parametrize("name", _modules())
def test_the_examples_of_a_module_run(name: str) -> None:
    module = _imported(name)
    complaints: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(test, out=complaints.append)
    assert not runner.failures, "".join(complaints)


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tidings"):
            raise
        pytest.skip(f"{name} needs {error.name}, which is an extra")


def test_a_block_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\n>>> x\n2\n```\n\n```python norun\n1 / 0\n```\n")
    program, example = _blocks(page)
    namespace: dict[str, object] = {}
    program.run(namespace)
    with pytest.raises(AssertionError, match="Got"):
        example.run(namespace)


def test_a_program_may_await(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nimport asyncio\nawait asyncio.sleep(0)\ndone = True\n```\n")
    namespace: dict[str, object] = {}
    for block in _blocks(page):
        block.run(namespace)
    assert namespace["done"]
