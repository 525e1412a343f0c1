"""Which characters UTF-8 can encode: known, where Hypothesis would try each."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from hypothesis.internal import charmap
from hypothesis.internal.intervalsets import IntervalSet

__all__ = ["encodable", "save"]

_UTF_8 = [(0, 0xD7FF), (0xE000, sys.maxunicode)]

_Sets = tuple[IntervalSet, IntervalSet]
"""What a codec can encode, and what of it does not come back as it was."""


def encodable(find: Callable[[str], _Sets]) -> Callable[[str], _Sets]:
    """As `find` of Hypothesis, which is left all codecs but UTF-8."""
    utf_8 = IntervalSet(_UTF_8), IntervalSet([])
    return lambda codec: utf_8 if codec == "utf-8" else find(codec)


def save(folder: Path) -> None:
    """For a program that uses Hypothesis in `folder`: the tables that take it seconds to make, where it looks for them."""
    charmap.charmap()
    made = charmap.charmap_file()
    tables = folder / ".hypothesis" / "unicode_data" / made.parent.name
    tables.mkdir(parents=True)
    if made.exists():  # not where the checkout is read-only
        shutil.copy(made, tables)
    with gzip.open(tables / charmap.charmap_file("codec-v2-utf-8").name, "wt") as file:
        json.dump([_UTF_8, []], file)
