"""What is left of a file when its form is taken away: plain text, with a title and the places of its headings."""

from __future__ import annotations

import msgspec

__all__ = ["Extracted", "Heading"]


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """A heading of the text. `start` is where it stands in the text, `level` 1 is the highest."""

    text: str
    start: int
    level: int = 1


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """`truncated`: the file is longer than what was read of it."""

    title: str = ""
    text: str = ""
    headings: tuple[Heading, ...] = ()
    truncated: bool = False
