"""The administrator: defines who sees what. No application is changed, asked or even told.

    python markets.py one          # one market
    python markets.py two          # two, and a customer that trades in both

A market has four nested scopes. What happens on the trading floor (TF) leaves it as quotes and accepts, and orders come
in. Professionals (Prof) get what the floor shows, and so do private customers (Priv) around them. Each customer is a
scope of its own (C1, C2, ...), with whatever programs it likes inside: what they do stays there, except for orders.
"""

from __future__ import annotations

import argparse
import asyncio

import tidings
from tidings.client import Admin

SHOWN = "type IN ('Accept', 'Quote')"
ORDER = "type = 'Order'"


async def market(admin: Admin, number: int) -> None:
    """The scopes of one market, and its machines."""
    await admin.create_scope(f"M{number}")
    await admin.create_scope(f"Priv{number}", output="type = 'Trade'")
    await admin.create_scope(f"Prof{number}", input=ORDER, output=SHOWN)
    await admin.create_scope(f"TF{number}", input=ORDER, output=SHOWN)
    for member, scope in (("Priv", "M"), ("Prof", "Priv"), ("TF", "Prof"), ("@me", "TF"), ("@db", "TF")):
        await admin.join(f"{member}{number}", f"{scope}{number}")


async def customer(admin: Admin, name: str, *clubs: str) -> None:
    """The scope of a customer, a member of some others; its programs are called pc and agent."""
    await admin.create_scope(f"C{name}", input=SHOWN, output=ORDER)
    for program in ("@pc", "@agent"):
        await admin.join(f"{program}{name}", f"C{name}")
    for club in clubs:
        await admin.join(f"C{name}", club)


async def one_market(admin: Admin) -> None:
    """Two private customers and a professional one."""
    await market(admin, 1)
    await customer(admin, "1", "Priv1")
    await customer(admin, "2", "Priv1")
    await customer(admin, "3", "Prof1")


async def two_markets(admin: Admin) -> None:
    """A second market beside the first: customer 3 trades in both, customer 4 in the second only."""
    await one_market(admin)
    await market(admin, 2)
    await admin.join("C3", "Prof2")
    await customer(admin, "4", "Priv2")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("markets", choices=["one", "two"])
    parser.add_argument("--broker", default="tidings://localhost:7311")
    words = parser.parse_args()

    async def _main() -> None:
        async with tidings.connect(words.broker, name="administrator") as client:
            await (one_market if words.markets == "one" else two_markets)(client.admin)

    asyncio.run(_main())
