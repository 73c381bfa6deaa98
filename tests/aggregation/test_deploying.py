"""Code is taken only from those who are trusted, for what they may sign, and as it was signed."""

from __future__ import annotations

import builtins
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.aggregation.deploying import (
    Act,
    Manifest,
    Signed,
    Signer,
    Stage,
    Tier,
    digest_of,
    joined,
    keygen,
    signed,
    standing,
    verify,
)
from tidings.aggregation.workers import entry_of
from tidings.cli._aggregate_files import checked, new_keys
from tidings.cli._errors import UsageError
from tidings.model import DeploymentRefused, LawBroken

SOURCE = "from tidings.aggregation.definitions import Aggregate\nclass Reach(Aggregate):\n    name = 'acme.reach'\n"
KEYS, OTHER = keygen(), keygen()
NOW = 1_000.0


def manifest(**changed: Any) -> Manifest:
    words: dict[str, Any] = {
        "network": "net",
        "name": "acme.reach",
        "version": "1.0.0",
        "digest": digest_of(SOURCE, "Reach"),
        "entry": "Reach",
        "valid_until": 2_000,
        "window": (1_000, 1_000),
    }
    return Manifest(**{**words, **changed})


SIGNERS = {"acme": Signer("acme", (OTHER.public, KEYS.public))}


def test_what_a_trusted_signer_vouches_for_is_taken_with_either_of_its_keys() -> None:
    for keys in (KEYS, OTHER):
        verify(signed(manifest(), keys.private, "acme", SOURCE), SIGNERS, network="net", now=NOW)
    verify(signed(manifest(act=Act.REMOVE), KEYS.private, "acme"), SIGNERS, network="net", now=NOW)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"network": "elsewhere"}, "signed for the network 'elsewhere', this is 'net'"),
        ({"valid_until": 999}, "the signature ended 1 s ago; sign it anew"),
        ({"tier": Tier.ADVICE}, "acme may sign up to tier 2, not 3"),
        ({"name": "other.reach"}, "the names of other are not acme's; use acme.reach"),
        ({"name": "acme.sub.reach"}, "the names of acme.sub are not acme's"),
    ],
)
def test_what_a_signer_may_not_say_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(DeploymentRefused, match=said):
        verify(signed(manifest(**changed), KEYS.private, "acme", SOURCE), SIGNERS, network="net", now=NOW)


def test_unsigned_code_and_code_of_strangers_is_refused() -> None:
    good = signed(manifest(), KEYS.private, "acme", SOURCE)
    with pytest.raises(DeploymentRefused, match=r"acme.reach 1.0.0 is not signed; sign it with --sign-key"):
        verify(msgspec.structs.replace(good, signature=b""), SIGNERS, network="net", now=NOW)
    for wrong in (
        msgspec.structs.replace(good, signature=bytes(64)),
        signed(manifest(), keygen().private, "acme", SOURCE),
    ):
        with pytest.raises(DeploymentRefused, match="the signature is not by acme"):
            verify(wrong, SIGNERS, network="net", now=NOW)
    with pytest.raises(DeploymentRefused, match=r"'eve' is not a signer here; add it as \[\[aggregation.signer\]\]"):
        verify(msgspec.structs.replace(good, signer="eve"), SIGNERS, network="net", now=NOW)
    with pytest.raises(DeploymentRefused, match="the source is not the one that was signed"):
        verify(msgspec.structs.replace(good, source=SOURCE + "#"), SIGNERS, network="net", now=NOW)


fields = st.sampled_from(
    [
        {"act": Act.REMOVE},
        {"network": "other"},
        {"name": "acme.other"},
        {"version": "1.0.1"},
        {"digest": "0" * 64},
        {"entry": "Other"},
        {"valid_until": 3_000},
        {"tier": Tier.EXPRESSION},
        {"capabilities": ("identity",)},
        {"max_bytes": 9},
        {"issued_at": 5},
        {"replaces": "0.9"},
        {"window": (2_000, 2_000)},
        {"where": "n = 1"},
    ]
)


