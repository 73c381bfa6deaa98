"""Names and reasons from elsewhere in the log of an application that embeds a broker or a client: they forge no line.

The application writes its log as it likes, here with Python's plain formatter.
"""

from __future__ import annotations

import importlib
import io
import logging
import pkgutil
from collections.abc import Iterator

import pytest
from net.world import Raw, brokers, options, running, until, url

import tidings
from tidings.model import is_guarded, printable
from tidings.net import Access, AccessEntry, serve
from tidings.wire import Publish, Refused, Reject, Welcome

EVIL = "eve\nERROR broker bob has failed\r\x1b[2J\x9b31m\u2028"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What an application writes of the log of this library."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log = logging.getLogger("tidings")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield text
    log.removeHandler(handler)
    log.setLevel(before)


def is_harmless(text: str) -> bool:
    """Whether every line of the text can be printed, and is a record or a part of a traceback."""
    lines = text.removesuffix("\n").split("\n")
    known = ("DEBUG ", "INFO ", "WARNING ", "ERROR ", "    ")
    return all(line.isprintable() and line.startswith(known) for line in lines) and "\nERROR broker bob" not in text


def test_the_log_of_every_package_is_guarded() -> None:
    for module in pkgutil.walk_packages(tidings.__path__, "tidings."):
        if not module.name.startswith(("tidings.spark", "tidings.__main__")):
            importlib.import_module(module.name)
    names = [name for name in logging.root.manager.loggerDict if name.startswith("tidings.")]
    loggers = [one for one in map(logging.getLogger, names) if "." in one.name]
    assert {"tidings.net", "tidings.client", "tidings.scopes"} <= set(names)
    assert all(is_guarded(logger) for logger in loggers), names


@running
async def test_an_embedded_broker_logs_the_names_of_clients_harmlessly(written: io.StringIO) -> None:
    async with brokers("b") as servers:
        async with await Raw.open(servers["b"]) as raw:
            assert isinstance(await raw.hello(EVIL), Welcome)
        await until(lambda: " connected" in written.getvalue())
    access = Access(tokens={"a-token-of-alice-1234": AccessEntry("alice")})
    async with serve(options("c", access=access)) as server, await Raw.open(server) as raw:
        assert isinstance(await raw.hello(EVIL, token=EVIL), Reject)
    assert printable(EVIL) in written.getvalue()
    assert is_harmless(written.getvalue())


@running
async def test_an_embedded_broker_logs_what_fails_in_lines_that_look_like_no_record(
    written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        broker = servers["b"].host.broker

        def fail(link: object, message: object) -> None:
            raise ValueError(EVIL)

        await raw.hello(EVIL)
        monkeypatch.setitem(broker._client_handlers, Publish, fail)
        raw.send(Publish(1, b""))
        await until(lambda: "Traceback" in written.getvalue())
    assert "cannot handle a message" in written.getvalue()
    assert is_harmless(written.getvalue())


@running
async def test_a_client_logs_what_a_broker_says_harmlessly(written: io.StringIO) -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"]), name="reader"):
        broker = servers["b"].host.broker
        broker.send(broker.client("reader"), Refused("TidingsError", EVIL, "nothing"))
        await until(lambda: "refused: " in written.getvalue())
    assert printable(EVIL) in written.getvalue()
    assert is_harmless(written.getvalue())
