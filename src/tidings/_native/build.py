"""Compile the engine with the compiler of this machine: `python -m tidings._native.build`.

The build hook of the package (hatch_build.py) uses the same code, and so does `make fuzz-native`, with sanitizers.
Nothing here imports Tidings, since it runs before Tidings is installed. A machine without a compiler is no mistake:
the command says so and succeeds, unless `--required` is given.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "_engine" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")
"""The file that Python looks for."""
COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror=return-type")
SANITIZERS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
PATIENCE = 300
"""Seconds that the compiler may take."""


class NotBuilt(Exception):
    """Why there is no engine."""


def is_pure() -> bool:
    """Whether the environment asks for a package without the engine."""
    return os.environ.get("TIDINGS_PURE", "") not in ("", "0")


def sources() -> list[Path]:
    """What the engine is compiled from."""
    return sorted(HERE.glob("*.cpp"))


def in_place() -> Path:
    """Where the engine lies in a tree that is used as it is."""
    return HERE / NAME


def is_fresh(target: Path) -> bool:
    """Whether a file was built from these sources."""
    if not target.exists():
        return False
    inputs = [*sources(), *HERE.glob("*.hpp"), Path(__file__)]
    return target.stat().st_mtime >= max(path.stat().st_mtime for path in inputs)


def build(target: Path, *, sanitize: bool = False) -> None:
    """Compile the engine into a file, or raise `NotBuilt`; a half-written file is never left behind."""
    if is_pure():
        raise NotBuilt("TIDINGS_PURE is set")
    if sys.platform == "win32":
        raise NotBuilt("the engine is not built on Windows")
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise NotBuilt("the engine needs CPython with its global interpreter lock")
    if not sources():
        raise NotBuilt(f"there are no sources in {HERE}")
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        raise NotBuilt(f"Python.h is not in {include}; install the headers of Python (python3-dev)")
    link = ("-bundle", "-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-shared",)
    more = SANITIZERS if sanitize else ()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, NAME)
        words = [*_compiler(), *FLAGS, *more, *link, f"-I{include}", *map(str, sources()), "-o", str(made)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotBuilt(f"{words[0]} did not run: {error}") from None
        if done.returncode:
            raise NotBuilt(f"{words[0]} failed:\n{done.stderr[-4_000:]}")
        _move(made, target)


def _move(made: Path, target: Path) -> None:
    """Put a finished file in its place in one step: another process may have loaded the old one."""
    beside = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, beside)
        beside.chmod(0o755)
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise NotBuilt(f"{target} cannot be written: {error}") from None


def _compiler() -> list[str]:
    """The command of a C++ compiler: CXX if it is set, else the first that there is."""
    for command in (os.environ.get("CXX", ""), sysconfig.get_config_var("CXX") or "", *COMPILERS):
        words = shlex.split(command)
        if words and shutil.which(words[0]):
            return words
        if words and command == os.environ.get("CXX"):
            raise NotBuilt(f"CXX is {command}, which cannot be found")
    raise NotBuilt(f"there is no C++ compiler; install one of {', '.join(COMPILERS)}, or set CXX")


def main() -> None:
    """Build the engine where it is used."""
    parser = argparse.ArgumentParser(prog="python -m tidings._native.build", description=__doc__)
    parser.add_argument("--required", action="store_true", help="fail if the engine cannot be built")
    parser.add_argument("--sanitize", metavar="FOLDER", help="build one with sanitizers into this folder instead")
    options = parser.parse_args()
    target = Path(options.sanitize, NAME) if options.sanitize else in_place()
    if not options.sanitize and is_fresh(target):
        return
    try:
        build(target, sanitize=bool(options.sanitize))
    except NotBuilt as why:
        print(f"Tidings works without its compiled engine, only slower: {why}", file=sys.stderr)
        sys.exit(1 if options.required or options.sanitize else 0)
    print(f"Built the compiled engine of Tidings: {target.name}")


if __name__ == "__main__":
    main()
