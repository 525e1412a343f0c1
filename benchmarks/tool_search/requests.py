"""Requests in plain language, and for each the tool that can do it.

`requests.txt` (300) and `judged.txt` (100) are what the search was tuned on. `heldback.txt` (210) was written from the catalog alone, for
tools that were drawn at random (`random.Random(20261117).sample(range(1000), 210)`), before the ranking was changed for the last time,
and no miss of it was looked at. Put no miss of it into a table: once it was looked at, it belongs to the tuned ones, and new requests are
due.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["HELD_BACK", "TUNED", "Request", "requests", "unseen"]

TUNED = ("requests.txt", "judged.txt")
HELD_BACK = "heldback.txt"
_HERE = Path(__file__).parent


class Request(NamedTuple):
    tools: tuple[str, ...]
    """Any of them is right."""
    text: str


def requests(*files: str) -> list[Request]:
    found: list[Request] = []
    for file in files:
        for line in (_HERE / file).read_text().splitlines():
            names, sign, text = line.partition(" :: ")
            if sign:
                found.append(Request(tuple(names.split("|")), text))
    return found


def unseen() -> list[Request]:
    """The held-back requests for tools that no tuned request is about."""
    seen = {name for each in requests(*TUNED) for name in each.tools}
    return [each for each in requests(HELD_BACK) if seen.isdisjoint(each.tools)]
