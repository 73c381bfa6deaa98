"""The second scene: somebody comes late, and has missed nothing."""

from __future__ import annotations

import asyncio

import tidings

from ._brokers import PATIENCE, Network
from ._stage import GOOD, GREY, NAME, PAST, Stage

WANTED = "type = 'rate'"
BEFORE = (("berlin", 1.0871), ("paris", 1.0874), ("berlin", 1.0869), ("paris", 1.0878))
AFTER = (("berlin", 1.0882), ("paris", 1.0885))
REACH = 3


async def history(stage: Stage, net: Network, where: str) -> bool:
    """Publish while nobody listens; then somebody asks."""
    stage.headline("A latecomer misses nothing", where)
    stage.say(
        "Exchange rates are published at ", ("berlin", NAME), " and ", ("paris", NAME), ". There is no subscriber:"
    )
    stage.gap()
    async with (
        tidings.connect(net.berlin.url, name="rates-berlin") as berlin,
        tidings.connect(net.paris.url, name="rates-paris") as paris,
    ):
        feeds = {"berlin": berlin, "paris": paris}

        async def publish(broker: str, rate: float) -> None:
            await (await feeds[broker].publish(type="rate", pair="EUR/USD", rate=rate))

        for broker, rate in BEFORE:
            await publish(broker, rate)
            stage.line((f"EUR/USD {rate:.4f}  at {broker}", GREY))
            await stage.pause(0.5)
        stage.gap()
        stage.say("Then one connects to ", ("rome", NAME), f", and asks for the last {REACH} as well:")
        stage.gap()
        await stage.command(f'tidings sub "{WANTED}" --past {REACH}')
        stage.gap()
        async with tidings.connect(net.rome.url, name="latecomer") as latecomer, asyncio.timeout(PATIENCE):
            heard = await latecomer.subscribe(WANTED, past=tidings.last(REACH), with_origin=True)
            got = [await _shown(stage, heard) for _ in range(REACH)]
            for broker, rate in AFTER:
                await publish(broker, rate)
                got.append(await _shown(stage, heard))
            report = heard.history_report
    expected = [rate for _, rate in (*BEFORE[-REACH:], *AFTER)]
    brokers = report.brokers if report is not None else 0
    stage.gap()
    stage.say(f"{brokers} brokers were asked. Past and live are one stream: no gap, nothing twice.")
    return got == expected


async def _shown(stage: Stage, heard: tidings.Subscription) -> float:
    """Show the next one, and whether it is old."""
    rate = await anext(heard)
    assert isinstance(rate, tidings.Traced)
    word, style = ("past", PAST) if rate.from_past else ("live", GOOD)
    stage.line((f"{word}  EUR/USD {rate['rate']:.4f}", style), (f"  from {rate.identity.origin}", GREY))
    await stage.pause(0.6)
    return float(str(rate["rate"]))
