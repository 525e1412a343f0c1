"""A handle of a call on a server. A stream that breaks is opened again after the last event; no event is given twice."""

from __future__ import annotations

from collections.abc import AsyncIterator

from clicket.client.connection import Connection, Reconnection, ServerUnavailable, decoded, path_segment
from clicket.errors import NotFound
from clicket.model import Event, Record, ToolResult, notes_of, result_of
from clicket.system.bridge import within

__all__ = ["CallHandle", "follow", "result_of_record"]

_MAX_OUTPUT = 16 * 1024 * 1024
"""Bytes. A longer output is not fetched; `result.artifact` names it."""


class CallHandle:
    """A call that the server accepted."""

    def __init__(self, connection: Connection, id: str, thread: str, outcome: ToolResult | None = None) -> None:
        self._connection = connection
        self._outcome = outcome  # of a call that had ended when it was sent again
        self.id: str = id
        self.thread: str = thread

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Every event after number `after`, then live ones, ending with the terminal one."""
        return follow(self._connection, self.id, self.thread, after)

    @property
    def call_id(self) -> str:
        """The call's id, as `event.call_id` and `result.call_id`."""
        return self.id

    async def result(self, timeout: float | None = None) -> ToolResult:
        """Wait for the outcome; after `timeout` seconds `TimeoutError` is raised, and the call goes on."""
        return await within(timeout, self.id, self._result())

    async def _result(self) -> ToolResult:
        try:
            async for _ in self.events():
                pass
            query = {"thread": self.thread}
            record = await self._connection.get(f"/calls/{path_segment(self.id)}", Record, query=query)
        except NotFound:
            if self._outcome is None:
                raise
            return self._outcome  # retention has removed the call
        return await result_of_record(self._connection, record)

    async def cancel(self, reason: str = "") -> bool:
        """Cancel the call. True: it was cancelled, or the request is on record; False: it had ended already."""
        if self._outcome is not None:
            return False
        path = f"/calls/{path_segment(self.id)}/cancel"
        query = {"thread": self.thread}
        return await self._connection.read_field("POST", path, "cancelled", bool, query=query, body={"reason": reason})

    def __repr__(self) -> str:
        return f"<call {self.id}>"


async def result_of_record(connection: Connection, record: Record) -> ToolResult:
    """The result on record. An output that is only in an artifact is fetched, up to 16 MiB."""
    if record.truncated and record.artifact is not None:
        query = {"thread": record.thread}
        headers = {"range": f"bytes=0-{_MAX_OUTPUT}"}
        data = await connection.send("GET", f"/calls/{path_segment(record.id)}/result", query=query, headers=headers)
        if len(data) <= _MAX_OUTPUT:
            is_json = notes_of(record).get("artifact_type") == "json"
            record.output = decoded(data, object) if is_json else data.decode(errors="replace")
    return result_of(record)


async def follow(connection: Connection, id: str, thread: str, after: int) -> AsyncIterator[Event]:
    """The call's events after number `after`, those on record and then live ones."""
    at = after
    reconnection = Reconnection()
    while True:
        try:
            async for event in _read(connection, id, thread, at):
                at = event.seq
                reconnection.reset()
                yield event
                if event.is_terminal:
                    return
            if await _has_ended(connection, id, thread, at):
                return
        except ServerUnavailable as error:
            reconnection.failed(error)
        await reconnection.wait()


async def _has_ended(connection: Connection, id: str, thread: str, at: int) -> bool:
    """Called when a stream ends without a terminal event. Has the call no event after `at`? If it has, the server is shutting down."""
    record = await connection.get(f"/calls/{path_segment(id)}", Record, query={"thread": thread})
    return record.state.is_terminal and (not record.events or record.events[-1].seq <= at)


async def _read(connection: Connection, id: str, thread: str, after: int) -> AsyncIterator[Event]:
    path = f"/calls/{path_segment(id)}/events"
    query = {"thread": thread}
    async with connection.events(path, query=query, last_id=str(after)) as events:
        async for each in events:
            event = decoded(each.data, Event)
            if event.seq > after:
                yield event