@given(fields)
def test_the_signature_covers_every_field(changed: dict[str, Any]) -> None:
    good = signed(manifest(), KEYS.private, "acme", SOURCE)
    forged = Signed(msgspec.structs.replace(good.manifest, **changed), "acme", good.signature, SOURCE)
    with pytest.raises(DeploymentRefused, match="the signature is not by acme"):
        verify(forged, SIGNERS, network=forged.manifest.network, now=NOW)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "reach"}, "'reach' is not the name of a definition; write TENANT.NAME"),
        ({"name": "Acme.Reach"}, "small letters"),
        ({"version": "new"}, "write one like 1.0.0"),
        ({"entry": "a b"}, "name a class"),
        ({"capabilities": ("root",)}, "there is no capability 'root'"),
        ({"interface": 2}, "level 2 of the interface; this broker has level 1"),
        ({"max_bytes": 0}, "give 1 to"),
        ({"window": None, "where": "n > 1"}, "has a filter and no window, and brokers run Python over windows"),
        ({"window": (1_500, 1_000)}, "is not a multiple of its slide"),
        ({"where": "n >"}, "acme.reach: "),
        ({"digest": "xyz"}, "it has 64 hexadecimal digits"),
        ({"replaces": "old"}, "write one like 1.0.0"),
        ({"digest": "0" * 64}, "not that of the source"),
    ],
)
def test_a_manifest_that_cannot_be_is_not_signed(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(DeploymentRefused, match=said):
        signed(manifest(**changed), KEYS.private, "acme", SOURCE)


def test_keys_are_told_apart_and_not_shown() -> None:
    with pytest.raises(DeploymentRefused, match="the text is not a private key; make one with") as caught:
        signed(manifest(), KEYS.public, "acme", SOURCE)
    assert KEYS.public[15:] not in str(caught.value)
    for keys in ((), (KEYS.public,) * 3, (KEYS.private,)):
        with pytest.raises(DeploymentRefused):
            Signer("acme", keys).check()


def test_without_the_extra_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *more: Any, **words: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *more, **words)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(DeploymentRefused, match=r"in a clone: pip install '\.\[aggregation\]'"):
        keygen()


standings = st.builds(standing, st.sampled_from("abc"), st.sampled_from(Stage))


@given(st.lists(standings, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_brokers_agree_on_what_stands_whatever_the_order_in_which_they_meet(known: list[Any], draw: Any) -> None:
    once = joined(known)
    shuffled = draw.sample(known, len(known))
    one = shuffled[0]
    for other in shuffled[1:]:
        one = joined([one, joined([other, one])])
    assert one == once == joined([once, *known])
    digests = {digest for each in known for digest in each.digests}
    assert once.conflict == (len(digests) > 1)
    assert once.runs == (len(digests) == 1 and all(each.stage is Stage.INSTALLED for each in known))


@pytest.mark.parametrize(
    ("source", "entry", "said"),
    [
        ("def", "", "line 1: invalid syntax"),
        ("x = 1\nimport socket", "", "line 2: socket cannot be imported by a worker"),
        ("from os import path", "", "os cannot be imported"),
        ("from . import x", "", "cannot be imported"),
        ("x = 1", "", "has 0 classes that derive from Aggregate; name"),
        ("class A(Aggregate): pass\nclass B(definitions.Aggregate[int]): pass", "", "2 classes that derive .*: A, B"),
        ("class A(Aggregate): pass", "C", "has no class 'C'; it has A"),
        ("#" * 70_000 + "\nclass A(Aggregate): pass", "A", ""),
    ],
)
def test_a_source_is_looked_at_before_it_is_run(source: str, entry: str, said: str) -> None:
    with pytest.raises(DeploymentRefused, match=said or "a source of 70,025 bytes"):
        digest_of(source, entry_of(source, "x.py", entry))


GOOD = """
from tidings.aggregation.definitions import Aggregate
class Loads(Aggregate[int]):
    name = "acme.loads"
    def zero(self): return 0
    def lift(self, r):
        x = r.attrs.get("load")
        return x if type(x) is int else None
    def combine(self, a, b): return a + b
"""


def test_a_file_is_checked_as_a_broker_would(tmp_path: Path) -> None:
    file = tmp_path / "loads.py"
    file.write_text(GOOD)
    found = checked(file)
    assert found["class"] == "Loads"
    assert found["digest"] == digest_of(GOOD, "Loads")
    assert found["layers"][0] == "seccomp"
    file.write_text(GOOD.replace("a + b", "a - b"))
    with pytest.raises(LawBroken, match="order does not matter"):
        checked(file)
    file.write_text(GOOD.replace("return x if type(x) is int else None", "return hash(str(x)) % 1000"))
    with pytest.raises(LawBroken, match="two processes give different results"):
        checked(file)
    with pytest.raises(UsageError, match="cannot be read"):
        checked(tmp_path / "missing.py")


def test_a_new_key_is_the_owners_and_never_replaces_one(tmp_path: Path) -> None:
    file = tmp_path / "key"
    found = new_keys(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    given = signed(manifest(), file.read_text(), "acme", SOURCE)
    verify(given, {"acme": Signer("acme", (found["public"],))}, network="net", now=NOW)
    with pytest.raises(UsageError, match="a key is never overwritten"):
        new_keys(file)
