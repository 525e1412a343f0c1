"""A call on a server, followed over the network. A stream that breaks is taken up where it broke; nothing is seen twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from clicket.bridge import within
from clicket.client.wire import ServerUnavailable, Wire, decoded, part
from clicket.model import Event, Record, ToolResult, notes_of, result_of

__all__ = ["CallHandle", "follow", "result_of_record"]

_AGAIN_FIRST = 0.05
_AGAIN_MOST = 2.0
_TRIES = 8
_MAX_OUTPUT = 16 * 1024 * 1024


class CallHandle:
    """A call that the server accepted."""

    def __init__(self, wire: Wire, id: str, thread: str) -> None:
        self._wire = wire
        self.id: str = id
        self.thread: str = thread

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Every event after number `after`, then live ones, ending with the terminal one."""
        return follow(self._wire, self.id, self.thread, after)

    @property
    def call_id(self) -> str:
        """The call's id, as `event.call_id` and `result.call_id`."""
        return self.id

    async def result(self, timeout: float | None = None) -> ToolResult:
        """Wait for the outcome; after `timeout` seconds `TimeoutError` is raised, and the call goes on."""
        return await within(timeout, self.id, self._result())

    async def _result(self) -> ToolResult:
        async for _ in self.events():
            pass
        query = {"thread": self.thread}
        record = await self._wire.get(f"/calls/{part(self.id)}", Record, query=query)
        return await result_of_record(self._wire, record)

    async def cancel(self, reason: str = "") -> bool:
        """Ask the call to end. True: it took effect or is on record; False: it had ended already."""
        answer = await self._wire.read(
            "POST", f"/calls/{part(self.id)}/cancel", _Cancelled, query={"thread": self.thread}, body={"reason": reason}
        )
        return answer.cancelled

    def __repr__(self) -> str:
        return f"<call {self.id}>"


class _Cancelled(msgspec.Struct):
    cancelled: bool


async def result_of_record(wire: Wire, record: Record) -> ToolResult:
    """An output that was too big for the journal is fetched, if memory can take it."""
    if record.truncated and record.artifact is not None:
        query = {"thread": record.thread}
        headers = {"range": f"bytes=0-{_MAX_OUTPUT}"}
        data = await wire.send("GET", f"/calls/{part(record.id)}/result", query=query, headers=headers)
        if len(data) <= _MAX_OUTPUT:
            is_json = notes_of(record).get("artifact_type") == "json"
            record.output = decoded(data, object) if is_json else data.decode(errors="replace")
    return result_of(record)


async def follow(wire: Wire, id: str, thread: str, after: int) -> AsyncIterator[Event]:
    """Replayed, then live. A few breaks in a row without news are too many."""
    at, failures, delay = after, 0, _AGAIN_FIRST
    while True:
        try:
            async for event in _read(wire, id, thread, at):
                at, failures, delay = event.seq, 0, _AGAIN_FIRST
                yield event
                if event.is_terminal:
                    return
            if await _has_ended(wire, id, thread, at):
                return
        except ServerUnavailable:
            failures += 1
            if failures >= _TRIES:
                raise
        await asyncio.sleep(delay)
        delay = min(delay * 2, _AGAIN_MOST)


async def _has_ended(wire: Wire, id: str, thread: str, at: int) -> bool:
    """The stream ended without a terminal event: nothing came after `at`, or the server is on its way out."""
    record = await wire.get(f"/calls/{part(id)}", Record, query={"thread": thread})
    return record.state.is_terminal and (not record.events or record.events[-1].seq <= at)


async def _read(wire: Wire, id: str, thread: str, after: int) -> AsyncIterator[Event]:
    headers = {"accept": "text/event-stream", "last-event-id": str(after)}
    async with wire.lines(f"/calls/{part(id)}/events", query={"thread": thread}, headers=headers) as lines:
        async for data in messages(lines):
            event = decoded(data.encode(), Event)
            if event.seq > after:
                yield event


async def messages(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """The data of server-sent events, comments and other fields aside."""
    data: list[str] = []
    async for line in lines:
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
