"""`tidings config check`, `tidings config show` and `tidings config names`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from tidings.net import Options, bounds_of, owners

from ._config import Configuration, ConfigurationError, Problem, load
from ._connection import AsJson
from ._errors import ExitCode
from ._help import Commands
from ._paths import default_data
from ._settings_text import as_toml, described, kept

config = Commands(help="Check and show configuration files.")


@config.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The TOML file.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Check a configuration, and show each error with its line, the value and the remedy."""
    try:
        problems = list(load(file).warnings)
    except ConfigurationError as error:
        problems = error.problems
    errors = [problem for problem in problems if not problem.warning]
    if as_json:
        print(json.dumps({"file": str(file), "ok": not errors, "problems": [p._asdict() for p in problems]}))
    else:
        for problem in problems:
            print(_told(file, problem))
        print(f"{file}: {_verdict(len(errors), len(problems) - len(errors))}")
    if errors:
        raise typer.Exit(ExitCode.CONFIGURATION)


def _told(file: Path, problem: Problem) -> str:
    kind = "warning: " if problem.warning else ""
    first, *more = problem.problem.split("\n")
    return "\n".join([f"{problem.place(file)}: {kind}{first}", *more, f"    {problem.remedy}"])


def _verdict(errors: int, warnings: int) -> str:
    counts = ((errors, "error"), (warnings, "warning"))
    return ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts if count) or "all is well"


@config.command()
def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The TOML file; without it, the defaults are shown.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show all settings, with defaults for those that the file leaves out. Tokens are hidden."""
    configuration = load(file) if file is not None else Configuration(Options())
    settings = described(configuration)
    options = configuration.options
    if options.data is None:
        options = dataclasses.replace(options, data=default_data(options.name))
    bounds = bounds_of(options)
    if as_json:
        print(json.dumps({**settings, "bounds": {"store": bounds.store, "archive": bounds.archive}}))
    else:
        print(f"# A broker that starts now keeps {kept(bounds)}.\n{as_toml(settings)}")


@config.command()
def names(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The TOML file.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Show which names belong to which identity. All brokers of a network should print the same.

    Entries of brokers are left out. * stands for any text.
    """
    owned = owners(load(file).options.access)
    if as_json:
        print(json.dumps(dict(owned)))
        return
    width = max((len(pattern) for pattern, _ in owned), default=0)
    for pattern, identity in owned:
        print(f"{pattern:<{width}}  {identity}")
    if not owned:
        print(f"{file}: no identity is configured, so anyone may use any name")
