"""Requests in plain language, and for each the tool that can do it.

`requests.txt` (300), `judged.txt` (100) and `heldback.txt` (210) are what the search was tuned on; the last was held back until the
first version of this ranking was judged. `heldback2.txt` (200) was written from the catalog alone before the ranking was changed again,
for tools that no other request is about, drawn at random: `random.Random(20261118).sample(tools_without_request, 200)`. No miss of it
was looked at. Put no miss of it into a table: once it was looked at, it belongs to the tuned ones, and new requests are due.
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
