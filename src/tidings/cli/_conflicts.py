"""Settings that are right one by one and wrong together; and tokens, wherever they are kept."""

from __future__ import annotations

import importlib.util
import os
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tidings.model import FeatureError
from tidings.net import Options, StartError, check, history_features
from tidings.wire import exposes_token, is_local

from ._settings import Bad

MIN_TOKEN = 16
"""Characters below which a token can be guessed."""


class Conflict(NamedTuple):
    """What does not go together; `key` is where to look."""

    key: str
    problem: str
    remedy: str
    warning: bool = False


def conflicts(options: Options) -> Iterator[Conflict]:
    """Everything that does not go together."""
    try:
        check(options)
    except StartError as error:
        problem, _, remedy = str(error).partition("; ")
        yield Conflict("host", problem, remedy)
    yield from _ports(options)
    yield from _tls(options)
    yield from _neighbours(options)
    yield from _access(options)
    yield from _archive(options)
    yield from _signers(options)
    try:
        list(history_features(options))
    except FeatureError as error:
        problem, _, remedy = str(error).rpartition("; ")
        yield Conflict("history", problem, remedy)


def _archive(options: Options) -> Iterator[Conflict]:
    if options.archive is None:
        return
    if importlib.util.find_spec("pyarrow") is None:
        yield Conflict("archive", "archiving needs pyarrow", "in a clone of Tidings, run: pip install '.[archive]'")
    if options.data is not None and options.archive.directory.resolve() == options.data.resolve():
        yield Conflict("archive", "the archive is in the directory of the store", "give it a directory of its own")


def _signers(options: Options) -> Iterator[Conflict]:
    if not options.aggregation.signer:
        return
    if not options.aggregation.network:
        yield Conflict(
            "aggregation", "signatures are made for one network, and this one has no name", 'add network = "plant"'
        )
    if importlib.util.find_spec("cryptography") is None:
        yield Conflict(
            "aggregation", "signatures need cryptography", "in a clone of Tidings, run: pip install '.[aggregation]'"
        )


def _ports(options: Options) -> Iterator[Conflict]:
    if options.metrics_port and options.metrics_port == options.port:
        yield Conflict("metrics_port", f"{options.port} is also the port of the broker", "choose another one")
    if options.management and options.metrics_port is None:
        yield Conflict("management", "it uses the port of the metrics, which have none", "set metrics_port")
    if options.management and not is_local(options.metrics_host):
        problem = f"it is for tools on this machine, but {options.metrics_host} can be reached from others"
        yield Conflict("management", problem, 'write metrics_host = "127.0.0.1"')


def _tls(options: Options) -> Iterator[Conflict]:
    if options.tls is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                options.tls.certificate, options.tls.key
            )
        except (OSError, ssl.SSLError) as error:
            problem = f"the certificate and the key do not match: {error.strerror or error}"
            yield Conflict("tls", problem, "both must be PEM files, and the key must belong to the certificate")
    if options.access.certificates and (options.tls is None or options.tls.ca is None):
        problem = "certificates of clients are named, but no CA that may sign them"
        yield Conflict("access", problem, "set tls.ca")


def _neighbours(options: Options) -> Iterator[Conflict]:
    for url in options.neighbours:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if is_local(host) and options.port and (parts.port or 7311) == options.port and is_local(options.host):
            yield Conflict("neighbours", f"{url} is this broker itself", "remove it")
        if options.neighbour_token is not None and exposes_token(host, tls=parts.scheme == "tidings+tls"):
            problem = f"the token goes to {url} unencrypted, and anyone on the way can read it"
            remedy = f"write tidings+tls://{parts.netloc}{'' if options.insecure else ', or insecure = true'}"
            yield Conflict("neighbours", problem, remedy, warning=options.insecure)
    if options.neighbour_token is not None and not options.neighbours:
        problem = "there is a token for neighbours but no neighbour to connect to"
        yield Conflict("neighbour_token", problem, "name the neighbours, or remove it", warning=True)


def _access(options: Options) -> Iterator[Conflict]:
    for token, identity in options.access.tokens.items():
        if token and len(token) < MIN_TOKEN:
            problem = f"the token of '{identity.name}' has only {len(token)} characters"
            yield Conflict("access", problem, "make a longer one with `openssl rand -hex 32`", warning=True)
    if options.tls is None and options.access.tokens and not is_local(options.host):
        yield Conflict(
            "access", "tokens travel unencrypted, and anyone on the way can read them", "set [tls]", warning=True
        )


def read_token(form: str, value: str | Path) -> str:
    """A token from where it is kept: "" (the value itself), "_file" or "_env"."""
    match form:
        case "_file":
            try:
                token = Path(value).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise Bad(f"'{value}' cannot be read: {error}", "name a text file that you may read") from None
            where = f"'{value}'"
        case "_env":
            token = os.environ.get(str(value), "").strip()
            where = f"the environment variable {value}"
        case _:
            token, where = str(value), "it"
    if not token:
        raise Bad(f"{where} holds no token", "put one there; `openssl rand -hex 32` makes one")
    return token


def world_readable(file: Path) -> bool:
    """Whether everybody on this machine may read a file."""
    try:
        return os.name == "posix" and bool(file.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False
