"""Requests in plain language, and for each the tool that can do it.

`requests.txt` (300), `judged.txt` (100), `heldback.txt` (210) and `heldback2.txt` (200) are what the search was tuned on; the last two
were held back until they had judged an earlier ranking. `heldback3.txt` (200) was written from the catalog alone before the ranking was
changed again, for tools that no other request is about, drawn at random: `random.Random(20261120).sample(tools_without_request, 200)`. No
miss of it was looked at. Put no miss of it into a table: once it was looked at, it belongs to the tuned ones, and new requests are due.

`other.txt` (117) is for the second catalog, of services that the first does not have. Every second request (the first, the third, …) was
looked at while the ranking was changed, the others were not.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["HELD_BACK", "OTHER", "TUNED", "Request", "requests"]

TUNED = ("requests.txt", "judged.txt", "heldback.txt", "heldback2.txt")
HELD_BACK = "heldback3.txt"
OTHER = "other.txt"
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
