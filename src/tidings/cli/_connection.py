"""How the commands find and enter a broker: the options they share."""

from __future__ import annotations

import functools
import inspect
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import tidings

from ._conflicts import read_token
from ._errors import UsageError
from ._settings import Bad

DEFAULT_BROKER = "tidings://localhost:7311"

Brokers = Annotated[
    list[str],
    typer.Option(
        "--broker",
        "-b",
        metavar="URL",
        envvar="TIDINGS_BROKER",
        help="The address of the broker: tidings://host:port, or tidings+tls://host:port. Repeat it to name several.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="A file that holds your token. Or set TIDINGS_TOKEN.",
        rich_help_panel="Security",
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        envvar="TIDINGS_CA",
        help="The CA certificate to check the broker's certificate with.",
        rich_help_panel="Security",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--cert",
        metavar="FILE",
        envvar="TIDINGS_CERT",
        help="Your certificate, if you have one. Requires --key.",
        rich_help_panel="Security",
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        envvar="TIDINGS_KEY",
        help="The private key of your certificate.",
        rich_help_panel="Security",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        envvar="TIDINGS_INSECURE",
        help="Send the token to other machines without TLS, where anyone on the way can read it.",
        rich_help_panel="Security",
    ),
]
ClientName = Annotated[
    str | None,
    typer.Option(
        "--client-name",
        "--client",
        metavar="NAME",
        help="The name of this client at the broker; random by default.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def connect(
    brokers: list[str],
    *,
    token_file: Path | None = None,
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    name: str | None = None,
    insecure: bool = False,
    state: Path | None = None,
) -> tidings.Client:
    """A client with what the options say."""
    try:
        token = os.environ.get("TIDINGS_TOKEN") or None
        if token_file is not None:
            token = read_token("_file", token_file)
    except Bad as bad:
        raise UsageError(f"--token-file: {bad.problem}; {bad.remedy}") from None
    try:
        tls = _tls(ca, certificate, key)
        return tidings.connect(brokers, name=name, token=token, tls=tls, insecure=insecure, state=state)
    except tidings.NotAdmitted:
        raise
    except tidings.ConnectionFailed as error:  # nothing was dialled yet: an address is wrong
        raise UsageError(f"--broker: {error}") from None


def entering(command: Callable[..., None]) -> Callable[..., None]:
    """A command that gets a client as its first argument, with the options that say which broker and who it is."""
    own = inspect.signature(command, eval_str=True)
    shared = inspect.signature(_entered, eval_str=True).parameters

    @functools.wraps(command)
    def entered(**given: Any) -> None:
        client = _entered(**{name: given.pop(name) for name in shared})
        command(client, **given)

    _client, *parameters = own.parameters.values()
    entered.__signature__ = own.replace(parameters=[*parameters, *shared.values()])  # type: ignore[attr-defined]
    return entered


def _entered(
    broker: Brokers = [DEFAULT_BROKER],  # noqa: B006 - typer does not change it
    token_file: TokenFile = None,
    ca: Ca = None,
    cert: Certificate = None,
    key: Key = None,
    insecure: Insecure = False,
    client_name: ClientName = None,
) -> tidings.Client:
    return connect(broker, token_file=token_file, ca=ca, certificate=cert, key=key, name=client_name, insecure=insecure)


def _tls(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if (certificate is None) != (key is None):
        raise UsageError("--cert and --key belong together; give both")
    if ca is None and certificate is None:
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None and key is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(file) for file in (ca, certificate, key) if file is not None)
        raise UsageError(f"cannot use {files}: {error.strerror or error}; they must be PEM files") from None
    return context
