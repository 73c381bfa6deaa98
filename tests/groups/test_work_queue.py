"""Acknowledged groups at their deciding point."""

from __future__ import annotations

from tidings.groups import Acknowledged, Groups
from tidings.groups._names import GroupName
from tidings.groups._work_messages import Claim
from tidings.sim import Network
from tidings.wire import JobKey

KEY = GroupName("", "", "billing").key


def feature(network: Network, broker: str) -> Acknowledged:
    found = network.brokers[broker].features["work"]
    assert isinstance(found, Acknowledged)
    return found


def built() -> Network:
    network = Network(seed=1, features=lambda broker: [plain := Groups(), Acknowledged(plain)])
    network.add_brokers("ab", links=("ab",))
    network.run()
    return network


def test_what_a_member_holds_that_has_gone_before_the_point_has_begun_is_left_to_the_next_one() -> None:
    network = built()
    work = feature(network, "a")
    work.points.wanted(KEY)
    work.say("a", Claim(KEY, "m", "g", (JobKey("b", 1, 1),)))
    network.run(1)
    assert work.groups[KEY].members == 0
    assert len(work.groups[KEY].jobs) == 0
