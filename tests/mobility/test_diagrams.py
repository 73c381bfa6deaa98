"""The sequence diagrams of docs/mobility.md: what brokers say in a simulated hand-off, written down as it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mobility.roamers import BROKERS, network, numbers, states, walker

from tidings.mobility._claims import read
from tidings.mobility._copies import read_saying
from tidings.wire import Deliver, Routed, Wave, WaveAnswer

PAGE = Path(__file__).parents[2] / "docs" / "mobility.md"


def _word(message: Routed) -> str:
    said: Any = read(message.body) if message.feature == "hosts" else read_saying(message.body).said
    return type(said).__name__


def diagram(edges: list[tuple[str, str]]) -> str:
    """A phone goes from a to b while one notification is published; `edges` are those of the neighbour graph."""
    world = network(edges=edges)
    lines = ["sequenceDiagram", *(f"    participant {one}" for one in ("phone", *BROKERS))]

    def tap(name: str, link: Any, frame: Any) -> None:
        message = frame.message
        if isinstance(message, Routed) and name == message.source and message.feature in ("hosts", "roaming"):
            lines.append(f"    {name}->>{message.target}: {_word(message)}")
        elif isinstance(message, Wave | WaveAnswer):
            kind = f" {message.kind}" if isinstance(message, Wave) else ""
            lines.append(f"    {name}->>{link.name}: {type(message).__name__}{kind}")
        elif isinstance(message, Deliver) and link.name == "phone":
            lines.append(f"    {name}->>phone: Deliver")

    def note(text: str) -> None:
        here, there = (states(world).get(one, "nothing") for one in "ab")
        lines.append(f"    Note over phone: {text}")
        lines.append(f"    Note over a,b: copy at a: {here}, copy at b: {there}")

    world.tap = tap
    phone, feed = walker(world)
    note("it is connected to a")
    phone.vanish(noticed=0.3, kept=60)
    world.run(2)
    feed.publish(n=1)
    world.run(2)
    note("it is away, and has missed a notification")
    phone.attach("b")
    world.run(3)
    note("it is connected to b")
    assert numbers(phone) == [1]
    return "\n".join(lines)


@pytest.mark.parametrize("edges", [[("a", "b")], []], ids=["hit", "miss"])
def test_the_diagrams_of_the_page_are_what_brokers_say(edges: list[tuple[str, str]]) -> None:
    drawn = f"```mermaid\n{diagram(edges)}\n```\n"
    assert drawn in PAGE.read_text(), f"put this into {PAGE.name}:\n{drawn}"
