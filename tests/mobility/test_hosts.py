"""A name is attached at one broker: who comes, who asks, who is told, and what happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import tidings
from tidings.broker import Link, LinkKind
from tidings.mobility import Admitted, Denied, Hosts, Newcomer, Verdict
from tidings.mobility._claiming import MAX_WAVES, Claiming
from tidings.mobility._claims import Claim, Claims, Held, Ruling, combined
from tidings.mobility._hosts import CLOCK_OFFSET
from tidings.sim import Network, Op, Weather, World, check
from tidings.wire import Frame, Routed, Wave, pack

BROKERS = ("a", "b", "c")


def in_world(main: Callable[[World], Coroutine[Any, Any, None]], **more: Any) -> World:
    world = World(limit=600, brokers=BROKERS, **more)

    async def run() -> None:
        async with world:
            await main(world)
            await world.check()

    asyncio.run(run())
    return world


def hosted(world: World, name: str) -> list[str]:
    return [broker for broker in world.network.names if any(g.link.name == name for g in world.guests(broker))]


# --- two processes ------------------------------------------------------------------------------------


def test_a_name_that_is_in_use_elsewhere_is_refused_with_where_and_since_when() -> None:
    async def main(world: World) -> None:
        async with tidings.connect(world.url("a"), name="phone") as first:
            with pytest.raises(
                tidings.NotAdmitted, match=r"to broker 'a' since \d{4}-.* UTC; .*take_over=True"
            ) as caught:
                await tidings.connect(world.url("c"), name="phone")
            assert caught.value.code == "duplicate"
            assert first.connected
            assert hosted(world, "phone") == ["a"]

    in_world(main)


@pytest.mark.req("MOB-011")
@pytest.mark.req("AGG-005")
@pytest.mark.parametrize("second", BROKERS)
def test_who_takes_over_is_served_and_the_other_one_ends_for_good(second: str) -> None:
    async def main(world: World) -> None:
        first = await tidings.connect(world.url("a"), name="phone")
        stream = first.subscribe("n >= 0")
        await asyncio.sleep(1)  # brokers know one another
        async with tidings.connect(world.url(second), name="phone", take_over=True) as other:
            with pytest.raises(tidings.TakenOver, match=r"taken over|started a new session"):
                await anext(stream)
            await asyncio.sleep(60)
            assert not first.connected
            assert other.connected
            assert hosted(world, "phone") == [second]
        await first.close()

    in_world(main)


def test_a_host_that_cannot_be_reached_makes_room_within_two_seconds() -> None:
    async def main(world: World) -> None:
        first = await tidings.connect(world.url("a"), name="phone")
        await first.subscribe("n >= 0")
        world.vanish("a")
        before = world.now
        second = await tidings.connect(world.url("b"), name="phone")
        assert world.now - before < 2.5
        assert second.connected
        world.heal("a")
        await asyncio.sleep(60)
        assert hosted(world, "phone") == ["b"]
        with pytest.raises(tidings.TakenOver):
            await first.publish(n=1)
        await second.close()
        await first.close()

    in_world(main)


def test_after_a_crash_of_the_process_another_one_goes_on_anywhere() -> None:
    async def main(world: World) -> None:
        async def phone() -> None:
            async with tidings.connect(world.url("a"), name="phone") as client:
                await client.subscribe("n >= 0")
                await asyncio.sleep(1_000)

        world.start("app", phone)
        await asyncio.sleep(5)
        world.crash("app")
        async with tidings.connect(world.url("c"), name="phone") as client:
            assert client.connected
            assert hosted(world, "phone") == ["c"]

    in_world(main)


def test_of_two_that_come_at_the_same_time_one_is_let_in() -> None:
    async def main(world: World) -> None:
        await asyncio.sleep(1)  # the brokers know one another
        coming = [asyncio.create_task(_opened(world.url(broker))) for broker in BROKERS]
        outcomes = await asyncio.gather(*coming)
        clients = [one for one in outcomes if isinstance(one, tidings.Client)]
        assert len(clients) == 1
        assert all("already connected" in str(one) for one in outcomes if one not in clients)
        await clients[0].close()

    for seed in range(6):
        in_world(main, seed=seed)


async def _opened(url: str) -> object:
    try:
        return await tidings.connect(url, name="phone")
    except tidings.NotAdmitted as error:
        return error


def test_of_two_that_find_a_silent_connection_at_one_broker_one_is_let_in() -> None:
    world = network()
    phone = world.add_client("phone", "a")
    world.run()
    phone.vanish(noticed=60, kept=60)
    verdicts = entering(world, "a", Newcomer("phone", "phone")), entering(world, "a", Newcomer("phone", "phone"))
    world.run(3)
    assert sorted(type(one).__name__ for several in verdicts for one in several) == ["Admitted", "Denied"]


def test_whoever_asks_while_a_client_with_an_epoch_comes_to_the_same_broker_is_refused() -> None:
    world = network()
    phone = world.add_client("phone", "a")
    world.run()
    phone.detach()
    verdicts = entering(world, "b", Newcomer("phone", "phone"))
    assert not verdicts  # the others are being asked
    entering(world, "b", Newcomer("phone", "phone", *phone.hosted))
    world.run(3)
    assert [type(one).__name__ for one in verdicts] == ["Denied"]


def test_a_neighbour_that_cannot_be_asked_delays_nobody_for_long() -> None:
    """It knows no claims, as a broker of an earlier version, and links take no time."""
    still = Weather(latency=(0, 0))
    world = Network(1, features=lambda name: [Hosts()] if name != "c" else [], weather=still)
    world.add_brokers(BROKERS, links=["ab", "bc"])
    world.run()
    sent: list[str] = []
    world.tap = lambda name, link, frame: sent.append(type(frame.message).__name__)
    verdicts = entering(world, "a", Newcomer("phone", "phone"))
    world.run()
    assert [type(one).__name__ for one in verdicts] == ["Admitted"]
    assert sent.count("Wave") < 24  # asked twice, and claimed a few times


# --- one process that moves ----------------------------------------------------------------------------


def test_a_client_that_moves_with_its_epoch_is_served_at_once_and_let_go_elsewhere() -> None:
    async def main(world: World) -> None:
        urls = [world.url("a"), world.url("b")]
        async with tidings.connect(urls, name="phone") as phone, tidings.connect(world.url("c")) as other:
            stream = await phone.subscribe("n >= 0")
            world.cut("phone", "a")
            await other.publish(n=1)
            assert (await anext(stream))["n"] == 1
            await asyncio.sleep(2)
            assert phone.statistics().broker == "b"
            assert hosted(world, "phone") == ["b"]  # long before its session at the other broker would have expired
            world.heal("phone", "a")

    in_world(main)


def test_brokers_that_were_cut_off_are_fenced_when_they_meet_again() -> None:
    async def main(world: World) -> None:
        first = await tidings.connect(world.url("a"), name="phone")
        await first.subscribe("n >= 0")
        world.cut("a", "b")
        second = await tidings.connect(world.url("b"), name="phone")  # nobody here knows better
        await asyncio.sleep(30)
        assert hosted(world, "phone") == ["a", "b"]
        world.heal("a", "b")
        await asyncio.sleep(30)
        assert hosted(world, "phone") == ["b"]
        assert second.connected
        with pytest.raises(tidings.TakenOver):
            await first.publish(n=1)
        await second.close()
        await first.close()

    in_world(main)


def network(seed: int = 1, **more: Any) -> Network:
    made = Network(seed, features=lambda name: [Hosts()], weather=Weather(latency=(1_000, 1_000)), **more)
    made.add_brokers(BROKERS, links=["ab", "bc"])
    made.run()
    return made


def hosts(network: Network, broker: str) -> Hosts:
    feature = network.brokers[broker].features["hosts"]
    assert isinstance(feature, Hosts)
    return feature


def entering(network: Network, broker: str, newcomer: Newcomer) -> list[Verdict]:
    """Let somebody come, and attach it if it may."""
    verdicts: list[Verdict] = []

    def decide(verdict: Verdict) -> None:
        verdicts.append(verdict)
        if isinstance(verdict, Admitted):
            link = Link(newcomer.name, LinkKind.CLIENT)
            if (known := network.brokers[broker].client(newcomer.name)) is not None:
                network.brokers[broker].detach(known)
            network.brokers[broker].attach(link)
            network.runtime(broker).pipes[link] = network.runtime(broker).pipes.get(link) or _There()
            hosts(network, broker).host(link, verdict)

    hosts(network, broker).enter(newcomer, decide)
    return verdicts


class _There:
    """A connection that answers pings."""

    def send(self, frame: Frame) -> None:
        pass

    def cut(self) -> None:
        pass

    def ping(self) -> Callable[[], bool | None]:
        return lambda: True

    def end(self, reason: str) -> None:
        pass


def at(network: Network) -> list[str]:
    return [name for name in BROKERS if network.brokers[name].client("phone") is not None]


@pytest.mark.req("MOB-033")
def test_an_epoch_that_was_handed_over_by_its_host_needs_no_wave() -> None:
    world = network()
    phone = world.add_client("phone", "a")
    world.run()
    sent: list[str] = []
    world.tap = lambda name, link, frame: sent.append(type(frame.message).__name__)
    phone.vanish(noticed=60, kept=60)
    phone.attach("c")
    world.run(1)
    assert at(world) == ["c"]
    assert sent.count("Routed") == 4  # there and back, over two links each
    assert "Wave" not in sent


@pytest.mark.req("MOB-011")
@pytest.mark.req("AGG-005")
def test_what_a_host_had_no_time_to_tell_is_told_by_the_next_one() -> None:
    """The phone leaves `a`, which is cut off, for `c`; and when the link is back `c` for `b`, before `c` has told."""
    world = network()
    phone = world.add_client("phone", "a")
    world.run(100)  # `a` has had it for so long that it does not claim it when it is back
    world.cut("a", "b")
    world.run(1)
    phone.vanish(noticed=600, kept=600)
    phone.attach("c")
    world.run(1)
    assert at(world) == ["a", "c"]
    hosts(world, "c")._claiming.waves = MAX_WAVES  # so many are under way that its claim has to wait
    world.heal("a", "b")
    world.run(1)
    phone.vanish(noticed=600, kept=600)
    phone.attach("b")
    world.run(10)
    assert at(world) == ["b"]


@pytest.mark.req("MOB-011")
@pytest.mark.req("AGG-005")
def test_an_old_host_names_whom_it_could_not_reach() -> None:
    """`b` hosts the phone and has lost sight of `a`, which the next host reaches."""
    world = network()
    phone = world.add_client("phone", "b")
    world.run()
    hosts(world, "b")._parted["a"] = world.scheduler.now
    sent: list[str] = []
    world.tap = lambda name, link, frame: sent.append(type(frame.message).__name__)
    phone.vanish(noticed=600, kept=600)
    phone.attach("c")
    world.run(1)
    assert at(world) == ["c"]
    assert "Wave" in sent


@pytest.mark.req("MOB-011")
@pytest.mark.req("AGG-005")
def test_a_host_to_which_a_client_comes_back_tells_the_one_where_it_was_meanwhile() -> None:
    """`c` is so far away that what it asks is not answered in time: it has to be told."""
    world = network()
    world.set_weather("b", "c", Weather(latency=(1_100_000, 1_100_000)))
    phone = world.add_client("phone", "a")
    world.run(100)
    for broker in ("c", "a", "b"):
        phone.vanish(noticed=600, kept=600)
        phone.attach(broker)
        world.run(0.1)
    assert at(world) == ["b", "c"]
    world.run(10)
    assert at(world) == ["b"]


def test_a_stale_epoch_is_refused_while_the_name_is_attached_and_only_then() -> None:
    world = network()
    phone = world.add_client("phone", "a")
    world.run()
    old = phone.hosted
    phone.vanish(noticed=1, kept=1)
    phone.attach("b")
    world.run()
    entering(world, "c", Newcomer("phone", "phone", *old))
    world.run()
    assert at(world) == ["b"]
    phone.detach()
    world.run()
    entering(world, "c", Newcomer("phone", "phone", *old))
    world.run()
    assert at(world) == ["c"]


def test_an_epoch_from_the_future_is_refused_before_anything_changes() -> None:
    world = network()
    world.add_client("phone", "a")
    world.run()
    future = world.scheduler.now + CLOCK_OFFSET + 1
    [verdict] = entering(world, "b", Newcomer("phone", "phone", future, "a"))
    assert isinstance(verdict, Denied)
    assert "60 seconds in the future" in verdict.reason
    world.run()
    assert at(world) == ["a"]


def test_a_client_that_names_a_last_broker_that_never_was_is_found_by_everybody() -> None:
    world = network()
    phone = world.add_client("phone", "a")
    world.run()
    phone.vanish(noticed=60, kept=60)
    phone.hosted = (phone.hosted[0], "atlantis")
    phone.attach("c")
    world.run(1)
    assert at(world) == ["c"]


def test_a_claim_of_another_identity_moves_nobody_and_is_said_in_the_log() -> None:
    said: list[str] = []
    world = Network(1, features=lambda name: [Hosts(said.append)])
    world.add_brokers(BROKERS, links=["ab", "bc"])
    world.add_client("phone", "a")
    world.run()
    verdicts = entering(world, "b", Newcomer("phone", "mallory", take_over=True))
    world.run()
    assert isinstance(verdicts[0], Denied)
    assert at(world) == ["a"]
    assert any("claims client 'phone' for 'mallory', but here it belongs to 'phone'" in text for text in said)


def test_epochs_grow_even_if_the_clock_of_a_broker_is_behind() -> None:
    world = network()
    world.runtime("b").skew = -30_000_000
    phone = world.add_client("phone", "a")
    world.run()
    given = [phone.hosted[0]]
    for broker in ("b", "c", "b", "a"):
        phone.vanish(noticed=60, kept=60)
        phone.attach(broker)
        world.run(1)
        given.append(phone.hosted[0])
        assert at(world) == [broker]
    assert given == sorted(set(given))


def test_a_question_that_has_passed_the_new_host_hears_of_it_from_the_old_one() -> None:
    """The wave reaches c before the phone is there, and a after it has gone from there."""
    world = network()
    world.set_weather("a", "b", Weather(latency=(300_000, 300_000)))
    phone = world.add_client("phone", "a")
    world.run()
    verdicts = entering(world, "b", Newcomer("phone", "phone"))
    world.run(0.1)  # c has answered that it knows nothing
    phone.vanish(noticed=60, kept=60)
    phone.attach("c")
    hosts(world, "a").on_routed("c", pack(Claims((_claim(phone.hosted[0], world, "c"),), 1)))  # on a faster way
    world.run(5)
    assert isinstance(verdicts[0], Denied)
    assert at(world) == ["c"]


def _claim(epoch: int, world: Network, broker: str) -> Claim:
    return Claim("phone", "phone", broker, world.scheduler.now, epoch, hosts(world, "a").epoch_of("phone"))


@pytest.mark.parametrize("body", [b"", b"\xc1", pack(("claims", 3)), pack(("claims", [["phone"]], 0))])
def test_what_makes_no_sense_changes_nothing(body: bytes) -> None:
    world = network()
    world.add_client("phone", "a")
    world.run()
    back = next(iter(world.brokers["a"].adjacency.tree_links))
    for message in (Routed("a", "b", "hosts", body), Wave("b", 99, "hosts.claim", body, 1_000_000)):
        hop = world.brokers["b"].adjacency.hop
        world.brokers["a"].receive(back, Frame(message, hop))
    world.run()
    assert at(world) == ["a"]
    assert world.brokers["a"].statistics.refused == 2


def test_rulings_are_combined_in_any_order() -> None:
    one = Ruling((Held("x", "a", 5, 1), Held("y", "a", 1, 1)), {"z": 3})
    two = Ruling((Held("x", "b", 7, 2),), {"z": 9})
    assert combined([one, two]) == combined([two, one])
    assert combined([one, two]).held == (Held("x", "b", 7, 2), Held("y", "a", 1, 1))
    assert combined([one, two]).ceded == {"z": 9}


# --- the checker -----------------------------------------------------------------------------------------


def test_two_hosts_that_stay_are_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hosts, "_rule", lambda self, claims, done: done(Ruling()))
    world = network()
    phone = world.add_client("phone", "a")
    world.run()
    phone.vanish(noticed=30, kept=30)
    phone.attach("b")
    world.run()
    [violation] = check(world.trace)
    assert violation.guarantee == "one-host"
    assert "broker a keeps phone, though it could have heard that it is at b" in violation.reason


def test_a_broker_may_keep_a_client_for_as_long_as_a_message_waits_for_slow_links() -> None:
    world = network()
    phone = world.add_client("phone", "a")
    world.run()
    world.set_weather("a", "b", Weather(latency=(20_000_000, 20_000_000)))
    phone.vanish(noticed=60, kept=60)
    phone.attach("b")
    world.run(19)
    assert at(world) == ["a", "b"]
    world.run()
    assert check(world.trace) == []
    assert at(world) == ["b"]


def test_a_client_that_goes_on_and_on_is_judged_for_each_broker_that_it_has_left() -> None:
    """Some broker has it besides the newest at any time; none for longer than it takes to tell it."""
    world = network()
    world.set_weather("b", "c", Weather(latency=(4_000_000, 4_000_000)))
    phone = world.add_client("phone", "a")
    world.run()
    for _ in range(8):
        for broker in ("c", "a"):
            phone.vanish(noticed=60, kept=60)
            phone.attach(broker)
            world.run(3)
    world.run()
    assert check(world.trace) == []


@pytest.mark.parametrize("silent", [2, 15, 80])
def test_a_claim_that_a_new_tree_drops_is_said_again_although_nobody_joins(silent: float) -> None:
    """Links in a ring, of which one is silent until its ends give it up: the tree changes, and nobody was cut off."""
    world = Network(1, features=lambda name: [Hosts()], weather=Weather(latency=(1_000, 1_000)))
    world.add_brokers(BROKERS, links=["ab", "ac", "bc"])
    phone = world.add_client("phone", "b")
    world.run()
    assert world.brokers["c"].adjacency.tree.hops["b"] == "a"
    world.silence("a", "b")
    phone.vanish(noticed=600, kept=600)
    phone.attach("c")
    world.run(silent)
    assert at(world) == ["b", "c"]
    world.give_up("a", "b")
    world.run(10)
    assert at(world) == ["c"]
    world.run()
    assert check(world.trace) == []


def test_a_claim_that_a_busy_broker_refuses_is_said_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    world = network()
    phone = world.add_client("phone", "a")
    world.run()
    phone.vanish(noticed=600, kept=600)
    monkeypatch.setattr("tidings.broker.overlay._waves.MAX_WAVES", 0)
    monkeypatch.setattr(Claiming, "tell", lambda self, broker, claim: self.tell_all(claim))
    phone.attach("c")
    world.run(20)
    assert at(world) == ["a", "c"]
    assert not hosts(world, "c").unsettled
    monkeypatch.undo()
    world.run(40)
    assert at(world) == ["c"]


def test_a_broker_that_says_nothing_again_after_a_loss_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claiming, "tell_all", lambda self, claim, repeats=0: None)
    monkeypatch.setattr(Claiming, "new_tree", lambda self, claims: None)
    world = network()
    phone = world.add_client("phone", "a")
    world.run()
    phone.vanish(noticed=60, kept=60)
    world.cut("a", "b")
    phone.attach("b")
    world.run(1)
    world.heal("a", "b")
    world.run()
    assert [one.guarantee for one in check(world.trace)] == ["one-host"]


def test_a_client_that_is_sent_away_for_nobody_is_a_broken_promise() -> None:
    world = network()
    phone = world.add_client("phone", "a")
    world.run()
    world.trace.records[:] = [*world.trace.records[:-1]]
    world.brokers["a"].detach(world.brokers["a"].clients[0])
    world.trace.add(Op.QUIESCE)
    assert phone.connected
    assert [one.guarantee for one in check(world.trace)] == ["one-host"]
