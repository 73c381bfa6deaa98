"""Random filters and notifications over so few names and values that they meet."""

from __future__ import annotations

import random

from tidings.model import Filter, Notification

KINDS = ("a", "b", "c")
WORDS = ("aa", "ab", "ba", "bb")
NUMBERS = 10


def random_filter(rng: random.Random) -> Filter:
    """A filter: mostly one conjunction, now and then an alternative, everything, or nothing."""
    draw = rng.random()
    if draw < 0.03:
        return Filter.parse("TRUE")
    if draw < 0.04:
        return Filter.parse("FALSE")
    text = _conjunction(rng)
    if draw > 0.85:
        text = f"({text}) OR ({_conjunction(rng)})"
    return Filter.parse(text)


def random_notification(rng: random.Random) -> Notification:
    """A notification in which names may be missing, and a kind may be several."""
    attributes: dict[str, object] = {"n": rng.randrange(NUMBERS)}
    if rng.random() < 0.9:
        attributes["kind"] = rng.choice(KINDS)
    elif rng.random() < 0.5:
        attributes["kind"] = rng.sample(KINDS, 2)
    if rng.random() < 0.7:
        attributes["word"] = rng.choice(WORDS)
    if rng.random() < 0.5:
        attributes["x"] = rng.randrange(2 * NUMBERS) / 2
    return Notification(attributes)


def _conjunction(rng: random.Random) -> str:
    return " AND ".join(_constraint(rng) for _ in range(rng.choice((1, 1, 2, 2, 3))))


def _constraint(rng: random.Random) -> str:
    low, high = sorted(rng.sample(range(NUMBERS), 2))
    name = rng.choice(("n", "n", "x"))
    return rng.choice(
        (
            f"kind = '{rng.choice(KINDS)}'",
            f"kind IN ('{rng.choice(KINDS)}', '{rng.choice(KINDS)}')",
            f"kind <> '{rng.choice(KINDS)}'",
            f"{name} > {low}",
            f"{name} <= {high}",
            f"{name} BETWEEN {low} AND {high}",
            f"{name} = {low}",
            f"word LIKE '{rng.choice('ab')}%'",
            f"word LIKE '%{rng.choice('ab')}'",
            "word IS NOT NULL",
            "x IS NULL",
        )
    )
