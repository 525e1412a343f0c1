"""Values: calls, events, records, results, and the JSON they are written in.

- `call`, `request`, `arguments`: a request to run a tool; its checks
- `event`, `unit`: one fact about a call; the events that are written together, as they are stored
- `record`: everything known about a call, folded from its events; `waits`: whether it waits for a person
- `effect`, `undo`: whether a call had its effect; what `undo` reports, and the names of what it calls
- `grant`: an approval that also answers later questions
- `result`, `output`: what a caller gets back, also without a record; a tool's output as plain JSON
- `replayed`: the outcome of an equal call, in place of a run
- `files`: images and files, and the references that stand for them on record
- `ended`, `figures`: how a call ended, for statistics; counts and run times in buckets
- `codec`: JSON encoding and decoding
- `ids`, `names`: ids of calls; tool names as model providers accept them
- `printable`, `time_text`: untrusted text, safe to print; instants as text
- `chat`: messages to a language model, and its replies
- `document`: documents that a search finds, and citations of them
- `deps`: values of this process that a run gets; only their names are stored
- `credential`, `scopes`: a caller's credential, without the secret; what a caller of the server may do
- `evaluation`: runs of evaluations, their figures and trials
- `fact`, `forgotten`: what an agent remembers about a caller; what `forget` has removed of one
- `queue`, `worker`: the calls that wait for a worker; a worker as it is listed
- `notice`: a fact that is sent to one webhook endpoint
- `spend`: tokens and money that agents and tools spend
- `foreign`, `foreign_errors`: reading data of other libraries; errors of their models as ours
- `config`, `tables`, `tool_tables`: groups of the settings; the reader of their tables; options of two tools
- `version`: the installed version
"""

from __future__ import annotations

from clicket.model.call import Arguments, CallOptions, ToolCall
from clicket.model.effect import Effect, effect_of, is_in_doubt
from clicket.model.event import Event, EventType
from clicket.model.record import (
    Attempt,
    Page,
    Record,
    approver_names,
    fold,
    is_seen,
    is_unresolved,
    notes_of,
    read,
    result_of,
    waits_in_doubt,
)
from clicket.model.result import Stage, ToolError, ToolResult
from clicket.model.unit import dump_unit, events_in, load_call, load_events, rows_of

__all__ = [
    "Arguments",
    "Attempt",
    "CallOptions",
    "Effect",
    "Event",
    "EventType",
    "Page",
    "Record",
    "Stage",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "approver_names",
    "dump_unit",
    "effect_of",
    "events_in",
    "fold",
    "is_in_doubt",
    "is_seen",
    "is_unresolved",
    "load_call",
    "load_events",
    "notes_of",
    "read",
    "result_of",
    "rows_of",
    "waits_in_doubt",
]
