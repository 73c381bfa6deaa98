"""Where a broker is, and what can be wrong on the way there.

TidingsError, OSError
└── ConnectionFailed
    ├── NotAdmitted
    │   └── TakenOver
    └── ClientNotOpen
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from tidings.model import TidingsError
from tidings.wire import DEFAULT_PORT, exposes_token


class ConnectionFailed(TidingsError, OSError):
    """The service cannot be reached, or refuses this client."""


class NotAdmitted(ConnectionFailed):
    """The service is there and refuses this client, or this client does not trust it."""

    retry = False
    """Whether trying again later may help."""
    code = ""
    """Why, in one word of docs/protocol.md; "name": this name belongs to somebody else."""


class TakenOver(NotAdmitted):
    """Another process uses the name of this client now, perhaps at another broker; this one does not connect again."""


class ClientNotOpen(ConnectionFailed):
    """A client was called that is not open yet, or is closed. Nothing was done."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int
    tls: bool

    @classmethod
    def parse(cls, url: str) -> Address:
        """From `tidings://host:port` or `tidings+tls://host:port`.

        >>> Address.parse("tidings://localhost")
        Address(host='localhost', port=7311, tls=False)
        >>> str(Address.parse("tidings+tls://[::1]:99"))
        'tidings+tls://[::1]:99'
        """
        if not isinstance(url, str):
            raise ConnectionFailed(f"{url!r:.60} is not the address of a broker; write tidings://host:port")
        try:
            parts = urlsplit(url if "://" in url else f"tidings://{url}")
        except ValueError:  # no IPv6 address
            parts = None
        if parts is not None and "@" in parts.netloc:  # what stands before it may be a secret, and is not shown
            raise ConnectionFailed(
                f"the address of '{parts.hostname}' has a user or a password before @; write tidings://host:port, "
                "and give a token with token=... (--token-file)"
            )
        if parts is None or parts.scheme not in ("tidings", "tidings+tls") or not parts.hostname:
            raise ConnectionFailed(f"'{url}' is not the address of a broker; write tidings://host:port")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ConnectionFailed(f"'{url}' has more than a host and a port; write {parts.scheme}://{parts.netloc}")
        return cls(parts.hostname, _port(parts, url), parts.scheme == "tidings+tls")

    def check_token(self) -> None:
        """Raise `NotAdmitted` if a token on its way there could be read by others."""
        if exposes_token(self.host, tls=self.tls):
            raise NotAdmitted(
                f"the token would go to {self} in the clear, for everybody on the way to read; connect to "
                f"{self._replace(tls=True)}, or say that this is how it should be: insecure=True (--insecure)"
            )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tidings{'+tls' if self.tls else ''}://{host}:{self.port}"


def _port(parts: SplitResult, url: str) -> int:
    try:
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:  # no number, or one that is too large
        port = 0
    if not port:
        raise ConnectionFailed(
            f"'{url}' is not the address of a broker; write tidings://host:port, with a port from 1 to 65535"
        )
    return port
