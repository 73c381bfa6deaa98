"""The tree of errors is drawn as it is."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import tidings
from tidings.client._receipt import error_of
from tidings.model import TidingsError, _errors
from tidings.wire import Refused

ROOT = Path(__file__).parents[2]
_LINE = re.compile(r"^    (?P<lines>[│├└─ ]*)(?P<name>[A-Z]\w+)(?:  +(?:(?P<package>\w+): )?.*)?$")


def drawn(text: str = _errors.__doc__ or "") -> dict[str, tuple[str, str]]:
    """For each error in a drawing, the one that it hangs from, and its package: its own, or its parent's."""
    found: dict[str, tuple[str, str]] = {}
    above: list[str] = []
    for line in text.splitlines():
        if (match := _LINE.match(line)) is not None:
            depth = len(match["lines"]) // 4
            parent = above[depth - 1] if depth else ""
            package = match["package"] or (found[parent][1] if depth else "model")
            found[match["name"]] = parent, package
            above[depth:] = [match["name"]]
    return found


def defined(error: type[TidingsError] = TidingsError, parent: str = "") -> Iterator[tuple[str, tuple[str, str]]]:
    yield error.__name__, (parent, error.__module__.split(".")[1])
    for derived in error.__subclasses__():
        if derived.__module__.startswith("tidings."):
            yield from defined(derived, error.__name__)


def test_the_page_about_the_client_draws_the_same_tree() -> None:
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    (tree,) = re.findall(r"```text\n(TidingsError\n.*?)```", page, re.DOTALL)
    assert drawn("".join(f"    {line}\n" for line in tree.splitlines())) == drawn()


def test_every_error_is_exported_by_the_package() -> None:
    for name in drawn():
        assert name in tidings.__all__
        assert issubclass(getattr(tidings, name), TidingsError)
        assert getattr(tidings, name).__name__ == name
    assert not hasattr(tidings, "NoSuchError")


def test_every_error_that_a_broker_may_answer_with_arrives_as_its_own_class() -> None:
    for name, (_, package) in drawn().items():
        if package == "model":
            came = error_of(Refused(name, "because of this; do that", "7"))
            assert type(came) is getattr(tidings, name)
            assert str(came) == "because of this; do that"
    unknown = error_of(Refused("TooManyMoons", "wait for the morning", "7"))
    assert type(unknown) is tidings.RefusedByService
    assert str(unknown) == "TooManyMoons: wait for the morning"


def test_every_error_hangs_in_the_drawn_tree_where_its_class_does() -> None:
    for module in pkgutil.walk_packages(tidings.__path__, "tidings."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert drawn() == dict(defined()), "draw the tree at the top of src/tidings/model/_errors.py as the classes are"
