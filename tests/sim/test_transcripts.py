"""Every frame of many random runs, by a digest: whoever changes the core without changing what it says can show it.

A run draws a latency for each frame, so one frame more or less changes everything that follows. Where frames change on
purpose, the digests are taken anew: `python tests/sim/test_transcripts.py`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tidings.broker import Link
from tidings.sim import Scenario
from tidings.wire import Frame

LETTERS = ("", "s", "m", "p", "r", "h", "hs", "hp", "hr")
SEEDS = range(1, 41)
DIGESTS = Path(__file__).with_name("transcripts.json")


def digest(name: str) -> str:
    """Everything that was sent in a run, from whom to whom and when."""
    network = Scenario.named(name).build()
    found = hashlib.blake2b(digest_size=6)

    def note(broker: str, link: Link, frame: Frame) -> None:
        found.update(repr((network.scheduler.now, broker, link.name, frame.hop, frame.message)).encode())

    network.tap = note
    network.run()
    return found.hexdigest()


def known(letter: str) -> list[str]:
    digests: dict[str, list[str]] = json.loads(DIGESTS.read_text())
    return digests[letter]


@pytest.mark.parametrize("letter", LETTERS)
def test_the_same_frames_are_sent_as_ever(letter: str) -> None:
    assert [digest(f"{letter}{seed}") for seed in SEEDS[:2]] == known(letter)[:2]


@pytest.mark.soak
@pytest.mark.parametrize("letter", LETTERS)
def test_the_same_frames_are_sent_as_ever_in_many_runs(letter: str) -> None:
    different = [seed for seed, one in zip(SEEDS, known(letter), strict=True) if digest(f"{letter}{seed}") != one]
    assert different == []


if __name__ == "__main__":
    taken = {letter: [digest(f"{letter}{seed}") for seed in SEEDS] for letter in LETTERS}
    DIGESTS.write_text(json.dumps(taken, indent=0) + "\n")
