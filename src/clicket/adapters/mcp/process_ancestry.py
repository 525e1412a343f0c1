"""Stops MCP servers from starting each other without end. A server that clicket starts may be a clicket that starts servers.

Each started process gets, in an environment variable, the ids of all declarations that it descends from. A process does not
follow a declaration whose id it finds there. A maximum depth stops every other cycle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from clicket.errors import UsageError

__all__ = ["VARIABLE", "child_environment", "declaration_id", "is_descended_from"]

VARIABLE = "CLICKET_MCP_CHAIN"
MAX_DEPTH = 5


def _ancestors(environ: Mapping[str, str] | None) -> list[str]:
    value = (os.environ if environ is None else environ).get(VARIABLE, "")
    return [id for id in value.split(",") if id]


def declaration_id(declared: Any) -> str:
    """A hash of a declaration and the working directory."""
    text = msgspec.json.encode([os.path.realpath(os.getcwd()), declared], enc_hook=str, order="deterministic")
    return sha256(text).hexdigest()[:16]


def is_descended_from(id: str, environ: Mapping[str, str] | None = None) -> bool:
    """Was this process started, directly or not, because of the declaration with this id?"""
    return id in _ancestors(environ)


def child_environment(id: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variable for a process that is started for a declaration. Raises `UsageError` when this process is `MAX_DEPTH` deep."""
    ancestors = _ancestors(environ)
    if len(ancestors) >= MAX_DEPTH:
        raise UsageError(
            f"{MAX_DEPTH} MCP servers have started each other, so no more are started. "
            "Look for a server in [mcp.servers] whose own settings name the one that starts it"
        )
    return {VARIABLE: ",".join([*ancestors, id])}
