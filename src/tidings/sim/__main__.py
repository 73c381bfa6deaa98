"""`python -m tidings.sim replay SEED`: replay one random scenario and print everything that happened."""

from __future__ import annotations

import argparse
import sys

from ._scenario import Scenario


def main() -> int:
    """Replay a seed."""
    parser = argparse.ArgumentParser(prog="python -m tidings.sim", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    replay = commands.add_parser("replay", help="replay one random scenario and print everything that happened")
    replay.add_argument(
        "seed",
        help="the seed as a report names it: a number, perhaps with letters (of ubtoqgdahlcvwsmpr) before it",
    )
    replay.add_argument("--quiet", action="store_true", help="print only the violations")
    arguments = parser.parse_args()
    result = Scenario.named(arguments.seed).run()
    if not arguments.quiet:
        print(result.transcript())
    print(result.report())
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
