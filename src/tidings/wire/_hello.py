"""The first words on a connection: who is there, what can it do, is it coming back."""

from __future__ import annotations

import enum
from typing import TypeVar

import msgspec

from tidings.model import shortened

from ._errors import WireError, brief
from ._framing import MAX_PART

VERSION = 1
"""The version of the protocol that this code speaks."""
MAX_HELLO = 65_536
"""The most bytes of a hello, welcome or rejection."""
MAX_BROUGHT = 16_384
"""The most bytes of the attributes that a client brings."""
MAX_REASON = 1_000
"""The most characters of the reason of a rejection."""


BEATS = 3
"""How many heartbeats make a silence: a connection from which nothing has come for that long is given up."""
MIN_SILENCE = 0.5
"""The least seconds of silence that a client can ask for."""
MAX_SILENCE = 600.0
"""The most."""

TAKEN_OVER = "taken-over"
"""The code of a rejection: another process uses the name of this client now."""


class PeerRole(enum.Enum):
    """Who opens a connection."""

    CLIENT = "client"
    BROKER = "broker"


class Hello(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sent first, by whoever opened the connection. Unknown fields are ignored, so later versions can add some."""

    versions: tuple[int, ...]
    role: PeerRole
    name: str
    """Of a broker: its name. Of a client: its name, unique among the clients of the network; "": it asks for one."""
    serialisers: tuple[str, ...] = ("msgpack",)
    session: str | None = None
    """The session to go on with, if there was one."""
    received: int = 0
    """With `session`: the number of the last DATA part that arrived."""
    token: str | None = None
    """A secret that says who this is; a client certificate may say it instead."""
    epoch: int = 0
    """Of a broker: its incarnation."""
    max_part: int = MAX_PART
    features: tuple[str, ...] = ()
    """Of a broker: "roaming:" and the scheme by which it serves clients that roam."""
    authority: str = ""
    """Of a broker: who orders changes of the scope graph for it; "": nobody."""
    names: str = ""
    """Of a broker: a digest of which names belong to which identities there; "": it does not say."""
    routing: str = ""
    """Of a broker: what its neighbours must do alike, or notifications are lost."""
    attributes: bytes = b""
    """Of a client: what it says about itself for as long as it is connected, as the body of a notification."""

    attached: int = 0
    """Of a client: the epoch under which it was attached last, as a welcome has said; 0: it knows of none."""
    last: str = ""
    """With `attached`: the broker that said so."""
    take_over: bool = False
    """Of a client without `attached`: whether it takes the place of a client of its name that is connected."""
    silence: float = 0.0
    """Of a client: after how many seconds without a sign of life either side gives the connection up; 0: as the broker
    says."""
    evacuated: bool = False
    """Of a client: whether it comes because its broker is about to stop, and can still stay there. A broker that is
    about to stop itself refuses it."""
    overlap: bool = False
    """Of a client: whether it still takes what the broker sends that it leaves."""

    def __repr__(self) -> str:
        return f"Hello({self.role.value} {self.name!r})"  # never the token or the session


class Welcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a hello that is accepted."""

    version: int
    name: str
    session: str
    resumed: bool = False
    """Whether the session of the hello goes on; otherwise it is a new one, and everything must be said again."""
    received: int = 0
    """With `resumed`: the number of the last DATA part that arrived."""
    serialiser: str = "msgpack"
    epoch: int = 0
    max_part: int = MAX_PART
    heartbeat: float = 10.0
    """Seconds after which a silent peer is sent a ping; after three of them the connection is given up. For a client
    that has asked for a silence it is a third of that."""
    features: tuple[str, ...] = ()
    published: int = 0
    """To a client: the largest number of its own that it has published with here, as far as that is remembered."""
    client: str = ""
    """To a client: what it is called; the broker has chosen it if the hello named none."""
    names: str = ""
    """To a broker: as in the hello."""
    attached: int = 0
    """To a client: the epoch under which it is attached; it repeats that wherever it connects next."""
    place: str = ""
    """To a client: where the broker stands, as a path like "/berlin/campus"; "": it has no place."""


class Reject(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a connection cannot be, and what would help."""

    code: str
    reason: str
    retry: bool = False
    """Whether trying again later may help."""


_T = TypeVar("_T", Hello, Welcome, Reject)


def encode_words(words: Hello | Welcome | Reject) -> bytes:
    """The payload of a HELLO, WELCOME or REJECT part. A reason that quotes too much of the other side is cut."""
    if isinstance(words, Reject):
        words = msgspec.structs.replace(words, reason=shortened(words.reason, MAX_REASON))
    return msgspec.msgpack.encode(words)


def decode_words(payload: bytes, kind: type[_T]) -> _T:
    """The words in a payload, or `WireError`."""
    if len(payload) > MAX_HELLO:
        raise WireError(f"a {kind.__name__.lower()} of {len(payload):,} bytes; at most {MAX_HELLO:,} are allowed")
    try:
        return msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"not a {kind.__name__.lower()}: {brief(error)}") from None
