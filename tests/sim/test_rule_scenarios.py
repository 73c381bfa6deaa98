"""Random runs with rules: scopes get and lose them, and brokers and links break while they are carried out.

`make replay SEED=us...` shows one of them; `um...` with mappings, `uhs...` with a past, `uws...` with roaming clients.
"""

from __future__ import annotations

import pytest
from promised import PROMISES, holds
from soaking import spread_seeds

from tidings.scopes import Scopes, Transaction
from tidings.sim import Promises, Scenario
from tidings.sim._firings import broken_rules
from tidings.sim._scenario import Result

HOLDS = holds("fired-once", "rules")


def run(name: str) -> Result:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()
    return result


def fired(result: Result) -> list[Transaction]:
    """The versions that rules have made."""
    broker = result.network.brokers.get(result.scenario.authority)
    scopes = broker.features["scopes"] if broker is not None else None
    return [one for one in scopes.versions.since(0) if one.depth] if isinstance(scopes, Scopes) else []


@pytest.mark.req("VIS-918")
@pytest.mark.parametrize("names", [("us2", "us3", "us7"), ("us14", "us13"), ("um3", "uhs1", "uws2")], ids="-".join)
def test_rules_are_carried_out_once_for_what_their_scope_sees(names: tuple[str, ...]) -> None:
    assert HOLDS
    assert sum(len(fired(run(name))) for name in names) > 3


@pytest.mark.parametrize("name", ["us7", "uhs7", "um7", "uws7"])
def test_a_name_leads_back_to_its_run(name: str) -> None:
    scenario = Scenario.named(name)
    assert scenario.name == name
    assert scenario.steps == Scenario.named(name).steps


def test_the_judge_notices_what_is_done_twice_without_a_reason_or_not_at_all() -> None:
    result = run("us14")
    scenario, network = result.scenario, result.network
    scopes = network.brokers[scenario.authority].features["scopes"]
    assert isinstance(scopes, Scopes)
    assert scopes.authority is not None
    one = next(one for one in fired(result) if " pub " in one.request)
    versions, firings = scopes.versions, scopes.authority.firings

    def found(promises: Promises | None = None) -> str:
        return "\n".join(broken_rules(network, scenario.authority, scenario.rules, promises))

    assert found() == ""
    at = versions._transactions.index(one)
    versions._transactions.append(one)
    assert "was carried out in versions" in found()
    forged = Transaction(one.version, one.changes, "", 0, one.request[:-1] + "99", one.mode, 1)
    versions._transactions[-1] = forged
    assert "no such event was visible to the scope" in found()
    versions._transactions.pop()
    versions._transactions[at] = Transaction(one.version, one.changes, "", 0, "somebody else")
    firings._known.pop(one.request)
    assert "and nothing came of" in found()
    assert found(Promises({**PROMISES.cells, ("fired-once", "any", "rules"): "nothing"})) == ""


@pytest.mark.soak
@pytest.mark.parametrize("part", range(2))
def test_seeds_that_nobody_has_tried(part: int) -> None:
    for seed in spread_seeds(part):
        run(f"{('us', 'um', 'uhs', 'uws')[seed % 4]}{seed}")
