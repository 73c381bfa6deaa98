"""Filters and notifications to measure matching with, from a seed.

- *stock*: quotes of 8 attributes; nearly every filter names a symbol and adds up to four conditions. Some
  symbols are more popular than others, with publishers as with subscribers. `types` can make the type of
  each quote a list, as it is where types inherit.
- *mixed*: all operators, on texts, numbers, booleans, times and places.
- *stubborn*: over the same words, what no hash and no order finds: what a text contains or ends with, what it is not,
  either of two ranges. *sought* asks the same notifications for equal words.
- *ranges*: two to four intervals on eight numbers, wide and narrow, one in four open to one side.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

from tidings.model import Conjunction, Constraint, Filter, Location, Negated, Notification
from tidings.model.operators import Contains, Equal, Exists, IsNull, Member, Prefix, Range, Suffix, Within, like


@dataclass
class Workload:
    """A source of filters and a source of notifications."""

    name: str
    filter: Callable[[], Filter]
    notification: Callable[[], Notification]


def _round(value: float) -> float:
    return round(value, 2)


def stock(symbols: int, seed: int = 1, *, types: object = "quote") -> Workload:
    """Quotes; the popularity of the n-th symbol falls with n to the power of 0.6."""
    rng = random.Random(seed)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    names = sorted({"".join(rng.choices(letters, k=4)) for _ in range(2 * symbols)})
    rng.shuffle(names)
    names = names[:symbols]
    popular = list(accumulate((n + 1) ** -0.6 for n in range(symbols)))
    exchanges = [f"X{n:02d}" for n in range(20)]
    sectors = [f"sector-{n}" for n in range(40)]
    fixed = {name: (rng.choice(exchanges), rng.choice(sectors), rng.lognormvariate(4, 1)) for name in names}

    def symbol() -> str:
        return rng.choices(names, cum_weights=popular)[0]

    def notification() -> Notification:
        name = symbol()
        exchange, sector, base = fixed[name]
        price = _round(base * rng.uniform(0.9, 1.1))
        return Notification(
            {
                "type": types,
                "symbol": name,
                "exchange": exchange,
                "sector": sector,
                "price": price,
                "change": _round(rng.gauss(0, 3)),
                "volume": int(rng.lognormvariate(8, 2)),
                "bid": _round(price * 0.999),
            }
        )

    def price_near(name: str | None) -> Constraint:
        base = fixed[name][2] if name else rng.lognormvariate(4, 1)
        low = _round(base * rng.uniform(0.85, 1.1))
        return rng.choice(
            [
                Range("price", low, None, low_open=True),
                Range("price", None, low, high_open=True),
                Range("price", low, _round(low * rng.uniform(1.01, 1.1))),
            ]
        )

    def filter() -> Filter:
        name = symbol() if rng.random() < 0.998 else None
        constraints: list[Constraint] = [Equal("symbol", name)] if name else [price_near(None)]
        others: list[Callable[[], Constraint]] = [
            lambda: Equal("type", "quote"),
            lambda: Equal("exchange", fixed[name][0] if name else rng.choice(exchanges)),
            lambda: Equal("sector", fixed[name][1] if name else rng.choice(sectors)),
            lambda: price_near(name),
            lambda: Range("change", _round(rng.gauss(-3, 3)), None, low_open=True),
            lambda: Range("volume", int(rng.lognormvariate(6, 2)), None),
            lambda: Range("bid", None, _round((fixed[name][2] if name else 50.0) * rng.uniform(1.0, 1.3))),
        ]
        more = rng.choices([0, 1, 2, 3, 4], [20, 30, 25, 15, 10])[0]
        if name is None:
            more = max(more, 2)
        constraints += [make() for make in rng.sample(others, more)]
        return Filter([Conjunction(constraints)])

    lists = ", with a list" if types != "quote" else ""
    return Workload(f"stock, {symbols:,} symbols{lists}", filter, notification)


def mixed(seed: int = 2) -> Workload:
    """All operators."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(4, 9))) for _ in range(2000)]
    tags = [f"tag{n}" for n in range(200)]
    places = [
        Location(("eu", f"country{c}", f"city{c}-{t}", f"room{r}"))
        for c in range(8)
        for t in range(8)
        for r in range(8)
    ]
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def moment() -> datetime:
        return start + timedelta(seconds=rng.randrange(30 * 86400))

    def notification() -> Notification:
        attributes: dict[str, Any] = {
            "word": rng.choice(words),
            "tag": rng.choice(tags),
            "level": rng.randrange(100),
            "load": rng.random() * 1000,
            "alarm": rng.random() < 0.1,
            "time": moment(),
            "place": rng.choice(places),
        }
        if rng.random() < 0.3:
            attributes["note"] = rng.choice(words)
        return Notification.trusted(attributes)

    def interval(name: str, low: float, width: float) -> Constraint:
        return Range(name, low, low + width)

    def selective() -> Constraint:
        word = rng.choice(words)
        place = rng.choice(places)
        makers: list[tuple[int, Callable[[], Constraint]]] = [
            (5, lambda: Equal("word", word)),
            (5, lambda: Equal("tag", rng.choice(tags))),
            (4, lambda: Member("tag", tuple(rng.sample(tags, rng.randint(2, 5))))),
            (4, lambda: Prefix("word", word[: rng.randint(2, 4)])),
            (3, lambda: Suffix("word", word[-rng.randint(2, 4) :])),
            (2, lambda: Contains("word", word[1:4])),
            (1, lambda: like("word", f"{word[:2]}%{word[-1]}")),
            (4, lambda: interval("load", rng.random() * 1000, rng.expovariate(1 / 20))),
            (3, lambda: Within("place", Location(place.parts[: rng.randint(2, 4)]))),
        ]
        return rng.choices([maker for _, maker in makers], [weight for weight, _ in makers])[0]()

    def common(many: int) -> list[Constraint]:
        makers: list[Callable[[], Constraint]] = [
            lambda: Range("level", rng.randrange(100), None),
            lambda: Range("load", None, rng.random() * 1000, high_open=True),
            lambda: Equal("alarm", rng.random() < 0.5),
            lambda: Range("time", moment(), None),
            lambda: Negated(Equal("tag", rng.choice(tags))),
            lambda: Negated(Member("tag", tuple(rng.sample(tags, 3)))),
            lambda: rng.choice([Exists, IsNull])("note"),
        ]
        return [make() for make in rng.sample(makers, many)]

    def conjunction() -> Conjunction:
        """One condition in twenty has nothing selective in it, but three or four common constraints."""
        if rng.random() < 0.05:
            return Conjunction(common(rng.choice([3, 4])))
        return Conjunction([selective(), *(selective() for _ in range(rng.randrange(2))), *common(rng.randrange(3))])

    def filter() -> Filter:
        return Filter(conjunction() for _ in range(2 if rng.random() < 0.1 else 1))

    return Workload("mixed operators", filter, notification)


