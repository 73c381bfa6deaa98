"""`tidings.connect`."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence

from tidings.history import CacheLimits

from ._carried import AnyState
from ._client import Client
from ._settings import MAX_UNACKNOWLEDGED, OnDisconnect, OnReconnect, Settings


def connect(
    urls: str | Sequence[str] = "tidings://localhost:7311",
    *,
    name: str | None = None,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    serialiser: str = "msgpack",
    max_unacknowledged: int = MAX_UNACKNOWLEDGED,
    remember: CacheLimits | None = None,
    own_numbers: bool = False,
    insecure: bool = False,
    wait: float = 0.0,
    on_disconnect: OnDisconnect | None = None,
    on_reconnect: OnReconnect | None = None,
    attributes: Mapping[str, object] | None = None,
    take_over: bool = False,
    state: AnyState | None = None,
    silence: float | None = None,
    overlap: bool = False,
) -> Client:
    """Make a client of the service. Open it with `async with`, or with `await` and close it with `close()`.

    `urls` names one broker or several; if one is lost, the client continues with another. `name` is unique in the
    network; without it, the broker gives the client a name, which it keeps for as long as it lives. Where brokers know
    identities, `name` must belong to the identity of the `token` or certificate: see docs/security.md. `tls` says whom
    to trust and which certificate to show.

    `wait` is the number of seconds that the first connection waits for its broker; with 0, every address is tried once.
    A connection that is lost later is opened again, for as long as that takes. `on_disconnect` is called with the
    reason when the connection is lost, `on_reconnect` with the name of the broker when it is back; each time a warning
    is logged.

    With `remember`, the past of a subscription comes from what this client has received for its other subscriptions,
    kept within these limits. It is there before `subscribe` returns; no broker is asked. See
    docs/history-strategies.md, "local".

    With `own_numbers`, the application numbers its publications, from 1 and growing, for as long as it uses its `name`:
    a publication that is repeated under a number that the broker knows is acknowledged, and published once.

    `attributes` are what the client says about itself for as long as it is connected, so that administrators can choose
    it for scopes; where brokers know identities, the identity must be allowed to bring them. See docs/scopes.md.

    A name is connected once in the whole network. If another process uses `name` already, at whichever broker, this one
    is refused with `NotAdmitted`, which says where and since when. With `take_over`, the other one ends with
    `TakenOver`, and does not connect again.

    `state` is a file in which the client carries what it needs from one process to the next: its epoch, its last
    broker, and how far durable subscriptions have been handled. A process that finds it is let in at once, at any
    broker, and continues even if no broker knows of it any more. The file holds no secret, is written about once a
    second and at the end, and is locked meanwhile; `ArgumentRefused` is raised when the client opens if it is in use,
    damaged, or another client's. Instead of a path, give what `Client.snapshot` returned. See docs/durable.md.

    `silence` is after how many seconds without a sign of life the client and its broker give their connection up, from
    0.5 to 600; without it the broker decides, usually for 30. A client that is carried around wants a short one: the
    sooner it notices that it has lost its broker, the sooner it finds another. See docs/client.md.

    With `overlap`, `Client.move` enters the next broker before it leaves the old one, and for half a second the client
    takes what both send, so that subscriptions see no silence in between. The same holds if its broker asks it to go.

    A `token` is sent only to brokers on this machine and to `tidings+tls://`. With `insecure` it is sent to others,
    too, and can be read on the way; without, `NotAdmitted` is raised.
    """
    return Client(
        Settings(
            urls,
            name=name,
            token=token,
            tls=tls,
            serialiser=serialiser,
            max_unacknowledged=max_unacknowledged,
            remember=remember,
            own_numbers=own_numbers,
            insecure=insecure,
            wait=wait,
            on_disconnect=on_disconnect,
            on_reconnect=on_reconnect,
            attributes=attributes,
            take_over=take_over,
            state=state,
            silence=silence,
            overlap=overlap,
        )
    )
