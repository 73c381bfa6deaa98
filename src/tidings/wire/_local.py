"""Which addresses are on this machine: there, nobody is on the way who could listen."""

from __future__ import annotations

import ipaddress


def is_local(host: str) -> bool:
    """Whether only this machine can reach that address.

    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("0.0.0.0"), is_local("example.org")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def exposes_token(host: str, *, tls: bool) -> bool:
    """Whether a token on its way there could be read by others."""
    return not tls and not is_local(host)
