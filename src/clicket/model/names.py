"""Tool names as model providers accept them, and back. A name that fits is not changed; another one is shortened and gets a hash.

Providers take up to 64 letters, digits, `_` and `-`; our names may be longer and have dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

__all__ = [
    "AGENT_PART",
    "AGENT_TAG",
    "FRONTEND",
    "agent_part",
    "place_in",
    "place_mark",
    "place_name",
    "place_queue",
    "shown_name",
    "wire_names",
]

AGENT_TAG = "agent"
"""A tag of tools whose calls are tasks for agents."""
FRONTEND = "frontend:tool"
"""The inner tool whose calls the caller's own program ends: tools that a client brings to an agent's turn."""

AGENT_PART = "clicket:agents"
"""Tools that are part of this can be called by turns of agents alone."""

_FITS = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_MARK = 8


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """The provider's name of each tool. No two are the same, whatever the tools are called."""
    known = set(names)
    given = {name: name for name in known if _FITS.fullmatch(name)}
    taken = set(given)
    for name in sorted(known - taken):
        number = 0
        while (wire := _marked(name, number)) in taken:
            number += 1
        given[name] = wire
        taken.add(wire)
    return given


def _marked(name: str, number: int) -> str:
    mark = sha256(f"{name}\n{number}".encode("utf-8", "backslashreplace")).hexdigest()[:_MARK]
    return f"{_UNFIT.sub('_', name)[: 64 - _MARK - 1]}_{mark}"


def place_mark(place: str) -> str:
    """A short text for a place, such as the host and the folder of a workspace."""
    return sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]


def agent_part(name: str, mark: str) -> str:
    """The registered name of a tool that models know by `name`; `mark` tells it from those of other places."""
    return f"{name}.{mark}"


def shown_name(part: str) -> str:
    """The inverse of `agent_part`."""
    return part.partition(".")[0]


_PLACE = "workspace:"


def place_name(host: str, folder: str) -> str:
    """The place of a workspace."""
    return f"{_PLACE}{host}:{folder}"


def place_in(middleware: str) -> str:
    """The place that the name of a middleware has in it; empty if it has none."""
    return middleware.rpartition(" (")[0] if middleware.startswith(_PLACE) else ""


def place_queue(place: str) -> str:
    """A queue from which only processes of this place claim: that of a tool that they have."""
    return agent_part("read_file", place_mark(place))