def ranges(seed: int = 3) -> Workload:
    """Intervals on eight numbers between 0 and 1,000."""
    rng = random.Random(seed)
    names = [f"n{n}" for n in range(8)]

    def notification() -> Notification:
        return Notification.trusted({name: rng.random() * 1000 for name in names})

    def bounds(name: str) -> Constraint:
        at = rng.random() * 1000
        match rng.randrange(8):
            case 0:
                return Range(name, at, None, low_open=True)
            case 1:
                return Range(name, None, at)
            case _:
                return Range(name, at, at + rng.choice([10, 50, 100, 200, 400]) * rng.random())

    def filter() -> Filter:
        return Filter([Conjunction(bounds(name) for name in rng.sample(names, rng.choice([2, 3, 3, 4])))])

    return Workload("ranges only", filter, notification)


def _lines(rng: random.Random) -> tuple[list[str], Callable[[], Notification]]:
    """Words, and log lines of some of them."""
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(4, 9))) for _ in range(2000)]

    def notification() -> Notification:
        return Notification.trusted(
            {
                "word": rng.choice(words),
                "line": " ".join(rng.choices(words, k=8)),
                "image": f"{rng.choice(words)}/{rng.choice(words)}.{rng.choice(['exe', 'dll', 'sh'])}",
                "load": rng.random() * 1000,
                "size": rng.randrange(100_000),
            }
        )

    return words, notification


def stubborn(seed: int = 4) -> Workload:
    """Filters that no index helps, as rules that look for attacks are."""
    rng = random.Random(seed)
    words, notification = _lines(rng)

    def either(name: str, most: int) -> list[Constraint]:
        low, high = sorted(rng.randrange(most) for _ in range(2))
        return [Range(name, None, low / 20), Range(name, high + (most - high) * 0.95, None)]

    def filter() -> Filter:
        common: list[Constraint] = [
            Negated(Equal("word", rng.choice(words))),
            Negated(Suffix("image", rng.choice([".exe", ".dll", ".sh"]))),
            Negated(Contains("line", rng.choice(words)[:3])),
        ]
        first: list[Constraint] = rng.choice(
            [
                [Contains("line", rng.choice(words)[1:5])],
                [Suffix("image", rng.choice(words)[-3:] + rng.choice([".exe", ".dll", ".sh"]))],
                [Contains("image", rng.choice(words)[:3])],
                either("load", 1000),
                either("size", 100_000),
            ]
        )
        more = rng.sample(common, rng.randint(1, 3))
        return Filter([Conjunction([one, *more]) for one in first])

    return Workload("nothing to index", filter, notification)


def sought(seed: int = 4) -> Workload:
    """Filters that name a word, on the same notifications."""
    rng = random.Random(seed)
    words, notification = _lines(rng)

    def filter() -> Filter:
        return Filter([Conjunction([Equal("word", rng.choice(words)), Range("size", rng.randrange(100_000), None)])])

    return Workload("words", filter, notification)
