"""Random runs with scopes that choose one of several members, with joins, leaves, moves, cuts and crashes.

`make replay SEED=os...` shows one of them; `ows` has journeys besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from promised import PROMISES
from soaking import spread_seeds

from tidings.groups import Choosing, _panel
from tidings.model import Position
from tidings.scopes import OPEN, CreateScope, Join, PolicyKind, PolicyUse, Scopes, SetPolicy
from tidings.scopes.policies import _one_of_n
from tidings.sim import Network, Op, Scenario, check
from tidings.wire import Gap

CHUNK = 4
ONCE_BROKEN = [
    *("os9600002", "os9600015", "os9600018", "os9600020", "os9600025", "om9600017", "os9700035"),
    *("os9850003", "ohm14000001", "ohm81001189", "ohm92000002"),
]


def run(name: str) -> None:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.parametrize("part", range(3))
def test_what_a_scope_gives_to_one_member_goes_to_one_member(part: int) -> None:
    for seed in range(part * CHUNK, (part + 1) * CHUNK):
        run(f"os{seed}")


@pytest.mark.parametrize("name", ONCE_BROKEN)
def test_what_was_broken_once_stays_mended(name: str) -> None:
    run(name)


@pytest.mark.parametrize("name", ["os7", "ows7", "tos7", "om7"])
def test_a_name_leads_back_to_its_run(name: str) -> None:
    assert Scenario.named(name).name == name


@pytest.mark.parametrize("name", ["o5", "t5", "u5", "c5", "to5", "ow5"])
def test_a_letter_that_needs_scopes_is_refused_without_them(name: str) -> None:
    with pytest.raises(ValueError, match="needs scopes; let s, m or p stand before the seed"):
        Scenario.named(name)


def violations(seeds: range) -> Iterator[str]:
    return (text for seed in seeds for text in Scenario.named(f"os{seed}").run(PROMISES).violations)


def test_a_policy_that_always_chooses_the_same_one_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_one_of_n.OneOfN, "_next", lambda self, notification, eligible, context: eligible[0])
    assert any("fair-turns" in text for text in violations(range(2, 10, 2)))


def test_a_point_that_gives_something_to_nobody_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_panel.Panel, "_wanting", lambda self, envelope: {})
    assert any("choice of" in text for text in violations(range(2, 10, 2)))


def shared(choosing: Callable[[str], Choosing] = lambda broker: Choosing()) -> Network:
    """Two members of a scope that chooses in turn have got one of two publications each."""
    built = Network(seed=1, features=lambda broker: [Scopes("a"), choosing(broker)])
    built.add_brokers("ab", links=("ab",))
    built.run()
    for name, broker in (("p", "a"), ("m0", "a"), ("m1", "b")):
        built.add_client(name, broker)
    joins = (Join(f"@{name}", "s") for name in ("p", "m0", "m1"))
    built.change("a", (CreateScope("s", OPEN), *joins, SetPolicy("s", PolicyKind.INTERNAL, PolicyUse("one-of-n"))))
    built.run()
    for name in ("m0", "m1"):
        built.clients[name].subscribe("n > 0", id="s")
    built.run()
    for n in (1, 2):
        built.clients["p"].publish(n=n)
    built.run()
    return built


@pytest.mark.req("VIS-617")
def test_a_planted_second_delivery_is_found() -> None:
    records = list(shared().trace.records)
    assert check(records) == []
    first = next(record for record in records if record.op is Op.NOTIFY)
    other = "m1" if first.component == "m0" else "m0"
    planted = records.index(first) + 1
    records.insert(planted, first._replace(component=other))
    found = [one for one in check(records) if one.guarantee == "one-chosen"]
    assert [one.record.component for one in found] == [other]
    assert found[0].reason == f"it was given before, to {first.component} in record {first.seq}"


@pytest.mark.req("VIS-617")
def test_a_delivery_that_is_left_out_is_found() -> None:
    records = list(shared().trace.records)
    first = next(record for record in records if record.op is Op.NOTIFY)
    records.remove(first)
    assert [one.guarantee for one in check(records)] == ["choice of stored"]


@pytest.mark.parametrize(("owed", "first"), [(False, 3), (True, 1)])
def test_a_gap_begins_with_what_a_member_is_owed_by_another_way(owed: bool, first: int) -> None:
    choosing = Choosing()
    network = shared(lambda broker: choosing if broker == "b" else Choosing())
    link = choosing.context.client("m1")
    assert link is not None
    if owed:
        (registration,) = choosing.context.subscribed(link)
        choosing.context.owe(registration, "a", Position(1, 0), ())
    choosing.tell_client(link, Gap("a", 1, 3, None))
    network.run(1)
    assert [one.detail for one in network.trace.records if one.op is Op.GAP] == [("a", 1, first, None)]


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_many_runs(part: int) -> None:
    for seed in spread_seeds(part):
        run(f"os{seed}")
