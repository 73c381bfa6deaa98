"""What the documentation shows, runs: the Python and console blocks of every page, the examples of every docstring.

How pages are followed, and how a block is marked that cannot run here, is said in tests/pages.py.
"""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from types import ModuleType

import pytest
from pages import OPTIONS, PAGES, ROOT, Block, Terminals, blocks, run, run_python

from tidings.model import _operator_words

SOURCE = ROOT / "src"
SPARK = ROOT / "docs" / "spark.md"
"""Runs with the other tests of Spark, which share a session: tests/spark/test_page.py."""
FOLLOWED = [page for page in PAGES if page != SPARK and any(block.runs for block in blocks(page))]


def _modules() -> list[str]:
    """The names of all modules, found without importing any: a broken one fails its own test only."""
    paths = (path.relative_to(SOURCE).with_suffix("") for path in sorted((SOURCE / "tidings").rglob("*.py")))
    return [".".join(path.parts).removesuffix(".__init__") for path in paths if path.name != "__main__"]


LONG = {ROOT / "docs" / page for page in ("scopes.md", "scope-language.md", "simulator.md")}
"""Pages whose commands, each a process of its own, or whose worlds take long: they run in the soak."""
SHOWN = [pytest.param(page, marks=[pytest.mark.soak] if page in LONG else []) for page in FOLLOWED]


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_operator_words, "_FACTORIES", {})  # what a page registers ends with the page
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for example in (page.parent,) if page.is_relative_to(ROOT / "examples") else ():
        monkeypatch.syspath_prepend(str(example))
    run(page, tmp_path)


def test_a_block_that_does_not_run_says_why() -> None:
    shown = [block for page in PAGES for block in blocks(page) if block.kind in {"python", "console"}]
    assert len(shown) > 50
    assert not [block.place for block in shown if not block.runs and not block.reason]
    assert not [block.place for block in shown if block.runs and block.reason]
    kinds = {"", "python", "console", "scopes", "toml", "text", "json", "mermaid"}
    assert {block.kind for page in PAGES for block in blocks(page)} <= kinds


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


def _page(tmp_path: Path, text: str) -> list[Block]:
    page = tmp_path / "page.md"
    page.write_text(text)
    return blocks(page)


def test_a_block_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    text = "```python\nx = 1\n```\n\n```python\n>>> x\n2\n```\n\n"
    text += "<!-- not run: it cannot -->\n```python norun\n1 / 0\n```\n"
    program, example, fragment = _page(tmp_path, text)
    namespace: dict[str, object] = {}
    run_python(program, namespace)
    with pytest.raises(AssertionError, match="Got"):
        run_python(example, namespace)
    assert not fragment.runs
    assert fragment.reason
    assert not example.reason


def test_a_program_that_is_none_is_noticed(tmp_path: Path) -> None:
    [block] = _page(tmp_path, "```python\nimport asyncio\nawait asyncio.sleep(0)\n```\n")
    with pytest.raises(SyntaxError):
        run_python(block, {})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("false", "false"),
        ("$ echo one\ntwo\n", "and not"),
        ("tidings pub nonsense", "nonsense"),
        ("tidings serve --port nonsense", "and never"),
    ],
)
def test_a_command_that_is_wrong_is_noticed(tmp_path: Path, body: str, problem: str) -> None:
    [block] = _page(tmp_path, f"```console\n{body}\n```\n")
    with Terminals(tmp_path) as terminals, pytest.raises(AssertionError, match=problem):
        terminals.run(block)


def test_commands_that_go_on_do_so_beside_the_others(tmp_path: Path) -> None:
    one, other = _page(
        tmp_path,
        '```console\ntidings serve   # a comment\ntidings sub "n > 1"\n```\n\n'
        "```console\n$ tidings pub n=1 --quality fire\nsent\n$ tidings pub n=2\nbroker/...\n```\n",
    )
    with Terminals(tmp_path) as terminals:
        terminals.run(one)
        terminals.run(other)
    assert "n=2" in terminals.printed()
    assert "n=1" not in terminals.printed()
