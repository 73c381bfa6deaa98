"""What a client is given is checked before anything is sent: one bad call costs that call, and nothing else."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from client.transports import brokers, on_both, on_sockets, take, url
from serving import serving

import tidings
import tidings.sync
from tidings import ArgumentRefused, BoundError, FilterError, ValueRefused
from tidings.model import ScopeError
from tidings.net import Options
from tidings.scopes import CreateScope


async def awaited(result: object) -> None:
    """Wait for it, if it has to be waited for."""
    if hasattr(result, "__await__"):
        await result
    elif hasattr(result, "__anext__"):
        await anext(result)


async def not_called(*_: object) -> None: ...


FILTERS: list[Any] = [
    None,
    5,
    1.5,
    True,
    {"type": "quote"},
    ["n = 1"],
    b"n = 1",
    tidings.attr.price,
    tidings.Filter,
]

BAD: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    **{
        f"subscribe({given!r:.30})": (
            lambda client, given=given: client.subscribe(given),
            FilterError,
            "is a text or a Filter",
        )
        for given in FILTERS
    },
    **{
        f"advertise({given!r:.30})": (
            lambda client, given=given: client.advertise(given),
            FilterError,
            "is a text or a Filter",
        )
        for given in FILTERS
    },
    "browse(7)": (lambda client: client.browse(7), FilterError, "is a text or a Filter"),
    "read_log filter": (lambda client: client.read_log((0, 0), (9, 9), 7), FilterError, "is a text or a Filter"),
    "a text that is no filter": (lambda client: client.subscribe("price >"), FilterError, "column"),
    "durable=3": (lambda client: client.subscribe("TRUE", durable=3), ArgumentRefused, "durable=3; give a name"),
    "durable empty": (lambda client: client.subscribe("TRUE", durable=""), ArgumentRefused, "durable=''; give a name"),
    "durable surrogate": (lambda client: client.subscribe("TRUE", durable="\ud800"), ArgumentRefused, "give a name"),
    "durable long": (lambda client: client.subscribe("TRUE", durable="x" * 257), ArgumentRefused, "1 to 256"),
    "durable and past": (
        lambda client: client.subscribe("TRUE", durable="d", past=1),
        ArgumentRefused,
        "either `durable`",
    ),
    "receive_own": (
        lambda client: client.subscribe("TRUE", receive_own="no"),
        ArgumentRefused,
        "receive_own='no'; give True",
    ),
    "receive_own None": (lambda client: client.subscribe("TRUE", receive_own=None), ArgumentRefused, "True or False"),
    "with_origin": (
        lambda client: client.subscribe("TRUE", with_origin=1),
        ArgumentRefused,
        "with_origin=1; give True",
    ),
    "respect_ttl": (lambda client: client.subscribe("TRUE", respect_ttl="yes"), ArgumentRefused, "respect_ttl='yes'"),
    "callback": (lambda client: client.subscribe("TRUE", callback=5), ArgumentRefused, "callback=5; give a function"),
    "on_gap": (lambda client: client.subscribe("TRUE", on_gap="log"), ArgumentRefused, "on_gap='log'; give a function"),
    "on_gap async": (
        lambda client: client.subscribe("TRUE", on_gap=not_called),
        ArgumentRefused,
        "called, not awaited",
    ),
    "on_misfit alone": (
        lambda client: client.subscribe("TRUE", on_misfit=print),
        ArgumentRefused,
        "give both or neither",
    ),
    "as_ int": (lambda client: client.subscribe("TRUE", as_=int), ArgumentRefused, "give a dataclass or a msgspec"),
    "as_ instance": (lambda client: client.subscribe("TRUE", as_=5), ArgumentRefused, "give a dataclass or a msgspec"),
    "timeout nan": (
        lambda client: client.subscribe("TRUE", past=1, timeout=float("nan")),
        ArgumentRefused,
        "a timeout of nan",
    ),
    "timeout text": (lambda client: client.subscribe("TRUE", past=1, timeout="5"), ArgumentRefused, "a timeout of '5'"),
    "timeout negative": (lambda client: client.subscribe("TRUE", timeout=-1), ArgumentRefused, "a timeout of -1"),
    "duplicates": (lambda client: client.subscribe("TRUE", duplicates=3), ArgumentRefused, "3 is no rule"),
    "consistency": (
        lambda client: client.subscribe("TRUE", consistency=None),
        ArgumentRefused,
        "None is no consistency",
    ),
    "past 2.5": (lambda client: client.subscribe("TRUE", past=2.5), BoundError, "2.5 does not say how far back"),
    "past True": (lambda client: client.subscribe("TRUE", past=True), BoundError, "True does not say how far back"),
    "past word": (lambda client: client.subscribe("TRUE", past="yesterday"), BoundError, "write 10, 5m, or 10,5m"),
    "past -1": (lambda client: client.subscribe("TRUE", past=-1), BoundError, "give a number from 0"),
    "past none": (lambda client: client.subscribe("TRUE", past=tidings.Bound()), BoundError, "limits nothing"),
    "publish(5)": (lambda client: client.publish(5), ArgumentRefused, "5 cannot be published; give attributes"),
    "publish a class": (lambda client: client.publish(Options), ArgumentRefused, "cannot be published"),
    "publish a text": (lambda client: client.publish("n=1"), ArgumentRefused, "cannot be published"),
    "publish None in it": (lambda client: client.publish(n=None), ValueRefused, "None is not a value"),
    "publish a set": (lambda client: client.publish(n={1}), ValueRefused, "set is not a value"),
    "publish NaN": (lambda client: client.publish(n=float("nan")), ValueRefused, "cannot be compared"),
    "publish a number as name": (lambda client: client.publish({5: 1}), ValueRefused, "5 is not a name"),
    "publish too much": (lambda client: client.publish(n="x" * 1_048_577), ValueRefused, "1,048,576"),
    "ttl": (lambda client: client.publish(n=1, ttl="5"), ArgumentRefused, "a time to live of '5' seconds"),
    "ttl True": (lambda client: client.publish(n=1, ttl=True), ArgumentRefused, "a time to live of True seconds"),
    "quality": (lambda client: client.publish(n=1, quality=None), ArgumentRefused, "None is no quality"),
    "publisher_seq 1.5": (lambda client: client.publish(n=1, publisher_seq=1.5), ArgumentRefused, "publisher_seq=1.5"),
    "publisher_seq text": (lambda client: client.publish(n=1, publisher_seq="7"), ArgumentRefused, "publisher_seq='7'"),
    "publisher_seq large": (lambda client: client.publish(n=1, publisher_seq=2**63), ArgumentRefused, "whole number"),
    "publish_many(5)": (lambda client: client.publish_many(5), ArgumentRefused, "give a list"),
    "publish_many one": (lambda client: client.publish_many({"n": 1}), ArgumentRefused, "give a list"),
    "publish_many bad": (lambda client: client.publish_many([5]), ArgumentRefused, "5 cannot be published"),
    "forget": (lambda client: client.forget(3), ArgumentRefused, "name=3; give the name"),
    "unadvertise": (lambda client: client.unadvertise(3), ArgumentRefused, "id=3; give what `advertise`"),
    "status": (lambda client: client.status(float("nan")), ArgumentRefused, "a timeout of nan"),
    "status text": (lambda client: client.status("5"), ArgumentRefused, "a timeout of '5'"),
    "measure_log": (lambda client: client.measure_log(5), ArgumentRefused, "after=5; give an epoch and a number"),
    "measure_log rows": (lambda client: client.measure_log(rows=-1), ArgumentRefused, "rows=-1"),
    "read_log": (lambda client: client.read_log((0, "x"), (9, 9)), ArgumentRefused, r"after\[1\]='x'"),
    "scope name": (lambda client: client.admin.create_scope(5), ScopeError, "cannot be sent"),
    "scope attributes": (
        lambda client: client.admin.create_scope("s", attributes={"a": {1}}),
        ValueRefused,
        "attribute 'a': set is not a value",
    ),
    "scope input": (lambda client: client.admin.create_scope("s", input=5), FilterError, "is a text or a Filter"),
    "scope interface": (lambda client: client.admin.join("@a", "s", selective=5), ScopeError, "an interface is"),
    "scope hidden": (lambda client: client.admin.create_scope("s", hidden="no"), ScopeError, "cannot be sent"),
    "scope change": (lambda client: client.admin.change(CreateScope(7)), ScopeError, "cannot be sent"),  # type: ignore[arg-type]
    "scope timeout": (lambda client: client.admin.graph(timeout=float("nan")), ArgumentRefused, "a timeout of nan"),
    "scope explain": (
        lambda client: client.admin.explain("@a", 5, "@b"),
        ArgumentRefused,
        "notification=5; give a mapping",
    ),
    "scope administrators": (
        lambda client: client.admin.create_scope("s", administrators="alice"),
        ScopeError,
        "administrators is no list of texts",
    ),
    "scope log": (lambda client: client.admin.log("many"), ArgumentRefused, "limit='many'"),
}


@pytest.mark.parametrize("what", list(BAD))
@on_both
async def test_a_bad_call_costs_that_call(what: str) -> None:
    call, error, told = BAD[what]
    async with brokers("b") as servers, tidings.connect(url(servers["b"]), name="alice") as client:
        subscription = await client.subscribe("EXISTS(n)")
        frames = client._link.traffic.waiting
        with pytest.raises(error, match=told) as caught:
            await awaited(call(client))
        assert isinstance(caught.value, tidings.TidingsError)
        assert client._link.traffic.waiting <= frames, "something was sent"
        await client.publish(n=1)
        assert [n["n"] for n in await take(subscription, 1)] == [1]
        assert client.statistics().reconnects == 0
        assert len(servers["b"].host.broker.client_subscriptions()) == 1


def test_a_bad_call_of_a_blocking_client_costs_that_call() -> None:
    with (
        serving(Options(name="b", port=0)) as address,
        tidings.sync.connect(address, name="alice") as client,
        client.subscribe("EXISTS(n)") as subscription,
    ):
        for at, (call, error, told) in enumerate(BAD.values()):
            with pytest.raises(error, match=told):
                next(iter(call(client)))  # type: ignore[call-overload]
            client.publish(n=at)
            assert next(subscription)["n"] == at
        assert client.statistics().reconnects == 0


@on_both
async def test_durable_needs_a_name_of_the_client_itself() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        assert client.name  # the broker has given it one, which the next client will not have
        with pytest.raises(ArgumentRefused, match=r"durable='quotes': .*connect\(\.\.\., name="):
            client.subscribe("TRUE", durable="quotes")


CONNECT: list[tuple[dict[str, Any], str]] = [
    ({"urls": 5}, "5 is not the address of a broker"),
    ({"urls": [5]}, "5 is not the address of a broker"),
    ({"urls": None}, "None is not the address"),
    ({"name": 5}, "name=5; give one"),
    ({"name": ""}, "name=''; give one"),
    ({"name": "x" * 257}, "1 to 256 characters"),
    ({"token": 5}, "the token is not a text"),
    ({"tls": True}, "tls=True; give an ssl.SSLContext"),
    ({"serialiser": ["msgpack"]}, "is no serialiser"),
    ({"max_unacknowledged": "many"}, "max_unacknowledged='many'"),
    ({"remember": 10}, "remember=10; give"),
    ({"own_numbers": 1}, "own_numbers=1; give True or False"),
    ({"insecure": "yes"}, "insecure='yes'; give True or False"),
    ({"wait": float("nan")}, "a wait of nan seconds"),
    ({"wait": -1}, "a wait of -1 seconds"),
    ({"wait": "long"}, "a wait of 'long' seconds"),
    ({"on_disconnect": "print"}, "on_disconnect='print'; give a function"),
    ({"on_reconnect": not_called}, "called, not awaited; give a plain function"),
]


@pytest.mark.parametrize(("given", "told"), CONNECT, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("connect", [tidings.connect, tidings.sync.connect])
def test_what_one_cannot_connect_with_is_refused(
    connect: Callable[..., object], given: dict[str, Any], told: str
) -> None:
    with pytest.raises(tidings.TidingsError, match=told) as caught:
        connect(**given)
    assert "secret" not in str(caught.value)


def test_a_token_that_is_no_text_is_not_shown() -> None:
    with pytest.raises(ArgumentRefused) as caught:
        tidings.connect(token=b"secret")  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)
    tidings.connect(tls=ssl.create_default_context(), token="secret")


PASTS: list[tuple[Any, tidings.Bound]] = [
    (10, tidings.last(10)),
    ("10", tidings.last(10)),
    ("5m", tidings.since("5m")),
    ("10,5m", tidings.last(10, since="5m")),
    ("2026-11-16T03:00Z", tidings.since(datetime(2026, 11, 16, 3, tzinfo=UTC))),
    ("10,2026-11-16", tidings.last(10, since=datetime(2026, 11, 16, tzinfo=UTC))),
    (timedelta(minutes=5), tidings.since("5m")),
    (datetime(2026, 11, 16, 3, tzinfo=UTC), tidings.since(datetime(2026, 11, 16, 3, tzinfo=UTC))),
    (tidings.last(3), tidings.last(3)),
]


@pytest.mark.parametrize(("given", "bound"), PASTS, ids=str)
@on_sockets
async def test_past_means_what_the_command_line_means(given: Any, bound: tidings.Bound) -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = client.subscribe("TRUE", past=given)
        assert subscription.past is not None
        assert subscription.past.bound == bound
        await subscription


@on_both
async def test_the_last_two_come_with_past_2() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        wanted = await client.subscribe("EXISTS(n)")  # so that the broker remembers
        await client.publish_many([{"n": n} for n in range(5)])
        assert [n["n"] for n in await take(client.subscribe("EXISTS(n)", past=2), 2)] == [3, 4]
        assert [n["n"] for n in await take(client.subscribe("EXISTS(n)", past="1h"), 5)] == [0, 1, 2, 3, 4]
        assert [n["n"] for n in await take(wanted, 5)] == [0, 1, 2, 3, 4]


@on_sockets
async def test_refusals_of_a_broker_arrive_as_their_own_class(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidings.net import Access, AccessEntry

    tokens = {"q": AccessEntry("q", tidings.Filter.parse("q = 1"), tidings.Filter.parse("q = 1"))}
    async with brokers("b", access=Access(tokens=tokens)) as servers:
        async with tidings.connect(url(servers["b"]), token="q") as client:
            refused: dict[type[Exception], Awaitable[object]] = {}
            with pytest.raises(tidings.AccessDenied, match="may only publish"):
                await (await client.publish(q=2))
            with pytest.raises(tidings.AccessDenied, match="may only subscribe"):
                await client.subscribe("TRUE")
            with pytest.raises(tidings.AccessDenied, match="may only advertise"):
                await client.advertise("TRUE")
            with pytest.raises(tidings.AccessDenied):
                await client.status()
            with pytest.raises(tidings.StoreError, match="has no store"):
                await (await client.publish(q=1, quality="stored"))
            with pytest.raises(tidings.NotAllowed):
                await client.admin.create_scope("team")
            monkeypatch.setattr("tidings.net._budget.REGISTRATIONS_PART", 10**12)
            with pytest.raises(tidings.BudgetExceeded):
                await client.subscribe("q = 1")
            assert not refused
            await (await client.publish(q=1))


@on_sockets
async def test_a_store_that_is_full_arrives_as_such(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidings.store import Store

    async with brokers("b", data=tmp_path) as servers, tidings.connect(url(servers["b"])) as client:
        monkeypatch.setattr(Store, "full", property(lambda self: True))
        with pytest.raises(tidings.StoreFull, match="publish again later"):
            await (await client.publish(n=1, quality="stored"))
        monkeypatch.undo()
        await (await client.publish(n=1, quality="stored"))


@on_sockets
async def test_what_a_broker_cannot_read_is_a_wire_error_of_that_call() -> None:
    """As from a client of another version: nothing here sends such a thing."""
    from tidings.model import Filter

    class Strange(Filter):
        __slots__ = ()

        def __str__(self) -> str:
            return "s" * 20_000

    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        strange = Strange(Filter.parse("n = 1").conjunctions)
        with pytest.raises(tidings.FilterTooLarge):
            await asyncio.wait_for(client.subscribe(strange)._wait(), 10)
        local = client._local
        id = local.new_id()
        waiting = asyncio.create_task(client._advertisements.wait(id))
        await asyncio.sleep(0)
        from tidings.wire import Advertise, Frame

        client._link.traffic.send(Frame(Advertise(id, Filter.parse("n = 1"), number="no number")))  # type: ignore[arg-type]
        with pytest.raises(tidings.WireError, match="cannot read this request"):
            await asyncio.wait_for(waiting, 10)
        await (await client.publish(n=1))


@on_sockets
async def test_a_value_may_be_as_large_as_a_notification(tmp_path: Any) -> None:
    large = {"text": "x" * 500_000, "data": b"y" * 500_000}
    full = {"n": "é" * 524_200}
    async with brokers("ab", ["ab"], data=None) as servers:
        async with tidings.connect(url(servers["a"])) as writer, tidings.connect(url(servers["b"])) as reader:
            subscription = await reader.subscribe("EXISTS(text) AND text LIKE 'xx%x' OR n LIKE '%é_é%'")
            for one in (large, full):
                await (await writer.publish(one))
            assert [dict(n) for n in await take(subscription, 2)] == [large, full]
    async with brokers("c", data=tmp_path) as servers, tidings.connect(url(servers["c"])) as client:
        for one in (large, full):
            assert (await (await client.publish(one, quality="stored"))) is not None
        past = await take(client.subscribe("text LIKE '%x' OR n LIKE 'é%'", past=2), 2)
        assert [dict(n) for n in past] == [large, full]
        page = await anext(client.read_log((0, 0), (2**62, 0)))
        assert [dict(one.notification) for one in page.envelopes] == [large, full]
