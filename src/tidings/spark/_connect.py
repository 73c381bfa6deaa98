"""Spark Connect: a session whose Spark is elsewhere, reached by an address as `sc://host:15002`."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit
from urllib.request import getproxies

from ._errors import SparkError

SCHEME = "sc://"
PORT = 15002
SECONDS = 10.0
"""For which an answer is waited for."""


def check_reachable(address: str) -> None:
    """Raise `SparkError` if nobody listens there: Spark itself would try for many minutes, and say nothing."""
    place = urlsplit(address)
    try:
        host, port = place.hostname, place.port or PORT
    except ValueError:
        host, port = None, PORT
    if not host:
        raise SparkError(f"'{address}' is not the address of a Spark Connect server; write it like sc://host:{PORT}")
    if getproxies():
        return  # somebody else connects
    try:
        socket.create_connection((host, port), SECONDS).close()
    except OSError as error:
        raise SparkError(
            f"no Spark Connect server answers at {address}: {error}; start one there, or name another"
        ) from None
