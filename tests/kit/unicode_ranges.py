"""Which characters UTF-8 can encode: known, where Hypothesis would try each."""

from __future__ import annotations

import sys
from collections.abc import Callable

from hypothesis.internal.intervalsets import IntervalSet

__all__ = ["encodable"]

_Sets = tuple[IntervalSet, IntervalSet]
"""What a codec can encode, and what of it does not come back as it was."""


def encodable(find: Callable[[str], _Sets]) -> Callable[[str], _Sets]:
    """As `find` of Hypothesis, which is left all codecs but UTF-8."""
    utf_8 = IntervalSet([(0, 0xD7FF), (0xE000, sys.maxunicode)]), IntervalSet([])
    return lambda codec: utf_8 if codec == "utf-8" else find(codec)
