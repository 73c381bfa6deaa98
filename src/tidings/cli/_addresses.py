"""The addresses under which a broker can be reached, for people who want to connect to it."""

from __future__ import annotations

import contextlib
import ipaddress
import socket

_EVERYWHERE = {"0.0.0.0": socket.AF_INET, "::": socket.AF_INET6}  # noqa: S104 - to recognise them
_LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
_OUTSIDE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses that nobody has (RFC 5737, RFC 3849): only the way there is asked for, and nothing is sent."""


def urls(host: str, port: int, *, tls: bool) -> list[str]:
    """Where a broker that listens there can be reached; if it listens everywhere, this machine comes first.

    >>> urls("127.0.0.1", 7311, tls=False)
    ['tidings://127.0.0.1:7311']
    """
    family = _EVERYWHERE.get(host)
    hosts = [host] if family is None else [_LOOPBACK[family], *_outward(family)]
    scheme = "tidings+tls" if tls else "tidings"
    return [f"{scheme}://{f'[{one}]' if ':' in one else one}:{port}" for one in hosts]


def _outward(family: socket.AddressFamily) -> list[str]:
    """The addresses of this machine that others may know."""
    found: dict[str, None] = {}
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((_OUTSIDE[family], 9))
        found[probe.getsockname()[0]] = None
    with contextlib.suppress(OSError):
        for _, _, _, _, address in socket.getaddrinfo(socket.gethostname(), None, family, socket.SOCK_STREAM):
            found[str(address[0])] = None
    return [one for one in found if not _is_special(one)]


def _is_special(address: str) -> bool:
    known = ipaddress.ip_address(address.partition("%")[0])
    return known.is_loopback or known.is_link_local or known.is_unspecified
