"""A work queue: workers share orders, acknowledge what they have billed, and give back what they cannot bill now.

A worker that dies leaves its orders to the others. An order that nobody can bill becomes a dead letter.
"""

from __future__ import annotations

import asyncio

import tidings

ACKS = tidings.Acks(within=5.0, max_deliveries=3, max_in_flight=4, by="customer")


class Ledger:
    """What has been billed, by number of the order. Billing an order again changes nothing."""

    def __init__(self) -> None:
        self.billed: dict[int, str] = {}

    def bill(self, order: tidings.Notification, worker: str) -> None:
        """Bill an order; `ValueError` if it has no amount."""
        if "amount" not in order:
            raise ValueError("an order without an amount")
        self.billed.setdefault(int(order["n"]), worker)  # type: ignore[arg-type]


async def start_worker(client: tidings.Client, ledger: Ledger) -> asyncio.Task[None]:
    """Bill orders until the task is cancelled; return when the worker is a member of the group."""
    orders = await client.subscribe("type = 'order'", group="billing", ack=ACKS)

    async def work() -> None:
        async for order in orders:
            try:
                ledger.bill(order, client.name)
            except ValueError:
                await order.nack(delay=0.05 * order.deliveries)  # perhaps another worker knows what to do
            else:
                await order.ack()

    return asyncio.create_task(work())


async def collect_dead_letters(client: tidings.Client) -> tidings.Subscription[tidings.Notification]:
    """Return a subscription to the orders that nobody could bill."""
    return await client.subscribe("type = 'dead-letter' AND group = 'billing'")
