"""What `undo` reports."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from clicket.model.codec import encode
from clicket.model.record import Record

__all__ = ["UNDO", "UNDO_PART", "CallUndo", "UndoReport", "arguments_of_undo", "reconcile_tool", "undo_id", "undo_tool"]

UNDO = "undo:"
UNDO_PART = "clicket:undo"
"""Tools that are part of this can be called by `undo` alone."""
_MAX_SHOWN = 64 * 1024


class CallUndo(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the undo of one call."""

    id: str
    tool: str
    thread: str
    reason: str
    undo: str = ""
    """The id of the call that undoes it; empty: there is none."""


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was undone and what was not, each call with its reason; the latest call first. Calls that had no effect are in no list, nor
    are those of tools that only read."""

    undone: list[CallUndo] = []
    unknown: list[CallUndo] = []
    """It is not known whether the call happened, or whether its undo did, or its undo has not ended. `resolve` settles it."""
    failed: list[CallUndo] = []
    """The undo failed; it may be tried again (`retry=True`)."""
    impossible: list[CallUndo] = []
    waiting: list[CallUndo] = []
    """Can be undone, and was not: it waits for a later call that failed or is unknown. Of a dry run: what would be undone."""

    @property
    def is_complete(self) -> bool:
        """Is everything undone that can be?"""
        return not (self.unknown or self.failed or self.waiting)


def undo_tool(tool: str) -> str:
    """The name of the tool whose calls undo those of `tool`."""
    return f"{UNDO}{tool}"


def reconcile_tool(tool: str) -> str:
    """The name of the tool whose calls ask the check of `tool`."""
    return f"reconcile:{tool}"


def undo_id(call: str, number: int = 1) -> str:
    """The id of the call that undoes a call of the same caller and thread; `number`: of the try."""
    made = f"undo-{sha256(call.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    return made if number == 1 else f"{made}-{number}"


def arguments_of_undo(record: Record) -> dict[str, Any]:
    """The arguments of the call that undoes this one. People and policies read in them what is undone."""
    shown = record.arguments if len(encode(record.arguments)) <= _MAX_SHOWN else None
    return {"call": record.id, "arguments": shown}
