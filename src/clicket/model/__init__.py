"""Values: calls, events, records, results, and the JSON they are written in."""

from __future__ import annotations

from clicket.model.call import Arguments, CallOptions, ToolCall
from clicket.model.event import Event, EventType, dump_events, load_call, load_events
from clicket.model.record import Attempt, Page, Record, fold, read, result_of
from clicket.model.result import Stage, ToolError, ToolResult

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
    "dump_events",
    "fold",
    "load_call",
    "load_events",
    "read",
    "result_of",
]
