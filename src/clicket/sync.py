"""The blocking face: the same names, for programs without an event loop. One loop in one thread serves a runtime for its life."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from clicket.bridge import LoopThread, refuse_running_loop
from clicket.engine import Progress, Recovered
from clicket.errors import UsageError
from clicket.kernel import State
from clicket.model import Arguments, CallOptions, Event, Page, Record, ToolCall, ToolResult
from clicket.pipeline import Policy
from clicket.ports import CacheStats, Handle
from clicket.runtime import Runtime as AsyncRuntime
from clicket.runtime import ToolInfo
from clicket.settings import Settings
from clicket.tools import Tool

__all__ = ["Cache", "CallHandle", "Runtime"]


class CallHandle:
    """A call that was accepted."""

    def __init__(self, runtime: Runtime, handle: Handle) -> None:
        self._runtime = runtime
        self._handle = handle
        self.id: str = handle.id
        self.thread: str = handle.thread

    def events(self, after: int = 0) -> Iterator[Event]:
        """Every event after number `after`, then live ones, ending with the terminal one."""
        return self._runtime._iterate(self._handle.events(after))

    def result(self) -> ToolResult:
        result: ToolResult = self._runtime._wait(self._handle.result())
        return result

    def cancel(self, reason: str = "") -> bool:
        return bool(self._runtime._wait(self._handle.cancel(reason)))


class Cache:
    """The cached results of a runtime's store, shared by all processes over it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def stats(self) -> CacheStats:
        found: CacheStats = self._runtime._wait(self._stats())
        return found

    def clear(self, tag: str | None = None) -> int:
        """Remove the results that carry a tag (`tool:NAME`, or one of the tool's own), or all; returns how many."""
        return int(self._runtime._wait(self._clear(tag)))

    # Only these are looked up in the loop, so that a runtime that is not open says so in the words of this face.

    async def _stats(self) -> CacheStats:
        return await self._runtime._runtime.cache.stats()

    async def _clear(self, tag: str | None) -> int:
        return await self._runtime._runtime.cache.clear(tag)


class Runtime:
    """`with clicket.sync.Runtime(tools=[...]) as rt: result = rt.call("name", {...})`."""

    def __init__(
        self,
        tools: Iterable[Any] = (),
        *,
        store: str | None = None,
        durability: str | None = None,
        engine: str | None = None,
        policy: Policy | None = None,
        cache: bool | Mapping[str, Any] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._runtime = AsyncRuntime(
            tools, store=store, durability=durability, engine=engine, policy=policy, cache=cache, settings=settings
        )
        self._runtime._prefer_sync = True
        self._thread: LoopThread | None = None

    @property
    def settings(self) -> Settings:
        return self._runtime.settings

    def open(self) -> Self:
        """Start the loop's thread and open the store. `with` does it."""
        refuse_running_loop("clicket.sync.Runtime")
        if self._thread is not None:
            raise UsageError("the runtime is open already.")
        self._thread = LoopThread()
        try:
            self._wait(self._runtime.open())
        except BaseException:
            self._end_thread()
            raise
        return self

    def close(self, *, patience: float | None = None) -> None:
        """Take no new calls; running ones get `patience` seconds to finish, then they are stopped."""
        if self._thread is not None:
            try:
                self._wait(self._runtime.close(patience=patience))
            finally:
                self._end_thread()

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(patience=0 if kind is not None else None)

    def _wait(self, coroutine: Any) -> Any:
        try:
            refuse_running_loop("clicket.sync.Runtime")
            if self._thread is None:
                raise UsageError("the runtime is not open; use it inside `with clicket.sync.Runtime(...) as rt:`.")
        except UsageError:
            coroutine.close()
            raise
        return self._thread.call(coroutine)

    def _iterate(self, iterator: Any) -> Iterator[Any]:
        refuse_running_loop("clicket.sync.Runtime")
        if self._thread is None:
            raise UsageError("the runtime is not open; use it inside `with clicket.sync.Runtime(...) as rt:`.")
        return self._thread.iterate(iterator)

    def add(self, tool: Any) -> Tool:
        """Register one more tool."""
        return self._runtime.add(tool)

    def call(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> ToolResult:
        """Run a tool and wait for its outcome; `options` are the keywords of `ToolCall`."""
        result: ToolResult = self._wait(self._runtime.call(tool, arguments, **options))
        return result

    def submit(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> CallHandle:
        """Hand a call over; returns as soon as it is durable."""
        return CallHandle(self, self._wait(self._runtime.submit(tool, arguments, **options)))

    def stream(self, tool: str, arguments: Arguments = None, **options: Unpack[CallOptions]) -> Iterator[Event]:
        """Run a tool and watch it: its events as they become durable, the outcome last."""
        return self._iterate(self._runtime.stream(tool, arguments, **options))

    def call_many(
        self, calls: Iterable[ToolCall | tuple[str, Any] | Mapping[str, Any]], *, max_concurrency: int = 5
    ) -> list[ToolResult]:
        """Run calls side by side; order is kept, one failure harms no other."""
        results: list[ToolResult] = self._wait(self._runtime.call_many(calls, max_concurrency=max_concurrency))
        return results

    def cancel(self, id: str, *, thread: str | None = None, reason: str = "") -> bool:
        return bool(self._wait(self._runtime.cancel(id, thread=thread, reason=reason)))

    def approve(self, id: str, *, thread: str | None = None, by: str = "", reason: str = "") -> bool:
        return bool(self._wait(self._runtime.approve(id, thread=thread, by=by, reason=reason)))

    def deny(self, id: str, *, thread: str | None = None, by: str = "", reason: str = "") -> bool:
        return bool(self._wait(self._runtime.deny(id, thread=thread, by=by, reason=reason)))

    def recover(self, *, progress: Progress | None = None) -> Recovered:
        """Take over, now, what dead owners left in the store. `progress` is called, in the loop's thread, with the report
        so far."""
        report: Recovered = self._wait(self._runtime.recover(progress=progress))
        return report

    @property
    def cache(self) -> Cache:
        """Cached results: `rt.cache.stats()`, `rt.cache.clear(tag="tool:weather")`."""
        return Cache(self)

    def get(self, id: str, *, thread: str | None = None) -> Record:
        record: Record = self._wait(self._runtime.get(id, thread=thread))
        return record

    def state(self, id: str, *, thread: str | None = None) -> State:
        state: State = self._wait(self._runtime.state(id, thread=thread))
        return state

    def handle(self, id: str, *, thread: str | None = None) -> CallHandle:
        return CallHandle(self, self._wait(self._runtime.handle(id, thread=thread)))

    def history(self, **query: Any) -> Page:
        """Calls, newest first; keywords as in `clicket.Runtime.history`."""
        page: Page = self._wait(self._runtime.history(**query))
        return page

    def tools(self) -> Sequence[ToolInfo]:
        listed: Sequence[ToolInfo] = self._wait(self._runtime.tools())
        return listed

    def artifact(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        data: bytes = self._wait(self._runtime.artifact(name, start, end))
        return data
