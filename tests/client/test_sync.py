"""The blocking client: a real broker in one thread, plain calls in another."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import serving

import tidings
from tidings import sync
from tidings.broker import RoutingOptions
from tidings.client import Admin
from tidings.model import AlreadyPublished, NotAdvertised
from tidings.net import Access, AccessEntry, Options


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A broker in a thread of its own."""
    quotes = AccessEntry("q", tidings.Filter.parse("q = 1"))
    access = Access({"all": AccessEntry("all", administer=True), "quotes": quotes})
    with serving(Options(name="b", port=0, access=access)) as url:
        yield url


@pytest.fixture
def advertising() -> Iterator[str]:
    """A broker where publishers must advertise."""
    with serving(Options(name="b", port=0, routing=RoutingOptions(advertisements=True))) as url:
        yield url


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    gc.collect()  # what was not closed complains now, and warnings are errors
    assert set(threading.enumerate()) <= before


def test_publish_subscribe_advertise_and_their_opposites(address: str) -> None:
    with sync.connect(address, token="all") as client:
        id = client.advertise("EXISTS(n)")
        subscription = client.subscribe("n > 1")
        keys = [client.publish(n=n) for n in (1, 2, 3)]
        assert [key.origin for key in keys if key is not None] == ["b", "b", "b"]
        assert [next(subscription)["n"], next(subscription)["n"]] == [2, 3]
        subscription.unsubscribe()
        subscription.unsubscribe()
        client.publish(n=4)
        assert list(subscription) == []
        client.unadvertise(id)
        assert client.statistics().published == 4
        assert client.status().name == "b"
        assert client.name.startswith("all/")


@pytest.mark.req("VIS-117")
def test_what_is_advertised_subscribed_and_published_arrives_until_it_is_taken_back(advertising: str) -> None:
    heard: list[object] = []
    with sync.connect(advertising) as client:
        with pytest.raises(NotAdvertised):
            client.publish(n=0)
        id = client.advertise("EXISTS(n)")
        watched = client.subscribe("TRUE")
        subscription = client.subscribe("n > 1", callback=lambda notification: heard.append(notification["n"]))
        client.publish_many({"n": n} for n in (1, 2, 3))
        assert [next(watched)["n"] for _ in range(3)] == [1, 2, 3]
        subscription.unsubscribe()
        client.publish(n=4)
        assert next(watched)["n"] == 4
        client.unadvertise(id)
        with pytest.raises(NotAdvertised):
            client.publish(n=5)
    assert heard == [2, 3]


def test_many_are_published_at_once_and_read_in_order(address: str) -> None:
    with sync.connect(address, token="all") as client, client.subscribe("EXISTS(m)") as subscription:
        assert client.publish_many({"m": m} for m in range(3_000)) == 3_000
        assert [next(subscription)["m"] for _ in range(3_000)] == list(range(3_000))


@pytest.mark.req("MOB-006")
def test_waiting_may_end(address: str) -> None:
    with sync.connect(address, token="all") as client:
        subscription = client.subscribe("EXISTS(w)")
        assert subscription.receive(timeout=0.05) is None
        client.publish(w=1)
        first = subscription.receive(timeout=10)
        assert first is not None
        assert first["w"] == 1
        client.publish_many({"w": w} for w in (2, 3))
        assert [n["w"] for n in subscription.within(0.3)] == [2, 3]
        subscription.update("EXISTS(v)")
        client.publish(v=1, w=1)
        assert next(subscription)["v"] == 1
        assert subscription.gaps == []


