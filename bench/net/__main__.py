"""`python -m bench.net [--quick] [scenario ...]`: run scenarios, print one table, fail if a target is missed."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import resource
import sys
import time
from pathlib import Path

import tidings

from ._bench import Bench


def names() -> list[str]:
    """The modules here that are scenarios."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]_*.py"))


def source() -> str:
    """A digest of the code that is measured."""
    digest = hashlib.sha256()
    for path in sorted(Path(tidings.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def main() -> int:
    """Run the scenarios that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.net", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="once instead of three times, and shorter")
    parser.add_argument("names", nargs="*", metavar="scenario", help=f"of: {', '.join(names())}, or a first letter")
    arguments = parser.parse_args()
    wanted = [name for name in names() if not arguments.names or {name, name[0]} & set(arguments.names)]
    if not wanted:
        parser.error(f"no such scenario; there are {', '.join(names())}")
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    bench = Bench(quick=arguments.quick)
    measured = source()
    begun, before = time.monotonic(), os.getloadavg()[0]
    for name in wanted:
        print(f"{name} ...", flush=True)
        importlib.import_module(f"bench.net.{name}").run(bench)
    print(f"\n{bench.report.table()}")
    print("\nmeasured: delivered notifications in a second, and CPU for each: of the server, in d of the application.")
    print("CPU, rate: how many times better ours is; CPU decides.")
    print(f"{time.monotonic() - begun:,.0f} seconds; load average before {before:.1f}, on {os.cpu_count()} cores")
    print(f"code {measured} in {Path(tidings.__file__).parent}")
    if changed := source() != measured:
        print("CHANGED: the code was changed during the run; the figures mix several states of it")
    if bench.report.missed:
        print(f"{len(bench.report.missed)} of the targets missed")
    return 1 if bench.report.missed or changed else 0


if __name__ == "__main__":
    sys.exit(main())
