"""The third scene: a scope that hides something, and the answer to "why do I not see it?"."""

from __future__ import annotations

import asyncio

import tidings

from ._brokers import PATIENCE, Network
from ._stage import BAD, GOOD, GREY, NAME, Stage

PUBLISHED = (
    {"type": "quote", "symbol": "SAP", "price": 182.4},
    {"type": "order", "symbol": "SAP"},
    {"type": "quote", "symbol": "SAP", "price": 183.1},
)
OUTPUT = "type = 'quote'"


async def scopes(stage: Stage, net: Network, where: str) -> bool:
    """Draw a border around a trading desk, and look from inside and outside."""
    stage.headline("A scope decides who may hear it", where)
    stage.say("A trading desk keeps its orders to itself, and lets its quotes out. An")
    stage.say("administrator says so while everything runs; no program is changed:")
    stage.gap()
    async with (
        tidings.connect(net.berlin.url, name="administrator") as administrator,
        tidings.connect(net.berlin.url, name="trader") as trader,
        tidings.connect(net.rome.url, name="colleague") as colleague,
        tidings.connect(net.rome.url, name="customer") as customer,
        asyncio.timeout(PATIENCE),
    ):
        admin = administrator.admin
        await admin.create_scope("market")
        await stage.command("tidings scope create market")
        await admin.create_scope("desk", within="market", output=OUTPUT)
        await stage.command(f'tidings scope create desk --within market --output "{OUTPUT}"')
        for member, scope in (("trader", "market/desk"), ("colleague", "market/desk"), ("customer", "market")):
            await admin.join(f"@{member}", scope)
            await stage.command(f"tidings scope join @{member} {scope}")
        stage.gap()
        inside, outside = await colleague.subscribe("TRUE"), await customer.subscribe("TRUE")
        stage.line((f"{'@trader at berlin':24}{'@colleague at rome':24}@customer at rome", GREY))
        hidden = []
        for attributes in PUBLISHED:
            await (await trader.publish(attributes))
        seen = await anext(outside)
        for attributes in PUBLISHED:
            heard = await anext(inside)
            assert heard["type"] == attributes["type"]
            visible = seen["type"] == heard["type"]
            _row(stage, f"{heard['type']!s} {heard['symbol']!s}", visible)
            await stage.pause(0.9)
            if not visible:
                hidden.append(heard)
            elif attributes is not PUBLISHED[-1]:
                seen = await anext(outside)
        stage.gap()
        [secret] = hidden
        stage.say("Why does @customer not hear of the order?")
        stage.gap()
        words = " ".join(f"{name}={value}" for name, value in secret.items())
        await stage.command(f"tidings scope explain @trader @customer {words}")
        answer = await admin.explain("@trader", secret, "@customer")
        for line in str(answer).splitlines():
            stage.wrapped(line, BAD if line.startswith(" ") and "blocked by" in line else "")
    return not answer.visible


def _row(stage: Stage, what: str, visible: bool) -> None:
    arrow, stopped = stage.signs.arrow, stage.signs.stopped
    inside = (f"{arrow} {what:20}", GOOD)
    outside = (f"{arrow} {what}", GOOD) if visible else (f"{stopped} hidden", GREY)
    stage.line((f"{what:20}", NAME), inside, outside)
