"""The options of the data source `tidings`, checked where they come in."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidings.model import EVERYTHING, Filter
from tidings.store import Promoted, StoreError

from ._errors import SourceError

PATIENCE = 60.0
"""Seconds for which a broker that is down is waited for."""
MAX_NUMBER = 1e15
"""The largest number that an option may be: no query has more rows, bytes or seconds."""

_KNOWN = {
    "path": "the directory of an archive",
    "broker": "the address of a broker, or several, separated by commas",
    "token": "the token that identifies this client",
    "insecure": "true: send the token beyond this machine without TLS",
    "ca": "a file of certificates to trust, for tidings+tls://",
    "filter": "what to read, in the filter language",
    "promote": "attributes that get a column: symbol, price:float",
    "since": "published at this time or later, as 2026-11-16T03:00Z",
    "until": "published before this time",
    "pushdown": "once: push Spark's conditions down to files and brokers, for a table that is used once; else off",
    "start": "where a stream begins: earliest or latest",
    "maxRowsPerTrigger": "the most rows of a micro-batch",
    "maxBytesPerTrigger": "the approximate most bytes on disk of a micro-batch",
    "gaps": "how a stream reports what it has missed: error or row",
    "patience": "seconds to wait for a broker that is down",
    "id": "the name of a write, which makes it repeatable",
    "clientName": "the client name of writers: this (else IDENTITY/spark, or spark), the id and the partition",
    "attributes": "only: publish the column `attributes` and no others",
    "quality": "the quality: default (stored where the broker has a store, else accepted), stored or accepted",
}
"""What may be said, and what it means."""
_SPARKS = frozenset({"checkpointlocation", "queryname"})
"""What Spark passes along."""


@dataclass(frozen=True)
class Options:
    """What a user has asked for. It travels to the workers."""

    path: str = ""
    brokers: tuple[str, ...] = ()
    token: str | None = None
    ca: str | None = None
    insecure: bool = False
    filter: Filter = EVERYTHING
    promote: tuple[Promoted, ...] | None = None
    since: int | None = None
    until: int | None = None
    pushdown: bool = False
    latest: bool = False
    max_rows: int = 0
    max_bytes: int = 0
    gaps_as_rows: bool = False
    patience: float = PATIENCE
    id: str = ""
    client_name: str = ""
    """What the names of writers begin with; empty: IDENTITY/spark, or spark where brokers know no identities."""
    attributes_only: bool = False
    quality: str = "default"

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """From what Spark was told, in whatever case; `SourceError` names what is wrong."""
        known = {name.lower(): name for name in _KNOWN}
        said = {name.lower(): value for name, value in given.items() if name.lower() not in _SPARKS}
        if strange := sorted(set(said) - set(known)):
            raise SourceError(f"option '{strange[0]}' is not known; the options are {', '.join(_KNOWN)}")
        told = {known[name]: value for name, value in said.items()}
        promote = told.get("promote")
        return cls(
            path=told.get("path", ""),
            brokers=tuple(one.strip() for one in told.get("broker", "").split(",") if one.strip()),
            token=told.get("token"),
            ca=told.get("ca"),
            insecure=_choice("insecure", told.get("insecure", "false"), "false", "true") == "true",
            filter=Filter.parse(told["filter"]) if told.get("filter") else EVERYTHING,
            promote=None if promote is None else _promoted(promote),
            since=_instant("since", told.get("since")),
            until=_instant("until", told.get("until")),
            pushdown=_choice("pushdown", told.get("pushdown", "off"), "off", "once") == "once",
            latest=_choice("start", told.get("start", "earliest"), "earliest", "latest") == "latest",
            max_rows=int(_number("maxRowsPerTrigger", told.get("maxRowsPerTrigger", "0"))),
            max_bytes=int(_number("maxBytesPerTrigger", told.get("maxBytesPerTrigger", "0"))),
            gaps_as_rows=_choice("gaps", told.get("gaps", "error"), "error", "row") == "row",
            patience=_number("patience", told.get("patience", str(PATIENCE))),
            id=told.get("id", ""),
            client_name=told.get("clientName", ""),
            attributes_only=_choice("attributes", told.get("attributes", "no"), "no", "only") == "only",
            quality=_choice("quality", told.get("quality", "default"), "default", "stored", "accepted"),
        )

    def check_readable(self) -> None:
        """Raise `SourceError` unless it is said what to read."""
        if not self.path and not self.brokers:
            raise SourceError(
                'no source is named; use .load("archive/") or .option("broker", "tidings://host:7311"), or both'
            )

    def check_writable(self) -> None:
        """Raise `SourceError` unless it is said where to publish."""
        if len(self.brokers) != 1:
            raise SourceError(
                'rows are published at exactly one broker; name it with .option("broker", "tidings://host:7311")'
            )

    @property
    def tls(self) -> ssl.SSLContext | None:
        """Whom to trust, if that is not what the machine says."""
        try:
            return None if self.ca is None else ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise SourceError(f"option ca: '{self.ca}' cannot be used: {error}; it must hold certificates") from None


def _promoted(text: str) -> tuple[Promoted, ...]:
    try:
        return tuple(Promoted.parse(one.strip()) for one in text.split(",") if one.strip())
    except StoreError as error:
        raise SourceError(f"option promote: {error}") from None


def _instant(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise SourceError(f"option {name}: '{text}' is not a time; write it like 2026-11-16T03:00Z") from None
    moment = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def _choice(name: str, given: str, *choices: str) -> str:
    if given.lower() not in choices:
        *some, last = choices
        raise SourceError(f"option {name}: '{given}' is not known; use {', '.join(some)} or {last}")
    return given.lower()


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= MAX_NUMBER:
        raise SourceError(f"option {name}: '{text[:40]}' is not a number from 0 to {MAX_NUMBER:g}")
    return number
