"""The broker in the real world: sockets, TLS, authentication, flow control, a store."""

from ._access import Access, AccessDenied, Identity
from ._options import DEFAULT_PORT, Limits, Options, SlowPolicy, TlsOptions
from ._server import Server, StartError, check, is_local, serve

__all__ = [
    "DEFAULT_PORT",
    "Access",
    "AccessDenied",
    "Identity",
    "Limits",
    "Options",
    "Server",
    "SlowPolicy",
    "StartError",
    "TlsOptions",
    "check",
    "is_local",
    "serve",
]
