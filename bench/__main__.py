"""`python -m bench [--full] [name ...]`: run benchmarks, print one table, fail if a target is missed."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from . import Report


def names() -> list[str]:
    """The modules here that are benchmarks: they define `run`. Not imported yet: one may need what is not there."""
    modules = sorted(Path(__file__).parent.glob("*.py"))
    return [path.stem for path in modules if "\ndef run(" in path.read_text(encoding="utf-8")]


def main() -> int:
    """Run the benchmarks that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the long curves too; takes many minutes")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of: {', '.join(names())}")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names()):
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    report = Report(full=arguments.full)
    for name in arguments.names or [name for name in names() if not name.startswith("spark")]:  # `make bench-spark`
        report.bench = name
        print(f"{name} ...", flush=True)
        importlib.import_module(f"bench.{name}").run(report)
    print(f"\n{report.table()}")
    if report.missed:
        print(f"\n{len(report.missed)} of the targets missed")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
