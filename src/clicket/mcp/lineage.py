"""Who started whom. A server that clicket starts may be a clicket that starts servers; that ends, whatever the settings say.

Each process that is started gets marks of all declarations it descends from, in its environment. A declaration that is among
them is not followed again: its servers would start themselves without end. A bound on the depth stops every other circle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from clicket.errors import UsageError

__all__ = ["VARIABLE", "came_from", "handed_down", "mark_of"]

VARIABLE = "CLICKET_MCP_CHAIN"
MAX_DEPTH = 5


def _chain(environ: Mapping[str, str]) -> list[str]:
    return [mark for mark in environ.get(VARIABLE, "").split(",") if mark]


def mark_of(declared: Any) -> str:
    """A declaration, as it was written, in the folder where it is followed."""
    text = msgspec.json.encode([os.path.realpath(os.getcwd()), declared], enc_hook=str, order="deterministic")
    return sha256(text).hexdigest()[:16]


def came_from(mark: str, environ: Mapping[str, str] | None = None) -> bool:
    """Was this process started, directly or not, because of that very declaration?"""
    return mark in _chain(os.environ if environ is None else environ)


def handed_down(mark: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a process that is started for a declaration gets to know. `UsageError`: there are too many above us already."""
    chain = _chain(os.environ if environ is None else environ)
    if len(chain) >= MAX_DEPTH:
        raise UsageError(
            f"{MAX_DEPTH} MCP servers have started each other, so no more are started. "
            "Look for a server in [mcp.servers] whose own settings name the one that starts it"
        )
    return {VARIABLE: ",".join([*chain, mark])}
