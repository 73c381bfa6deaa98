"""Mappings that pack notifications into documents, and take them out again."""

from __future__ import annotations

import pytest
from hypothesis import given
from scopes.mapping_world import SAP, offered, wanted
from strategies import notifications

from tidings.model import Filter, Notification
from tidings.scopes.mappings._mapping import edge_mapping, mapping
from tidings.scopes.steps import Form, How, MappingFailed, Pack, Represent, Unpack


@pytest.mark.parametrize("form", list(Form))
@given(notifications(wild=True))
def test_a_document_gives_back_the_notification(form: Form, notification: Notification) -> None:
    there = mapping(Pack("body", form)).apply(notification)
    if there is None:
        assert form is Form.XML, "which has no place for control characters"
        return
    back = mapping(Unpack("body", form)).apply(there)
    assert back == notification
    assert back is not None
    in_order = Notification(dict(sorted(notification.items())))
    assert repr(back) == repr(in_order).replace(" fold=1,", ""), "1 comes back as 1, not as 1.0"


@pytest.mark.req("VIS-506", "VIS-509")
def test_xml_outside_is_binary_on_the_trading_floor() -> None:
    floor = edge_mapping(mapping(Unpack("fix", Form.BINARY), Pack("fixml", Form.XML, ("type",))))
    inside = mapping(Pack("fix", Form.BINARY)).apply(SAP)
    assert inside is not None
    assert isinstance(inside["fix"], bytes)
    outside = floor.outward.apply(inside)
    assert outside is not None
    assert str(outside["fixml"]).startswith('<notification><attribute name="at" kind="time">2026-01-01')
    assert set(outside) == {"type", "fixml"}
    assert floor.inward.apply(outside) == inside
    assert floor.outward.offered(Filter.parse("fix EXISTS")).matches(outside)
    assert floor.inward.wanted(Filter.parse("fix EXISTS")).matches(outside)


@pytest.mark.req("VIS-506", "VIS-509")
def test_xml_outside_is_ebcdic_on_the_mainframe() -> None:
    mainframe = edge_mapping(mapping(Represent("fixml", How.BYTES_TO_TEXT, "cp500")))
    outside = mapping(Pack("fixml", Form.XML)).apply(SAP)
    assert outside is not None
    inside = mainframe.inward.apply(outside)
    assert inside is not None
    assert bytes(inside["fixml"]).startswith("<notification".encode("cp500"))  # type: ignore[arg-type]
    assert mainframe.outward.apply(inside) == outside
    asked = Filter.parse("symbol = X'E2C1D7'")
    symbols = Represent("symbol", How.TEXT_TO_BYTES, "cp500")
    assert str(mapping(symbols).wanted(asked)) == "symbol = 'SAP'"


def test_what_has_no_other_representation_is_blocked() -> None:
    text, number = mapping(Represent("a", How.NUMBER_TO_TEXT)), mapping(Represent("a", How.TEXT_TO_NUMBER))
    assert text.apply(Notification(a=[1, 1.5])) == Notification(a=["1", "1.5"])
    assert number.apply(Notification(a=["007", "1.50", "-1e3"])) == Notification(a=[7, 1.5, -1000.0])
    for other in ("", "x", "1_0", "0x1", "1e999", " 1", "9" * 20, "nan", "٣", 5, True):
        assert number.apply(Notification(a=other)) is None
    assert mapping(Represent("a", How.TEXT_TO_BYTES, "ascii")).apply(Notification(a="ä")) is None
    assert mapping(Represent("a", How.BYTES_TO_TEXT)).apply(Notification(a=b"\xff")) is None
    assert wanted(Represent("a", How.NUMBER_TO_TEXT), "a IN ('5', 'x')") == "a = 5"
    assert wanted(Represent("a", How.NUMBER_TO_TEXT), "a <> '5'") == "a EXISTS", "5.0 is '5.0'"
    assert wanted(Represent("a", How.TEXT_TO_BYTES), "a <> X'61'") == "a <> 'a'"
    assert wanted(Represent("a", How.TEXT_TO_NUMBER), "a = 5") == "a EXISTS"
    assert offered(Represent("a", How.NUMBER_TO_TEXT), "a = 5") == "a IN ('5', '5.0')"


@pytest.mark.parametrize(
    ("form", "document"),
    [
        (Form.JSON, "[1]"),
        (Form.JSON, '{"a": NaN}'),
        (Form.JSON, '{"a": {"time": "noon"}}'),
        (Form.JSON, "[" * 5000),
        (Form.XML, "<notification>"),
        (Form.XML, '<!DOCTYPE x [<!ENTITY y "z">]><notification/>'),
        (Form.XML, "<other/>"),
        (Form.XML, '<notification><attribute name="a" kind="number">x</attribute></notification>'),
        (Form.XML, '<notification><attribute name="a">x</attribute></notification>'),
        (Form.XML, '<notification><attribute kind="text">x</attribute></notification>'),
        (Form.XML, '<notification><attribute name="a"><item kind="z"/></attribute></notification>'),
        (Form.BINARY, b"\xc1"),
        (Form.BINARY, b"\x81\xa1a\xd4\x05\x00"),
        (Form.JSON, 5),
    ],
)
def test_what_is_no_document_is_blocked(form: Form, document: object) -> None:
    with pytest.raises(MappingFailed):
        mapping(Unpack("a", form)).run(Notification(a=document))


def test_a_document_of_a_stranger_is_flattened() -> None:
    unpack = mapping(Unpack("a", Form.JSON))
    assert unpack.apply(Notification(a='{"b": {"c": 1, "d": null}, "e": null}')) == Notification({"b.c": 1})
    assert unpack.apply(Notification(b=1)) == Notification(b=1)
