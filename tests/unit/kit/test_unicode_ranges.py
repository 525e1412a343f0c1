"""Texts of Hypothesis are made of all characters that UTF-8 can encode, and of no others."""

from __future__ import annotations

import sys

import pytest
from hypothesis.internal import charmap
from hypothesis.internal.intervalsets import IntervalSet
from tests.kit.unicode_ranges import encodable


@pytest.mark.parametrize(
    "at", [0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x10000, sys.maxunicode]
)
def test_utf_8_is_known(at: int) -> None:
    found, changed = charmap.intervals_from_codec("utf-8")
    try:
        is_encodable = chr(at).encode("utf-8").decode("utf-8") == chr(at)
    except UnicodeEncodeError:
        is_encodable = False
    assert (at in found, at in changed) == (is_encodable, False)


def test_there_are_no_more_of_them() -> None:
    every = range(sys.maxunicode + 1)
    found, _ = charmap.intervals_from_codec("utf-8")
    assert len(found) == len("".join(map(chr, every)).encode("utf-8", "ignore").decode("utf-8"))


def test_other_codecs_are_left_to_hypothesis() -> None:
    asked: list[str] = []

    def find(codec: str) -> tuple[IntervalSet, IntervalSet]:
        asked.append(codec)
        return IntervalSet([(0, 127)]), IntervalSet([])

    known = encodable(find)
    assert len(known("utf-8")[0]) > len(known("ascii")[0]) == 128
    assert asked == ["ascii"]
