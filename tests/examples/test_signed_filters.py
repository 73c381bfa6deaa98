"""The example of signed filters: grants that nobody can forge, change, borrow or use for ever."""

from __future__ import annotations

import importlib
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from net.world import brokers, running, take, url

import tidings
from tidings.model import TidingsError
from tidings.net import AccessDenied, AccessEntry
from tidings.scopes import NotAllowed

KEY, OTHER_KEY = secrets.token_bytes(32), secrets.token_bytes(32)
OPERATOR = "operator-token-1234567"
EXAMPLE = Path(__file__).parents[2] / "examples" / "signed_filters"


def later(seconds: float = 3_600) -> float:
    return time.time() + seconds


@pytest.fixture
def example() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLE))
    try:
        yield importlib.import_module("signed_filters")
    finally:
        sys.path.remove(str(EXAMPLE))


def options(example: ModuleType) -> dict[str, Any]:
    access = example.SignedAccess(tokens={OPERATOR: AccessEntry("operator", administer=True)}, key=KEY)
    return {"access": access, "admission": example.SignedMembership(KEY)}


@pytest.mark.req("ARC-217")
def test_a_grant_bounds_what_is_published_subscribed_and_advertised(example: ModuleType) -> None:
    grant = example.ClientGrant("sensor", later(), publish="celsius < 100", subscribe="type = 'command'")
    token = example.sign(KEY, grant)

    @running
    async def run() -> None:
        async with (
            brokers("a", **options(example)) as servers,
            tidings.connect(url(servers["a"]), name="sensor", token=token) as sensor,
        ):
            await (await sensor.publish(celsius=21))
            await sensor.advertise("celsius < 50")
            await sensor.subscribe("type = 'command' AND urgent = TRUE")
            with pytest.raises(TidingsError, match="may only publish"):
                await (await sensor.publish(celsius=121))
            with pytest.raises(TidingsError, match="may only advertise"):
                await sensor.advertise("celsius < 150")
            with pytest.raises(TidingsError, match="may only subscribe"):
                await sensor.subscribe("TRUE")
            with pytest.raises(NotAllowed):
                await sensor.admin.create_scope("mine")

    run()


@pytest.mark.req("ARC-217")
def test_a_subscription_cannot_grow_beyond_its_grant_and_what_is_refused_has_no_effect(example: ModuleType) -> None:
    token = example.sign(KEY, example.ClientGrant("sensor", later(), publish="celsius < 100", subscribe="n < 10"))

    @running
    async def run() -> None:
        async with (
            brokers("a", **options(example)) as servers,
            tidings.connect(url(servers["a"]), name="operator", token=OPERATOR) as operator,
            tidings.connect(url(servers["a"]), name="sensor", token=token) as sensor,
        ):
            mine = await sensor.subscribe("n < 5")
            mine.update("n < 20")
            with pytest.raises(TidingsError, match="may only subscribe"):
                await mine
            allowed = await sensor.subscribe("n < 5")
            with pytest.raises(TidingsError, match="may only subscribe"):
                await sensor.subscribe("n < 20")
            everything = await operator.subscribe("TRUE")
            for n in (15, 4):
                await (await operator.publish(n=n))
            assert await take(allowed, 1) == [tidings.Notification(n=4)]
            with pytest.raises(TidingsError, match="may only publish"):
                await (await sensor.publish(celsius=121))
            await (await sensor.publish(celsius=21))
            assert [dict(one) for one in await take(everything, 3)] == [{"n": 15}, {"n": 4}, {"celsius": 21}]
            status = await operator.status()
            assert status.scopes.tables[0].subscriptions == 2  # those of the operator, and what was allowed

    run()


def _another_key(example: ModuleType, grant: Any) -> str:
    return str(example.sign(OTHER_KEY, grant))


def _changed(example: ModuleType, grant: Any) -> str:
    wider = example.sign(OTHER_KEY, example.ClientGrant("sensor", later(), publish="TRUE"))
    return f"{wider.partition('.')[0]}.{example.sign(KEY, grant).partition('.')[2]}"


def _old(example: ModuleType, grant: Any) -> str:
    return str(example.sign(KEY, example.ClientGrant("sensor", later(-1), publish="TRUE")))


def _for_a_membership(example: ModuleType, grant: Any) -> str:
    return str(example.sign(KEY, example.MemberGrant("@sensor", "building", later())))


@pytest.mark.req("ARC-217")
@pytest.mark.parametrize("forge", [_another_key, _changed, _old, _for_a_membership])
def test_what_is_no_valid_grant_lets_nobody_in(example: ModuleType, forge: Callable[[ModuleType, Any], str]) -> None:
    access = options(example)["access"]
    good = example.ClientGrant("sensor", later(), publish="celsius < 100")
    assert access.identify(example.sign(KEY, good), None).name == "sensor"
    for token in (forge(example, good), "x.y", ".", "", None):
        with pytest.raises(AccessDenied):
            access.identify(token, None)
    assert access.identify(OPERATOR, None).administer


@pytest.mark.req("ARC-217")
def test_a_membership_needs_a_grant_and_gets_the_interface_in_it(example: ModuleType) -> None:
    token = example.sign(KEY, example.ClientGrant("sensor", later(), publish="TRUE"))

    @running
    async def run() -> None:
        async with (
            brokers("a", **options(example)) as servers,
            tidings.connect(url(servers["a"]), name="operator", token=OPERATOR) as operator,
            tidings.connect(url(servers["a"]), name="sensor", token=token) as sensor,
        ):
            admin = operator.admin
            await admin.create_scope("building")
            mine = example.sign(KEY, example.MemberGrant("@operator", "building", later(), input="TRUE"))
            await admin.join("@operator", "building", credentials=[mine])
            for wrong in ((), (mine,), (example.sign(OTHER_KEY, example.MemberGrant("@sensor", "building", later())),)):
                with pytest.raises(NotAllowed, match="valid grant for @sensor in building"):
                    await admin.join("@sensor", "building", credentials=wrong)
            grant = example.MemberGrant("@sensor", "building", later(), output="celsius < 50")
            changed = await admin.join("@sensor", "building", credentials=[example.sign(KEY, grant)])
            assert changed.granted  # less than was asked for
            heard = await operator.subscribe("TRUE")
            for celsius in (70, 20):
                await (await sensor.publish(celsius=celsius))
            assert await take(heard, 1) == [tidings.Notification(celsius=20)]

    run()


def test_no_grant_is_issued_that_a_broker_could_not_read_or_anybody_could_guess(example: ModuleType) -> None:
    with pytest.raises(TidingsError):
        example.sign(KEY, example.ClientGrant("sensor", later(), publish="celsius <"))
    with pytest.raises(ValueError, match="can be guessed"):
        example.sign(b"short", example.ClientGrant("sensor", later()))
