"""Requests in plain language, and for each the tool that can do it.

`requests.txt` (1,009) is for the 1,000 tools, `other.txt` (117) for the second catalog, of services that the first does not have. They are
written by hand, in other words than the descriptions. Nothing of the search was made from them.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["Request", "requests"]

_HERE = Path(__file__).parent


class Request(NamedTuple):
    tools: tuple[str, ...]
    """Any of them is right."""
    text: str


def requests(file: str = "requests.txt") -> list[Request]:
    lines = (line.partition(" :: ") for line in (_HERE / file).read_text().splitlines())
    return [Request(tuple(names.split("|")), text) for names, sign, text in lines if sign]
