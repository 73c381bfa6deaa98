"""Advertisers learn how many want which kind of offer, and never who; small groups are withheld.

python advertising.py
"""

from __future__ import annotations

import asyncio
import contextlib

import tidings
from tidings.net import Access, AccessEntry, Options, serve

INTERESTS = {"cars": 12, "books": 7, "yachts": 2}
"""How many people want offers of each kind."""
TOKENS = {"people": "token-of-people-people", "advertiser": "token-of-the-advertiser"}


async def main() -> dict[str, object]:
    """Run it, and return what the advertiser knows."""
    access = Access(
        {
            TOKENS["people"]: AccessEntry("people"),
            TOKENS["advertiser"]: AccessEntry("advertiser", count=("root",)),  # may count, and not administer
        }
    )
    known: dict[str, object] = {}
    async with contextlib.AsyncExitStack() as stack:
        broker = await stack.enter_async_context(serve(Options(name="plaza", port=0, access=access)))
        url = f"tidings://127.0.0.1:{broker.port}"
        for kind, people in INTERESTS.items():
            for number in range(people):
                name = f"people/{kind}-{number}"
                person = await stack.enter_async_context(tidings.connect(url, token=TOKENS["people"], name=name))
                await person.subscribe(f"type = 'offer' AND kind = '{kind}'")
        advertiser = await stack.enter_async_context(tidings.connect(url, token=TOKENS["advertiser"]))
        for kind in (*INTERESTS, "planes"):
            wanted = await advertiser.aggregates.get("subscriber_count", filter=f"type = 'offer' AND kind = '{kind}'")
            known[kind] = "a few" if wanted.withheld else wanted.value
        try:
            await advertiser.aggregates.get("publishers() WINDOW 1s")
        except tidings.AccessDenied as error:
            known["more"] = str(error)
    return known


if __name__ == "__main__":
    for what, value in asyncio.run(main()).items():
        print(f"{what}: {value}")
