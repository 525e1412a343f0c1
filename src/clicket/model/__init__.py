"""Values: calls, events, records, results, and the JSON they are written in."""

from __future__ import annotations

from clicket.model.call import Arguments, CallOptions, ToolCall
from clicket.model.event import Event, EventType
from clicket.model.record import Attempt, Page, Record, fold, is_seen, notes_of, read, result_of
from clicket.model.result import Stage, ToolError, ToolResult
from clicket.model.unit import dump_unit, events_in, load_call, load_events, rows_of

__all__ = [
    "Arguments",
    "Attempt",
    "CallOptions",
    "Event",
    "EventType",
    "Page",
    "Record",
    "Stage",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "dump_unit",
    "events_in",
    "fold",
    "is_seen",
    "load_call",
    "load_events",
    "notes_of",
    "read",
    "result_of",
    "rows_of",
]
