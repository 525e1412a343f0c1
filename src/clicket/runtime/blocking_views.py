"""What `clicket.sync.Runtime` gives beside calls: the cache, the audit log and the tools of a thread, blocking."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from clicket.engine.hub import Change, ToolState, ToolView
from clicket.engine.people.audit import AuditEntry
from clicket.kernel import ToolStatus
from clicket.model.ports import CacheStats
from clicket.runtime.runtime import Runtime as AsyncRuntime
from clicket.runtime.views.cache import CachePage

__all__ = ["Audit", "BlockingRuntime", "Cache", "ThreadHub"]

T = TypeVar("T")


class BlockingRuntime(Protocol):
    """What these views need of `clicket.sync.Runtime`."""

    _runtime: AsyncRuntime

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any: ...
    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]: ...
    def _refuse_unless_open(self) -> object: ...


class Cache:
    """The cached results of a runtime's store, shared by all processes over it."""

    def __init__(self, runtime: BlockingRuntime) -> None:
        self._runtime = runtime

    def stats(self) -> CacheStats:
        found: CacheStats = self._runtime._wait(self._stats())
        return found

    def list(self, *, tag: str | None = None, limit: int = 100, cursor: str | None = None) -> CachePage:
        """Cached results without their bodies, those that expire first before the others; `cursor` of one page fetches the next."""
        page: CachePage = self._runtime._wait(self._list(tag, limit, cursor))
        return page

    def clear(self, tag: str | None = None, *, max_age: float | None = None) -> int:
        """Remove the results that carry a tag (`tool:NAME`, or one of the tool's own), or all; returns how many.

        `max_age`: only those that were made more than this many seconds ago.
        """
        return int(self._runtime._wait(self._clear(tag, max_age)))

    # Only these are looked up in the loop, so that a runtime that is not open raises this module's error.

    async def _stats(self) -> CacheStats:
        return await self._runtime._runtime.cache.stats()

    async def _list(self, tag: str | None, limit: int, cursor: str | None) -> CachePage:
        return await self._runtime._runtime.cache.list(tag=tag, limit=limit, cursor=cursor)

    async def _clear(self, tag: str | None, max_age: float | None) -> int:
        return await self._runtime._runtime.cache.clear(tag, max_age=max_age)


class Audit:
    """The append-only log of what people and policies decided."""

    def __init__(self, runtime: BlockingRuntime) -> None:
        self._runtime = runtime

    def list(self, *, limit: int = 100, before: int | None = None) -> Sequence[AuditEntry]:
        """The newest first; `before` takes the number of an entry. One caller of a runtime (`acting_for`) may not read it."""
        listed: Sequence[AuditEntry] = self._runtime._wait(self._list(limit, before))
        return listed

    def __call__(self, *, limit: int = 100, before: int | None = None) -> Sequence[AuditEntry]:
        return self.list(limit=limit, before=before)

    def record(self, what: str, *, by: str = "", **details: Any) -> None:
        """Write one entry, by `by` or else the runtime's caller. `what` is a noun and a past tense: `key.created`."""
        self._runtime._wait(self._record(what, by, details))

    # Looked up in the loop, so that a runtime that is not open raises this module's error.

    async def _list(self, limit: int, before: int | None) -> Sequence[AuditEntry]:
        return await self._runtime._runtime.audit(limit=limit, before=before)

    async def _record(self, what: str, by: str, details: dict[str, Any]) -> None:
        await self._runtime._runtime.audit.record(what, by=by, **details)


class ThreadHub:
    """`hub = rt.hub("t1")`: the same names as `clicket.hub.ThreadHub`, blocking."""

    def __init__(self, runtime: BlockingRuntime, thread: str) -> None:
        self._runtime = runtime
        self.thread: str = thread

    def _ask(self, method: str, *args: Any, **options: Any) -> Any:
        async def ask() -> Any:
            return await getattr(self._runtime._runtime.hub(self.thread), method)(*args, **options)

        return self._runtime._wait(ask())

    def tools(self) -> list[ToolView]:
        """Every registered tool: is it available, if not why, and which tools to call first."""
        views: list[ToolView] = self._ask("tools")
        return views

    def available(self) -> list[str]:
        """The names of the tools that a model may be offered now."""
        names: list[str] = self._ask("available")
        return names

    def status(self, name: str) -> ToolState:
        state: ToolState = self._ask("status", name)
        return state

    def states(self) -> dict[str, ToolState]:
        """The status of every registered tool."""
        states: dict[str, ToolState] = self._ask("states")
        return states

    def summary(self) -> str:
        return str(self._ask("summary"))

    def prompt(self) -> str:
        return str(self._ask("prompt"))

    def set(self, name: str, status: ToolStatus | str, reason: str = "", *, by: str = "") -> ToolState:
        """Set a tool's status as an operator."""
        state: ToolState = self._ask("set", name, status, reason, by=by)
        return state

    def reset(self, name: str | None = None, *, by: str = "") -> list[str]:
        """Make a tool, or all, available again."""
        names: list[str] = self._ask("reset", name, by=by)
        return names

    def report(self, name: str, *, ok: bool, error: str = "") -> ToolState:
        """Report how a run of a tool ended that clicket did not make."""
        state: ToolState = self._ask("report", name, ok=ok, error=error)
        return state

    def snapshot(self) -> str:
        return str(self._ask("snapshot"))

    def restore(self, text: str | bytes, *, by: str = "") -> bool:
        return bool(self._ask("restore", text, by=by))

    def watch(self) -> Iterator[Change]:
        """Changes of status from now on, of this process and of others."""
        self._runtime._refuse_unless_open()
        return self._runtime._iterate(self._runtime._runtime.hub(self.thread).watch())
