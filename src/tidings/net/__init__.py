"""The broker in the real world: sockets, TLS, authentication, flow control, a store."""

from tidings.model import AccessDenied, guard_log
from tidings.wire import DEFAULT_PORT

from ._access import Access, AccessEntry
from ._bounds import Bound, Bounds, bounds_of
from ._names import clashes, owners
from ._options import ArchiveOptions, Limits, Options, SlowPolicy, StoreOptions, TlsOptions
from ._past import history_features
from ._server import Server, StartError, check, serve

__all__ = [
    "DEFAULT_PORT",
    "Access",
    "AccessDenied",
    "AccessEntry",
    "ArchiveOptions",
    "Bound",
    "Bounds",
    "Limits",
    "Options",
    "Server",
    "SlowPolicy",
    "StartError",
    "StoreOptions",
    "TlsOptions",
    "bounds_of",
    "check",
    "clashes",
    "history_features",
    "owners",
    "serve",
]

guard_log("tidings.net")
