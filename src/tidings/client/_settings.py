"""How a client connects: what `tidings.connect` was given, checked before anything is opened."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidings.history import CacheLimits
from tidings.model import ArgumentRefused, Notification
from tidings.wire import MAX_BROUGHT, MAX_SILENCE, MIN_SILENCE, SERIALISERS, encode_body

from ._address import Address, ConnectionFailed
from ._arguments import (
    MAX_WAIT,
    flag_of,
    instance_of,
    integer_of,
    name_of,
    plain_callback_of,
    seconds_of,
    shown,
)
from ._carried import AnyState, check_state

MAX_UNACKNOWLEDGED = 8_192
"""Publications that may wait for their acknowledgement before `publish` waits, too."""

OnDisconnect: TypeAlias = Callable[[ConnectionFailed], object]
"""Called with the reason when a connection is lost."""
OnReconnect: TypeAlias = Callable[[str], object]
"""Called with the name of the broker when there is a connection again."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a client is connected with. Making one checks everything."""

    urls: str | Sequence[str]
    name: str | None = None
    token: str | None = None
    tls: ssl.SSLContext | None = None
    serialiser: str = "msgpack"
    max_unacknowledged: int = MAX_UNACKNOWLEDGED
    remember: CacheLimits | None = None
    own_numbers: bool = False
    insecure: bool = False
    wait: float = 0.0
    on_disconnect: OnDisconnect | None = None
    on_reconnect: OnReconnect | None = None
    attributes: Mapping[str, object] | None = None
    take_over: bool = False
    state: AnyState | None = None
    silence: float | None = None
    overlap: bool = False

    def __post_init__(self) -> None:
        if self.serialiser not in list(SERIALISERS):  # which need not be hashable
            known = " or ".join(f'"{known}"' for known in SERIALISERS)
            raise ArgumentRefused(f"{shown(self.serialiser)} is no serialiser; choose {known}")
        integer_of(self.max_unacknowledged, "max_unacknowledged", 1, 2**31)
        if self.name is not None:
            name_of(self.name, "name", "give one that no other client of the network has, or none")
        token: object = self.token
        if token is not None and (not isinstance(token, str) or not token):
            raise ArgumentRefused(
                "the token is not a text, or an empty one; give the text that the administrator gave you"
            )
        if self.tls is not None:
            instance_of(
                self.tls, ssl.SSLContext, "tls", "give an ssl.SSLContext, as ssl.create_default_context() makes"
            )
        if self.remember is not None:
            instance_of(self.remember, CacheLimits, "remember", "give tidings.history.CacheLimits(...)")
        flag_of(self.own_numbers, "own_numbers")
        flag_of(self.insecure, "insecure")
        flag_of(self.take_over, "take_over")
        if self.state is not None:
            check_state(self.state)
        seconds_of(self.wait, "a wait", MAX_WAIT)
        if self.silence is not None:
            seconds_of(self.silence, "a silence", MAX_SILENCE, MIN_SILENCE)
        plain_callback_of(self.on_disconnect, "on_disconnect")
        plain_callback_of(self.on_reconnect, "on_reconnect")
        if len(self.brought) > MAX_BROUGHT:
            raise ArgumentRefused(
                f"attributes of {len(self.brought):,} bytes; a client brings at most {MAX_BROUGHT:,}: leave some out"
            )
        for address in self.addresses:
            if self.token is not None and not self.insecure:
                address.check_token()

    @property
    def brought(self) -> bytes:
        """What the client says about itself, as it travels."""
        if self.attributes is None:
            return b""
        if not isinstance(self.attributes, Mapping):
            raise ArgumentRefused(f"attributes={shown(self.attributes)}; give a mapping like {{'city': 'Berlin'}}")
        return encode_body(Notification(self.attributes)) if self.attributes else b""

    @property
    def addresses(self) -> list[Address]:
        """Where the brokers are, in the order in which they are tried."""
        if not isinstance(self.urls, str | Sequence):
            raise ConnectionFailed(f"{shown(self.urls)} is not the address of a broker; write tidings://host:port")
        addresses = [Address.parse(url) for url in ([self.urls] if isinstance(self.urls, str) else self.urls)]
        if not addresses:
            raise ArgumentRefused("no broker is named; give its address: tidings://host:port")
        return addresses
