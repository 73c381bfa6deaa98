"""One sample of every part and of every message, for the golden bytes."""

from __future__ import annotations

import datetime

from tidings.model import ROOT_ROUTE, Bound, Filter, Identity, Location, Notification, Route, RouteState
from tidings.wire import (
    Advertise,
    AnyMessage,
    Attach,
    Browse,
    Consistency,
    Deliver,
    DeliverAck,
    Ending,
    Envelope,
    Extension,
    Fetch,
    Fetched,
    Forget,
    Frame,
    Gap,
    Hello,
    HistoryReport,
    Hop,
    Keep,
    Kept,
    LinkState,
    Mark,
    Marks,
    Measure,
    Measured,
    MobilityReply,
    MobilityRequest,
    Notify,
    Offers,
    Opening,
    Page,
    Part,
    Past,
    PeerRole,
    Publish,
    PublishAck,
    Quality,
    Read,
    Recall,
    Recalled,
    Refused,
    Reject,
    Routed,
    Settled,
    StatusReply,
    StatusRequest,
    Subscribe,
    TreeMarks,
    TreeReady,
    Unadvertise,
    Unsubscribe,
    Wave,
    WaveAnswer,
    Welcome,
    ack,
    encode_body,
    encode_words,
    part,
    times,
)

QUOTE = Notification(type="quote", symbol="SAP", price=182.4)
EVERY_TYPE = Notification(
    {
        "bool": True,
        "int": -5,
        "float": 0.5,
        "str": "é",
        "bytes": b"\x00\xff",
        "time": datetime.datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=datetime.UTC),
        "place": Location("earth/berlin"),
        "list": (1, 2),
    }
)
BODY = encode_body(QUOTE)
EXPENSIVE = Filter.parse("type = 'quote' AND price > 100")
IDENTITY = Identity("b1", 3, 42, "alice", 7, 1_767_323_045_678_900)
ENVELOPE = Envelope(IDENTITY, (ROOT_ROUTE,), BODY, Quality.STORED)
ROUTED = Envelope(
    Identity("b1", 3, 42, "alice", 7, 1_767_323_045_678_900, 1, 5_000_000),
    (Route("market", RouteState.UPWARD, "b1", ("market",), 9, ("t",)),),
    BODY,
)

MESSAGES: list[AnyMessage] = [
    LinkState("b1", 3, 2, {"b2": 1}),
    Attach(5, 1),
    Attach(5, 2, 1),
    Publish(7, BODY, Quality.ACCEPTED),
    Publish(8, BODY, Quality.STORED, 5_000_000),
    PublishAck(7, "b1", 3, 42),
    PublishAck(9, "b1", 3, 44, 3),
    Notify(ROUTED),
    Deliver(ENVELOPE, ("s1", "s2")),
    DeliverAck("b1", 3, 42),
    Gap("b1", 3, 10, 20, ("s1",)),
    Gap("b1", 3, 10, None, unmarked=True),
    Mark("b1", 3, 42),
    Marks({"b1": (3, 42)}),
    Subscribe("s1", EXPENSIVE),
    Subscribe("s1", EXPENSIVE, receive_own=False, meta={"k": "v"}, after={"b1": (3, 42)}, number=4),
    Unsubscribe("s1"),
    Advertise("a1", EXPENSIVE, number=5),
    Unadvertise("a1"),
    Settled("s1", marks={"b1": (3, 42)}, number=4),
    Settled("a1", advertisement=True),
    Refused("NotAdvertised", "advertise a filter that it passes", "7"),
    Wave("b1", 1, "marks", b"", 10_000_000),
    WaveAnswer("b1", 1, b"\x80", True),
    Fetch("b1", "b2", 1, {3: 42}, (EXPENSIVE,)),
    Fetched("b2", 1, (ENVELOPE,)),
    Fetched("b2", 1, (), True, {3: 50}, ((3, 43, 45), (2, 1, None)), True),
    StatusRequest("q1"),
    StatusReply("q1", b"{}"),
    Extension("history", b"\x01"),
    Recall("q2", "quotes"),
    Recalled("q2", True, "price > 100", {"b1": (3, 42)}),
    Recalled("q2", False),
    Keep("q3", "quotes", "price > 100", {"b1": (3, 42)}),
    Kept("q3"),
    Forget("q4", "quotes"),
    Subscribe("s2", EXPENSIVE, past=Past(Bound(10, 300_000_000), Consistency.BEST_EFFORT, 2_000_000, True)),
    HistoryReport("s2", 4, 7, Ending.TIMER, {"memory": 5, "store": 2}, True, 13, 2, 1_794_797_000_000_000),
    Measure("q5", (3, 42), 1_000, 65_536),
    Measured("q5", "b1", (2, 17), (3, 99), (3, 142)),
    Read("q6", (3, 42), (3, 99), EXPENSIVE),
    Page("q6", (ENVELOPE,), (3, 60), ((3, 50, 52),)),
    Browse("q7", EXPENSIVE),
    Offers("q7", (EXPENSIVE,), 3),
    Publish(10, BODY),
    PublishAck(10, "b1", 3, 45, quality=Quality.STORED),
    TreeReady(),
    TreeMarks({"b1": (3, 42)}),
    Routed("b3", "b1", "history", b"\x01"),
    MobilityRequest("q8", "forget", old="b1", new="b2"),
    MobilityReply("q8", b"{}"),
    Publish(11, BODY, cause=("in:0123456789abcdef",), opens=Opening("a1", 0, 5_000_000)),
]