@pytest.mark.req("MOB-006")
def test_callbacks_run_and_may_fail_without_harm(address: str, caplog: pytest.LogCaptureFixture) -> None:
    got: list[object] = []
    done = threading.Event()

    def heard(notification: tidings.Notification) -> None:
        got.append(notification["c"])
        if notification["c"] == 1:
            raise RuntimeError("the application is broken")
        if notification["c"] == 2:
            with pytest.raises(tidings.TidingsError, match="iterate over the subscription instead"):
                client.publish(c=99)
            done.set()

    with sync.connect(address, token="all") as client:
        client.subscribe("EXISTS(c)", callback=heard)
        with caplog.at_level(logging.ERROR):
            client.publish_many([{"c": 1}, {"c": 2}])
            assert done.wait(10)
    assert got == [1, 2]
    assert "a callback failed" in caplog.text


def test_refusals_are_raised_where_they_belong(address: str) -> None:
    with sync.connect(address, token="quotes") as client:
        with pytest.raises(tidings.TidingsError, match="'q' may only publish"):
            client.publish(q=2)
        assert client.publish(q=1) is not None
        assert client.publish(q=1, quality="fire") is None
        with pytest.raises(tidings.TidingsError, match="no store"):
            client.publish(q=1, quality="stored")
        with pytest.raises(ValueError, match="missing"):
            client.subscribe("q =")


def test_a_broker_that_is_not_there_leaves_no_thread() -> None:
    with pytest.raises(tidings.ConnectionFailed, match="Is the server running"):
        sync.connect("tidings://127.0.0.1:1")


def test_closing_twice_does_nothing_and_later_calls_say_so(address: str) -> None:
    client = sync.connect(address, token="all")
    subscription = client.subscribe("TRUE")
    client.close()
    client.close()
    with pytest.raises(tidings.TidingsError, match="this client is closed"):
        client.publish(n=1)
    with pytest.raises(tidings.TidingsError, match="this client is closed"):
        next(subscription)


def test_an_error_inside_the_with_is_passed_on(address: str) -> None:
    def application() -> None:
        with sync.connect(address, token="all"):
            raise KeyError

    with pytest.raises(KeyError):
        application()


