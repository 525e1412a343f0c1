"""Text of files, and what of it a model reads."""

from __future__ import annotations

__all__ = ["MAX_FILE", "lines_of", "numbered", "version_in", "version_of"]

MAX_FILE = 4 * 1024 * 1024
"""Bytes of a file that is read or edited as text."""
_MAX_SHOWN = 200_000
"""Characters of one reading."""
_MAX_LINE = 2_000
_VERSION = 12


def version_of(digest: str) -> str:
    """The part of a digest that models see."""
    return digest[:_VERSION]


def version_in(result: str) -> str:
    """The version that the first line of a result names; empty if it names none."""
    found = result.partition("\n")[0].rpartition("version ")[2].rstrip("]")
    return found if len(found) == _VERSION and found.isalnum() else ""


def lines_of(text: str) -> list[str]:
    """As editors count them: only a line end ends a line."""
    found = text.split("\n")
    return found if found[-1] else found[:-1]


def numbered(lines: list[str], first: int, last: int) -> tuple[str, int]:
    """Lines `first` to `last` with their numbers, and the number of the last one that is shown: a reading has a limit."""
    shown: list[str] = []
    size = 0
    number = first - 1
    for number, line in enumerate(lines[first - 1 : last], start=first):
        text = line.rstrip("\r")
        cut = text if len(text) <= _MAX_LINE else f"{text[:_MAX_LINE]} [the line has {len(text):,} characters]"
        size += len(cut) + 8
        if size > _MAX_SHOWN and shown:
            return "\n".join(shown), number - 1
        shown.append(f"{number:>6}\t{cut}")
    return "\n".join(shown), number
