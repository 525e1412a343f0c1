"""A captured stream stays within limits, for any bytes and any chunks."""

from __future__ import annotations

import errno
import itertools
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.interpreter.session.capture import Capture, Captured

TEXTS = st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")))


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def captured(data: bytes, cuts: list[int], *, kept: int, max_spooled: int = 1 << 20) -> tuple[str, Captured]:
    capture = Capture(kept=kept, max_spooled=max_spooled)
    live = "".join(capture.feed(piece) for piece in pieces(data, cuts)) + capture.last()
    return live, capture.finish()


@given(TEXTS, st.lists(st.integers(0, 600), max_size=12))
def test_pieces_change_nothing(data: bytes, cuts: list[int]) -> None:
    live, result = captured(data, cuts, kept=2000)
    assert live == result.text == data.decode("utf-8", "replace")
    assert (result.size, result.cut, result.spool) == (len(data), False, None)


@given(TEXTS, st.lists(st.integers(0, 600), max_size=12), st.integers(2, 120), st.integers(0, 400))
def test_head_and_tail_are_kept_and_the_whole_is_spooled(
    data: bytes, cuts: list[int], kept: int, max_spooled: int
) -> None:
    live, result = captured(data, cuts, kept=kept, max_spooled=max_spooled)
    half = kept // 2
    assert live == data.decode("utf-8", "replace")
    assert result.cut == (len(data) > 2 * half)
    if not result.cut:
        return
    assert result.spool is not None
    assert b"".join(result.spool.pieces(7)) == data[:max_spooled]
    head, tail = result.text.split(f" of {len(data)} bytes are left out here]\n")
    head, _, left_out = head.rpartition("\n[")
    assert len(data) - 2 * half <= int(left_out) <= len(data) - 2 * half + 6  # whole characters only
    assert data[:half].decode("utf-8", "replace").startswith(head)
    assert data[-half:].decode("utf-8", "replace").endswith(tail)


@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_a_cut_never_goes_through_a_character(character: str) -> None:
    data = (character * 100).encode()
    for kept in range(20, 60, 2):
        _, result = captured(data, [], kept=kept)
        assert "\ufffd" not in result.text


def test_memory_does_not_grow_with_the_stream(tmp_path: Path) -> None:
    capture = Capture(kept=100_000, max_spooled=1_000_000, folder=tmp_path)
    tracemalloc.start()
    try:
        for _ in range(3000):
            capture.feed(b"x" * 10_000)
        for _ in range(100_000):
            capture.feed(b"y")
        assert tracemalloc.get_traced_memory()[1] < 1_500_000
    finally:
        tracemalloc.stop()
    result = capture.finish()
    assert result.size == 30_100_000
    assert result.text.endswith("y" * 50_000)
    assert result.spool is not None
    assert result.spool.size == 1_000_000


def test_the_file_has_no_name_and_goes_with_its_last_holder(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    capture = Capture(kept=10, max_spooled=1000, folder=tmp_path)
    capture.feed(b"z" * 100)
    result = capture.finish()
    assert list(tmp_path.iterdir()) == []
    assert result.spool is not None
    assert b"".join(result.spool.pieces()) == b"z" * 100
    del capture, result
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_takes_nothing_costs_the_file_only(tmp_path: Path) -> None:
    capture = Capture(kept=10, max_spooled=1000, folder=tmp_path / "missing")
    for _ in range(3):
        capture.feed(b"0123456789")
    result = capture.finish()
    assert result.cut
    assert result.spool is None
    assert result.text.startswith("01234")
    assert result.text.endswith("56789")


def test_a_full_disk_leaves_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = Capture(kept=4, max_spooled=1000)
    capture.feed(b"abcdefgh")
    write = os.write

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    capture.feed(b"0123456789")
    monkeypatch.setattr(os, "write", write)
    capture.feed(b"ABCDEFGHIJ")
    result = capture.finish()
    assert result.size == 28
    assert result.spool is not None
    assert b"".join(result.spool.pieces()) == b"abcdefgh", "output after the disk was full is dropped completely"
