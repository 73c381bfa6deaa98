"""Every public name that a user imports says what it is."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import pytest

PACKAGES = ("tidings", "tidings.sync", "tidings.sim", "tidings.spark")
"""The packages that an application imports."""


def _described(exported: object) -> bool:
    """Whether it has a docstring, other than the signature that Python gives a dataclass or a named tuple."""
    text = inspect.getdoc(exported) or ""
    return bool(text) and not text.startswith(f"{getattr(exported, '__name__', '')}(")


def _members(cls: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties that a class of Tidings defines itself."""
    for name, member in vars(cls).items():
        method = inspect.isfunction(member) or isinstance(member, (property, classmethod, staticmethod))
        if method and not name.startswith("_"):
            yield name, getattr(cls, name)


def undescribed(package: ModuleType) -> list[str]:
    """The exported functions, classes and methods that have no docstring, of their own or inherited; not constants."""
    found = []
    for name in filter(lambda name: not name.isupper(), package.__all__):
        exported = getattr(package, name)
        speaks = inspect.isclass(exported) or inspect.isroutine(exported) or inspect.ismodule(exported)
        if speaks and not _described(exported):
            found.append(name)
        if inspect.isclass(exported):
            found += [f"{name}.{member}" for member, method in _members(exported) if not _described(method)]
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_has_a_docstring(name: str) -> None:
    package = importlib.import_module(name)
    assert _described(package)
    assert undescribed(package) == []


def test_a_missing_docstring_is_noticed() -> None:
    class Documented:
        """A class."""

        def method(self) -> None: ...

        def _private(self) -> None: ...

    def function() -> None: ...

    @dataclass
    class Data:
        field: int

    package = ModuleType("package")
    vars(package).update(
        __all__=["Documented", "function", "Data"], Documented=Documented, function=function, Data=Data
    )
    assert undescribed(package) == ["Documented.method", "function", "Data"]
