"""Requests in plain language, and for each the tool that can do it. The search was tuned on `requests.txt`. `judged.txt` was written
afterwards, and nothing was changed because of it: put misses of it into no table, write new requests instead."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["Request", "requests"]

_HERE = Path(__file__).parent


class Request(NamedTuple):
    tools: tuple[str, ...]
    """Any of them is right."""
    text: str


def requests(file: str) -> list[Request]:
    found: list[Request] = []
    for line in (_HERE / file).read_text().splitlines():
        names, sign, text = line.partition(" :: ")
        if sign:
            found.append(Request(tuple(names.split("|")), text))
    return found
