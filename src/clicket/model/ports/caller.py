"""The interface of every way to call the runtime: in process, over HTTP, from an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, Protocol, Unpack

from clicket.kernel import State
from clicket.model import Arguments, CallOptions, Event, Page, Record, ToolCall, ToolResult

__all__ = ["Caller", "Handle"]


class Handle(Protocol):
    """A call that was accepted."""

    @property
    def id(self) -> str: ...
    @property
    def thread(self) -> str: ...
    def events(self, after: int = 0) -> AsyncIterator[Event]: ...
    async def result(self, timeout: float | None = None) -> ToolResult: ...
    async def cancel(self, reason: str = "") -> bool: ...


class Caller(Protocol):
    """The methods that run and watch calls."""

    def call(
        self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]
    ) -> Coroutine[Any, Any, ToolResult]: ...
    async def submit(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> Handle: ...
    def stream(
        self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[Event]: ...
    async def call_many(self, calls: Iterable[ToolCall], *, max_concurrency: int = 5) -> list[ToolResult]: ...
    async def cancel(self, id: str, *, thread: str | None = None, reason: str = "") -> bool: ...
    async def get(self, id: str, *, thread: str | None = None) -> Record: ...
    async def state(self, id: str, *, thread: str | None = None) -> State: ...
    async def history(
        self,
        *,
        thread: str | None = None,
        tool: str | None = None,
        state: State | str | None = None,
        since: float | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page: ...
