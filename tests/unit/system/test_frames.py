"""Frames are split correctly however the stream is cut; a bad header is refused before its body is stored."""

from __future__ import annotations

from struct import Struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.system.frames import FrameSplitter

HEADER = Struct("!IB")


def size_of(size: int, kind: int) -> int:
    if size > 1_000_000 or kind == 0:
        raise ValueError(f"{kind}: {size}")
    return size


@given(
    st.lists(st.tuples(st.integers(1, 9), st.binary(max_size=20)), max_size=6),
    st.lists(st.integers(1, 12), max_size=30),
)
def test_frames_come_out_as_they_went_in(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(HEADER.pack(len(body), kind) + body for kind, body in frames)
    splitter, found, at = FrameSplitter(HEADER, size_of), [], 0
    for cut in [*cuts, len(stream)]:
        found += [(head[-1], b"".join(pieces)) for head, pieces in splitter.feed(stream[at : at + cut])]
        at += cut
    assert found == frames


def test_a_frame_comes_out_with_its_last_byte() -> None:
    splitter = FrameSplitter(HEADER, size_of)
    for byte in HEADER.pack(2, 1) + b"a":
        assert list(splitter.feed(bytes([byte]))) == []
    assert list(splitter.feed(b"b")) == [(HEADER.pack(2, 1), [bytearray(b"ab")])]


def test_single_bytes_are_merged_and_big_pieces_are_not() -> None:
    splitter = FrameSplitter(HEADER, size_of)
    list(splitter.feed(HEADER.pack(400_000, 1)))
    for _ in range(100_000):
        list(splitter.feed(b"x"))
    [(_, pieces)] = [*splitter.feed(b"y" * 200_000), *splitter.feed(b"z" * 100_000)]
    assert len(pieces) <= 5
    assert b"".join(pieces) == b"x" * 100_000 + b"y" * 200_000 + b"z" * 100_000


def test_a_header_that_is_refused_keeps_nothing() -> None:
    with pytest.raises(ValueError, match="0: 7"):
        list(FrameSplitter(HEADER, size_of).feed(HEADER.pack(7, 0) + b"1234567"))
