"""What a release holds, and what it promises to those who install it. `make release` builds, checks and tries one."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tidings
from tidings._native import build

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def imported(code: str) -> Iterator[str]:
    """The packages that some code imports, wherever it does."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def named(requirements: list[str]) -> set[str]:
    return {Requirement(one).name for one in requirements}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A source distribution and a wheel, as `make release` builds them."""
    home = tmp_path_factory.mktemp("dist")
    code = "import sys; from hatchling.build import *; print(build_sdist(sys.argv[1])); print(build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(home)], cwd=ROOT, capture_output=True, text=True, check=True)
    sdist, wheel = done.stdout.split()
    return home / sdist, home / wheel


def test_the_wheel_has_every_module_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        (entry_points,) = (wheel.read(name).decode() for name in wheel.namelist() if name.endswith("entry_points.txt"))
    sources = {path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix not in (".pyc", ".so")}
    judged_by = "tidings/sim/promises.md"  # a copy of docs/promises.md
    engines = {name for name in names if name.endswith(".so")}
    assert {str(path.relative_to(ROOT / "src")) for path in sources} | {judged_by} | engines == names
    assert engines <= {f"tidings/_native/{build.NAME}"}
    assert built[1].name.endswith("-py3-none-any.whl") is not bool(engines), "the name says whether it was compiled"
    assert "tidings = tidings.cli:main" in entry_points


def test_a_wheel_without_the_engine_is_for_every_machine(tmp_path: Path) -> None:
    code = "import sys; from hatchling.build import *; print(build_wheel(sys.argv[1]))"
    words = [sys.executable, "-c", code, str(tmp_path)]
    pure = {**os.environ, "TIDINGS_PURE": "1"}
    done = subprocess.run(words, cwd=ROOT, env=pure, capture_output=True, text=True, check=True)
    name = done.stdout.split()[-1]
    assert name.endswith("-py3-none-any.whl")
    assert "without its compiled engine" in done.stdout + done.stderr, "it says so"
    with zipfile.ZipFile(tmp_path / name) as wheel:
        assert not [one for one in wheel.namelist() if one.endswith(".so")]


def test_the_source_distribution_has_what_make_needs(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    needed = {"pyproject.toml", "Makefile", "requirements-dev.lock", "README.md", "LICENSE", "docs/demo.txt"}
    assert needed | {"hatch_build.py", "src/tidings/_native/module.cpp"} <= names
    assert not [name for name in names if name.endswith(".so")]
    assert "tests/test_release.py" in names


def test_an_extra_has_code_behind_it() -> None:
    used = {name for path in (ROOT / "src" / "tidings").rglob("*.py") for name in imported(path.read_text())}
    extras = {name: named(needs) for name, needs in PROJECT["project"]["optional-dependencies"].items()}
    assert set(extras) == {"aggregation", "archive", "spark"}
    for name, needs in extras.items():
        assert needs & used, f"nothing imports what the extra '{name}' brings"
    mentioned = {
        extra
        for path in (ROOT / "src" / "tidings").rglob("*.py")
        for extra in re.findall(r"pip install '\.\[(\w+)\]'", path.read_text())
    }
    assert mentioned <= set(extras)


def test_what_notebooks_import_is_installed_by_make_notebook() -> None:
    groups = PROJECT["dependency-groups"]
    brought = named([*groups["dev"], *groups["notebook"]]) | {"tidings"}
    for path in (ROOT / "examples" / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        assert set(imported(code)) - sys.stdlib_module_names <= brought, path.name


def test_the_tagline_is_the_same_everywhere() -> None:
    tagline = PROJECT["project"]["description"]
    assert tagline in (ROOT / "README.md").read_text()
    assert tagline[0].lower() + tagline[1:] in (tidings.__doc__ or "")


def test_nobody_is_told_to_install_from_a_registry() -> None:
    told = re.compile(r"pip install\s+'?tidings")
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.ipynb")]
    assert not [path for path in (*pages, *(ROOT / "src").rglob("*.py")) if told.search(path.read_text("utf-8"))]


def make(recipe: str, input: str = "") -> subprocess.CompletedProcess[str]:
    """Run a recipe with what the Makefile defines."""
    words = ["make", "-s", "--no-print-directory", f"--eval=recipe: ; @{recipe}", "recipe"]
    return subprocess.run(words, cwd=ROOT, input=input, capture_output=True, text=True, check=False)


def test_whoever_waits_for_an_installation_sees_what_it_is_at() -> None:
    said = (
        "Obtaining file:///somewhere\n"
        "  Installing build dependencies: started\n"
        "  Installing build dependencies: finished with status 'done'\n"
        "Collecting lark<2,>=1.2 (from tidings==0.1)\n"
        "  Using cached lark-1.3.1-py3-none-any.whl (111 kB)\n"
        "Processing /cache/typing_extensions-4.16.0-py3-none-any.whl\n"
        "Installing collected packages: lark, typing_extensions\n"
    )
    shown = make("$(PROGRESS)", said).stdout.splitlines()
    assert [line.strip() for line in shown] == [
        "Installing build dependencies",
        "lark",
        "typing_extensions",
        "Installing collected packages",
    ]


def test_an_installation_that_fails_is_not_taken_for_one_that_succeeded() -> None:
    done = make("$(INSTALL) --no-such-option")
    assert done.returncode != 0
    assert "no-such-option" in done.stderr + done.stdout
