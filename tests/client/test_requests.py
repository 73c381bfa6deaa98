"""Requests and replies: who gets what, how a session ends, and what those hear who come too late."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client.transports import brokers, on_both, on_sockets, until, url, way_to
from serving import serving

import tidings
from tidings import sync
from tidings.broker import RoutingOptions
from tidings.broker._causes import Cause, _current
from tidings.net import Access, AccessEntry, Options
from tidings.scopes import Interface
from tidings.scopes.service import _requests
from tidings.wire import Opening
from tidings.wire._messages import MAX_TAG


def answering(client: tidings.Client, filter: str = "type = 'question'", times: int = 1) -> asyncio.Task[None]:
    """A responder that answers each question with its double, so many times."""

    async def answer() -> None:
        async for request in client.subscribe(filter):
            for more in range(times):
                await request.reply(n=2 * request["n"] + more)  # type: ignore[operator]

    return asyncio.create_task(answer())


@on_both
async def test_a_request_is_answered_across_brokers_and_nobody_else_hears_it() -> None:
    async with (
        brokers(["a", "b", "c"], [("a", "b"), ("b", "c")]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["c"]), name="answerer") as answerer,
        tidings.connect(url(servers["b"]), name="other") as other,
    ):
        task = answering(answerer)
        heard: list[Any] = []
        await other.subscribe("TRUE", callback=heard.append)
        await until(lambda: bool(answerer._local.subscriptions))
        await asyncio.sleep(0.3)
        replies = [(await asker.request(type="question", n=n))["n"] for n in range(5)]
        assert replies == [0, 2, 4, 6, 8]
        assert [one["n"] for one in heard] == [0, 1, 2, 3, 4], "the questions, and no answer"
        assert all(type(one) is not tidings.Notification for one in heard), "they ask for a reply"
        task.cancel()


@on_both
async def test_several_replies_come_until_the_time_is_up() -> None:
    async with (
        brokers(["a", "b"], [("a", "b")]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="one") as one,
        tidings.connect(url(servers["b"]), name="two") as two,
    ):
        tasks = [answering(one, times=2), answering(two, times=1)]
        await until(lambda: bool(one._local.subscriptions) and bool(two._local.subscriptions))
        await asyncio.sleep(0.3)
        got = sorted([reply["n"] async for reply in asker.request({"type": "question", "n": 5}, timeout=0.5)])
        assert got == [10, 10, 11]
        for task in tasks:
            task.cancel()


@on_both
async def test_nobody_who_could_reply_is_told_at_once() -> None:
    async with (
        brokers(["a", "b"], [("a", "b")]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["b"]), name="other") as other,
    ):
        await other.subscribe("type = 'answer'")
        with pytest.raises(tidings.NoResponder) as nobody:
            await asker.request(type="question", timeout=3600)
        assert str(nobody.value) == "nobody subscribes to what this request says; start a responder first"
        with pytest.raises(tidings.NoResponder):
            async for _ in asker.request(type="question", timeout=3600):
                pass


@on_both
async def test_a_request_without_a_reply_runs_out_of_time() -> None:
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="mute") as mute,
    ):
        await mute.subscribe("type = 'question'")
        with pytest.raises(tidings.NoReply) as late:
            await asker.request(type="question", timeout=0.2)
        assert str(late.value) == (
            "no reply has come within 0.2 s; give it a longer timeout, or see whether a responder is there"
        )
        assert [one async for one in asker.request(type="question", timeout=0.1)] == []


@on_both
async def test_a_reply_that_comes_too_late_or_twice_is_an_error_at_the_replier() -> None:
    async with (
        brokers(["a", "b"], [("a", "b")]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["b"]), name="far") as far,
        tidings.connect(url(servers["a"]), name="near") as near,
    ):
        for client in (far, near):
            questions = await client.subscribe("type = 'question'")
            asked = asyncio.create_task(asker.request(type="question")._first())
            question = await anext(questions)
            await question.reply(n=1)
            assert (await asked)["n"] == 1
            with pytest.raises(tidings.RequestEnded) as late:
                await question.reply(n=2)
            assert str(late.value) == (
                "no request waits for this reply: it has its replies, was given up, or never was"
            )
            questions.unsubscribe()


@on_both
async def test_a_reply_to_nothing_is_an_error_at_the_replier() -> None:
    async with brokers(["a"]) as servers, tidings.connect(url(servers["a"]), name="me") as me:
        mine = await me.subscribe("n > 0")
        await me.publish(n=1)
        plain = await anext(mine)
        with pytest.raises(tidings.NotARequest) as first:
            await plain.reply(n=2)
        assert str(first.value) == (
            "Notification(n=1) was published, and asks for no reply; publish the answer instead"
        )
        with pytest.raises(tidings.NotARequest) as second:
            await me.reply(n=2)
        assert str(second.value) == ("there is no request to reply to here; reply while you handle one, or publish")
        for made_up, error, reason in (
            (
                "a/guessed",
                tidings.RequestEnded,
                "no request waits for this reply: it has its replies, was given up, or never was",
            ),
            (
                "nowhere/x",
                tidings.TopologyError,
                "broker 'nowhere', where the requester is, does not answer; whether the reply arrived is not known",
            ),
            ("nothing", tidings.ValueRefused, "'nothing' is no request; reply to what the request came with"),
        ):
            with pytest.raises(error) as refused:
                await me._requests.reply(Cause((f"re:{made_up}",)), {"n": 1})
            assert str(refused.value) == reason
        with pytest.raises(tidings.ValueRefused) as odd:
            await me._requests.reply(Cause(("re:a/guessed", "scope S")), {"n": 1})
        assert str(odd.value) == "cause 'scope S' is no tag of a session; repeat what the notification came with"


@on_both
async def test_the_session_id_of_somebody_else_is_refused() -> None:
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="thief") as thief,
    ):
        await asker.subscribe("type = 'question'", receive_own=True)
        asker._requests.new_id = thief._requests.new_id = lambda: "same"
        waiting = asyncio.create_task(asker.request(type="question", timeout=0.5)._first())
        await asyncio.sleep(0.1)
        with pytest.raises(tidings.ValueRefused) as refused:
            await thief.request(type="question")
        assert str(refused.value) == "session id 'same' belongs to somebody else; use one that nobody guesses"
        with pytest.raises(tidings.NoReply):
            await waiting
        thief._requests.new_id = lambda: "a/b"
        with pytest.raises(tidings.ValueRefused) as refused:
            await thief.request(type="question")
        assert str(refused.value) == (
            "session id 'a/b' cannot be; use printable characters other than '/', at least one"
        )


@on_both
async def test_whoever_saw_a_request_cannot_get_the_replies_that_come_after_its_end() -> None:
    """It opens a session by the id that the first one had, and the one that the request showed."""
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="slow") as slow,
        tidings.connect(url(servers["a"]), name="thief") as thief,
    ):
        questions = await slow.subscribe("type = 'question' AND secret = TRUE")
        asker._requests.new_id = lambda: "same"
        with pytest.raises(tidings.NoReply):
            await asker.request(type="question", secret=True, timeout=0.1)
        question = await anext(questions)
        shown = next(iter(_current.get().values())).request.rpartition("/")[2]
        await thief.subscribe("type = 'question'", receive_own=True)
        got: list[Any] = []
        for id in ("same", shown):
            thief._requests.new_id = lambda id=id: id  # type: ignore[misc]
            thieving = thief.request(type="question", timeout=0.3)
            stolen = asyncio.create_task(thieving._first())
            await asyncio.sleep(0.1)
            with pytest.raises(tidings.RequestEnded):
                await question.reply(n=1)
            with pytest.raises(tidings.NoReply):
                got.append(await stolen)
        assert not got


@on_both
async def test_whoever_hears_only_a_reaction_to_a_request_cannot_reply_to_it() -> None:
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="helper") as helper,
        tidings.connect(url(servers["a"]), name="forger") as forger,
    ):
        questions = await helper.subscribe("type = 'question'")
        notes = await forger.subscribe("type = 'note'")
        asked = asyncio.create_task(asker.request(type="question", timeout=5)._first())
        question = await anext(questions)
        await (await helper.publish(type="note"))
        await anext(notes)
        (tag,) = _current.get()[notes].tags
        with pytest.raises(tidings.RequestEnded):
            await forger._requests.reply(Cause((f"re:a/{tag[3:]}",)), {"forged": True})
        await question.reply(forged=False)
        assert (await asked)["forged"] is False


@on_both
async def test_an_id_as_long_as_can_be_is_no_trouble_for_those_who_react() -> None:
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="other") as other,
    ):
        asker._requests.new_id = lambda: "x" * MAX_TAG
        questions = await other.subscribe("type = 'question'")
        asked = asyncio.create_task(asker.request(type="question", timeout=5)._first())
        question = await anext(questions)
        await (await other.publish(type="note"))
        await question.reply(n=1)
        assert (await asked)["n"] == 1


@on_both
async def test_the_requests_of_one_identity_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_requests, "MAX_SESSIONS", 2)
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="other") as other,
    ):
        questions = await other.subscribe("type = 'question'")
        waiting = [asyncio.create_task(asker.request(type="question", timeout=5)._first()) for _ in range(2)]
        first = await anext(questions)
        with pytest.raises(tidings.BudgetExceeded) as refused:
            await asker.request(type="question")
        assert str(refused.value) == (
            "'asker' waits for replies to 2 requests at this broker, which is the most; wait for some, or give them a "
            "shorter timeout"
        )
        await first.reply(ok=True)
        await (await anext(questions)).reply(ok=True)
        await asyncio.gather(*waiting)
        third = asyncio.create_task(asker.request(type="question", timeout=5)._first())
        await (await anext(questions)).reply(ok=True)
        assert (await third)["ok"]


@on_sockets
async def test_a_request_that_is_refused_opens_no_session() -> None:
    entries = {
        "asker": AccessEntry("asker", publish=tidings.Filter.parse("type = 'other'")),
        "answerer": AccessEntry("answerer"),
    }
    routing = RoutingOptions(advertisements=True)
    async with (
        brokers(["a"], access=Access(entries), routing=routing) as servers,
        tidings.connect(url(servers["a"]), token="asker", name="asker") as asker,
        tidings.connect(url(servers["a"]), token="answerer", name="answerer") as answerer,
    ):
        await answerer.subscribe("type = 'question'")
        sessions = servers["a"].host.broker.features["requests"]
        with pytest.raises(tidings.AccessDenied):
            await asker.request(type="question")
        with pytest.raises(tidings.NotAdvertised):
            await asker.request(type="other")
        assert sessions.open == 0


@on_both
async def test_a_request_that_cannot_leave_waits_no_longer_than_it_says() -> None:
    async with brokers(["a"]) as servers, way_to(servers["a"]) as way, tidings.connect(way.url) as asker:
        way.closed = True
        way.cut()
        await until(lambda: not asker.connected)
        with pytest.raises(tidings.NoReply) as late:
            await asker.request(type="question", timeout=0.3)
        assert str(late.value) == (
            "the request has not left within 0.3 s, because there is no broker now, or it takes no more; ask again "
            "later"
        )
        assert [one async for one in asker.request(type="question", timeout=0.1)] == []
        way.closed = False
        with pytest.raises(tidings.NoResponder):
            await asker.request(type="question", timeout=60)


@on_both
async def test_a_session_ends_with_its_opener_and_after_a_time_without_a_reply() -> None:
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="other") as other,
    ):
        questions = await other.subscribe("type = 'question'")
        sessions = servers["a"].host.broker.features["requests"]
        async with tidings.connect(url(servers["a"]), name="asker") as asker:
            waiting = asyncio.create_task(asker.request(type="question", timeout=60)._first())
            question = await anext(questions)
            assert sessions.open == 1
        with pytest.raises(tidings.TidingsError):
            await waiting
        with pytest.raises(tidings.RequestEnded):
            await question.reply(n=1)
        await until(lambda: sessions.open == 0)
        async with tidings.connect(url(servers["a"]), name="asker") as asker:
            asker._local.publish({"type": "question"}, opens=Opening("x", 0, 100_000))
            question = await anext(questions)
            await until(lambda: sessions.open == 0)
            with pytest.raises(tidings.RequestEnded):
                await question.reply(n=1)


@on_both
async def test_a_session_ends_with_the_loop_that_takes_its_replies_and_at_the_latest_with_its_time() -> None:
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="answerer") as answerer,
    ):
        task = answering(answerer, times=2)
        await until(lambda: bool(answerer._local.subscriptions))
        await asyncio.sleep(0.3)
        sessions = servers["a"].host.broker.features["requests"]
        async for reply in asker.request(type="question", n=1, timeout=60):
            assert reply["n"] == 2
            break
        await until(lambda: sessions.open == 0)
        kept = asker.request(type="question", n=1, timeout=0.3)
        assert (await anext(kept))["n"] == 2
        await until(lambda: sessions.open == 0)  # nobody takes more, and the time is up
        assert not asker._requests.open
        assert [one["n"] async for one in kept] == [3], "what came in time can still be taken"
        await kept.aclose()
        task.cancel()


@on_both
async def test_scopes_judge_replies_as_they_judge_publications() -> None:
    """The responder hears the question, and its scope lets nothing out."""
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="root") as root,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="inner") as inner,
    ):
        await root.admin.create_scope("outer")
        await root.admin.create_scope("vault", input="type = 'question'", output="type = 'public'")
        await root.admin.join("vault", "outer")
        await root.admin.join("@asker", "outer")
        await root.admin.join("@inner", "vault")
        questions = await inner.subscribe("type = 'question'")
        asked = asyncio.create_task(asker.request(type="question", timeout=5)._first())
        question = await anext(questions)
        with pytest.raises(tidings.NotAllowed) as refused:
            await question.reply(type="secret")
        assert str(refused.value) == "no scope lets the requester see this reply; an administrator may change that"
        await question.reply(type="public")
        assert (await asked)["type"] == "public"


@on_sockets
async def test_a_reply_is_what_its_replier_may_publish_and_its_requester_may_see() -> None:
    entries = {
        "asker": AccessEntry("asker", subscribe=tidings.Filter.parse("type = 'open'")),
        "answerer": AccessEntry("answerer", publish=tidings.Filter.parse("type IN ('open', 'closed')")),
    }
    async with (
        brokers(["a"], access=Access(entries)) as servers,
        tidings.connect(url(servers["a"]), token="asker", name="asker") as asker,
        tidings.connect(url(servers["a"]), token="answerer", name="answerer") as answerer,
    ):
        questions = await answerer.subscribe("type = 'question'")
        asked = asyncio.create_task(asker.request(type="question", timeout=5)._first())
        question = await anext(questions)
        with pytest.raises(tidings.AccessDenied) as refused:
            await question.reply(type="other")
        assert str(refused.value).startswith("'answerer' may only publish notifications that pass")
        with pytest.raises(tidings.AccessDenied) as hidden:
            await question.reply(type="closed")
        assert str(hidden.value) == "the requester may not see this reply; an operator may change that"
        await question.reply(type="open")
        assert (await asked)["type"] == "open"


@on_both
async def test_a_reply_is_judged_as_a_reaction_to_its_request() -> None:
    """The requester may see answers in the session scope only, and a request belongs to a session of its own."""
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="root") as root,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="helper") as helper,
    ):
        for scope, imposed in (
            ("plain", Interface.parse(input="type = 'other'")),
            ("s", Interface.parse(output="type = 'other'")),
        ):
            await root.admin.create_scope(scope)
            await root.admin.join("@asker", scope, imposed=imposed)
            await root.admin.join("@helper", scope)
        await root.admin.make_session("s")
        questions = await helper.subscribe("type = 'question'")
        for session in (True, False):
            asked = asyncio.create_task(asker.request(type="question", timeout=5)._first())
            question = await anext(questions)
            if session:
                with pytest.raises(tidings.NotAllowed):
                    await question.reply(type="answer")
                asked.cancel()
                await root.admin.end_session("s")
            else:
                await question.reply(type="answer")
                assert (await asked)["type"] == "answer"


@on_both
async def test_what_is_published_while_a_request_is_handled_belongs_to_its_session() -> None:
    """A request is a session of its own: a reaction to it appears in no session scope."""
    async with (
        brokers(["a"]) as servers,
        tidings.connect(url(servers["a"]), name="root") as root,
        tidings.connect(url(servers["a"]), name="asker") as asker,
        tidings.connect(url(servers["a"]), name="helper") as helper,
        tidings.connect(url(servers["a"]), name="watcher") as watcher,
    ):
        for scope, members in (("plain", ("asker", "helper")), ("s", ("helper", "watcher"))):
            await root.admin.create_scope(scope)
            for member in members:
                await root.admin.join(f"@{member}", scope)
        await root.admin.make_session("s")
        heard: list[Any] = []
        await watcher.subscribe("type = 'note'", callback=heard.append)
        questions = await helper.subscribe("type = 'question'")
        await asyncio.sleep(0.2)
        asked = asyncio.create_task(asker.request(type="question", timeout=5)._first())
        question = await anext(questions)
        await (await helper.publish(type="note", n=1))
        await question.reply(ok=True)
        await asked
        questions.unsubscribe()
        await (await helper.publish(type="note", n=2))
        await until(lambda: bool(heard))
        assert [one["n"] for one in heard] == [2]


def test_blocking_clients_ask_and_reply() -> None:
    with (
        serving(Options(name="b", port=0)) as address,
        sync.connect(address) as asker,
        sync.connect(address) as answerer,
    ):
        questions = answerer.subscribe("type = 'question'")

        def answer() -> None:
            for question in questions:
                answerer.reply(n=question["n"] + 1)  # type: ignore[operator]
                return

        def reply_itself() -> None:
            for question in questions:
                assert isinstance(question, sync.Request)
                question.reply({"type": "answer"}, n=question["n"] + 2)  # type: ignore[operator]
                with pytest.raises(tidings.RequestEnded):
                    question.reply(n=0)
                return

        thread = threading.Thread(target=answer)
        thread.start()
        assert asker.request(type="question", n=1, timeout=10)["n"] == 2
        thread.join()
        with ThreadPoolExecutor() as pool:
            answered = pool.submit(reply_itself)
            assert dict(asker.request(type="question", n=1, timeout=10)) == {"type": "answer", "n": 3}
            answered.result()
        with pytest.raises(tidings.NoReply):
            asker.request({"type": "question"}, timeout=0.1)


def test_a_blocking_client_cannot_reply_to_what_was_only_published() -> None:
    with serving(Options(name="b", port=0)) as address, sync.connect(address) as client:
        mine = client.subscribe("n > 0")
        client.publish(n=1)
        with pytest.raises(tidings.NotARequest):
            next(mine).reply(n=2)
