"""Views of the runtime: its tools, its cache, its audit log, calls in listings; and its keyword arguments as settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from clicket.errors import ClicketError, PermissionDenied, StoreUnavailable, UsageError, did_you_mean
from clicket.kernel import State
from clicket.model import CallOptions, Page, Record, ToolCall, ToolError, ToolResult, read
from clicket.model.request import unknown_keyword
from clicket.ports import CacheEntry, CacheStats, Query, Store, Stored

if TYPE_CHECKING:  # a command that only reads a store needs neither
    from clicket.engine.audit import AuditEntry, AuditLog
    from clicket.tools import Tool

__all__ = [
    "Audit",
    "Cache",
    "CachePage",
    "HistoryOptions",
    "ToolInfo",
    "as_request",
    "cache_settings",
    "history_query",
    "in_order",
    "info",
    "page_of",
    "record_of",
]


_CACHE_STEP = 200
"""Cached results that are read or removed at once."""


class ToolInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A registered tool as it is listed."""

    name: str
    description: str
    input_schema: dict[str, Any]
    version: str
    tags: list[str]
    is_async: bool
    isolation: str
    timeout: float | None
    read_only: bool
    idempotent: bool

    def __repr__(self) -> str:
        return f"<tool {self.name}: {self.description[:80]}>"


class Audit:
    """The append-only log of what people and policies decided."""

    def __init__(self, log: AuditLog, store: Store, caller: str | None) -> None:
        self._log = log
        self._store = store
        self._caller = caller

    async def list(self, *, limit: int = 100, before: int | None = None) -> Sequence[AuditEntry]:
        """The newest first; `before` takes the number of an entry. One caller of a runtime (`acting_for`) may not read it."""
        if self._caller is not None:
            raise PermissionDenied("the audit log is for the operator of this runtime, not for one of its callers.")
        from clicket.engine.audit import entries

        return await entries(self._store, limit=limit, before=before)

    async def __call__(self, *, limit: int = 100, before: int | None = None) -> Sequence[AuditEntry]:
        return await self.list(limit=limit, before=before)

    async def record(self, what: str, *, by: str = "", **details: Any) -> None:
        """Write one entry, by `by` or else the runtime's caller. `what` is a noun and a past tense: `key.created`."""
        await self._log.kept(by or self._caller or "", what, **details)


class CachePage(msgspec.Struct, kw_only=True):
    """One page of `Cache.list`; `cursor` None: it is the last."""

    items: list[CacheEntry]
    cursor: str | None = None


class Cache:
    """The cached results of a runtime's store, shared by all processes over it."""

    def __init__(self, store: Store, audit: AuditLog, caller: str | None, now: Callable[[], float]) -> None:
        self._store = store
        self._audit = audit
        self._caller = caller
        self._now = now

    async def stats(self) -> CacheStats:
        return await self._store.cache_stats()

    async def list(self, *, tag: str | None = None, limit: int = 100, cursor: str | None = None) -> CachePage:
        """Cached results without their bodies, those that expire first before the others; `cursor` of one page fetches the next.

        Results are shared by all callers, so a runtime for one caller (`acting_for`) may not list them.
        """
        if self._caller is not None:
            raise PermissionDenied(
                "cached results are listed for the operator of this runtime, not for one of its callers."
            )
        after = cache_cursor(limit, cursor)
        now, items = self._now(), list[CacheEntry]()
        async for entry in self._walk(after, tag):
            if entry.expires_at > now:
                if len(items) == limit:
                    last = items[-1]
                    return CachePage(items=items, cursor=f"{last.expires_at!r}:{last.key}")
                items.append(entry)
        return CachePage(items=items)

    async def clear(self, tag: str | None = None, *, max_age: float | None = None) -> int:
        """Remove the results that carry a tag (`tool:NAME`, or one of the tool's own), or all; returns how many.

        `max_age`: only those that were made more than so many seconds ago.
        """
        removed = await self._store.cache_clear(tag) if max_age is None else await self._clear_old(tag, max_age)
        age = {} if max_age is None else {"max_age": max_age}
        await self._audit.kept(self._caller or "", "cache.cleared", tag=tag, removed=removed, **age)
        return removed

    async def _clear_old(self, tag: str | None, max_age: float) -> int:
        before = self._now() - checked_age(max_age)
        old: list[str] = []
        removed = 0
        async for entry in self._walk((0.0, ""), tag):
            if entry.created_at < before:
                old.append(entry.key)
            if len(old) == _CACHE_STEP:
                removed, old = removed + await self._store.cache_remove(old), []
        return removed + await self._store.cache_remove(old)

    async def _walk(self, after: tuple[float, str], tag: str | None) -> AsyncIterator[CacheEntry]:
        while True:
            found = await self._store.cache_items(after, _CACHE_STEP)
            for entry in found:
                if tag is None or tag in entry.tags:
                    yield entry
            if len(found) < _CACHE_STEP:
                return
            after = found[-1].expires_at, found[-1].key