HELLO = Hello((1,), PeerRole.CLIENT, "alice")
HELLO_AGAIN = Hello((1,), PeerRole.CLIENT, "alice", ("msgpack", "json"), "s3cret", 17, "token")
HELLO_BROKER = Hello((1,), PeerRole.BROKER, "b2", epoch=4)
HELLO_UNNAMED = Hello((1,), PeerRole.CLIENT, "", token="token")
HELLO_NAMES = Hello((1,), PeerRole.BROKER, "b2", epoch=4, authority="b1", names="0f1e2d3c")
HELLO_BRINGS = Hello((1,), PeerRole.CLIENT, "alice", attributes=encode_body({"city": "Berlin", "floor": 3}))
HELLO_ROUTING = Hello((1,), PeerRole.BROKER, "b2", epoch=4, routing="filters with advertisements")
HELLO_SILENCE = Hello((1,), PeerRole.CLIENT, "alice", silence=3.0)
HELLO_EVACUATED = Hello((1,), PeerRole.CLIENT, "alice", attached=7, last="b1", evacuated=True)
WELCOME = Welcome(1, "b1", "s3cret")
WELCOME_NAMED = Welcome(1, "b1", "s3cret", epoch=3, client="alice/0123456789abcdef01234567")
WELCOME_PLACE = Welcome(1, "b1", "s3cret", epoch=3, client="alice", place="/berlin/campus", features=("arrivals",))
WELCOME_BROKER = Welcome(1, "b1", "s3cret", epoch=3, names="0f1e2d3c")
WELCOME_AGAIN = Welcome(1, "b1", "s3cret", True, 12, epoch=3, published=7)
REJECT = Reject("full", "this broker has as many connections as it may", True)

PARTS: dict[str, bytes] = {
    "ACK 17": ack(17),
    "PING": part(Part.PING),
    "PONG": part(Part.PONG),
    "PING with a time": part(Part.PING, times(1_767_225_600_000_000)),
    "PONG with times": part(Part.PONG, times(1_767_225_600_000_000, 1_767_225_600_000_250)),
    "BYE": part(Part.BYE),
    "HELLO": part(Part.HELLO, encode_words(HELLO)),
    "HELLO again": part(Part.HELLO, encode_words(HELLO_AGAIN)),
    "HELLO of a broker": part(Part.HELLO, encode_words(HELLO_BROKER)),
    "HELLO without a name": part(Part.HELLO, encode_words(HELLO_UNNAMED)),
    "HELLO with names": part(Part.HELLO, encode_words(HELLO_NAMES)),
    "HELLO with attributes": part(Part.HELLO, encode_words(HELLO_BRINGS)),
    "HELLO with routing": part(Part.HELLO, encode_words(HELLO_ROUTING)),
    "HELLO with a silence": part(Part.HELLO, encode_words(HELLO_SILENCE)),
    "HELLO of one that was sent elsewhere": part(Part.HELLO, encode_words(HELLO_EVACUATED)),
    "WELCOME": part(Part.WELCOME, encode_words(WELCOME)),
    "WELCOME again": part(Part.WELCOME, encode_words(WELCOME_AGAIN)),
    "WELCOME with a name": part(Part.WELCOME, encode_words(WELCOME_NAMED)),
    "WELCOME with a place": part(Part.WELCOME, encode_words(WELCOME_PLACE)),
    "WELCOME to a broker": part(Part.WELCOME, encode_words(WELCOME_BROKER)),
    "REJECT": part(Part.REJECT, encode_words(REJECT)),
}

FRAMES: dict[str, Frame] = {f"{at:02} {type(message).__name__}": Frame(message) for at, message in enumerate(MESSAGES)}
FRAMES["30 Mark with a hop"] = Frame(Mark("b1", 3, 42), Hop(77, "c", {"history": b"\x01"}))
