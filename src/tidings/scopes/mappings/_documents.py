"""A whole notification as one document, in JSON, XML or msgpack, and back, exactly.

JSON, where the kinds that it lacks are objects with one key; a nested object of a stranger becomes dotted names:

    {"price": 182.4, "at": {"time": "2026-01-01T00:00:00+00:00"}, "tags": ["a", "b"], "raw": {"bytes": "00ff"}}

XML, one element for each attribute. There is no document type, so there are no entities that could expand:

    <notification><attribute name="price" kind="number">182.4</attribute>
    <attribute name="tags"><item kind="text">a</item><item kind="text">b</item></attribute></notification>
"""

from __future__ import annotations

import enum
import re
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import msgspec

from tidings.model import Kind, Location, Notification, Scalar, TidingsError, kind_of
from tidings.scopes._plain import plain, read, rich, written

from ._step import Attributes, MappingFailed


class Form(enum.Enum):
    """How a document is written."""

    JSON = "json"
    XML = "xml"
    BINARY = "binary"

    @property
    def kind(self) -> Kind:
        """The kind of a value that holds such a document."""
        return Kind.BYTES if self is Form.BINARY else Kind.TEXT


def dumped(attributes: Attributes, form: Form) -> str | bytes:
    """The attributes as a document, or `MappingFailed`; sorted, so that equal notifications make equal documents."""
    attributes = dict(sorted(attributes.items()))
    match form:
        case Form.JSON:
            return msgspec.json.encode({name: plain(value) for name, value in attributes.items()}).decode()
        case Form.XML:
            return _xml(attributes)
        case Form.BINARY:
            return _encoder.encode(attributes)


def loaded(document: Any, form: Form) -> Attributes:
    """The attributes in a document, or `MappingFailed`."""
    try:
        match form:
            case Form.JSON:
                content = msgspec.json.decode(document, type=dict[str, Any])
                attributes = {name: rich(value) for name, value in content.items() if value is not None}
            case Form.XML:
                attributes = _XmlReader().read(document)
            case Form.BINARY:
                attributes = _decoder.decode(document)
        return Notification(attributes).attributes
    except (msgspec.MsgspecError, TidingsError, ValueError, RecursionError, expat.ExpatError) as error:
        raise MappingFailed(f"not a notification in {form.name}: {error}") from None


# XML

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def _xml(attributes: Attributes) -> str:
    parts = []
    for name, value in attributes.items():
        if type(value) is tuple:
            items = "".join(_element("item", "", item) for item in value)
            parts.append(f"<attribute name={quoteattr(name)}>{items}</attribute>")
        else:
            parts.append(_element("attribute", f" name={quoteattr(name)}", value))
    document = f"<notification>{''.join(parts)}</notification>"
    if _NOT_IN_XML.search(document):
        raise MappingFailed("a control character in a text, which XML cannot hold")
    return document


def _element(tag: str, name: str, scalar: Any) -> str:
    text = escape(written(scalar), {"\r": "&#13;"})  # a parser would make it a line feed
    return f'<{tag}{name} kind="{kind_of(scalar).value}">{text}</{tag}>'


class _XmlReader:
    """Reads the one document type that `_xml` writes; anything else is an error."""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}
        self.path: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.items: list[Scalar] = []

    def read(self, document: str) -> dict[str, Any]:
        """The attributes."""
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.Parse(document, True)
        return self.attributes

    def _doctype(self, *_: object) -> None:
        raise ValueError("a document type is not allowed")

    def _start(self, tag: str, given: dict[str, str]) -> None:
        if tag != ("notification", "attribute", "item", "")[min(len(self.path), 3)]:
            raise ValueError(f"<{tag}> does not belong here")
        self.path.append((tag, given))
        self.text = ""
        if tag == "attribute":
            self.items = []

    def _characters(self, text: str) -> None:
        self.text += text

    def _end(self, tag: str) -> None:
        _, given = self.path.pop()
        if tag == "item":
            self.items.append(read(given.get("kind", "?"), self.text))
        elif tag == "attribute":
            name = given.get("name", "")
            if name in self.attributes:
                raise ValueError(f"the attribute {name!r:.60} is given twice")
            if (self.items and "kind" in given) or (self.text.strip() and "kind" not in given):
                raise ValueError(f"the attribute {name!r:.60} has either a kind and a text, or items")
            self.attributes[name] = read(given["kind"], self.text) if "kind" in given else self.items
        self.text = ""


# msgpack

_PLACE = 1  # the code of a Location among msgpack's extension types, as in the body of a notification


def _enc_hook(value: object) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(_PLACE, str(value).encode())


def _ext_hook(code: int, data: memoryview) -> Location:
    if code != _PLACE:
        raise ValueError(f"extension type {code} is unknown")
    return Location(bytes(data).decode())


_encoder = msgspec.msgpack.Encoder(enc_hook=_enc_hook)
_decoder = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=_ext_hook)
