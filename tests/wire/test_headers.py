"""What travels with a notification, and what does not: identity, route, hop; the body stays as it was published."""

from __future__ import annotations

import msgspec
import pytest
from net.world import Raw, brokers, running, take, until, url

import tidings
from tidings.client import Client
from tidings.model import EVERYTHING, Notification
from tidings.wire import Deliver, Hop, Message, Publish, PublishAck, Quality, Settled, Subscribe, Welcome

BODY = b"\x82\xa1n\xd3\x00\x00\x00\x00\x00\x00\x00\x05\xa4text\xd9\x02hi"
"""A map that no encoder of ours would write so: long forms of a small number and a short text."""


@pytest.mark.req("ARC-193", "ARC-195")
@running
async def test_the_body_arrives_byte_for_byte_as_it_was_published_and_the_hop_does_not_travel() -> None:
    async with brokers("abc", ["ab", "bc"]) as servers, await Raw.open(servers["c"]) as reader:
        await reader.hello("reader")
        reader.send(Subscribe("s1", EVERYTHING))
        await reader.expect(Settled)
        async with await Raw.open(servers["a"]) as writer:
            await writer.hello("writer")
            writer.send(Publish(7, BODY), tree_epoch=12_345)
            key = await writer.expect(PublishAck)
        delivered = await reader.expect(Deliver)
        assert delivered.envelope.body == BODY
        identity = delivered.envelope.identity
        assert (identity.origin, identity.epoch, identity.seq) == (key.origin, key.epoch, key.number)
        assert (identity.publisher, identity.publisher_seq) == ("writer", 7)


@pytest.mark.req("ARC-191")
@running
async def test_a_client_cannot_choose_the_key_of_its_event_and_no_two_events_share_one() -> None:
    async with brokers("ab", ["ab"]) as servers, await Raw.open(servers["a"]) as reader:
        await reader.hello("reader")
        reader.send(Subscribe("s1", EVERYTHING))
        await reader.expect(Settled)
        for name in "ab":
            async with await Raw.open(servers[name]) as writer:
                await writer.hello("writer")
                writer.send(*(Publish(seq, BODY) for seq in (7, 9, 1_000)))
                for _ in range(3):
                    await writer.expect(PublishAck)
        keys = [(await reader.expect(Deliver)).envelope.identity.key for _ in range(6)]
        assert len(set(keys)) == 6
        assert {(key.origin, key.seq) for key in keys} == {(name, seq) for name in "ab" for seq in (1, 2, 3)}


@pytest.mark.req("ARC-190", "VIS-101")
@running
async def test_an_application_sees_notifications_and_never_messages() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("EXISTS(n)")
        receipt = await client.publish(n=1)
        (notification,) = await take(subscription, 1)
        assert isinstance(notification, Notification)
        assert not isinstance(notification, Message)
        assert dict(notification) == {"n": 1}  # nothing of the headers is mixed in
        assert type(await receipt).__name__ == "EventKey"
    hints = " ".join(str(getattr(Client, name).__annotations__) for name in ("publish", "subscribe", "advertise"))
    assert not any(word in hints for word in ("Envelope", "Deliver", "Frame", "Message"))


@pytest.mark.req("ARC-200")
@running
async def test_the_local_broker_finds_the_callbacks_of_all_subscriptions_that_match() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        got: list[str] = []
        await client.subscribe("n > 1", callback=lambda n: got.append("above 1"))
        await client.subscribe("n > 5", callback=lambda n: got.append("above 5"))
        gone = await client.subscribe("n > 0", callback=lambda n: got.append("gone"))
        sent = servers["b"].host.broker.statistics
        gone.unsubscribe()
        await client.publish(n=3)
        await client.publish(n=9)
        await until(lambda: len(got) == 3)
        assert got == ["above 1", "above 1", "above 5"]
        assert sent.messages_out["Deliver"] == 2  # each came once, for however many subscriptions


@pytest.mark.req("ARC-203")
@running
async def test_brokers_and_clients_connect_by_url() -> None:
    async with brokers("ab", ["ab"]) as servers:  # b was told a's URL
        assert servers["b"].options.neighbours == (url(servers["a"]),)
        async with tidings.connect(f"tidings://localhost:{servers['b'].port}") as client:
            assert client.statistics().broker == "b"
        async with tidings.connect(f"127.0.0.1:{servers['a'].port}") as client:
            assert client.statistics().broker == "a"


@pytest.mark.req("ARC-205")
@running
async def test_whoever_runs_a_broker_can_add_a_handler_for_another_message() -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        heard: list[object] = []
        broker = servers["b"].host.broker
        broker.on_client_message(Deliver, lambda link, message: heard.append((link.name, type(message))))
        with pytest.raises(tidings.TidingsError, match="has a handler already"):
            broker.on_client_message(Publish, lambda link, message: None)
        assert isinstance(await raw.hello("raw"), Welcome)
        from wire.samples import ENVELOPE

        raw.send(Deliver(ENVELOPE, ()))
        await until(lambda: heard)
        assert heard == [("raw", Deliver)]


def test_a_hop_is_never_part_of_an_envelope() -> None:
    from wire.samples import ENVELOPE

    assert not any(isinstance(part, Hop) for part in (ENVELOPE.identity, *ENVELOPE.routes))
    assert set(Hop.__struct_fields__).isdisjoint(ENVELOPE.__struct_fields__)


def test_a_quality_prints_as_the_word_by_which_it_is_chosen_and_travels_as_a_number() -> None:
    assert [str(quality) for quality in Quality] == ["fire", "accepted", "stored", "default"]
    assert f"{Quality.STORED:>8}" == "  stored"
    assert msgspec.json.encode(list(Quality)) == b"[0,1,2,3]"
