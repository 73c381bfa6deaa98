"""The demonstration from its beginning to its end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tidings.cli._logs import set_up_logs
from tidings.model import TidingsError

from . import Scene
from ._brokers import PATIENCE, Network, network
from ._filters import filters
from ._history import history
from ._kill import kill
from ._scopes import scopes
from ._stage import COMMAND, GREY, NAME, TITLE, Stage

SCENES = {Scene.FILTERS: filters, Scene.HISTORY: history, Scene.SCOPES: scopes, Scene.NETWORK: kill}
NEXT = (
    "serve",
    "sub \"type = 'quote' AND price > 100\" --past 10",
    "pub type=quote symbol=SAP price=182.4",
)


def play(chosen: Sequence[Scene], *, fast: bool) -> bool:
    """Play these scenes; whether everything was as it should be. Raises `KeyboardInterrupt` when told to end."""
    set_up_logs("demo", "critical", as_json=False)
    return asyncio.run(_play(chosen, Stage(fast=fast)))


async def _play(chosen: Sequence[Scene], stage: Stage) -> bool:
    playing = asyncio.create_task(_all(chosen, stage))
    loop = asyncio.get_running_loop()
    told: list[int] = []

    def end(number: int) -> None:
        told.append(number)
        playing.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    try:
        return await playing
    except asyncio.CancelledError:
        stage.gap()
        stage.say("Stopped; the brokers are gone, and so is what they stored.")
        raise KeyboardInterrupt from None


async def _all(chosen: Sequence[Scene], stage: Stage) -> bool:
    good = True
    async with network() as net:
        await _open(stage, net)
        for number, scene in enumerate(chosen, start=1):
            where = f"{number} of {len(chosen)}" if len(chosen) > 1 else ""
            try:
                good &= await SCENES[scene](stage, net, where)
            except TimeoutError:
                raise TidingsError(f"the scene '{scene}' waited for {PATIENCE:g} seconds; try it again") from None
            await stage.pause(4.0)
    _close(stage)
    return good


async def _open(stage: Stage, net: Network) -> None:
    stage.headline("Tidings")
    stage.say(("Publish/subscribe by content: ", ""), ("say what you want to hear, and hear it.", TITLE))
    stage.say("Three brokers start on this machine, each a process with a store of its own:")
    stage.gap()
    for broker in net.brokers:
        await broker.start()
        stage.line((f"{broker.name:8}", NAME), f"{broker.url:28}", (f"process {broker.pid}", GREY))
    await net.linked()
    stage.gap()
    link = (f" {stage.signs.link} ", GREY)
    stage.line(("berlin", NAME), link, ("paris", NAME), link, ("rome", NAME))
    await stage.pause(3.0)


def _close(stage: Stage) -> None:
    stage.headline("Now you")
    command = _how_to_call()
    stage.say("Three terminals, one command each:")
    stage.gap()
    for words in NEXT:
        stage.line((f"{command} {words}", COMMAND))
    stage.gap()
    stage.say("README.md goes on from there. One scene again:")
    stage.gap()
    stage.line((f"{command} demo --scene {'|'.join(Scene)}", COMMAND))
    stage.gap()


def _how_to_call() -> str:
    """How this command is called from here: by its name if the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which("tidings")
    if called.name != "tidings" or (found is not None and os.path.realpath(found) == os.path.realpath(called)):
        return "tidings"
    return os.path.relpath(called)
