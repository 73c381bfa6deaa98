"""Deployments in a network: what is taken, by whom, where it arrives, and what survives cuts and restarts."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from aggregation.deploying_world import COUNT, KEYS, OPTIONS, OTHERS, World
from hypothesis import given
from hypothesis import strategies as st

from tidings.aggregation import AggregationOptions
from tidings.aggregation.deploying import Act, From, Phase, Place, Registry, Signed, Signer, Tier, digest_of, keygen
from tidings.aggregation.deploying.messages import Declined, Deploy, Spread, Surveyed, encode
from tidings.broker import Link, LinkKind
from tidings.model import DeploymentRefused
from tidings.sim import Weather
from tidings.wire import Deliver, Extension, Frame

TREE = ["ab", "bc", "bd"]


def world(**more: Any) -> World:
    return World("abcd", TREE, **more)


@pytest.mark.req("AGG-102", "AGG-103")
def test_a_statement_reaches_every_broker_and_its_client_hears_where() -> None:
    here = world()
    answer = here.deploy(here.question())
    assert isinstance(answer, Surveyed)
    assert answer.complete
    assert sorted((one.broker, one.phase) for one in answer.known) == [(name, "installed") for name in "abcd"]
    assert here.phases() == "iiii"
    watch = here.network.clients["cd"].watch("acme.n")
    for _ in range(4):
        here.network.clients["cc"].publish(type="x")
        here.network.run(1)
    assert watch.last is not None
    assert (watch.last.complete, watch.last.version, watch.last.value) == (True, "1.0.0", 1)


@pytest.mark.req("AGG-105")
def test_what_is_known_is_not_told_again_and_another_source_of_a_version_is_refused() -> None:
    here = world()
    given = here.question()
    here.deploy(given)
    spread: list[str] = []

    def note(broker: str, link: Link, frame: Frame) -> None:
        message = frame.message
        if link.is_broker and isinstance(message, Extension) and message.feature == "deployments":
            spread.append(broker)

    listening, here.network.tap = here.network.tap, note
    here.deploy(given)
    assert spread == []
    here.network.tap = listening
    reason = here.refusal(here.question("count() WINDOW 2s"))
    assert reason == (
        f"acme.n 1.0.0 is installed with another source, {digest_of(COUNT, 'question')[:12]}; choose a new version"
    )
    assert here.phases() == "iiii"


@pytest.mark.req("AGG-108")
def test_a_broker_that_joins_later_and_one_that_was_cut_off_learn_everything() -> None:
    here = world()
    here.network.cut("b", "d")
    here.network.run(5)
    here.deploy(here.question())
    assert here.phases() == "iii-"
    here.network.add_brokers("e", links=["ce"])
    here.network.heal("b", "d")
    here.network.run(10)
    assert here.phases() == "iiiii"


@pytest.mark.req("AGG-111")
def test_what_was_removed_stays_removed_when_a_broker_comes_back_that_missed_it() -> None:
    here = world()
    given = here.question()
    here.deploy(given)
    here.network.cut("b", "d")
    here.network.run(5)
    assert not isinstance(here.deploy(here.end(given)), Declined)
    assert here.phases() == "rrri"
    here.network.heal("b", "d")
    here.network.run(10)
    assert here.phases() == "rrrr"
    reason = here.refusal(here.question())
    assert reason == "acme.n 1.0.0 is removed by ca; a version is used up with its end: choose a new one"
    again = here.refusal(here.end(given))
    assert again == "acme.n 1.0.0 is removed already, by ca"


def test_one_version_with_two_sources_from_two_sides_of_a_cut_is_quarantined() -> None:
    here = world()
    here.network.cut("b", "d")
    here.network.run(5)
    here.deploy(here.question())
    here.deploy(here.question("count() WINDOW 2s"), "cd")
    assert here.phases() == "iiii"
    here.network.heal("b", "d")
    here.network.run(10)
    assert here.phases() == "qqqq"
    judged = here.deployments("a").registry.judge(Place("acme.n", "1.0.0"))
    assert "one version with two sources" in judged.reason
    assert any(one.outcome == "quarantined" and "two sources" in one.reason for _, one in here.audited)


def test_what_is_deployed_survives_a_restart_and_so_does_its_end() -> None:
    here = world()
    first, second = here.question(), here.question(name="acme.m")
    here.deploy(first)
    here.deploy(second)
    here.deploy(here.end(second))
    for name in "abcd":
        here.network.crash(name)
    here.network.run(1)
    for name in "abcd":
        here.network.restart(name)
    here.network.run(20)
    assert here.phases() == "iiii"
    assert here.phases("acme.m") == "rrrr"


def test_a_full_disk_stops_no_end_on_its_way_and_takes_no_deployment_from_a_client() -> None:
    here = world()
    first = here.question()
    here.deploy(first)
    here.network.fill("b")
    here.deploy(here.end(first))
    assert here.phases() == "rrrr"
    assert "cannot take more" in here.refusal(here.question(name="acme.m"), "cb")
    assert here.phases("acme.m") == "----"
    here.network.fill("b", full=False)
    here.deploy(here.question(name="acme.o"))
    for name in "abcd":
        here.network.crash(name)
    here.network.run(1)
    here.network.restart("b")  # alone, so nobody tells it
    here.network.run(20)
    assert here.deployments("b").registry.judge(Place("acme.n", "1.0.0")).phase is Phase.REMOVED


@pytest.mark.req("AGG-187")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "count"}, "'count' is not the name of a definition; write TENANT.NAME in small letters"),
        ({"version": "new"}, "'new' is not the version of a definition; write one like 1.0.0"),
        ({"digest": "0" * 64}, "acme.n: the digest is not that of the question; make the statement anew"),
        ({"tier": Tier.PYTHON, "entry": "A", "window": (1_000, 1_000)}, "is not signed; sign it with --sign-key"),
        ({"replaces": "0.9"}, "acme.n 1.0.0 replaces 0.9, which is not installed; there is none"),
    ],
)
def test_an_unsigned_statement_that_cannot_be_is_refused_and_noted(changed: dict[str, Any], said: str) -> None:
    here = world()
    given = here.question()
    wrong = msgspec.structs.replace(given, manifest=msgspec.structs.replace(given.manifest, **changed))
    assert said in here.refusal(wrong)
    assert [len(here.deployments(name).registry) for name in "abcd"] == [0, 0, 0, 0]
    ((broker, noted),) = here.audited
    assert (broker, noted.who, noted.outcome) == ("a", "ca", "refused")
    assert said in noted.reason


def test_a_question_that_cannot_be_read_is_refused_with_the_place() -> None:
    here = world()
    assert "nosuch is not a function" in here.refusal(here.question("nosuch() WINDOW 1s"))


@pytest.mark.req("AGG-182")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"network": "elsewhere"}, "is signed for the network 'elsewhere', this is 'net'"),
        ({"valid_until": 1}, "the signature ended"),
        ({"name": "other.readings"}, "the names of other are not acme's; use acme.readings"),
        ({"key": OTHERS.private}, "the signature is not by acme; sign it with the right key"),
        ({"signer": "eve"}, "'eve' is not a signer here; add it as [[aggregation.signer]]"),
        ({"tier": Tier.ADVICE}, "acme may sign up to tier 2, not 3"),
        ({"capabilities": ("identity",)}, "brokers give no code the capability identity; leave it out"),
    ],
)
def test_a_signed_statement_that_may_not_be_made_is_refused_by_clients_and_neighbours(
    changed: dict[str, Any], said: str
) -> None:
    here = world()
    given = here.python(**changed)
    assert said in here.refusal(given)
    here.neighbour_says("a", "b", encode(Spread(given)))
    kept = [len(here.deployments(name).registry) for name in "abcd"]
    relayed = {"signer", "capabilities", "valid_until"} & changed.keys()  # nobody runs it, but others may know better
    assert kept == ([0, 1, 1, 1] if relayed else [0] * 4)
    assert "i" not in here.phases("acme.readings").replace("-", "")


def test_what_has_been_tampered_with_is_refused_whatever_field_it_is() -> None:
    here = world()
    given = here.python()
    for wrong in (
        msgspec.structs.replace(given, source=given.source + "#"),
        msgspec.structs.replace(given, signature=b"x" * 64),
        msgspec.structs.replace(given, manifest=msgspec.structs.replace(given.manifest, window=(2_000, 2_000))),
        msgspec.structs.replace(given, manifest=msgspec.structs.replace(given.manifest, issued_at=99)),
        msgspec.structs.replace(given, manifest=msgspec.structs.replace(given.manifest, where="")),
    ):
        assert "is not" in here.refusal(wrong)
    assert [len(here.deployments(name).registry) for name in "abcd"] == [0] * 4


def test_nobody_ends_or_disputes_what_is_signed_without_a_signature() -> None:
    registry = Registry(lambda given: None)
    here = world()
    code = here.python()
    registry.take(code, From.NEIGHBOUR)
    place = Place("acme.readings", "1.0.0")
    forged = here.end(code, tier=Tier.EXPRESSION, entry="question")
    rival = here.question(name="acme.readings")
    for one in (forged, rival, here.end(code, Act.QUARANTINE, tier=Tier.EXPRESSION, entry="question")):
        registry.take(one, From.NEIGHBOUR)
        assert registry.judge(place).phase is Phase.INSTALLED
    registry.take(here.end(code, key=KEYS.private), From.NEIGHBOUR)
    assert registry.judge(place).phase is Phase.REMOVED


def test_a_removal_holds_for_ever_but_is_not_made_with_an_old_signature() -> None:
    here = world()
    code = here.python()
    old = here.end(code, key=KEYS.private, valid_until=1)
    here.deployments("a").registry.take(code, From.DISK)
    assert "the signature ended" in here.refusal(old)
    here.neighbour_says("b", "a", encode(Spread(old)))
    assert here.deployments("a").registry.judge(Place("acme.readings", "1.0.0")).phase is Phase.REMOVED


def test_a_broker_that_does_not_know_the_signer_passes_it_on_and_does_not_run_it() -> None:
    here = world(options={"b": AggregationOptions(network="net")})
    code = here.python()
    for name in "ab":
        assert here.deployments(name).registry.take(code, From.DISK)
    here.network.cut("b", "d")
    here.network.run(5)
    here.network.heal("b", "d")
    here.network.run(10)
    registry = here.deployments("b").registry
    judged = registry.judge(Place("acme.readings", "1.0.0"))
    assert judged == (
        Phase.RECEIVED,
        "acme.readings 1.0.0: 'acme' is not a signer here; add it as [[aggregation.signer]]",
    )
    assert Place("acme.readings", "1.0.0") in here.deployments("d").registry


def test_a_key_that_is_taken_out_quarantines_what_it_signed() -> None:
    here = world()
    code = here.python()
    signer = Signer("acme", (keygen().public,))
    later = World("a", [], options={"a": replace(OPTIONS, signer=(signer,))})
    registry = later.deployments("a").registry
    registry.take(code, From.DISK)
    judged = registry.judge(Place("acme.readings", "1.0.0"))
    assert judged.phase is Phase.QUARANTINED
    assert "the signature is not by acme" in judged.reason


@pytest.mark.req("AGG-184")
def test_one_switch_stops_everything_that_was_deployed_and_nothing_that_comes_later() -> None:
    here = world()
    here.deploy(here.question())
    watch = here.network.clients["cd"].watch("acme.n")
    here.network.run(3)
    assert "acme may not quarantine everything" in here.refusal(here.everything(KEYS.private, "acme"))
    here.deploy(here.everything())
    assert here.phases() == "qqqq"
    assert watch.declined is not None
    assert watch.declined.reason == "acme.n 1.0.0 is quarantined here: with everything else, by operator"
    here.deploy(here.question(version="1.0.1"))
    assert here.phases(version="1.0.1") == "iiii"
    heard: list[object] = []
    here.network.clients["cc"].subscribe("type = 'x'")
    here.network.run(2)
    here.network.clients["ca"].publish(type="x")
    here.network.run(2)
    heard += here.network.clients["cc"].received
    assert len(heard) == 1


@pytest.mark.req("AGG-109")
@pytest.mark.parametrize("rate", [1, 100, 1_000])
def test_at_any_rate_everything_is_installed_everywhere_and_no_notification_is_late_or_lost(rate: int) -> None:
    free = replace(OPTIONS, deployments_per_second=1e6, max_deployed=10**6)
    here = World("abcd", TREE, options=dict.fromkeys("abcd", free), weather=Weather(latency=(200, 200)))
    network, scheduler = here.network, here.network.scheduler
    network.clients["cd"].subscribe("type = 'tick'")
    network.run()
    sent: list[int] = []
    heard: list[int] = []

    def note(broker: str, link: Link, frame: Frame) -> None:
        here._note(broker, link, frame)
        if link.name == "cd" and isinstance(frame.message, Deliver):
            heard.append(scheduler.now)

    def tick() -> None:
        sent.append(scheduler.now)
        network.clients["cc"].publish(type="tick", n=len(sent))

    network.tap = note
    for number in range(rate):
        given = here.question(f"count() WINDOW 1m WHERE n = {number}", name=f"t{number % 3}.n{number}")
        deploy = Deploy(f"d{number}", given, False)
        scheduler.after(number * 1_000_000 // rate, functools.partial(here.say, f"c{'ab'[number % 2]}", deploy))
    for number in range(50):
        scheduler.after(number * 20_000 + 7, tick)
    network.run(1.5)
    assert [len(here.deployments(name).registry) for name in "abcd"] == [rate] * 4
    assert sum(isinstance(one, Surveyed) and one.complete for one in here.answers.values()) == rate
    assert [one["n"] for one in network.clients["cd"].received] == list(range(1, 51))
    (delay,) = {got - gone for got, gone in zip(heard, sent, strict=True)}
    assert delay <= 5 * 200


def test_nobody_uses_up_the_quota_of_another_tenant() -> None:
    here = World("a", [], options={"a": replace(OPTIONS, deployments_per_second=4)})
    here.network.add_client("eve", "a")
    for number in range(10):
        here.network.add_client(f"eve{number}", "a")
    here.network.run()
    known = here.question(name="acme.known")
    here.deploy(known)
    here.network.run(5)
    forged = msgspec.structs.replace(here.python(), signature=b"x" * 64)
    for number in range(10):
        here.say("eve", Deploy(f"forged {number}", forged, False))
    for number in range(10):
        here.say(f"eve{number}", Deploy(f"known {number}", known, False))
    assert isinstance(here.deploy(here.question(name="acme.mine")), Surveyed)
    assert isinstance(here.answers["forged 0"], Declined)
    assert isinstance(here.answers["known 0"], Surveyed)


def test_what_is_remembered_of_tenants_that_may_not_be_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.aggregation._acceptance.MAX_REMEMBERED", 3)
    here = World("a", [])
    for number in range(5):
        here.refusal(msgspec.structs.replace(here.python(name=f"acme{number}.readings"), signature=b"x" * 64))
    assert len(here.deployments("a")._acceptance._buckets) <= 3


@pytest.mark.req("AGG-186")
def test_a_tenant_has_quotas() -> None:
    here = World("a", [], options={"a": replace(OPTIONS, max_deployed=2, deployments_per_second=4)})
    for number in range(2):
        here.deploy(here.question(name=f"acme.n{number}"))
    reason = here.refusal(here.question(name="acme.more"))
    assert reason == "acme has 2 aggregates; remove some, or raise max_deployed in [aggregation]"
    answers = []
    for number in range(6):
        id = f"x{number}"
        here.say("ca", Deploy(id, here.question(name="acme.more"), False))
        answers.append(id)
    here.network.run(5)
    said = [here.answers[id] for id in answers]
    assert any(
        isinstance(one, Declined) and "ca deploys more than 4 times a second; wait" in one.reason for one in said
    )


class Somebody:
    """A guard of somebody with an identity."""

    administer = False

    def __init__(self, name: str, *, deploy: bool) -> None:
        self.name = name
        self.deploy = deploy

    def check_publish(self, notification: object) -> None: ...

    def check_subscribe(self, filter: object) -> None: ...

    def check_advertise(self, filter: object) -> None: ...


@pytest.mark.req("AGG-187")
def test_deploying_needs_a_right_and_an_unsigned_name_of_ones_own() -> None:
    here = world()
    told: list[str] = []
    here.network.tap = lambda broker, link, frame: (
        told.append(str(frame.message)) if link.is_client and isinstance(frame.message, Extension) else None
    )
    for name, deploy, said in (
        ("acme", False, "'acme' may not deploy; ask the administrator for `deploy = true` for this identity"),
        ("eve", True, "acme.n 1.0.0: the names of acme are not eve's; use eve.n"),
    ):
        link = Link(f"{name}-1", LinkKind.CLIENT, Somebody(name, deploy=deploy))
        broker = here.network.brokers["a"]
        broker.attach(link)
        way = type("Way", (), {"send": lambda self, frame: None, "cut": lambda self: None})()
        here.network.runtime("a").pipes[link] = way
        broker.receive(link, Frame(Extension("deployments", encode(Deploy("x", here.question())))))
        here.network.run(1)
        assert any(said in one for one in told), told
        _, noted = here.audited[-1]
        assert (noted.who, noted.outcome) == (name, "refused")
    assert len(here.deployments("a").registry) == 0


def test_what_a_neighbour_makes_up_is_counted_and_changes_nothing() -> None:
    here = world()
    broker = here.network.brokers["a"]
    before = broker.statistics.refused
    forged = msgspec.structs.replace(here.python(), signature=b"")
    for body in (b"", b"\xff" * 50, encode(Declined("x", "y", "z")), encode(Spread(forged))):
        here.neighbour_says("b", "a", body)
    assert broker.statistics.refused == before + 4
    assert [len(here.deployments(name).registry) for name in "abcd"] == [0] * 4


# --- upgrade and rollback -----------------------------------------------------------------------------


@pytest.mark.req("AGG-110", "AGG-185")
def test_an_upgrade_is_seen_as_one_stream_whose_version_changes_once_and_rolls_back() -> None:
    here = world()
    here.deploy(here.question())
    watch = here.network.clients["cd"].watch("acme.n")
    here.network.run(5)
    second = here.question("sum(n) WINDOW 1s WHERE type = 'x'", version="2.0.0", replaces="1.0.0")
    here.deploy(second)
    for _ in range(5):
        here.network.clients["ca"].publish(type="x", n=7)
        here.network.run(1)
    versions = [result.version for result in watch.results]
    assert [one for one, _ in itertools.groupby(versions)] == ["1.0.0", "2.0.0"]
    first_new = next(result for result in watch.results if result.version == "2.0.0")
    assert first_new.complete
    complete = [result for result in watch.results if result.complete]
    assert {result.value for result in complete if result.version == "1.0.0"} <= {0, 1}
    assert {result.value for result in complete if result.version == "2.0.0"} <= {0, 7}
    third = here.question("sum(n) WINDOW 2s", version="3.0.0", replaces="2.0.0")
    assert here.refusal(third) == (
        "acme.n 2.0.0 and 1.0.0 are installed, and at most 2 versions run side by side; remove one"
    )
    here.deploy(here.end(second), force=True)
    here.network.run(5)
    assert watch.last is not None
    assert (watch.last.version, watch.last.complete) == ("1.0.0", True)
    here.network.clients["cd"].unwatch("w1")
    here.network.run(30)
    for name in "abcd":
        assert here.aggregation(name).kept() == []


def test_a_removal_is_refused_while_somebody_watches_unless_it_is_forced_or_another_version_serves() -> None:
    here = world()
    given = here.question()
    here.deploy(given)
    watch = here.network.clients["cd"].watch("acme.n")
    here.network.run(3)
    assert here.refusal(here.end(given)) == (
        "acme.n 1.0.0 is watched by 1 clients; end that, or remove it with --force, and they will be told"
    )
    assert here.phases() == "iiii"
    here.deploy(here.question("count() WINDOW 2s", version="2.0.0", replaces="1.0.0"))
    here.network.run(10)
    assert isinstance(here.deploy(here.end(given)), Surveyed)
    assert here.phases() == "rrrr"
    here.network.run(5)
    assert watch.last is not None
    assert watch.last.version == "2.0.0"
    assert watch.declined is None


def test_an_unknown_name_is_refused_and_says_where_to_look() -> None:
    here = world()
    watch = here.network.clients["ca"].watch("acme.nothing")
    here.network.run(1)
    assert watch.declined is not None
    assert watch.declined.reason == "nothing is deployed as 'acme.nothing'; `tidings aggregate list` shows what is"


def test_a_second_version_without_saying_what_it_replaces_is_refused() -> None:
    here = world()
    here.deploy(here.question())
    reason = here.refusal(here.question(version="2.0.0"))
    assert reason == ("acme.n 1.0.0 is installed; upgrade it to 2.0.0 with `tidings aggregate upgrade`, or remove it")


# --- the registry is a join ---------------------------------------------------------------------------

_WORLD = World("a", [])
_FIRST, _SECOND = _WORLD.question(), _WORLD.question("count() WINDOW 2s")
_NEXT = _WORLD.question("count() WINDOW 3s", version="2.0.0", replaces="1.0.0")
_ALL = _WORLD.everything()
_STATEMENTS: list[Signed] = [
    *(_FIRST, _SECOND, _NEXT, _ALL),
    *(_WORLD.end(_FIRST), _WORLD.end(_FIRST, Act.QUARANTINE), _WORLD.end(_NEXT)),
    _WORLD.question(version="3.0.0", replaces="2.0.0"),
]


def _verify(given: Signed) -> None:
    if given.signer not in ("acme", "operator"):
        raise DeploymentRefused("no")


@given(st.lists(st.sampled_from(range(len(_STATEMENTS))), max_size=12), st.randoms(use_true_random=False))
def test_brokers_that_know_the_same_statements_agree_whatever_the_order(taken: list[int], random: Any) -> None:
    one, two = Registry(_verify), Registry(_verify)
    again = [*taken, *taken]
    random.shuffle(again)
    for number in taken:
        one.take(_STATEMENTS[number], From.NEIGHBOUR)
    for number in again:
        two.take(_STATEMENTS[number], From.NEIGHBOUR)
    assert one.marks() == two.marks()
    assert [(place, one.judge(place)) for place in one.places] == [(place, two.judge(place)) for place in two.places]
    assert one.versions("acme.n") == two.versions("acme.n")
    assert len(one.versions("acme.n")) <= 2
    assert list(one.lacking(two.marks())) == []
    fresh = Registry(_verify)
    for statement in one.lacking(fresh.marks()):
        fresh.take(statement, From.NEIGHBOUR)
    assert fresh.marks() == one.marks()
