"""Why a connection could not be opened, in plain words: clients and brokers both dial."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl

_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE", "HTTP_REQUEST"})
"""What OpenSSL calls an answer that is not TLS, in its versions."""
_NUMBERS = re.compile(r"\[Errno (\d+)\]")

NO_ANSWER = "it closed the connection without an answer; if it uses TLS, write tidings+tls:// for it"
"""What to say of a peer that ends a connection before it has answered the hello."""
DEFAULT_PORT = 7311
"""Where a broker listens unless it is told otherwise."""
_OTHERS = {b"HTTP": "HTTP", b"SSH-": "SSH", b"INFO": "NATS"}
"""The first bytes of servers that are easily mistaken for a broker, and what they speak."""
TLS_ALERT, TLS_HANDSHAKE = 0x15, 0x16
_TLS_MAJOR = 0x03


def dial_problem(error: OSError) -> str:
    """What went wrong, and what to do about it.

    >>> dial_problem(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 7311)"))
    'nothing listens there (connection refused)'
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the broker is not trusted: {error.verify_message}; name the CA that signed it"
    if isinstance(error, ssl.SSLError):
        if (error.reason or "") in _NO_TLS:
            return "this port does not speak TLS; write tidings:// for it, or set [tls] at the broker"
        reason = (error.reason or "the connection was closed").lower().replace("_", " ")
        return f"TLS failed: {reason}; if the broker wants a certificate, name yours"
    if isinstance(error, socket.gaierror):
        return "this host name is not known; check its spelling"
    numbers = {int(number) for number in _NUMBERS.findall(str(error))} or {error.errno or 0}
    if numbers == {errno.ECONNREFUSED}:
        return "nothing listens there (connection refused)"
    if len(numbers) == 1 and (number := numbers.pop()) > 0:  # asyncio adds the addresses that it has tried
        return os.strerror(number).lower()
    return str(error)


def tls_instead(first: bytes) -> str | None:
    """What to say of bytes that are TLS, where the plain protocol is spoken; None if they are not."""
    if len(first) < 2 or first[1] != _TLS_MAJOR:
        return None
    if first[0] == TLS_ALERT:
        return "this port speaks TLS; write tidings+tls:// for it"
    if first[0] == TLS_HANDSHAKE:
        return "the other side speaks TLS, and this port does not; it should write tidings://, or set [tls] here"
    return None


def other_protocol(first: bytes) -> str | None:
    """What to say of bytes that begin another protocol, where that of Tidings is spoken; None if they are unknown.

    >>> other_protocol(b"SSH-2.0-OpenSSH")
    'the other side speaks SSH and is no Tidings broker; the default port of a broker is 7311'
    """
    if (name := _OTHERS.get(first[:4])) is not None:
        return f"the other side speaks {name} and is no Tidings broker; the default port of a broker is {DEFAULT_PORT}"
    return tls_instead(first)
