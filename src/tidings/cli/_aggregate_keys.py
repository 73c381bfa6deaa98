"""`tidings aggregate keygen` and `check`: what is done before anything is deployed, without a broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ._connection import AsJson
from ._option_values import whole
from ._printable import printable_json

Source = Annotated[Path, typer.Argument(metavar="FILE", help="A Python file with the definition.")]
Entry = Annotated[
    str, typer.Option("--class", metavar="NAME", help="The class to use, if the file has several definitions.")
]


def keygen(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the private key goes: a new file.")],
    as_json: AsJson = False,
) -> None:
    """Make a pair of keys: the private one in FILE, readable by you alone; the public one is printed."""
    from ._aggregate_files import new_keys  # noqa: PLC0415 - loads workers and signatures

    made = new_keys(file)
    if as_json:
        print(printable_json(json.dumps(made)))
        return
    print(made["public"])


def check(
    file: Source,
    entry: Entry = "",
    seed: Annotated[int, typer.Option(metavar="N", parser=whole("--seed", 0), help="Draw other records.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Test whether a definition obeys the laws, as a broker does that is given it. Code 1 shows the smallest case."""
    from ._aggregate_files import checked  # noqa: PLC0415

    found = checked(file, entry, seed=seed)
    del found["source"]
    if as_json:
        print(printable_json(json.dumps(found)))
        return
    layers = ", ".join(found["layers"])
    print(f"{found['class']} obeys the laws: {found['rounds']} rounds, partials up to {found['bytes']:,} bytes")
    print(f"digest {found['digest']}, isolated by {layers}")
