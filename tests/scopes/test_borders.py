"""Borders that are guarded: gateways sign what leaves a scope, and let in what another gateway has signed.

Two domains, `vault` and `office`, are members of `city`. Broker b is the gateway of the vault, d that of the office,
and c between them carries only the city: it stands for brokers that nobody trusts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from scopes.network_world import Watched

from tidings.aggregation.deploying import keys_of
from tidings.broker import Link
from tidings.model import Route
from tidings.scopes import (
    BORDER_CHECK,
    BORDER_SIGN,
    OPEN,
    AnyChange,
    BorderKey,
    CreateScope,
    Graph,
    Join,
    Leave,
    Placement,
    SetAttributes,
    SetPlacement,
    apply,
    edge_mapping,
    mapping,
    secret_key,
)
from tidings.scopes.steps import Rename
from tidings.wire import Envelope, Frame, Gap, Notify, encode_body

OLD, NEW = secret_key(b"o" * 32), secret_key(b"n" * 32)
PLACES = {"alice": "a", "spy": "c", "bob": "e"}


def guarded(scope: str, **keys: str) -> SetAttributes:
    return SetAttributes(scope, {f"border-{word}": name for word, name in keys.items()})


def domains(
    *,
    sign: str | None = OLD,
    check: Iterable[str] = (OLD,),
    vault: dict[str, Any] | None = None,
    office: dict[str, Any] | None = None,
    valid: float = 300,
    scopes: Iterable[str] = ("vault",),
) -> Watched:
    world = Watched("abcde", ["ab", "bc", "cd", "de"], PLACES, seed=3)
    crossed = {"placement": Placement.GATEWAY}
    answer = world.change(
        CreateScope("city", OPEN),
        *(CreateScope(scope, OPEN) for scope in ("vault", "office")),
        Join("vault", "city", gateway="b", **crossed, **(vault or {})),  # type: ignore[arg-type]
        Join("office", "city", gateway="d", **crossed, **(office or {})),  # type: ignore[arg-type]
        guarded("vault", sign="seal"),
        guarded("office", check="seal"),
        *(Join(f"@{client}", scope) for client, scope in (("alice", "vault"), ("spy", "city"), ("bob", "office"))),
    )
    assert not answer.error, answer.reason
    brokers = world.network.brokers
    if sign is not None:
        brokers["b"].borders.keys = {"seal": BorderKey("seal", ["vault"], sign=sign)}
    brokers["d"].borders.keys = {"seal": BorderKey("seal", scopes, check=check, valid=valid)}
    world.subscribe("spy", "bob")
    return world


def refusals(world: Watched) -> dict[str, int]:
    found: dict[str, int] = {}
    for broker in world.network.brokers.values():
        for reason, count in broker.statistics.border_refusals.items():
            found[reason] = found.get(reason, 0) + count
    return found


def altered(world: Watched, change: Callable[[Envelope, Route], tuple[Envelope, Route]]) -> None:
    """From now on, broker c changes what it passes on to d."""
    network = world.network

    def tamper(link: Link, frame: Frame) -> Frame:
        message = frame.message
        if link.name != "d" or not isinstance(message, Notify):
            return frame
        envelope, routes = message.envelope, []
        for route in message.envelope.routes:
            envelope, changed = change(message.envelope, route)
            routes.append(changed)
        made = Envelope(envelope.identity, tuple(routes), envelope.body, envelope.quality)
        return Frame(Notify(made), frame.hop)

    broker = network.brokers["c"]
    runtime = broker.runtime
    honest = runtime.send
    runtime.send = lambda link, frame: honest(link, tamper(link, frame))  # type: ignore[method-assign]
    runtime.send_all = lambda links, frame: [runtime.send(link, frame) for link in links]  # type: ignore[method-assign]


@pytest.mark.req("ARC-154")
def test_what_a_gateway_has_signed_comes_in_and_nothing_else_does() -> None:
    world = domains()
    world.publish("alice", n=1)
    assert [one["n"] for one in world.got("bob")] == [1]
    assert [one["n"] for one in world.got("spy")] == [1]
    world.publish("spy", n=2)
    assert world.got("bob") == []
    assert refusals(world) == {"missing": 1}


@pytest.mark.req("ARC-154")
def test_a_pair_of_keys_signs_and_checks() -> None:
    pair = keys_of(b"p" * 32)
    world = domains(sign=pair.private, check=[pair.public])
    world.publish("alice", n=1)
    assert [one["n"] for one in world.got("bob")] == [1]
    world = domains(sign=keys_of(b"q" * 32).private, check=[pair.public])
    world.publish("alice", n=1)
    assert world.got("bob") == []
    assert refusals(world) == {"wrong": 1}


@pytest.mark.req("ARC-154")
def test_a_key_is_replaced_while_everything_runs() -> None:
    """First those who check learn the next key, then those who sign use it, then the old one goes."""
    world = domains()
    gateways = world.network.brokers["b"].borders, world.network.brokers["d"].borders
    steps = [(OLD, (OLD,)), (OLD, (OLD, NEW)), (NEW, (OLD, NEW)), (NEW, (NEW,))]
    for number, (sign, check) in enumerate(steps):
        gateways[0].keys = {"seal": BorderKey("seal", ["vault"], sign=sign)}
        gateways[1].keys = {"seal": BorderKey("seal", ["vault"], check=check)}
        world.publish("alice", n=number)
    assert [one["n"] for one in world.got("bob")] == [0, 1, 2, 3]
    gateways[0].keys = {"seal": BorderKey("seal", ["vault"], sign=OLD)}
    world.publish("alice", n=4)
    assert world.got("bob") == []
    assert refusals(world) == {"wrong": 1}


def message(caplog: pytest.LogCaptureFixture) -> str:
    (record,) = [one for one in caplog.records if one.name == "tidings.broker"]
    return record.getMessage()


@pytest.mark.req("ARC-154")
def test_refusals_are_logged_once_with_what_was_wrong(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tidings.broker")
    world = domains()
    epoch = world.network.brokers["c"].epoch
    for _ in range(3):
        world.publish("spy", n=2)
    assert message(caplog) == (
        f"border: c:{epoch}:1 of 'spy' was not let from 'city' into 'office': it has no signature with key 'seal'; "
        "let the scope that it comes from sign with that key"
    )
    assert refusals(world) == {"missing": 3}


@pytest.mark.req("ARC-154")
def test_a_seal_holds_for_its_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tidings.broker")
    world = domains(valid=10)
    epoch = world.network.brokers["a"].epoch

    def aged(envelope: Envelope, route: Route) -> tuple[Envelope, Route]:
        (seal,) = [tag for tag in route.tags if tag.startswith("seal:")]
        word, name, made_at, *rest = seal.split(":")
        later = ":".join((word, name, f"{int(made_at, 16) + 25_000_000:x}", *rest))
        return envelope, msgspec.structs.replace(route, tags=(later,))

    world.network.brokers["b"].runtime.skew = -30_000_000  # type: ignore[attr-defined]
    world.publish("alice", n=1)
    assert world.got("bob") == []
    assert refusals(world) == {"expired": 1}
    assert message(caplog) == (
        f"border: a:{epoch}:1 of 'alice' was not let from 'city' into 'office': its signature with key 'seal' is "
        "30.0 s old, and holds for 10 s; compare the clocks of both brokers"
    )
    altered(world, aged)  # another time is not what was signed
    caplog.clear()
    world.publish("alice", n=2)
    assert world.got("bob") == []
    assert refusals(world) == {"expired": 1, "wrong": 1}
    assert message(caplog) == (
        f"border: a:{epoch}:2 of 'alice' was not let from 'city' into 'office': its signature with key 'seal' does not "
        "match its content; a key is wrong, or a broker has changed it"
    )


def test_a_clock_that_is_ahead_is_no_way_to_make_seals_that_last() -> None:
    world = domains(valid=10)
    world.network.brokers["b"].runtime.skew = 30_000_000  # type: ignore[attr-defined]
    world.publish("alice", n=1)
    assert world.got("bob") == []
    assert refusals(world) == {"of the future": 1}


def content(envelope: Envelope, route: Route) -> tuple[Envelope, Route]:
    return Envelope(envelope.identity, (route,), encode_body({"n": 99}), envelope.quality), route


def publisher(envelope: Envelope, route: Route) -> tuple[Envelope, Route]:
    identity = msgspec.structs.replace(envelope.identity, publisher="boss")
    return Envelope(identity, (route,), envelope.body, envelope.quality), route


def number(envelope: Envelope, route: Route) -> tuple[Envelope, Route]:
    identity = msgspec.structs.replace(envelope.identity, seq=envelope.identity.seq + 7)
    return Envelope(identity, (route,), envelope.body, envelope.quality), route


def sessions(envelope: Envelope, route: Route) -> tuple[Envelope, Route]:
    return envelope, msgspec.structs.replace(route, tags=(*route.tags, "in:0123"))


def version(envelope: Envelope, route: Route) -> tuple[Envelope, Route]:
    return envelope, msgspec.structs.replace(route, version=77)


def way(envelope: Envelope, route: Route) -> tuple[Envelope, Route]:
    return envelope, msgspec.structs.replace(route, path=("vault", "town"))


def unreadable(envelope: Envelope, route: Route) -> tuple[Envelope, Route]:
    return envelope, msgspec.structs.replace(route, tags=("seal:seal:nonsense",))


def over(scopes: str) -> Callable[[Envelope, Route], tuple[Envelope, Route]]:
    """Another number of scopes that the copy had come through."""

    def changed(envelope: Envelope, route: Route) -> tuple[Envelope, Route]:
        (seal,) = [tag for tag in route.tags if tag.startswith("seal:")]
        word, name, made_at, _, signature = seal.split(":")
        return envelope, msgspec.structs.replace(route, tags=(":".join((word, name, made_at, scopes, signature)),))

    return changed


@pytest.mark.req("ARC-154")
@pytest.mark.parametrize(
    "change", [content, publisher, number, sessions, version, way, unreadable, over("0"), over("1"), over("ffff")]
)
def test_whoever_changes_a_copy_on_its_way_breaks_its_seal(change: Any) -> None:
    world = domains()
    altered(world, change)
    world.publish("alice", n=1)
    assert world.got("bob") == []
    assert refusals(world) == {"wrong": 1}


@pytest.mark.req("ARC-154")
def test_a_seal_is_good_for_no_other_scope() -> None:
    """A broker between them says that what has this seal came from another scope, for which the key vouches, too."""
    world = domains(scopes=["vault", "safe"])

    def of_another(envelope: Envelope, route: Route) -> tuple[Envelope, Route]:
        return envelope, msgspec.structs.replace(route, path=("safe", "city"), source="safe")

    altered(world, of_another)
    world.publish("alice", n=1)
    assert world.got("bob") == []
    assert refusals(world) == {"wrong": 1}


@pytest.mark.req("ARC-154")
def test_a_key_vouches_only_for_the_scopes_that_the_operator_named() -> None:
    world = domains(scopes=["safe"])
    world.publish("alice", n=1)
    assert world.got("bob") == []
    assert refusals(world) == {"of another scope": 1}
    world = domains()
    world.network.brokers["b"].borders.keys = {"seal": BorderKey("seal", ["safe"], sign=OLD)}
    world.publish("alice", n=1)
    assert world.getters() == set()  # an administrator of the vault cannot have it signed by a key for the safe
    assert refusals(world) == {"no key to sign": 1}


def test_a_gateway_without_the_key_lets_nothing_out_and_nothing_in(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tidings.broker")
    world = domains(sign=None)
    epoch = world.network.brokers["a"].epoch
    world.publish("alice", n=1)
    assert world.getters() == set()
    assert message(caplog) == (
        f"border: a:{epoch}:1 of 'alice' was not let out of 'vault': broker 'b' has no key 'seal' to sign for 'vault'; "
        "add it as [[border_key]], with sign_file"
    )
    world = domains()
    world.network.brokers["d"].borders.keys = {}
    world.publish("alice", n=1)
    assert world.getters() == {"spy"}
    assert refusals(world) == {"no key to check": 1}


def test_mappings_of_both_borders_apply_outside_of_what_is_signed() -> None:
    """The vault's own comes before its seal, the office's own after the check."""
    world = domains(
        vault={"mapping": edge_mapping(mapping(Rename("n", "number")))},
        office={"mapping": edge_mapping(None, mapping(Rename("number", "count")))},
    )
    world.publish("alice", n=1)
    assert [dict(one) for one in world.got("spy")] == [{"number": 1}]
    assert [dict(one) for one in world.got("bob")] == [{"count": 1}]
    assert not refusals(world)


def test_clients_see_nothing_of_seals() -> None:
    world = domains()
    world.publish("alice", n=1)
    tags = [tag for _, _, given in world.handed for route in given.envelope.routes for tag in route.tags]
    assert not [tag for tag in tags if tag.startswith("seal")]


def test_what_comes_late_is_told_instead_of_shown() -> None:
    """A link is cut: what bob's broker fetches from the origin has no seal, so bob is told that it is missing."""
    world = domains()
    network = world.network
    gaps: list[Gap] = []
    tap = network.tap

    def watch(broker: str, link: Link, frame: Frame) -> None:
        tap(broker, link, frame)
        if isinstance(frame.message, Gap) and link.name == "bob":
            gaps.append(frame.message)

    network.tap = watch
    world.publish("alice", n=1)
    network.cut("d", "e")
    network.run(1)
    world.client("alice").publish(n=2)
    network.run(1)
    network.heal("d", "e")
    network.run()
    world.publish("alice", n=3)
    assert [one["n"] for one in world.got("bob")] == [1, 3]
    assert (2, 2) in [(gap.first, gap.last) for gap in gaps]
    assert refusals(world)["late"] >= 1


