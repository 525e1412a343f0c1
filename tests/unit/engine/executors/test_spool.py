"""The spool: all emitted output, complete, at the reported offsets, in memory or on disk."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.engine.executors.spool import Spool
from clicket.model.codec import decode

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=30)
VALUES = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
        st.integers(),
        st.none(),
        st.lists(st.booleans()),
    ),
    max_size=30,
)


def lines_to_values(data: bytes) -> list[Any]:
    """The values of JSON lines."""
    return [decode(line) for line in data.splitlines() if line]


def whole(spool: Spool) -> bytes:
    return b"".join(spool.pieces())


@given(TEXTS, st.integers(0, 200))
def test_text_is_kept_as_it_is(texts: list[str], limit: int) -> None:
    spool = Spool(limit)
    try:
        offsets = [spool.add(text) for text in texts]
        data = "".join(texts).encode()
        assert whole(spool) == data
        assert whole(spool) == data  # repeatedly
        assert spool.size == len(data)
        assert spool.digest() == sha256(data).hexdigest()
        assert spool.head(10) == data[:10]
        for offset, text in zip(offsets, texts, strict=True):
            assert data[offset:].startswith(text.encode())
        assert spool.in_memory is (len(data) <= limit)
        if spool.in_memory:
            assert spool.value() == "".join(texts)
    finally:
        spool.close()


@given(VALUES)
def test_values_are_kept_as_lines(values: list[Any]) -> None:
    spool = Spool(10**6)
    for value in values:
        spool.add(value)
    if all(type(value) is str for value in values):
        assert spool.value() == "".join(values)
    else:
        assert spool.value() == values
        assert lines_to_values(whole(spool)) == values
    assert spool.size == len(whole(spool))
    assert spool.digest() == sha256(whole(spool)).hexdigest()


@given(VALUES, st.integers(0, 60))
def test_going_to_disk_loses_nothing(values: list[Any], limit: int) -> None:
    spool = Spool(limit)
    try:
        for value in values:
            spool.add(value)
        assert spool.size == len(whole(spool))
        if not spool.is_text:
            found = lines_to_values(whole(spool))
            # Text that was on disk before the first non-text value may be one piece by now; no character of it is lost.
            assert [v for v in found if type(v) is not str] == [v for v in values if type(v) is not str]
            assert "".join(v for v in found if type(v) is str) == "".join(v for v in values if type(v) is str)
    finally:
        spool.close()


def test_writing_goes_on_after_reading() -> None:
    spool = Spool(4)
    spool.add("abcdef")
    assert not spool.in_memory
    assert spool.head(2) == b"ab"
    assert spool.digest()
    assert spool.add("gh") == 6
    assert whole(spool) == b"abcdefgh"
    spool.close()
    spool.close()


def test_lines_hold_any_text() -> None:
    spool = Spool(10)
    for value in ("a\nb\u2028c\r", {"k": "line\nbreak"}, [1]):
        spool.add(value)
    assert lines_to_values(whole(spool)) == ["a\nb\u2028c\r", {"k": "line\nbreak"}, [1]]
    assert [json.loads(line) for line in whole(spool).split(b"\n") if line] == lines_to_values(whole(spool))
    spool.close()


@pytest.mark.parametrize("size", [0, 1])
def test_an_empty_spool_is_empty(size: int) -> None:
    spool = Spool(size)
    assert (spool.value(), whole(spool), spool.head(5), spool.size) == ("", b"", b"", 0)
    assert spool.digest() == sha256(b"").hexdigest()
