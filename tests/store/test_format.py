"""What is on disk stays readable: these bytes were written by format 1."""

from __future__ import annotations

import zlib

import pytest
from store_world import envelope

from tidings.store import JournalKind, JournalRecord
from tidings.store._packing import Unreadable, envelopes_in, pack, records_in, unpack

ENVELOPE = "00919498a1620709a5616c69636503cd232800c09196a000a0900090c40481a16e0902"
RECORD = "0091940105a5616c69636583a26964a27331a666696c746572ab7072696365203e20313030a36f776ec3"


def test_publications_of_format_1_are_read() -> None:
    blob = bytes.fromhex(ENVELOPE)
    assert unpack(blob, zlib.crc32(blob), envelopes_in) == [envelope(7, 9, "alice", 3)]


def test_journals_of_format_1_are_read() -> None:
    blob = bytes.fromhex(RECORD)
    what = {"id": "s1", "filter": "price > 100", "own": True}
    assert unpack(blob, zlib.crc32(blob), records_in) == [JournalRecord(JournalKind.SUBSCRIBE, 5, "alice", what)]


def test_large_batches_are_compressed_and_small_ones_are_not() -> None:
    many = [envelope(1, seq) for seq in range(1, 101)]
    blob = pack(many)
    assert blob[:1] == b"\x01"
    assert len(blob) < 3_000
    assert unpack(blob, zlib.crc32(blob), envelopes_in) == many
    assert pack(many[:1])[:1] == b"\x00"


@pytest.mark.parametrize("blob", [b"", b"\x00", b"\x01\x02\x03", b"\x00\x91\x01", b"\x05whatever"])
def test_bytes_that_are_no_batch_are_unreadable_even_with_the_right_checksum(blob: bytes) -> None:
    with pytest.raises(Unreadable):
        unpack(blob, zlib.crc32(blob), envelopes_in)
