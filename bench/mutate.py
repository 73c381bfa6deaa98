"""`python -m bench.mutate --seed 13 --count 50`: break the code in many small ways, and see whether a test notices.

Each mutation (see `bench._mutations`) is made in a copy of the project. The tests that are likeliest to notice it run
against the copy, until one fails or the time is up. Each result is written at once to `build/mutate/`, one line of JSON
each: a run that was interrupted goes on where it was, and one with a larger count goes on from there.

A mutation that is not noticed asks for a test, or changes nothing that matters. Only people can tell.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

import msgspec

from ._mutation_guard import ENDLESS, LIMIT
from ._mutations import Mutation, draw

ROOT = Path(__file__).parents[1]
PACKAGES = ("src/tidings/broker", "src/tidings/scopes", "src/tidings/history", "src/tidings/net")
RESULTS = ROOT / "build" / "mutate"
TESTED = ("broker", "scopes", "history", "net", "sim", "client", "cli")
"""The folders of tests from which tests are chosen."""
FILES = 12
"""The most files with tests that are run against one mutation."""
SCENARIOS = {
    "broker": ("tests/sim/test_scenarios.py", "tests/scopes/test_integration.py"),
    "scopes": ("tests/sim/test_scoped_scenarios.py",),
    "history": ("tests/sim/test_past_scenarios.py",),
    "net": ("tests/net/test_links.py", "tests/client/test_client.py"),
}
"""The tests that use nearly everything in a package: they come after the six files that fit best."""
_LEFT_OUT = (".git", ".venv", ".hypothesis", "build", "dist", "__pycache__", ".*_cache")


class Result(msgspec.Struct, frozen=True):
    """What became of one mutation."""

    mutation: str
    noticed: bool
    by: str
    """The test that failed; what was run, if none did."""
    seconds: float
    """Of processor time."""

    def __str__(self) -> str:
        return (
            f"{'noticed    ' if self.noticed else 'NOT NOTICED'} {self.seconds:5.1f} s  {self.mutation}\n    {self.by}"
        )


def main() -> int:
    """Draw mutations and try those that were not tried yet."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutate", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--seed", type=int, default=1, help="what the draw begins with (default 1)")
    parser.add_argument("--count", type=int, default=50, help="how many mutations are drawn (default 50)")
    parser.add_argument("--limit", type=int, default=90, help="seconds of processor time for each (default 90)")
    parser.add_argument("--jobs", type=int, default=1, help="how many are tried at the same time (default 1)")
    parser.add_argument("--again", action="store_true", help="try those again that were not noticed")
    parser.add_argument("--list", action="store_true", help="show what is drawn, and try nothing")
    parser.add_argument("packages", nargs="*", default=PACKAGES, help=f"folders (default {' '.join(PACKAGES)})")
    options = parser.parse_args()
    if unknown := [one for one in options.packages if not (ROOT / one).is_dir()]:
        parser.error(f"no folder {', '.join(unknown)} in the project; name one like {PACKAGES[0]}")
    drawn = draw(ROOT, options.packages, options.seed, options.count)
    if options.list:
        print(*drawn, sep="\n")
        return 0
    results = _Results(RESULTS / f"seed-{options.seed}.jsonl", forget_unnoticed=options.again)
    _try_all([one for one in drawn if str(one) not in results.known], results, options.limit, options.jobs)
    known = [results.known[str(one)] for one in drawn]
    print(*known, sep="\n")
    print(f"\n{sum(one.noticed for one in known)} of {len(known)} mutations are noticed (seed {options.seed})")
    return 0 if all(one.noticed for one in known) else 1


