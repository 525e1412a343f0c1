"""Tasks of another server whose calls here wait for a person: no body runs that could cancel them.

When such a call ends without its body (it was cancelled, or ran out of time), the server is asked to cancel the task. Only the process
that asked knows the task, so after its death the task ends by its time to live.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from clicket.model import Event
from clicket.tools import ToolContext

__all__ = ["ParkedTasks"]

_MAX = 10_000
_Key = tuple[str, str, str]


class _Named(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def thread(self) -> str: ...
    @property
    def caller(self) -> str: ...


class ParkedTasks:
    """`cancel(id)` asks the server to cancel a task."""

    def __init__(self, cancel: Callable[[str], Awaitable[None]]) -> None:
        self._cancel = cancel
        self._tasks: dict[_Key, str] = {}

    def park(self, ctx: ToolContext, task: str) -> None:
        self._tasks[ctx.caller, ctx.thread, ctx.call_id] = task
        while len(self._tasks) > _MAX:
            del self._tasks[next(iter(self._tasks))]

    def forget(self, ctx: ToolContext) -> None:
        """The call's body runs again, and follows the task itself."""
        self._tasks.pop((ctx.caller, ctx.thread, ctx.call_id), None)

    def observer(
        self, spawn: Callable[[Coroutine[Any, Any, None]], object]
    ) -> Callable[[_Named, Sequence[Event]], None]:
        """For the events of a runtime's calls."""

        def on_events(call: _Named, events: Sequence[Event]) -> None:
            if self._tasks and any(event.is_terminal for event in events):
                task = self._tasks.pop((call.caller, call.thread, call.id), None)
                if task is not None:
                    spawn(self._end(task))

        return on_events

    async def _end(self, task: str) -> None:
        await self._cancel(task)
