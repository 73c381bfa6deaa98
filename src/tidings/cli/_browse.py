"""`tidings browse`: what may be had in a network that routes with advertisements."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

import tidings
from tidings.model import Filter
from tidings.wire import Offers

from ._connection import AsJson, entering
from ._errors import complain
from ._printable import printable


@entering
def browse(
    client: tidings.Client,
    filter: Annotated[
        str, typer.Argument(metavar="FILTER", help="Show only advertisements that overlap with this filter.")
    ] = "TRUE",
    as_json: AsJson = False,
) -> None:
    """List the advertisements that you may subscribe to. The network must use advertisements."""
    offers = asyncio.run(_ask(client, Filter.parse(filter)))
    for one in map(str, offers.filters):
        print(json.dumps({"filter": one}) if as_json else printable(one))
    if offers.left_out:
        complain(f"{offers.left_out:,} more do not fit or cannot be shown; use a narrower filter")
    elif not offers.filters:
        complain("nothing of this kind is advertised")


async def _ask(client: tidings.Client, wanted: Filter) -> Offers:
    async with client:
        return await client.browse(wanted)
