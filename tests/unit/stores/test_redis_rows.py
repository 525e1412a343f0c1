"""Rows of claimed calls, packed by a script as Lua packs texts: any bytes, of any length."""

from __future__ import annotations

import msgspec
import pytest

from clicket.stores.redis.rows import packed_rows, stored


def _text(data: bytes) -> bytes:
    size = len(data)
    if size < 32:
        return bytes((0xA0 | size,)) + data
    if size < 256:
        return b"\xd9" + size.to_bytes(1, "big") + data
    if size < 65536:
        return b"\xda" + size.to_bytes(2, "big") + data
    return b"\xdb" + size.to_bytes(4, "big") + data


def _row(key: int, units: bytes, id: bytes = b"id") -> bytes:
    texts = b"".join(map(_text, (id, b"2", b"3", b"17")))
    return b"\x97" + msgspec.msgpack.encode(key) + texts + units + _text(b"16")


@pytest.mark.parametrize("size", [0, 1, 31, 32, 255, 256, 65535, 65536, 200_000])
def test_texts_of_any_bytes_and_length_are_whole(size: int) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    rows = packed_rows(b"\x92" + _row(7, b"\x92" + _text(body) + _text(b"x")) + _row(2**40, b"\x90", id=body[:40]))
    assert rows == [
        [7, b"id", b"2", b"3", b"17", [body, b"x"], b"16"],
        [2**40, body[:40], b"2", b"3", b"17", [], b"16"],
    ]


def test_a_complaint_in_place_of_units_makes_a_damaged_call() -> None:
    (row,) = packed_rows(b"\x91" + _row(7, _text(b"WRONGTYPE of a key")))
    assert "WRONGTYPE" in (stored(row).damaged or "")


def test_no_rows_are_no_rows() -> None:
    assert packed_rows(b"\x90") == []
