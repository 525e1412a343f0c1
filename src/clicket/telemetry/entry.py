"""What a listener of `runtime.observers` is given: one call's entry in the journal. Listeners of the server, the commands and
telemetry read entries through this module, so that their shape is known in one place.
"""

from __future__ import annotations

from clicket.journal import Entry

__all__ = ["Entry", "is_internal", "tool_name"]


"""`id thread caller attempt owned events stages created_at`, and what the functions below read."""


def tool_name(entry: Entry) -> str:
    return entry.tool


def is_internal(entry: Entry) -> bool:
    """Is it a call that clicket makes for itself, such as an agent's turn?"""
    return entry.internal