def test_a_border_that_is_not_crossed_at_one_broker_cannot_be_guarded() -> None:
    graph = apply(Graph(), (CreateScope("city", OPEN), CreateScope("vault", OPEN)))
    plain = (Join("vault", "city"), guarded("vault", sign="seal"))
    expected = (
        "scope 'vault' guards its border, but what passes between it and 'city' crosses at no designated broker; set "
        'placement="gateway" and the gateway that has its key'
    )
    fine = apply(graph, (Join("vault", "city", placement=Placement.GATEWAY, gateway="b"), plain[1]))
    for before, changes in (
        (graph, plain),
        (graph, plain[::-1]),
        (apply(graph, plain[:1]), plain[1:]),
        (fine, (SetPlacement("vault", "city", Placement.ONCE),)),
    ):
        with pytest.raises(Exception, match="guards its border") as raised:
            apply(before, changes)
        assert str(raised.value) == expected
    apply(fine, (SetAttributes("vault", {BORDER_SIGN: None}), SetPlacement("vault", "city", Placement.ONCE)))
    apply(fine, (Leave("vault", "city"),))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            guarded("vault", sign="a b"),
            "border-sign='a b' of scope 'vault' cannot name a key; use up to 64 letters, digits, '.', '_' and '-'",
        ),
        (
            SetAttributes("vault", {BORDER_CHECK: 7}),
            "border-check=7 of scope 'vault' cannot name a key; use up to 64 letters, digits, '.', '_' and '-'",
        ),
        (
            guarded("", check="seal"),
            "the root scope has no border, so it cannot have border-check; guard a scope in it",
        ),
    ],
)
def test_what_names_no_key_is_refused(change: AnyChange, expected: str) -> None:
    graph = apply(Graph(), (CreateScope("vault", OPEN),))
    with pytest.raises(Exception, match="border") as raised:
        apply(graph, (change,))
    assert str(raised.value) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": "a:b"}, "'a:b' cannot name a key; use up to 64 letters, digits, '.', '_' and '-'"),
        ({"scopes": []}, "the key 'seal' vouches for no scope; name those that may sign with it"),
        ({"sign": None}, "the key 'seal' neither signs nor checks; give it sign_file, check_files or both"),
        ({"check": [OLD] * 3}, "the key 'seal' has 3 keys that check; give it the one in use and the next one"),
        (
            {"sign": "hunter2"},
            "the key 'seal' is no key: a line that begins with tidings-secret:, tidings-private: or tidings-public:, "
            "and 32 bytes in base64; make one with `tidings scope keygen`",
        ),
        (
            {"sign": keys_of(b"p" * 32).public},
            "the key 'seal' cannot sign with a public key; use the private one of the pair",
        ),
        (
            {"check": [keys_of(b"p" * 32).private]},
            "the key 'seal' should not check with a private key; use the public one of the pair",
        ),
    ],
)
def test_a_key_that_cannot_be_is_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(Exception, match="key") as raised:
        BorderKey(**{"name": "seal", "scopes": ["vault"], "sign": OLD, **given})
    assert str(raised.value) == expected