def test_threads_may_share_a_client(address: str) -> None:
    with sync.connect(address, token="all") as client:
        subscription = client.subscribe("EXISTS(t)")
        threads = [threading.Thread(target=lambda n=n: client.publish(t=n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {next(subscription)["t"] for _ in range(8)} == set(range(8))


def test_it_works_where_a_loop_is_running(address: str) -> None:
    """As in a notebook, whose cells run inside a loop."""

    async def cell() -> int:
        with sync.connect(address, token="all") as client:
            return client.publish_many([{"n": 1}, {"n": 2}])

    assert asyncio.run(cell()) == 2


# --- the facade offers what the asynchronous client does ------------------------------------------------

INTERNAL = {
    "taken": "for the client",
    "takes_many": "for the client",
    "notify_many": "for the client",
    "enter": "for the client",
    "leave": "for the client",
    "durable": "whether it is, the caller has said itself",
    "past": "the same",
    "receive_own": "the same",
    "duplicates": "the same",
    "with_origin": "the same",
    "begin": "for the client",
    "next": "for the client",
    "finish": "for the client",
    "has_settled": "for the client",
    "is_kept": "for the client",
    "jobs": "for the client",
    "lost": "for the client",
    "missed": "for the client",
    "notify": "for the client",
    "position": "for the client",
    "refused": "for the client",
    "remembered": "for the client",
}
"""What a subscription has that no application uses."""


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def parameters(function: Callable[..., object]) -> dict[str, tuple[object, object]]:
    """The names of what one may give, how, and what is given otherwise."""
    return {one.name: (one.kind, one.default) for one in inspect.signature(function).parameters.values()}


def test_everything_that_the_asynchronous_client_offers_is_there(address: str) -> None:
    with sync.connect(address, token="all") as client, client.subscribe("TRUE") as subscription:
        assert public(client._twin) <= public(client)
        assert public(client.admin._twin) - {"answered", "failed", "renewed"} <= public(client.admin)
        assert public(subscription._twin) - set(INTERNAL) <= public(subscription)
        assert set(INTERNAL) <= public(subscription._twin)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        *(
            (sync.Client, name)
            for name in sorted(public(tidings.Client) - {"name", "state", "connected", "moved", "place"})
        ),  # no methods
        *((sync.Admin, name) for name in sorted(public(Admin) - {"answered", "failed", "renewed"})),
        *((sync.Subscription, name) for name in ("acknowledge", "update", "unsubscribe")),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_everything_that_a_method_can_be_given_is_the_same(here: type, there: str) -> None:
    twin = {sync.Client: tidings.Client, sync.Admin: Admin, sync.Subscription: tidings.Subscription}[here]
    assert parameters(getattr(twin, there)).items() <= parameters(getattr(here, there)).items()


def test_both_connect_with_the_same() -> None:
    assert parameters(sync.connect) == parameters(tidings.connect)


def test_the_past_durable_subscriptions_and_scopes_work_without_a_loop(tmp_path: Path) -> None:
    routing = RoutingOptions(advertisements=True)
    with (
        serving(Options(name="b", port=0, data=tmp_path, routing=routing)) as url,
        sync.connect(url, name="alice") as client,
    ):
        client.advertise("EXISTS(n)")
        assert [str(offer) for offer in client.browse(timeout=10).filters] == ["n EXISTS"]
        client.publish_many(({"n": n} for n in range(5)), quality="stored")
        kept = client.subscribe("EXISTS(n)", durable="numbers")
        past = client.subscribe("EXISTS(n)", past=tidings.last(2), with_origin=True)
        assert [past.receive(timeout=10)["n"] for _ in range(2)] == [3, 4]  # type: ignore[index]
        assert past.history_report is not None
        assert (past.history_report.count, past.settled, past.ended, past.waiting) == (2, True, False, 0)
        client.publish(n=5)
        assert [next(kept)["n"], next(past)["n"]] == [5, 5]
        kept.acknowledge()
        kept.unsubscribe()
        assert (kept.ended, str(kept.filter)) == (True, "n EXISTS")
        receipt = client.publish(n=6)
        assert receipt is not None
        assert (receipt.origin, receipt.quality) == ("b", tidings.Quality.STORED)
        assert next(client.subscribe("EXISTS(n)", durable="numbers"))["n"] == 6
        client.forget("numbers")
        measured = client.measure_log(timeout=10)
        read = list(client.read_log((0, 0), measured.end, timeout=10))
        assert [envelope.notification["n"] for page in read for envelope in page.envelopes] == list(range(7))
        assert client.admin.create_scope("team").version == 1
        assert "team" in client.admin.graph().scopes
        assert client.status(timeout=10).name == "b"


def test_a_refusal_of_what_was_only_fired_is_raised_when_flushing(address: str) -> None:
    with sync.connect(address, token="quotes") as client:
        client.publish(q=2, quality="fire")
        client.publish(q=1)  # what was refused before it has been heard of
        with pytest.raises(tidings.TidingsError, match="'q' may only publish"):
            client.flush()


def test_an_application_numbers_what_it_publishes(address: str) -> None:
    with sync.connect(address, name="all/numbering", token="all", own_numbers=True, serialiser="json") as client:
        first = client.publish(n=1, publisher_seq=7)
        with pytest.raises(AlreadyPublished, match="'all/numbering' has published number 7 already"):
            client.publish(n=1, publisher_seq=7)
        assert first is not None


def test_jobs_are_acknowledged_and_given_back(address: str) -> None:
    with sync.connect(address, token="all") as client:
        jobs = client.subscribe("job = 1", group="blocking", ack=True)
        client.publish(job=1)
        first = next(jobs)
        assert isinstance(first, sync.Job)
        first.nack()
        again = next(jobs)
        assert (again.deliveries, dict(again)) == (2, {"job": 1})
        again.ack()
        with pytest.raises(tidings.AckRefused) as caught:
            again.ack()
        assert str(caught.value) == (
            f"job {again.key} of group 'blocking' has been acknowledged already; say once what becomes of a job"
        )
