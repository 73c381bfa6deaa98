"""`tidings.connect`."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from tidings.history import CacheLimits

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
        )
    )
