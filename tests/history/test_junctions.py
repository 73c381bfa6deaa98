"""Where paths meet: everybody is asked, what is found gets one order, and nobody waits for more than is needed."""

from __future__ import annotations

import pytest
from history.history_world import Messages, Reader, network_of, strategy_at
from history.strategy_world import STEADY, filled_line, sized

from tidings.broker import RoutingOptions
from tidings.history import MergeOrder
from tidings.history.caching import CachingStrategy, FullReplay, JunctionReplay, MergingCaching, SequenceReplay
from tidings.history.caching._requests import Expect, Request
from tidings.model import last
from tidings.sim import Network
from tidings.wire import Ending

SIZES = {"a": 1, "l": 1, "x": 4, "y": 4}
IN_TIME, X_BEHIND_Y = [1, 2, 3, 4, 5, 6, 7, 8], [5, 6, 7, 1, 2, 3, 4, 8]
ALTERNATELY = [1, 2, 5, 3, 6, 4, 7, 8]
"""Both newest are together: 8, which a has, with 7, the newest of y that it has not; 4 with 6."""


def forked(make: type[CachingStrategy], silent: str = "", **options: object) -> Network:
    """a - l, and behind l both x, where 1 to 4 are published, and y, where 5 to 8 are; a and l remember only 8.

    The silent broker remembers and does not answer.
    """

    class Silent(make):  # type: ignore[valid-type, misc]
        def asked(self, *arguments: object) -> None:
            """Nothing."""

    network = network_of(
        lambda name: (Silent if name == silent else make)(sized(SIZES[name], **options)),
        ["al", "lx", "ly"],
        routing=RoutingOptions("identity"),
        weather=STEADY,
    )
    feeds = {name: network.add_client(f"feed-{name}", name) for name in "xy"}
    Reader(network.add_client("early", "a"), "n > 0", None)
    network.run()
    for n in range(1, 9):
        feeds["x" if n < 5 else "y"].publish(n=n)
        network.run()
    return network


@pytest.mark.req("HIS-078", "HIS-093")
@pytest.mark.parametrize("reader", ["a", "l"])
@pytest.mark.parametrize(
    ("make", "order", "expected"),
    [
        (MergingCaching, MergeOrder.FCFS, X_BEHIND_Y),
        (MergingCaching, MergeOrder.INTERLEAVE, ALTERNATELY),
        (MergingCaching, MergeOrder.TIMESTAMP, IN_TIME),
        (JunctionReplay, MergeOrder.FCFS, X_BEHIND_Y),
        (JunctionReplay, MergeOrder.INTERLEAVE, ALTERNATELY),
        (JunctionReplay, MergeOrder.TIMESTAMP, IN_TIME),
        (FullReplay, MergeOrder.FCFS, X_BEHIND_Y),
        (FullReplay, MergeOrder.TIMESTAMP, IN_TIME),
    ],
)
def test_what_comes_from_several_is_put_into_the_order_that_was_chosen(
    make: type[CachingStrategy], order: MergeOrder, expected: list[int], reader: str
) -> None:
    """x answers first, so that first come, first served, takes it for newer than y."""
    network = forked(make, merge_order=order)
    messages = Messages(network)
    late = Reader(network.add_client("late", reader), "n > 0", last(8))
    network.run()
    assert late.values == expected
    asked = sorted(messages.of("bounded") + messages.of(Request))
    assert asked == [("a", "l") if reader == "a" else ("l", "a"), ("l", "x"), ("l", "y")]


@pytest.mark.req("HIS-093")
def test_whoever_asks_several_says_so() -> None:
    network = forked(FullReplay)
    messages = Messages(network)
    Reader(network.add_client("late", "a"), "n > 0", last(8))
    network.run()
    (expect,) = [message for _, _, message in messages.all if isinstance(message, Expect)]
    assert (expect.count, expect.junction) == (2, True)
    network = filled_line(FullReplay, {"a": 1, "b": 2, "c": 4, "d": 6})
    messages = Messages(network)
    Reader(network.add_client("late", "a"), "n > 0", last(6))
    network.run()
    expects = [message for _, _, message in messages.all if isinstance(message, Expect)]
    assert [(one.count, one.junction) for one in expects] == [(1, False)] * len(expects)
    assert expects


@pytest.mark.req("HIS-094")
@pytest.mark.parametrize("make", [SequenceReplay, FullReplay])
def test_a_request_says_what_is_known_and_asks_for_the_rest(make: type[CachingStrategy]) -> None:
    """Of six, a has the last, b the last two, c the last four: each asks the next for what none before it has."""
    network = filled_line(make, {"a": 1, "b": 2, "c": 4, "d": 6})
    messages = Messages(network)
    late = Reader(network.add_client("late", "a"), "n > 0", last(6))
    network.run()
    requests = [(sender, one.limit, one.have) for sender, _, one in messages.all if isinstance(one, Request)]
    assert requests == [("a", 5, {"d": (1, 6)}), ("b", 4, {"d": (1, 5)}), ("c", 2, {"d": (1, 3)})]
    assert late.values == [1, 2, 3, 4, 5, 6]


@pytest.mark.req("HIS-098")
@pytest.mark.parametrize("make", [MergingCaching, JunctionReplay, SequenceReplay, FullReplay])
def test_a_subscription_goes_on_as_soon_as_there_is_enough_or_nobody_is_left_to_answer(
    make: type[CachingStrategy],
) -> None:
    """At l, where x answers and y does not, or both do."""

    def outcome(silent: str, count: int) -> tuple[list[object], Ending | None]:
        network = forked(make, silent)
        late = Reader(network.add_client("late", "l"), "n > 0", last(count))
        network.run(seconds=1)
        endings = strategy_at(network, "l").endings
        return late.values, next((ending for ending, times in endings.items() if times), None)

    assert outcome("y", 5) == ([1, 2, 3, 4, 8], Ending.SATISFIED), "x has filled it, y need not answer"
    assert outcome("y", 6) == ([], None), "y may have more"
    assert outcome("", 99) == (X_BEHIND_Y, Ending.ANSWERED), "there is no more"
