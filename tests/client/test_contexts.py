"""What a publication reacts to: in callbacks, loops, tasks and threads, in any interleaving."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from client.transports import brokers, on_both, until, url
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import serving

import tidings
from tidings import sync
from tidings.broker import Cause, LocalBroker
from tidings.broker._causes import _current, combined
from tidings.client._subscription import Subscription
from tidings.client._subscriptions import Subscriptions
from tidings.client._terms import Terms
from tidings.model import Identity, Notification, Route
from tidings.net import Options
from tidings.wire import Deliver, Envelope, Frame, Opening, Publish, encode_body
from tidings.wire._messages import MAX_CAUSES

# --- any interleaving ---------------------------------------------------------------------------------


class Local:
    """A client without a network: what arrives is handed in, what it publishes is written down."""

    def __init__(self, subscriptions: int, **terms: Any) -> None:
        self._sent: list[Frame] = []
        self.local = LocalBroker("me", self._sent.append)
        self._all = Subscriptions(self.local, SimpleNamespace(features=()), None)  # type: ignore[arg-type]
        self.subscriptions = [self._add(**terms) for _ in range(subscriptions)]
        self._numbers = itertools.count(1)

    def _add(self, **terms: Any) -> Subscription[Notification]:
        return self._all.add(Terms(tidings.Filter.parse("TRUE"), **terms))

    def arrive(self, at: int, *tags: str) -> None:
        """Something arrives for one subscription, from the sessions of these tags."""
        number = next(self._numbers)
        identity = Identity("b", 1, number, "other", number, 0, 0, None)
        envelope = Envelope(identity, (Route(tags=("form", *tags)),), encode_body({"n": number}))
        self.local.receive(Frame(Deliver(envelope, (self.subscriptions[at].id,))))

    def publish(self) -> tuple[str, ...]:
        """Publish something; what it says that it reacts to."""
        self.local.publish({"n": 0})
        message = self._sent[-1].message
        assert isinstance(message, Publish)
        return message.cause


class Held:
    """What the model knows of a cause."""

    def __init__(self, tags: frozenset[str]) -> None:
        self.tags, self.holds = tags, True


class Worker:
    """A task that does as it is told, step by step."""

    def __init__(self, client: Local, contexts: dict[int, Held]) -> None:
        self.client = client
        self.model = dict(contexts)
        """What it is handling, by subscription."""
        self.orders: asyncio.Queue[Callable[[], Awaitable[object]] | None] = asyncio.Queue()
        self.done: asyncio.Queue[object] = asyncio.Queue()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while (order := await self.orders.get()) is not None:
            self.done.put_nowait(await order())

    async def do(self, order: Callable[[], Awaitable[object]]) -> Any:
        self.orders.put_nowait(order)
        return await self.done.get()

    async def take(self, at: int, tags: frozenset[str]) -> None:
        if at in self.model:
            self.model[at].holds = False
        self.client.arrive(at, *tags)
        await self.do(self.client.subscriptions[at].next)
        self.model.pop(at, None)
        if tags:
            self.model[at] = Held(tags)

    async def check(self) -> None:
        async def publish() -> object:
            return self.client.publish()

        holding = [one.tags for one in self.model.values() if one.holds]
        expected = combined(holding) if holding else ()
        assert await self.do(publish) == expected

    async def start(self) -> Worker:
        async def begin() -> object:
            return Worker(self.client, self.model)

        started: Worker = await self.do(begin)
        return started


SESSIONS = st.frozensets(st.sampled_from(["in:a", "in:b", "in:c"]), max_size=2)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.one_of(
            st.tuples(st.integers(0, 2), SESSIONS),
            st.just("start"),
        ),
    ),
    min_size=1,
    max_size=14,
)


@pytest.mark.req("VIS-703")
@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_in_any_interleaving_a_publication_reacts_to_what_its_task_is_handling(steps: list[Any]) -> None:
    """Tasks read three subscriptions in turns and start further tasks; after each step, each of them publishes."""

    async def run() -> None:
        client = Local(3)
        workers = [Worker(client, {})]
        for which, what in steps:
            worker = workers[which % len(workers)]
            if what == "start":
                workers.append(await worker.start())
            else:
                await worker.take(*what)
            for one in workers:
                await one.check()
        for one in workers:
            one.orders.put_nowait(None)
            await one.task

    asyncio.run(run())


@pytest.mark.req("VIS-703")
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.none() | SESSIONS), min_size=1, max_size=10),
    st.integers(0, 1),
)
def test_in_any_interleaving_a_publication_reacts_to_what_its_thread_is_handling(steps: list[Any], ended: int) -> None:
    """Threads read two subscriptions in turns, and sometimes find nothing; after each step, each of them publishes."""
    client, loop = Local(2), asyncio.new_event_loop()
    here = SimpleNamespace(call=loop.run_until_complete, visit=lambda end: end())
    subscriptions = [sync.Subscription(here, twin) for twin in client.subscriptions]  # type: ignore[arg-type]
    with contextlib.ExitStack() as stack:
        stack.callback(loop.close)
        threads = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(3)]
        handling: list[dict[int, frozenset[str]]] = [{} for _ in threads]
        for which, at, tags in steps:
            if tags is not None:
                client.arrive(at, *tags)
            got = threads[which].submit(subscriptions[at].receive, 0).result()
            assert (got is None) == (tags is None)
            handling[which].pop(at, None)
            if tags:
                handling[which][at] = tags
            for thread, known in zip(threads, handling, strict=True):
                expected = combined(list(known.values())) if known else ()
                assert thread.submit(client.publish).result() == expected
        threads[0].submit(subscriptions[ended].unsubscribe).result()
        for thread, known in zip(threads, handling, strict=True):
            known.pop(ended, None)
            assert thread.submit(client.publish).result() == (combined(list(known.values())) if known else ())


@pytest.mark.req("VIS-703")
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.one_of(st.tuples(st.integers(0, 2), SESSIONS), st.just("go on")), min_size=1, max_size=12),
    st.booleans(),
)
def test_in_any_interleaving_a_publication_reacts_to_what_its_callback_is_handling(
    steps: list[Any], keep: bool
) -> None:
    """One callback returns at once, two are awaited; each publishes, starts a task, and publishes once more."""
    seen: list[tuple[object, str, tuple[str, ...]]] = []

    async def run() -> None:
        waiting: list[asyncio.Event] = []
        started: list[asyncio.Task[None]] = []
        over = asyncio.Event()

        def plain(notification: Notification) -> None:
            seen.append((notification["n"], "during", client.publish()))

        async def child(n: object) -> None:
            seen.append((n, "during", client.publish()))
            await over.wait()
            seen.append((n, "after", client.publish()))

        async def slow(notification: Notification) -> None:
            plain(notification)
            started.append(asyncio.create_task(child(notification["n"])))
            waiting.append(asyncio.Event())
            await waiting[-1].wait()
            plain(notification)

        async def go_on(times: int) -> None:
            for _ in range(times):
                if waiting:
                    waiting.pop(0).set()
                for _ in range(4):
                    await asyncio.sleep(0)

        client = Local(1, callback=plain)
        client.subscriptions += [client._add(callback=slow, keep_context=keep) for _ in range(2)]
        sent: list[tuple[int, frozenset[str]]] = []
        for step in steps:
            if step == "go on":
                await go_on(1)
            else:
                sent.append(step)
                client.arrive(step[0], *step[1])
            assert client.publish() == (), "whoever delivers handles nothing"
        await go_on(2 * len(sent) + 1)
        over.set()
        await asyncio.gather(*started)
        for calls in list(client._all._calls):
            await calls.cancel()
        expected = []
        for n, (at, tags) in enumerate(sent, 1):
            during, after = tuple(sorted(tags)), tuple(sorted(tags)) if keep else ()
            expected += [(n, "during", during)] * (3 if at else 1) + [(n, "after", after)] * bool(at)
        assert sorted(seen) == sorted(expected)

    asyncio.run(run())


HEADERS = st.lists(
    st.builds("{}{}".format, st.sampled_from(["in:", "at:", "re:b/", "seal:k:", "due:", "tag "]), st.uuids()),
    max_size=4,
)


@pytest.mark.req("VIS-702")
@settings(max_examples=30, deadline=None)
@given(HEADERS, st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9), min_size=1), st.booleans())
def test_what_the_service_says_of_a_notification_reaches_no_handler(
    tags: list[str], body: dict[str, int], traced: bool
) -> None:
    """Callbacks and loops get what was published; nothing that they can look at has more."""

    async def run() -> None:
        given: list[Any] = []
        client = Local(1, with_origin=traced)
        client.subscriptions.append(client._add(callback=given.append, with_origin=traced))
        identity = Identity("secret broker", 77, 5, "publisher", 6, 12345, 4711, None)
        envelope = Envelope(identity, (Route(tags=("form", *tags), path=("secret scope",)),), encode_body(body))
        ids = tuple(one.id for one in client.subscriptions)
        client.local.receive(Frame(Deliver(envelope, ids)))
        given.append(await anext(client.subscriptions[0]))
        for one in given:
            assert dict(one) == body
            assert one == Notification(body)
            public = {name for name in dir(one) if not name.startswith("_")}
            shown = [repr(one), str(one), *(repr(getattr(one, name)) for name in public)]
            asked_for = ("secret broker", "publisher", "12345", "4711") if traced else ()
            for secret in {*tags, "secret broker", "secret scope", "publisher", "4711", "12345"}.difference(asked_for):
                assert not [text for text in shown if secret in text]

    asyncio.run(run())


@pytest.mark.req("VIS-703")
def test_two_iterations_in_one_task() -> None:
    async def run() -> None:
        client = Local(2)
        one, two = client.subscriptions
        client.arrive(0, "in:a")
        client.arrive(0, "in:a", "in:b")
        client.arrive(1, "in:b")
        await anext(one)
        assert client.publish() == ("in:a",)
        await anext(two)
        assert client.publish() == ("in:",), "it reacts to both, and no session had both"
        await anext(one)
        assert client.publish() == ("in:b",), "both were in this one"
        two.unsubscribe()
        assert client.publish() == ("in:a", "in:b"), "what was handled by it ended with it"
        assert one.ended is False
        one.unsubscribe()
        assert client.publish() == ()

    asyncio.run(run())


@pytest.mark.req("VIS-703")
def test_a_callback_and_the_tasks_that_it_starts() -> None:
    seen: list[tuple[str, tuple[str, ...]]] = []
    tasks: list[asyncio.Task[None]] = []

    async def run(*, keep: bool) -> None:
        handled = asyncio.Event()

        async def later() -> None:
            await handled.wait()
            seen.append(("later", client.publish()))

        def plain(notification: Notification) -> None:
            seen.append(("now", client.publish()))
            tasks.append(asyncio.create_task(later()))

        client = Local(1, callback=plain, keep_context=keep)
        client.arrive(0, "in:a")
        assert client.publish() == ()
        handled.set()
        await tasks.pop()

    asyncio.run(run(keep=False))
    asyncio.run(run(keep=True))
    assert seen == [("now", ("in:a",)), ("later", ()), ("now", ("in:a",)), ("later", ("in:a",))]


@pytest.mark.req("VIS-703")
@pytest.mark.parametrize("keep", [False, True])
def test_tasks_that_a_loop_starts_keep_the_context_if_they_are_to_and_the_loop_does_not(keep: bool) -> None:
    async def run() -> None:
        client = Local(1, keep_context=keep)
        (subscription,) = client.subscriptions
        over = asyncio.Event()

        async def later() -> tuple[str, ...]:
            await over.wait()
            return client.publish()

        started: list[asyncio.Task[tuple[str, ...]]] = []
        for tag in ("in:a", "in:b"):
            client.arrive(0, tag)
            await anext(subscription)
            assert client.publish() == (tag,), "the one that it handles, and not the one before"
            started.append(asyncio.create_task(later()))
        assert len(subscription._causes) == (0 if keep else 1), "what never ends is not remembered"
        subscription.unsubscribe()
        assert client.publish() == (), "it has handled everything"
        over.set()
        assert await asyncio.gather(*started) == ([("in:a",), ("in:b",)] if keep else [(), ()])

    asyncio.run(run())


@pytest.mark.req("VIS-703")
def test_what_is_handled_in_tasks_of_their_own_ends_with_the_subscription_or_is_forgotten() -> None:
    async def run() -> None:
        client = Local(1)
        (subscription,) = client.subscriptions
        over = asyncio.Event()

        async def handle(*, slowly: bool) -> tuple[str, ...]:
            await anext(subscription)
            before = client.publish()
            if slowly:
                await over.wait()
            return before + client.publish()

        for number in range(100):
            client.arrive(0, "in:a")
            assert await asyncio.create_task(handle(slowly=False)) == ("in:a", "in:a"), number
        gc.collect()
        assert len(subscription._causes) < 5, "of a hundred, those of tasks that are still known somewhere"
        client.arrive(0, "in:b")
        slow = asyncio.create_task(handle(slowly=True))
        await asyncio.sleep(0)
        subscription.unsubscribe()
        over.set()
        assert await slow == ("in:b",), "it ended with the subscription"

    asyncio.run(run())


@pytest.mark.req("VIS-703")
def test_a_callback_that_is_awaited_reacts_until_it_has_returned() -> None:
    seen: list[tuple[str, ...]] = []
    started: list[asyncio.Task[None]] = []

    async def run() -> None:
        over = asyncio.Event()

        async def child() -> None:
            seen.append(client.publish())
            await over.wait()
            seen.append(client.publish())

        async def slow(notification: Notification) -> None:
            seen.append(client.publish())
            started.append(asyncio.create_task(child()))
            for _ in range(3):
                await asyncio.sleep(0)
            seen.append(client.publish())

        client = Local(1, callback=slow)
        client.arrive(0, "in:a")
        client.arrive(0, "in:b")
        client.arrive(0)
        for _ in range(30):
            await asyncio.sleep(0)
        over.set()
        await asyncio.gather(*started)
        for calls in list(client._all._calls):
            await calls.cancel()

    asyncio.run(run())
    each: list[tuple[str, ...]] = [("in:a",)] * 3 + [("in:b",)] * 3 + [()] * 3
    assert seen == [*each, (), (), ()], "what was started then reacts to nothing any more"


def test_one_notification_for_two_callbacks_is_the_cause_in_both() -> None:
    seen = []
    client = Local(2, callback=lambda notification: seen.append(client.publish()))
    identity = Identity("b", 1, 1, "other", 1, 0, 0, None)
    envelope = Envelope(identity, (Route(tags=("in:a",)),), encode_body({"n": 1}))
    client.local.receive(Frame(Deliver(envelope, tuple(one.id for one in client.subscriptions))))
    assert seen == [("in:a",), ("in:a",)]


# --- with brokers -------------------------------------------------------------------------------------


async def make_sessions(admin: tidings.Client, *members: str) -> None:
    for scope in ("s", "t"):
        await admin.admin.create_scope(scope)
        await admin.admin.join("@signer", scope)
        await admin.admin.make_session(scope)
    for member, scope in zip(members, ("s", "t"), strict=True):
        await admin.admin.join(f"@{member}", scope)


@pytest.mark.req("VIS-704", "VIS-707")
@on_both
async def test_the_signing_service_is_written_as_if_there_were_no_sessions() -> None:
    async with (
        brokers(["a", "b"], [("a", "b")]) as servers,
        tidings.connect(url(servers["a"]), name="root") as root,
        tidings.connect(url(servers["b"]), name="signer") as signer,
        tidings.connect(url(servers["a"]), name="alice") as alice,
        tidings.connect(url(servers["b"]), name="bob") as bob,
    ):
        await make_sessions(root, "alice", "bob")

        async def sign() -> None:
            async for document in signer.subscribe("type = 'document'"):
                await signer.publish(type="signed", text=f"{document['text']} (signed)")

        service = asyncio.create_task(sign())
        got: dict[str, list[object]] = {"alice": [], "bob": []}
        for client in (alice, bob):
            texts = got[client.name]
            await client.subscribe("type = 'signed'", callback=lambda one, texts=texts: texts.append(one["text"]))
        await asyncio.sleep(0.2)
        for number in range(5):
            await (await alice.publish(type="document", text=f"a{number}"))
            await (await bob.publish(type="document", text=f"b{number}"))
        await until(lambda: len(got["alice"]) >= 5 and len(got["bob"]) >= 5)
        await asyncio.sleep(0.1)
        assert got == {name: [f"{name[0]}{n} (signed)" for n in range(5)] for name in got}
        service.cancel()


@on_both
async def test_a_cause_of_very_many_sessions_is_no_trouble_for_those_who_react() -> None:
    """Whoever reacts repeats it, with the session of the request that it is."""
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="root") as root,
        tidings.connect(url(servers["a"]), name="liar") as liar,
        tidings.connect(url(servers["a"]), name="signer") as signer,
    ):
        await root.admin.create_scope("plain")
        for member in ("liar", "signer"):
            await root.admin.join(f"@{member}", "plain")
        documents = await signer.subscribe("type = 'document'")
        cause = tuple(f"in:{number}" for number in range(MAX_CAUSES))
        liar._local._send(
            Frame(
                Publish(liar._local.published + 1, encode_body({"type": "document"}), cause=cause, opens=Opening("x"))
            )
        )
        assert dict(await anext(documents)) == {"type": "document"}
        assert await (await signer.publish(type="signed"))


@pytest.mark.req("VIS-703")
def test_a_thread_reacts_to_what_it_has_received() -> None:
    with (
        serving(Options(name="b", port=0)) as address,
        sync.connect(address, name="root") as root,
        sync.connect(address, name="signer") as signer,
        sync.connect(address, name="alice") as alice,
        sync.connect(address, name="bob") as bob,
    ):
        for scope, member in (("s", "alice"), ("t", "bob")):
            root.admin.create_scope(scope)
            root.admin.join("@signer", scope)
            root.admin.join(f"@{member}", scope)
            root.admin.make_session(scope, mode="origin_only" if scope == "s" else "default")
        documents = signer.subscribe("type = 'document'")
        at_alice, at_bob = alice.subscribe("type = 'signed'"), bob.subscribe("type = 'signed'")
        for publisher in (alice, bob, alice, bob):
            publisher.publish(type="document", of=publisher.name)
        there = threading.Thread(target=lambda: signer.publish(type="signed", of="nobody"))
        for _ in range(4):
            signer.publish(type="signed", of=documents.receive(timeout=5)["of"])  # type: ignore[index]
        there.start()
        there.join()
        assert [one["of"] for one in itertools.islice(at_alice, 3)] == ["alice", "alice", "nobody"]
        assert [one["of"] for one in itertools.islice(at_bob, 3)] == ["bob", "bob", "nobody"]
        assert signer_causes()
    assert not signer_causes(), "with its client, a subscription ends, and nothing reacts to it any more"


def signer_causes() -> list[Cause]:
    """What this thread is handling."""
    return [cause for cause in _current.get().values() if cause.holds]
