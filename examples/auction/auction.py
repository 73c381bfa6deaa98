"""Auctions as conversations: each is a session scope, and bidders react in the one that they were called in.

A bidder may take part in several auctions at once. It hears a call, and bids; it does not say where. The bid is a
reaction to the call, so it appears in the auction of that call and in no other.
"""

from __future__ import annotations

import asyncio

import tidings

PRICE = "price BETWEEN 0 AND 1000000"
"""What is no price is not even heard: an auction does not end because somebody writes nonsense."""


async def open_auction(admin: tidings.Client, name: str, auctioneer: str, *bidders: str) -> None:
    """Make a session scope for one auction, with these members."""
    await admin.admin.create_scope(name)
    for member in (auctioneer, *bidders):
        await admin.admin.join(f"@{member}", name)
    await admin.admin.make_session(name)


async def start_bidding(client: tidings.Client, limit: int) -> asyncio.Task[None]:
    """Raise every call by ten, up to a limit, wherever it was made; return when calls are heard."""
    calls = await client.subscribe(f"type = 'call' AND EXISTS(leader) AND {PRICE}")

    async def bid() -> None:
        async for call in calls:
            price = int(call["price"]) + 10  # type: ignore[arg-type]
            if price <= limit and call["leader"] != client.name:
                await client.publish(type="bid", bidder=client.name, price=price)

    return asyncio.create_task(bid())


async def run_auction(client: tidings.Client, price: int, patience: float = 0.5) -> tuple[str, int]:
    """Call until nobody bids any more; return who has won, and for how much."""
    leader = ""
    async with client.subscribe(f"type = 'bid' AND EXISTS(bidder) AND {PRICE}") as bids:
        while True:
            await client.publish(type="call", price=price, leader=leader)
            try:
                async with asyncio.timeout(patience):
                    offer = await anext(bids)
                    while int(offer["price"]) <= price:  # type: ignore[arg-type]
                        offer = await anext(bids)
            except TimeoutError:
                return leader, price
            leader, price = str(offer["bidder"]), int(offer["price"])  # type: ignore[arg-type]