class _Results:
    """What is known of each mutation, kept in a file."""

    def __init__(self, path: Path, *, forget_unnoticed: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        lines = path.read_bytes().splitlines() if path.exists() else []
        found = [msgspec.json.decode(line, type=Result) for line in lines]
        self.known = {one.mutation: one for one in found if one.noticed or not forget_unnoticed}

    def add(self, result: Result) -> None:
        self.known[result.mutation] = result
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")


def _try_all(mutations: list[Mutation], results: _Results, limit: int, jobs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="mutate-") as name, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copy = Path(name) / str(number)
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*_LEFT_OUT))
            copies.put(copy)

        def attempt(mutation: Mutation) -> Result:
            copy = copies.get()
            try:
                return _attempt(mutation, copy, limit)
            finally:
                copies.put(copy)

        attempts = [pool.submit(attempt, one) for one in mutations]
        for number, done in enumerate(as_completed(attempts), 1):
            results.add(done.result())
            print(f"{number}/{len(mutations)} {done.result()}", flush=True)


def _attempt(mutation: Mutation, copy: Path, limit: int) -> Result:
    """Run the tests that may notice a mutation."""
    module = copy / mutation.path
    text = module.read_text(encoding="utf-8")
    module.write_text(mutation.apply(text), encoding="utf-8")
    os.utime(module, (time.time(), time.time()))
    try:
        return _run(mutation, copy, limit)
    finally:
        module.write_text(text, encoding="utf-8")
        shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)  # two texts of one second and one length


def _run(mutation: Mutation, copy: Path, limit: int) -> Result:
    tests = chosen(mutation.path)
    options = ["-q", "-x", "-n", "0", "-m", "not soak", "-p", "no:cacheprovider", "-p", "bench._mutation_guard"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}", LIMIT: str(limit)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what the tests started and could not end
    return _judged(mutation, process.returncode, output, tests, usage.ru_utime + usage.ru_stime)


def _judged(mutation: Mutation, code: int, output: str, tests: list[str], seconds: float) -> Result:
    lines = [line for line in output.splitlines() if line.strip()]
    failed = next(
        (line for line in lines if line.startswith(("FAILED ", "ERROR tests", ENDLESS))), lines[-1] if lines else ""
    )
    if code == -signal.SIGXCPU:
        return Result(str(mutation), False, f"out of time in {' '.join(tests)}", round(seconds, 1))
    if code == 0:
        return Result(str(mutation), False, f"{lines[-1]}: {' '.join(tests)}", round(seconds, 1))
    if code in (1, 2, 4) or code < 0:  # a module that cannot be imported is 2, a conftest that cannot is 4
        return Result(str(mutation), True, failed[:200], round(seconds, 1))
    raise RuntimeError(f"pytest ended with {code}, which says nothing about {mutation}:\n{output}")


@functools.cache
def chosen(module: str) -> list[str]:
    """The files with tests that are likeliest to notice that a module is broken, the likeliest first.

    They bear its name, speak of what it or a module that imports it defines, or are those of its package.
    """
    path = ROOT / module
    package, stem = path.parent.name, path.stem.strip("_")
    own = _defined(path)
    users = [one for one in path.parent.glob("*.py") if f"from .{path.stem} import" in one.read_text("utf-8")]
    near = {name for user in users for name in _defined(user)} - own
    scored = []
    for folder in TESTED:
        for test in (ROOT / "tests" / folder).glob("test_*.py"):
            words = set(re.findall(r"\w+", test.read_text("utf-8")))
            alike = test.stem.removeprefix("test_").split("_")
            score = 4 * len(own & words) + len(near & words)
            if folder == package:
                score += 4 + 12 * any(stem.startswith(one[:6]) for one in alike)
            scored.append((-score, test.stat().st_size, str(test.relative_to(ROOT))))
    best = [test for _, _, test in sorted(scored)]
    return list(dict.fromkeys((*best[:6], *SCENARIOS.get(package, ()), *best)))[:FILES]


def _defined(path: Path) -> set[str]:
    """What a module defines at its top level, and the methods that its classes show."""
    pattern = r"^(?:class|def|async def) (\w+)|^([A-Z_]{4,})\b|^    (?:async )?def ([a-z]\w{7,})"
    found = re.findall(pattern, path.read_text("utf-8"), re.MULTILINE)
    return {name for names in found for name in names if name}


if __name__ == "__main__":
    sys.exit(main())
