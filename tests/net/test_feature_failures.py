"""A server with a feature that fails: nobody is blamed for it, and nothing more is acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
from net.world import Raw, running, until

import tidings
from tidings.broker import Advice, Feature, Joinpoint, Link
from tidings.model import FeatureError
from tidings.net import Options, Server, serve
from tidings.wire import Extension, Frame, Publish, Welcome


def boom(*arguments: object) -> None:
    raise ValueError("boom")


class Failing(Feature):
    """Counts publications, and fails where a test makes it."""

    name = "failing"

    def __init__(self, *, fail_stop: bool) -> None:
        self.fail_stop = fail_stop
        self.published = 0

    def advice(self) -> Mapping[Joinpoint, Advice]:
        def count(envelope: object, link: Link) -> None:
            self.published += 1

        return {Joinpoint.PUBLISHED: count}


def in_a_timer(server: Server, feature: Failing) -> None:
    feature.context.call_later(0, boom)


def in_a_message(server: Server, feature: Failing) -> None:
    feature.on_message = boom  # type: ignore[method-assign,assignment]
    inner = feature.context.open_client("inside", lambda frame: None)
    inner.send(Frame(Extension("failing", b"")))


@pytest.mark.parametrize("fail", [in_a_timer, in_a_message], ids=lambda fail: fail.__name__)
@running
async def test_a_server_takes_nothing_more_when_its_broker_has_failed(fail: Callable[[Server, Failing], None]) -> None:
    feature = Failing(fail_stop=True)
    async with serve(Options(port=0), [feature]) as server, await Raw.open(server) as raw:
        assert isinstance(await raw.hello(), Welcome)
        raw.send(Publish(1, b"\x80"))
        await until(lambda: feature.published == 1)
        fail(server, feature)
        assert server.failed is not None
        await until(server.failed.done)
        assert isinstance(server.failed.exception(), FeatureError)
        raw.send(Publish(2, b"\x80"))
        await raw.drain()
        await asyncio.sleep(0.2)
        assert feature.published == 1


@pytest.mark.parametrize("fail", [in_a_timer, in_a_message], ids=lambda fail: fail.__name__)
@running
async def test_a_server_goes_on_where_the_feature_is_not_needed(fail: Callable[[Server, Failing], None]) -> None:
    feature = Failing(fail_stop=False)
    async with serve(Options(port=0), [feature]) as server:
        async with tidings.connect(f"tidings://127.0.0.1:{server.port}") as client:
            fail(server, feature)
            await until(lambda: server.host.broker.failures.by_feature == {"failing": 1})
            await (await client.publish(n=1))
            assert server.failed is not None
            assert not server.failed.done()
            assert feature.published == 1
