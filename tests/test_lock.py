"""The lock of the tests' environment: it fits pyproject.toml, and every file in it is checked by its hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11.0", "3.12.0", "3.13.0")
LOCK = (ROOT / "requirements-dev.lock").read_text()


def pins() -> list[tuple[Requirement, list[str]]]:
    """Each pin, with its hashes."""
    lines = [line for line in LOCK.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    return [(Requirement(words[0]), words[1:]) for words in (re.split(r"\s+--hash=", line) for line in lines)]


def wanted() -> list[str]:
    """What the package and its tests need, as pyproject.toml says it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]


def version(pin: Requirement) -> Version:
    (exactly,) = pin.specifier
    assert exactly.operator == "=="
    return Version(exactly.version)


def test_every_pin_is_exact_and_has_its_hashes() -> None:
    assert len(pins()) > 40
    for pin, hashes in pins():
        assert version(pin)
        assert pin.url is None
        assert hashes, pin
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", one) for one in hashes), pin


@pytest.mark.parametrize("python", PYTHONS)
def test_everything_that_is_asked_for_is_pinned_once_for_each_python_and_fits(python: str) -> None:
    here = {"python_version": python[:4], "python_full_version": python, "sys_platform": "linux"}
    chosen: dict[str, Version] = {}
    for pin, _ in pins():
        if pin.marker is None or pin.marker.evaluate(here):
            assert canonicalize_name(pin.name) not in chosen
            chosen[canonicalize_name(pin.name)] = version(pin)
    for one in map(Requirement, wanted()):
        found = chosen.get(canonicalize_name(one.name))
        assert found is not None, f"{one.name} is not pinned; run `make lock`"
        assert found in one.specifier, f"{one.name} {found} does not fit '{one.specifier}'; run `make lock`"


def test_no_place_to_get_packages_from_is_named() -> None:
    assert "://" not in LOCK
    assert not re.search(r"^\s*-(i|f)\b|index-url|find-links", LOCK, re.MULTILINE)