def checked_age(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < inf:
        raise UsageError(f"max_age must be a number of seconds of at least 0, not {seconds!r}.")
    return seconds


def cache_cursor(limit: int, cursor: str | None) -> tuple[float, str]:
    """Where a page of cached results begins."""
    if type(limit) is not int or not 1 <= limit <= 1_000:
        raise UsageError(f"limit must be a number from 1 to 1,000, not {limit!r}.")
    if cursor is None:
        return 0.0, ""
    at, _, key = cursor.partition(":")
    try:
        return float(at), key
    except ValueError:
        raise UsageError(f"cursor must be one that a page gave, not {cursor!r:.100}.") from None


def cache_settings(cache: bool | Mapping[str, Any] | None) -> dict[str, Any]:
    """`cache=False` turns it off; `cache={"scope": "thread", "max_bytes": …, "ttl": {…}}` sets it."""
    if cache is None or isinstance(cache, bool):
        return {"cache": cache}
    if not isinstance(cache, Mapping):
        raise UsageError(f"cache must be True, False or a mapping of settings, not {cache!r}.")
    known = {"scope": "cache_scope", "max_bytes": "cache_max_bytes", "ttl": "cache_ttl"}
    for name in cache:
        if name not in known:
            raise UsageError(f"cache has no setting {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
    return {"cache": True, **{known[name]: value for name, value in cache.items()}}


def record_of(stored: Stored) -> Record:
    """A call as it is listed. One that cannot be read is listed with the reason, and does not affect the others."""
    why = stored.damaged
    if why is None:
        try:
            return read(stored.id, stored.events)
        except StoreUnavailable as nonsense:
            why = nonsense.message
    error = ToolError(code="store_unavailable", message=f"the call cannot be read: {why}", type="Damaged")
    return Record(id=stored.id, tool="", thread="", state=State.FAILED, created_at=0.0, error=error)


class HistoryOptions(TypedDict, total=False):
    """Which calls `history` lists."""

    thread: str | None
    tool: str | None
    state: State | str | None
    since: float | None
    """Made at or after this time, in seconds since the epoch."""
    until: float | None
    """Made before this time."""
    active: bool
    """Only calls that have not ended."""
    waiting_for: str | None
    """Only calls that wait for this; `approval` is the only value."""
    code: str | None
    """Only calls that this error code ended."""
    request_id: str | None
    metadata: Mapping[str, Any] | None
    """Only calls whose metadata has these values. A text also finds a value of another type that is written so in JSON."""
    id_contains: str | None
    order: Literal["asc", "desc"]
    """`desc`, the newest first, unless told otherwise."""


def page_of(found: Sequence[Stored], limit: int) -> Page:
    """A page of what a store found for `history_query`."""
    cursor = str(found[limit - 1].key) if len(found) > limit else None
    return Page(items=[record_of(stored) for stored in found[:limit]], cursor=cursor)


def history_query(
    caller: str | None, limit: int, cursor: str | None, *, order: str = "desc", metadata: Mapping[str, Any] | None = None,
    state: State | str | None = None, **plain: Any,
) -> Query:  # fmt: skip
    """What `history` asks the store for: one more than `limit`, to know whether there is another page."""
    if unknown := set(plain) - set(HistoryOptions.__annotations__):
        name = min(unknown)
        raise UsageError(f"history has no option {name!r}.{did_you_mean(name, HistoryOptions.__annotations__)}")
    if type(limit) is not int or not 1 <= limit <= 1_000:
        raise UsageError(f"limit must be a number from 1 to 1,000, not {limit!r}.")
    if order not in ("asc", "desc"):
        raise UsageError(f"order must be asc or desc, not {order!r}.")
    try:
        wanted = None if state is None else State(state)
    except ValueError:
        raise UsageError(f"state must be one of {', '.join(State)}, not {state!r}.") from None
    try:
        place = None if cursor is None else int(cursor)
        if place is not None and not 0 <= place < 1 << 63:
            raise ValueError(cursor)
    except (ValueError, TypeError):
        raise UsageError(f"cursor must be one that a page gave, not {cursor!r}.") from None
    ascending = order == "asc"
    return Query(
        caller=caller, state=wanted, limit=limit + 1, metadata=tuple((metadata or {}).items()), ascending=ascending,
        after=place if ascending else None, before=None if ascending else place, **plain,
    )  # fmt: skip


def as_request(given: ToolCall | tuple[str, Any] | Mapping[str, Any]) -> ToolCall:
    if isinstance(given, ToolCall):
        return given
    known = ("tool", "arguments", *CallOptions.__annotations__)
    if isinstance(given, Mapping) and "tool" in given and not set(given) <= set(known):
        raise unknown_keyword(given["tool"], {name: given[name] for name in given if name not in known})
    try:
        return ToolCall(**given) if isinstance(given, Mapping) else ToolCall(*given)
    except TypeError as error:
        raise UsageError(f"{given!r} is not a call: {error}. Use ToolCall(tool, arguments, ...).") from None


def info(tool: Tool) -> ToolInfo:
    options = tool.options
    return ToolInfo(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        version=options.version,
        tags=sorted(options.tags),
        is_async=tool.is_async,
        isolation=options.isolation,
        timeout=options.timeout,
        read_only=options.read_only,
        idempotent=options.idempotent,
    )


async def in_order(
    requests: Sequence[ToolCall], run: Callable[[ToolCall], Awaitable[ToolResult]], max_concurrency: int
) -> list[ToolResult]:
    """Run calls side by side, `max_concurrency` at once; results in the order of the calls, refusals among them."""
    if type(max_concurrency) is not int or max_concurrency < 1:
        raise UsageError(f"max_concurrency must be a whole number of at least 1, not {max_concurrency!r}.")
    results: list[ToolResult | None] = [None] * len(requests)
    numbers = iter(range(len(requests)))

    async def work() -> None:
        for number in numbers:
            request = requests[number]
            try:
                results[number] = await run(request)
            except ClicketError as error:
                refused = ToolError(code=error.code, message=error.message, type=type(error).__name__)
                results[number] = ToolResult(
                    call_id=request.id or "",
                    tool=str(request.tool),
                    state=State.FAILED,
                    error=refused,
                    content=str(refused),
                )

    async with asyncio.TaskGroup() as group:
        for _ in range(min(max_concurrency, len(requests))):
            group.create_task(work())
    return [result for result in results if result is not None]
