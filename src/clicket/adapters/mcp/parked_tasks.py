"""Tasks of another server whose calls here wait for a person: no body runs that could cancel them.

When such a call ends without its body (it was cancelled, or ran out of time), the server is asked to cancel the task, in the name of the
call's caller. Only the process that asked knows the task, so after its death the task ends by its time to live.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from clicket.model import Event
from clicket.runtime.runtime import Runtime
from clicket.tools import ToolContext

__all__ = ["ParkedTasks"]

_MAX = 10_000
_Key = tuple[str, str, str]


class ParkedTasks:
    """`cancel(runtime, id)` asks the server to cancel a task; the runtime acts for the caller of the task's call. The events of calls are
    listened to only while there are such tasks."""

    def __init__(self, cancel: Callable[[Runtime, str], Coroutine[Any, Any, None]]) -> None:
        self._cancel = cancel
        self._tasks: dict[_Key, str] = {}
        self._runtimes: list[Runtime] = []
        self._listening: list[Callable[[], None]] = []

    def watch(self, runtime: Runtime) -> None:
        """Calls of this runtime use the server's tools."""
        self._runtimes.append(runtime)

    def park(self, ctx: ToolContext, task: str) -> None:
        self._tasks[ctx.caller, ctx.thread, ctx.call_id] = task
        while len(self._tasks) > _MAX:
            del self._tasks[next(iter(self._tasks))]
        if not self._listening:
            self._listening = [each.observers.add(self._observer(each)) for each in self._runtimes]

    def forget(self, ctx: ToolContext) -> None:
        """The call's body runs again, and follows the task itself."""
        self._take((ctx.caller, ctx.thread, ctx.call_id))

    def close(self) -> None:
        self._tasks.clear()
        self._runtimes.clear()
        self._stop_listening()

    def _take(self, key: _Key) -> str | None:
        task = self._tasks.pop(key, None)
        if not self._tasks:
            self._stop_listening()
        return task

    def _stop_listening(self) -> None:
        listening, self._listening = self._listening, []
        for stop in listening:
            stop()

    def _observer(self, runtime: Runtime) -> Callable[[Any, Sequence[Event]], None]:
        def on_events(call: Any, events: Sequence[Event]) -> None:
            if any(event.is_terminal for event in events):
                task = self._take((call.caller, call.thread, call.id))
                if task is not None:
                    runtime.spawn(self._cancel(runtime.acting_for(call.caller), task))

        return on_events
