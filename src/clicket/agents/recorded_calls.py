"""The outcomes of a turn's tool calls, for a turn that is that one run again. The n-th equal call gets the n-th outcome; nothing of it
runs twice.

Calls are equal if they have the same tool, and the same arguments as they are on record: in one spelling, with sensitive values masked. A
call that got an outcome names the old call in its metadata, and these names are what has been used: so it is the same after a crash.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from clicket.agents.again import Again, Effects
from clicket.kernel import State
from clicket.model import Arguments, Record, ToolError, ToolResult
from clicket.model.codec import canonical
from clicket.model.names import FRONTEND
from clicket.model.ports import AgentHost
from clicket.model.replayed import Replayed

__all__ = ["RecordedCalls"]


class RecordedCalls:
    def __init__(self, again: Again, calls: Sequence[Record], used: set[str]) -> None:
        """`used`: ids of calls whose outcomes the new turn has."""
        self.effects: Effects = again.effects
        self._again = again
        self._used = used
        self._chosen: dict[str, Record] = {}
        """By the id of the new call: one whose commit failed is made again."""
        self._by_key: defaultdict[bytes, list[Record]] = defaultdict(list)
        for record in calls:
            self._by_key[_key(record.tool, _given(record))].append(record)

    async def make(self, host: AgentHost, tool: str, arguments: Arguments, call_id: str, thread: str) -> ToolResult:
        """Make a call of the new turn."""
        if self.effects == "ask":
            host = host.asking(f"it is not on record in turn {self._again.turn} of thread {self._again.thread!r}")
        return await host.replay(
            tool, arguments, id=call_id, thread=thread, replay=partial(self._choose, call_id), internal=tool == FRONTEND
        )

    def _choose(self, call_id: str, tool: str, arguments: Any) -> Replayed | None:
        found = self._chosen.get(call_id) or self._next(_key(tool, arguments))
        if found is None:
            return self._refusal(tool) if self.effects == "recorded" else None
        self._used.add(found.id)
        self._chosen[call_id] = found
        return _replayed(found)

    def _next(self, key: bytes) -> Record | None:
        return next((record for record in self._by_key.get(key, ()) if record.id not in self._used), None)

    def _refusal(self, tool: str) -> Replayed:
        turn, thread = self._again.turn, self._again.thread
        message = (
            f"turn {turn} of thread {thread!r} made no such call of {tool!r} (more), and this turn repeats that one without effects. "
            "Go on without it."
        )
        return Replayed(state=State.FAILED, error=ToolError(code="not_recorded", message=message, type="NotRecorded"))


def _given(record: Record) -> Any:
    """The arguments that the call was made with: a person may have edited them."""
    return record.events[0].data.get("arguments")


def _key(tool: str, arguments: Any) -> bytes:
    return canonical([tool, arguments])


def _replayed(record: Record) -> Replayed:
    size = record.metadata.get("artifact_size")
    return Replayed(
        state=record.state,
        note={"thread": record.thread, "call": record.id},
        output=record.output,
        content=record.content,
        error=_error_of(record),
        truncated=record.truncated,
        artifact=record.artifact,
        artifact_size=size if isinstance(size, int) else 0,
        files=record.files,
    )


def _error_of(record: Record) -> ToolError | None:
    """The same for the model. An unknown outcome gets a code of its own: the new call had no effect, and no person need settle it."""
    error = record.error
    if error is None or error.code != "outcome_unknown":
        return error
    message = f"outcome_unknown in call {record.id}: {error.message}"
    return msgspec.structs.replace(error, code="recorded_unknown", message=message)
