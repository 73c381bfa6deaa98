"""The table of packages says what the import check checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import tidings

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| `tidings\.(\w+)` \|[^|]*\| ([^|]+) \|$", re.MULTILINE)


def allowed() -> dict[str, set[str]]:
    """What each package may import, by the table."""
    rows = dict(_ROW.findall((ROOT / "docs" / "architecture.md").read_text()))
    named = {package: set(words.split(", ")) - {"nothing"} for package, words in rows.items()}
    return {package: set(rows) if words == {"everything"} else words for package, words in named.items()}


def packages() -> set[str]:
    source = Path(tidings.__file__).parent
    return {path.parent.name for path in source.glob("*/__init__.py")}


def test_every_package_has_its_row() -> None:
    assert allowed().keys() == packages()


def test_each_row_is_a_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contracts = {one["name"]: one for one in settings["contracts"]}
    everything = packages()
    for package, others in allowed().items():
        forbidden = everything - others - {package}
        if not forbidden:
            continue
        contract = contracts[f"{package} imports what the table allows"]
        assert contract["source_modules"] == [f"tidings.{package}"]
        assert contract["forbidden_modules"] == sorted(f"tidings.{other}" for other in forbidden)


def test_the_layers_are_all_packages() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(one["layers"] for one in settings["contracts"] if one["type"] == "layers")
    named = set(re.findall(r"tidings\.(\w+)", " ".join(layers)))
    assert packages() <= named
