"""The bytes on the wire, pinned: a client in another language relies on them.

A test that fails here means that the protocol has changed. If that is meant, `VERSION` must change, too, unless the new
bytes are understood by every older peer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from wire.samples import (
    BODY,
    EVERY_TYPE,
    FRAMES,
    HELLO,
    HELLO_AGAIN,
    HELLO_BROKER,
    HELLO_EVACUATED,
    HELLO_NAMES,
    HELLO_SILENCE,
    HELLO_UNNAMED,
    MESSAGES,
    PARTS,
    QUOTE,
    REJECT,
    WELCOME,
    WELCOME_AGAIN,
    WELCOME_BROKER,
    WELCOME_NAMED,
    WELCOME_PLACE,
)

from tidings.wire import (
    JSON,
    MSGPACK,
    AnyMessage,
    Hello,
    Parser,
    Part,
    PublishAck,
    Quality,
    Reject,
    Welcome,
    decode_body,
    decode_words,
    encode_body,
    part,
)

GOLDEN = dict(
    line.split(": ", 1) for line in (Path(__file__).parent / "golden.txt").read_text(encoding="utf-8").splitlines()
)


def encodings() -> dict[str, bytes]:
    """Everything that is pinned, as it is encoded today."""
    return {
        "body": BODY,
        "body of every type": encode_body(EVERY_TYPE),
        **PARTS,
        **{f"DATA {name}": part(Part.DATA, MSGPACK.encode(frame)) for name, frame in FRAMES.items()},
        **{f"DATA {name} as JSON": part(Part.DATA, JSON.encode(frame)) for name, frame in FRAMES.items()},
    }


def test_every_message_has_a_sample() -> None:
    assert {type(message) for message in MESSAGES} == set(AnyMessage.__args__)


def test_every_part_has_a_sample() -> None:
    kinds = {Parser().feed(data)[0][0] for name, data in encodings().items() if not name.startswith("body")}
    assert kinds == set(map(int, Part))


@pytest.mark.parametrize("name", list(encodings()))
def test_the_bytes_are_what_they_were(name: str) -> None:
    assert encodings()[name].hex() == GOLDEN[name]


def test_nothing_is_pinned_that_does_not_exist() -> None:
    assert list(GOLDEN) == list(encodings())


@pytest.mark.parametrize("serialiser", [MSGPACK, JSON], ids=lambda s: s.name)
@pytest.mark.parametrize("name", list(FRAMES))
@pytest.mark.req("ARC-194")
def test_what_was_pinned_is_read_back_as_it_was(name: str, serialiser) -> None:
    key = f"DATA {name}" if serialiser is MSGPACK else f"DATA {name} as JSON"
    ((kind, payload),) = Parser().feed(bytes.fromhex(GOLDEN[key]))
    assert kind == Part.DATA
    assert serialiser.decode(payload) == FRAMES[name]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("HELLO", HELLO),
        ("HELLO again", HELLO_AGAIN),
        ("HELLO of a broker", HELLO_BROKER),
        ("HELLO without a name", HELLO_UNNAMED),
        ("HELLO with names", HELLO_NAMES),
        ("HELLO with a silence", HELLO_SILENCE),
        ("HELLO of one that was sent elsewhere", HELLO_EVACUATED),
        ("WELCOME", WELCOME),
        ("WELCOME again", WELCOME_AGAIN),
        ("WELCOME with a name", WELCOME_NAMED),
        ("WELCOME with a place", WELCOME_PLACE),
        ("WELCOME to a broker", WELCOME_BROKER),
        ("REJECT", REJECT),
    ],
)
def test_the_first_words_are_read_back_as_they_were(name: str, words: Hello | Welcome | Reject) -> None:
    ((_, payload),) = Parser().feed(bytes.fromhex(GOLDEN[name]))
    assert decode_words(payload, type(words)) == words


def test_bodies_are_read_back_as_they_were() -> None:
    assert decode_body(bytes.fromhex(GOLDEN["body"])) == QUOTE
    assert decode_body(bytes.fromhex(GOLDEN["body of every type"])) == EVERY_TYPE


def test_a_token_is_never_shown() -> None:
    assert "token" not in repr(HELLO_AGAIN)
    assert "s3cret" not in repr(HELLO_AGAIN)


def test_acknowledgements_are_joined_where_numbers_go_on_and_the_quality_is_the_same() -> None:
    first = PublishAck(7, "b1", 3, 42, 2, Quality.STORED)
    assert first.joined(PublishAck(8, "b1", 3, 43, 1, Quality.STORED)) == PublishAck(8, "b1", 3, 43, 3, Quality.STORED)
    assert first.joined(PublishAck(8, "b1", 3, 43, 1, Quality.ACCEPTED)) is None
    assert first.joined(PublishAck(9, "b1", 3, 43, 1, Quality.STORED)) is None
