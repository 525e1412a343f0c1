"""Tool names as model providers accept them, and back. A name that fits is not changed; another one is shortened and gets a hash.

Providers take up to 64 letters, digits, `_` and `-`; our names may be longer and have dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

__all__ = ["AGENT_TAG", "FRONTEND", "wire_names"]

AGENT_TAG = "agent"
"""A tag of tools whose calls are tasks for agents."""
FRONTEND = "frontend:tool"
"""The inner tool whose calls the caller's own program ends: tools that a client brings to an agent's turn."""

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
