"""Random runs with scopes whose policies have a state, or choose several members; an oracle has the same state.

`make replay SEED=ks...` shows one of them; `kws` has journeys besides, `hks` asks for the past.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from promised import PROMISES
from soaking import long, spread_seeds

from tidings.groups import Choosing, _panel, _under_way
from tidings.model import Notification
from tidings.scopes import OPEN, CreateScope, Join, PolicyKind, PolicyUse, Scopes, SetPolicy
from tidings.scopes.policies import PolicyContext, _release, _state, _top_k
from tidings.sim import Network, Op, Scenario, check, read_trace

ONCE_BROKEN = [
    "ks18",  # what came back was forgotten by the next point, and decided again
    "ks39",  # a second form of an event was released by a verdict that came before it
    long("ks1071"),  # one form waited, and the next point decided the other again; and a policy was replaced meanwhile
    long("ks1039"),  # something was published before there were scopes
    long("ks1143"),  # a subscription was told that it had settled before the point had
    long("ks1289"),  # members in the other part of a cut network were told nothing
    long("ks1099"),  # or were told, after a `Gap` that begins later
    long("kws61500010"),  # a second verdict of the same client and microsecond was taken for the first
    long("ks2019"),  # nor were they told what a point lost that had to begin anew
]


def violations(name: str) -> list[str]:
    return Scenario.named(name).run(PROMISES).violations


@pytest.mark.req("VIS-617")
@pytest.mark.parametrize("name", ["ks0", "ks1", "ks2", "ks3", *map(long, ("kws1", "hks3", "kos5", "tks7", "km9"))])
def test_policies_are_obeyed_and_nothing_is_decided_twice(name: str) -> None:
    assert not violations(name)


@pytest.mark.parametrize("name", ONCE_BROKEN)
def test_what_was_broken_once_stays_mended(name: str) -> None:
    assert not violations(name)


def test_a_name_leads_back_to_its_run() -> None:
    assert [Scenario.named(name).name for name in ("ks7", "tkows7")] == ["ks7", "tkows7"]
    with pytest.raises(ValueError, match="needs scopes; let s, m or p stand before the seed"):
        Scenario.named("k5")


def test_what_deciding_points_say_comes_back_from_a_file(tmp_path: Path) -> None:
    trace = Scenario.named("ks1").run(PROMISES).network.trace
    trace.write(tmp_path / "run.parquet")
    said, again = (
        [one for one in records if one.op in (Op.PRESIDES, Op.RULED)]
        for records in (trace.records, read_trace(tmp_path / "run.parquet"))
    )
    assert {one.op for one in said} == {Op.PRESIDES, Op.RULED}
    assert again == said


class TestWhatIsFoundOut:
    """Each of these is planted; some run of a few must notice."""

    def found(self, guarantee: str, seeds: Collection[int]) -> bool:
        return any(guarantee in text for seed in seeds for text in violations(f"ks{seed}"))

    @pytest.mark.req("VIS-612")
    def test_a_ranking_that_is_upside_down(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rank = _top_k.TopK._rank
        monkeypatch.setattr(_top_k.TopK, "_rank", lambda *asked: tuple(-one for one in rank(*asked)))
        assert self.found("policy-obeyed", range(12))

    @pytest.mark.soak
    def test_a_state_that_the_next_point_is_not_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_state.State, "recall", lambda self, state: None)
        assert self.found("policy-obeyed", range(1, 60, 2))

    def test_a_point_that_forgets_what_it_owes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_under_way.Owed, "told", lambda self, facts, open: ())
        assert violations("ks18")

    @pytest.mark.soak
    def test_what_is_released_before_its_verdict(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def select(
            self: _release.Release, notification: Notification, eligible: Collection[str], context: PolicyContext
        ) -> Collection[str]:
            return eligible

        monkeypatch.setattr(_release.Release, "select", select)
        assert self.found("policy-obeyed", range(12))

    @pytest.mark.soak
    def test_what_is_given_to_fewer_than_were_chosen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gives = _panel.Panel._gives
        monkeypatch.setattr(
            _panel.Panel, "_gives", lambda self, place, *what: place.member.client == "c1" or gives(self, place, *what)
        )
        assert self.found("choice of", range(0, 24, 2))


@pytest.mark.req("VIS-617", "VIS-612")
def test_a_delivery_to_one_that_was_not_chosen_is_found() -> None:
    built = Network(seed=1, features=lambda broker: [Scopes("a"), Choosing()])
    built.add_brokers("ab", links=("ab",))
    built.run()
    for name, broker in (("p", "a"), ("m0", "a"), ("m1", "b")):
        built.add_client(name, broker)
    joins = (Join(f"@{name}", "s") for name in ("p", "m0", "m1"))
    policy = SetPolicy("s", PolicyKind.INTERNAL, PolicyUse("top-k", {"k": 1, "attribute": "rank"}))
    built.change("a", (CreateScope("s", OPEN), *joins, policy))
    built.run()
    for name in ("m0", "m1"):
        built.clients[name].subscribe("n > 0", id="s")
    built.run()
    built.clients["p"].publish(n=1)
    built.run()
    records = list(built.trace.records)
    assert check(records) == []
    given = next(record for record in records if record.op is Op.NOTIFY)
    assert given.component == "m0"
    records.insert(records.index(given) + 1, given._replace(component="m1"))
    found = check(records)
    assert [(one.guarantee, one.reason) for one in found] == [
        ("policy-obeyed", "no policy has chosen this client for it")
    ]
    records = [one for one in built.trace.records if one is not given]
    assert [one.guarantee for one in check(records)] == ["choice of stored"]


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_many_runs(part: int) -> None:
    for seed in spread_seeds(part):
        result = Scenario.named(f"ks{seed}").run(PROMISES)
        assert not result.violations, result.report()
