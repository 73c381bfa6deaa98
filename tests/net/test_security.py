"""Who gets in, over real TLS, and what each may do."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from pathlib import Path

import pytest
from net.certificates import Authority
from net.world import connected, options, running, take, until, url

import tidings
from tidings.broker import LinkKind
from tidings.client import NotAdmitted
from tidings.mobility import Hosts
from tidings.model import Filter
from tidings.net import Access, AccessEntry, Options, Server, StartError, TlsOptions, check, serve
from tidings.wire import Hello, PeerRole

SECRET = "correct-horse-battery-staple"  # a token, not a password of anybody
QUOTES = AccessEntry("feed", Filter.parse("type = 'quote'"), Filter.parse("type = 'quote' AND price > 10"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> TlsOptions:
    return authority.sign("broker")


def secure(server: Server) -> str:
    return f"tidings+tls://localhost:{server.port}"


@running
async def test_a_client_that_trusts_the_ca_gets_in(authority: Authority, certificate: TlsOptions) -> None:
    async with (
        serve(options("b", tls=certificate)) as server,
        tidings.connect(secure(server), tls=authority.trust()) as client,
    ):
        subscription = await client.subscribe("TRUE")
        await client.publish(n=1)
        assert (await take(subscription, 1))[0]["n"] == 1


@running
async def test_a_broker_of_another_ca_is_not_trusted(tmp_path: Path, certificate: TlsOptions) -> None:
    stranger = Authority(tmp_path, "stranger")
    async with serve(options("b", tls=certificate)) as server:
        for context in (stranger.trust(), None):
            with pytest.raises(NotAdmitted, match="certificate of the broker is not trusted"):
                await tidings.connect(secure(server), tls=context).__aenter__()


@running
async def test_a_plain_client_at_a_tls_port_hears_what_to_do(certificate: TlsOptions) -> None:
    async with serve(options("b", tls=certificate)) as server:
        with pytest.raises(tidings.ConnectionFailed, match=r"tidings\+tls://"):
            await tidings.connect(url(server)).__aenter__()


@running
async def test_a_certificate_says_who_a_client_is(authority: Authority, certificate: TlsOptions) -> None:
    access = Access(certificates={"feed": QUOTES})
    async with serve(options("b", tls=certificate, access=access)) as server:
        async with tidings.connect(secure(server), tls=authority.trust(authority.sign("feed"))) as client:
            with pytest.raises(tidings.TidingsError, match="'feed' may only publish"):
                await (await client.publish(type="order"))
        for shown in (authority.sign("somebody"), None):
            with pytest.raises(NotAdmitted, match=r"not known here|neither a token"):
                await tidings.connect(secure(server), tls=authority.trust(shown)).__aenter__()


@running
async def test_a_certificate_of_another_ca_says_nothing(
    authority: Authority, certificate: TlsOptions, tmp_path: Path
) -> None:
    access = Access(certificates={"feed": QUOTES})
    forged = dataclasses.replace(Authority(tmp_path, "forger").sign("feed"), ca=authority.file)
    async with serve(options("b", tls=certificate, access=access)) as server:
        with pytest.raises(tidings.ConnectionFailed):
            await tidings.connect(secure(server), tls=authority.trust(forged)).__aenter__()


@running
async def test_brokers_show_each_other_their_certificates(authority: Authority) -> None:
    access = Access(
        certificates={name: AccessEntry(name, broker=True) for name in ("a", "b")} | {"c": AccessEntry("c")}
    )
    async with (
        serve(options("a", tls=authority.sign("a"), access=access)) as first,
        serve(options("b", tls=authority.sign("b"), access=access, neighbours=(secure(first),))) as second,
    ):
        await until(lambda: connected([first, second]))
        # c is known, and is no broker
        async with serve(options("c", tls=authority.sign("c"), access=access, neighbours=(secure(first),))) as third:
            await until(lambda: third.diallers[0].problem)
            assert "may not connect as a broker" in str(third.diallers[0].problem)
        assert connected([first, second])


@pytest.mark.req("MOB-001")
@running
async def test_brokers_form_any_graph_each_under_its_own_name_and_known_to_the_others(authority: Authority) -> None:
    """A ring; what brokers say to one another of a client that roams goes over its links."""
    entries = {name: AccessEntry(name, broker=True) for name in "abc"}
    access = Access(certificates={**entries, "phone": AccessEntry("phone")})

    def ring(name: str, *to: Server, signed: str = "") -> Server:
        tls = authority.sign(signed or name)
        return serve(options(name, tls=tls, access=access, neighbours=tuple(map(secure, to))))

    def others(server: Server) -> set[str]:
        return set("abc") - {server.host.broker.name}

    async with ring("a") as a, ring("b", a) as b, ring("c", a, b) as c:
        servers = [a, b, c]
        await until(lambda: all(one.host.peer_of(to, LinkKind.BROKER) for one in servers for to in others(one)))
        await until(lambda: connected(servers))
        trust = authority.trust(authority.sign("phone"))
        async with tidings.connect(secure(a), name="phone", tls=trust) as phone:
            await phone.move(secure(b))
            await until(lambda: [len(one.host.broker.clients) for one in servers] == [0, 1, 0])
            hosts = a.host.broker.features["hosts"]
            assert isinstance(hosts, Hosts)
            assert hosts.taken_over == 1, "it was told, by a message"
        async with ring("a", b, signed="phone") as other:  # the name of a broker, and no certificate of one
            await until(lambda: other.diallers[0].problem)
            assert "may not connect as a broker" in str(other.diallers[0].problem)
        async with ring("a", b, signed="c") as other:  # the name of a broker, and the certificate of another one
            await until(lambda: other.diallers[0].problem)
            assert "'a' does not belong to 'c'" in str(other.diallers[0].problem)
        assert connected(servers)


@running
async def test_a_broker_does_not_dial_a_stranger(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger").sign("a")
    async with serve(options("a", tls=stranger)) as first:
        for tls in (authority.sign("b"), None):  # without [tls], too: never in the clear
            async with serve(options("b", tls=tls, neighbours=(secure(first),))) as second:
                await until(lambda second=second: second.diallers[0].problem)
                assert "certificate of the broker is not trusted" in str(second.diallers[0].problem)


@running
async def test_brokers_may_use_tokens(authority: Authority) -> None:
    access = Access({SECRET: AccessEntry("neighbour", broker=True, names=("b",))})
    async with (
        serve(options("a", access=access)) as first,
        serve(options("b", neighbours=(url(first),), neighbour_token=SECRET)) as second,
    ):
        await until(lambda: connected([first, second]))


@running
async def test_a_wrong_token_gets_a_slow_clear_answer() -> None:
    async with serve(options("b", access=Access({SECRET: QUOTES}))) as server:
        for token, told in (
            ("guess", "this token is not known here"),
            (None, "showed neither a token nor a certificate"),
        ):
            start = time.monotonic()
            with pytest.raises(NotAdmitted, match=told) as caught:
                await tidings.connect(url(server), token=token).__aenter__()
            assert time.monotonic() - start > 0.9
            assert "ask the administrator" in str(caught.value)
            assert "Is the server running" not in str(caught.value)


@running
async def test_filters_decide_what_each_may_do() -> None:
    access = Access({SECRET: QUOTES, "all": AccessEntry("all")})
    async with (
        serve(options("b", access=access)) as server,
        tidings.connect(url(server), token=SECRET) as feed,
        tidings.connect(url(server), token="all") as everybody,
    ):
        heard = await everybody.subscribe("TRUE")
        with pytest.raises(tidings.TidingsError, match="may only publish notifications that pass type = 'quote'"):
            await (await feed.publish(type="order", price=1))
        with pytest.raises(tidings.TidingsError, match="may only advertise"):
            await feed.advertise("type = 'order'")
        await feed.advertise("type = 'quote' AND price > 5")
        for refused in ("TRUE", "type = 'quote'", "price > 10"):
            with pytest.raises(tidings.TidingsError, match="may only subscribe"):
                await feed.subscribe(refused)
        subscription = await feed.subscribe("type = 'quote' AND price > 20")
        with pytest.raises(tidings.TidingsError, match="may only subscribe"):
            await _updated(subscription, "TRUE")
        await (await feed.publish(type="quote", price=30))
        assert [notification["price"] for notification in await take(heard, 1)] == [30]  # the order never entered


async def _updated(subscription: tidings.Subscription, filter: str) -> None:
    subscription.update(filter)
    await subscription


@running
async def test_secrets_appear_in_no_log_and_no_repr(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    access = Access({SECRET: QUOTES, SECRET + "-broker": AccessEntry("b", broker=True)})
    shown = []
    async with (
        serve(options("a", access=access, data=tmp_path)) as first,
        serve(options("b", neighbours=(url(first),), neighbour_token=SECRET + "-broker")) as second,
        serve(options("c", neighbours=(url(first),), neighbour_token=SECRET + "-wrong")) as third,
    ):
        await until(lambda: connected([first, second]))
        await until(lambda: third.diallers[0].problem)
        async with tidings.connect(url(first), token=SECRET) as client:
            await (await client.publish(type="quote"))
            shown += [repr(client), repr(client.statistics()), str(vars(third.diallers[0])["problem"])]
        with pytest.raises(NotAdmitted) as caught:
            await tidings.connect(url(first), token=SECRET + "x").__aenter__()
        shown += [repr(caught.value), repr(first.options), repr(second.options), repr(access), repr(first)]
    shown.append(repr(Hello((1,), PeerRole.CLIENT, "x", token=SECRET, session="session-" + SECRET)))
    assert "denied client" in caplog.text
    assert SECRET not in caplog.text
    assert not [text for text in shown if SECRET in text]


def test_listening_beyond_this_machine_needs_tls_and_authentication(certificate: TlsOptions) -> None:
    known = Access({SECRET: QUOTES})
    for refused, missing in (
        (Options(host="0.0.0.0"), "TLS and authentication"),
        (Options(host="0.0.0.0", access=known), "TLS"),
        (Options(host="192.0.2.1", tls=certificate), "authentication"),
    ):
        with pytest.raises(StartError, match=f"without {missing} would let anyone in"):
            check(refused)
    for allowed in (
        Options(host="0.0.0.0", tls=certificate, access=known),
        Options(host="0.0.0.0", insecure=True),
        Options(host="localhost"),
        Options(host="::1"),
        Options(host="127.0.0.2"),
    ):
        check(allowed)


@running
async def test_files_that_are_no_certificates_are_told(certificate: TlsOptions, tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    for tls in (
        TlsOptions(rubbish, certificate.key),
        TlsOptions(certificate.certificate, tmp_path / "missing.key"),
        TlsOptions(certificate.certificate, certificate.key, rubbish),
    ):
        with pytest.raises(StartError, match="cannot use"):
            await Server(options("b", tls=tls, data=tmp_path / "data")).start()
    assert not (tmp_path / "data").exists()
    await asyncio.sleep(0)
