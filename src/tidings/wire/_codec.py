"""Frames to bytes and back. Filters travel as text in the filter language.

A filter class of a user's own travels under the name of its filter model, as data that its codec makes and
reads; a model that the receiver has not registered is refused. Nothing that arrives is ever executed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from tidings.model import Filter, Matches, TidingsError, UnsupportedFilter

from ._errors import UNREADABLE, WireError, brief
from ._frame import Frame
from ._sketch import LARGE, look_first

CLIENT_COST = 128
"""The most that a filter of a client costs (see `Filter.cost`): more would hold up everybody else for too long."""


class _FilterModel(NamedTuple):
    name: str
    dump: Callable[[Any], str]
    load: Callable[[str], Matches]


_Packed = TypeVar("_Packed")

_by_class: dict[type, _FilterModel] = {}
_by_name: dict[str, _FilterModel] = {}


def register_filter_model(name: str, cls: type, dump: Callable[[Any], str], load: Callable[[str], Matches]) -> None:
    """Let filters of the class `cls` travel, as the text that `dump` makes and `load` reads."""
    if name in _by_name and cls not in _by_class:
        raise UnsupportedFilter(f"the filter model '{name}' is registered already; choose another name")
    _by_class[cls] = _by_name[name] = _FilterModel(name, dump, load)


def _enc_hook(value: object) -> object:
    if isinstance(value, Filter):
        return str(value)
    if model := _by_class.get(type(value)):
        return [model.name, model.dump(value)]
    raise UnsupportedFilter(
        f"a filter of class {type(value).__name__} cannot leave this process; "
        "give its model a name with register_filter_model"
    )


class UnreadableFilter:
    """A filter that came and could not be read. Whoever wants to use it gets the error, and can tell the sender."""

    def __init__(self, error: TidingsError) -> None:
        self.error = error

    def matches(self, notification: object) -> bool:
        """Raise the error."""
        raise self.error


def _dec_hook(kind: type, data: object, most: int | None = None) -> Matches:
    match data:
        case str():
            try:
                return Filter.parse(data, most=most)
            except TidingsError as error:
                return UnreadableFilter(error)
        case [str() as name, str() as text] if name in _by_name:
            try:
                return _by_name[name].load(text)
            except Exception as error:
                return UnreadableFilter(UnsupportedFilter(f"the filter model '{name}' cannot read this: {error}"))
        case [str() as name, str()]:
            return UnreadableFilter(UnsupportedFilter(f"the filter model '{brief(name)}' is not registered here"))
    raise ValueError("a filter is a text or a pair (model, text)")


_sparing_hook = functools.partial(_dec_hook, most=CLIENT_COST)
_encoder = msgspec.msgpack.Encoder(enc_hook=_enc_hook)
_decoder = msgspec.msgpack.Decoder(Frame, dec_hook=_dec_hook)
_sparing_decoder = msgspec.msgpack.Decoder(Frame, dec_hook=_sparing_hook)


def pack(value: object) -> bytes:
    """A struct of a feature's own as bytes; filters in it travel as in messages."""
    return _encoder.encode(value)


def unpacker(kind: type[_Packed]) -> Callable[[bytes], _Packed]:
    """A function that reads what `pack` has made of such a struct."""
    return msgspec.msgpack.Decoder(kind, dec_hook=_dec_hook).decode


_json_encoder = msgspec.json.Encoder(enc_hook=_enc_hook)
_json_decoder = msgspec.json.Decoder(Frame, dec_hook=_dec_hook)
_sparing_json_decoder = msgspec.json.Decoder(Frame, dec_hook=_sparing_hook)


class Serialiser(NamedTuple):
    """One way to write frames as bytes; both sides of a connection agree on one."""

    name: str
    encode: Callable[[Frame], bytes]
    read: Callable[[bytes], Frame]
    read_sparingly: Callable[[bytes], Frame]

    def decode(self, data: bytes) -> Frame:
        """The frame in these bytes, or `WireError`."""
        try:
            return self.read(data)
        except UNREADABLE as error:
            raise WireError(f"not a frame: {brief(error)}") from None

    def decode_sparingly(self, data: bytes) -> Frame:
        """As `decode`, for what a client sends to a broker: a filter beyond `CLIENT_COST` is not even parsed."""
        try:
            if len(data) > LARGE:
                look_first(data, msgspec.json.decode if self.name == "json" else msgspec.msgpack.decode)
            return self.read_sparingly(data)
        except UNREADABLE as error:
            raise WireError(f"not a frame: {brief(error)}") from None


MSGPACK = Serialiser("msgpack", _encoder.encode, _decoder.decode, _sparing_decoder.decode)
JSON = Serialiser("json", _json_encoder.encode, _json_decoder.decode, _sparing_json_decoder.decode)
SERIALISERS = {serialiser.name: serialiser for serialiser in (MSGPACK, JSON)}
"""By name; msgpack is the default, JSON is for looking at a connection with one's own eyes."""

encode = MSGPACK.encode
decode = MSGPACK.decode
