"""Calls in the store: found by id, followed while another process runs them, read when they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from clicket.errors import ClicketError, NotFound, StoreUnavailable, UsageError
from clicket.model import Event, Record, ToolResult, notes_of, read, result_of
from clicket.model.codec import decode
from clicket.model.ids import alias_of, is_alias, provider_prefix
from clicket.ports import Clock, Query, Store, Stored

__all__ = ["Closed", "StoredCalls"]

POLL_FIRST = 0.02
POLL_MOST = 0.25
_MAX_OUTPUT = 16 * 1024 * 1024
_MOST_NAMED = 1_000
"""Calls of a thread, the newest first, among which a short name is looked for."""


class Closed(ClicketError):
    """The runtime was closed while the call waited; a durable store keeps it, and the next runtime runs it."""

    code = "closed"


class StoredCalls:
    """`is_closing()`: the runtime takes no more calls."""

    def __init__(self, store: Store, clock: Clock, is_closing: Callable[[], bool]) -> None:
        self._store = store
        self._clock = clock
        self._is_closing = is_closing
        self.followers: dict[int, list[asyncio.Event]] = {}

    async def find(self, id: str, thread: str | None, caller: str | None) -> Stored:
        """The one stored call of that id, or an error that says how to name it."""
        found = await self._store.load(id, thread, caller)
        if not found:
            where = f" in thread {thread!r}" if thread is not None else ""
            raise NotFound(f"there is no call {id!r}{where}. It may have been swept; the history lists what is there.")
        if len(found) > 1:
            first = [stored.events[0].data for stored in found if stored.damaged is None]
            threads, callers = {data["thread"] for data in first}, {data.get("caller", "") for data in first}
            how = "pass thread= to say which" if len(threads) > 1 else "say whose: `runtime.acting_for(caller)`"
            where = f"threads {', '.join(map(repr, sorted(threads)))}"
            if len(callers) > 1:
                where += f", callers {', '.join(map(repr, sorted(callers)))}"
            raise UsageError(f"{len(found)} calls have the id {id!r} ({where}); {how}.")
        if found[0].damaged is not None:
            raise StoreUnavailable(
                f"call {id!r} cannot be read: {found[0].damaged}. Another program wrote into {self._store.url}, or it is damaged: "
                "restore it from a backup."
            )
        return found[0]

    async def find_named(self, id: str, thread: str | None, caller: str | None) -> Stored:
        """As `find`, for people: also by the id that a provider gave the call, or by its short name in an agent's turn."""
        try:
            return await self.find(id, thread, caller)
        except NotFound:
            named = await self._named(id, thread, caller)
            if not named:
                raise
        if len(named) == 1:
            return await self.find(*next(iter(named)))
        threads, callers = ({place[part] for place in named} for part in (1, 2))
        where = f"threads {', '.join(map(repr, sorted(threads)))}"
        if len(callers) > 1:
            where += f", callers {', '.join(map(repr, sorted(callers)))}"
        raise UsageError(
            f"{len(named)} calls have the name {id!r} ({where}); pass thread= to say which, or the whole id."
        )

    async def _named(self, id: str, thread: str | None, caller: str | None) -> set[tuple[str, str, str]]:
        """Id, thread and caller of the calls with a name; of one thread the newest."""
        if "~" in id or not id or (thread or "").startswith("agent:"):
            return set()
        found = await self._store.history(
            Query(id_prefix=provider_prefix(id), thread=thread, caller=caller, limit=_MOST_NAMED)
        )
        if not found and is_alias(id):
            recent = await self._store.history(Query(thread=thread, caller=caller, limit=_MOST_NAMED))
            found = [stored for stored in recent if alias_of(stored.id) == id]
        newest: dict[tuple[str, str], tuple[str, str, str]] = {}
        for stored in found:
            if stored.damaged is None:
                first = stored.events[0].data
                place = (first["thread"], first.get("caller", ""))
                newest.setdefault(place, (stored.id, *place))
        return set(newest.values())

    def on_news(self, key: int | None) -> None:
        """The store hints at new events of a call; None: of any."""
        keys = list(self.followers) if key is None else [key]
        for each in keys:
            for follower in self.followers.get(each, ()):
                follower.set()

    async def follow(self, key: int, id: str, after: int, *, is_known: bool = False) -> AsyncIterator[Event]:
        """Events after a number, up to the terminal one: read when the store hints at new events, and periodically.

        `is_known`: the caller has just read or written the event of that number, so nothing is read at once.
        """
        at, news, delay = after, asyncio.Event(), POLL_FIRST
        store = self._store
        self.followers.setdefault(key, []).append(news)
        try:
            if is_known:
                await self._wait_for(news, delay)
            while True:
                news.clear()
                # From the last known event on: if not even that is there, the call was swept.
                found = await store.events(key, id, max(at - 1, 0)) or await store.events(key, id, 0)
                if not found:
                    raise NotFound(f"call {id!r} was swept while it was being read; nothing of it is left.")
                fresh = [event for event in found if event.seq > at]
                for event in fresh:
                    at = event.seq
                    yield event
                if found[-1].state.is_terminal:
                    return
                if fresh:
                    delay = POLL_FIRST
                    continue
                await self._wait_for(news, delay)
                delay = min(delay * 2, POLL_MOST)
        except StoreUnavailable:
            if self._is_closing():
                raise Closed(f"the runtime was closed; call {id} goes on without it.") from None
            raise
        finally:
            self.followers[key].remove(news)
            if not self.followers[key]:
                del self.followers[key]

    async def _wait_for(self, news: asyncio.Event, delay: float) -> None:
        timer = self._clock.call_later(delay, news.set)
        try:
            await news.wait()
        finally:
            timer.cancel()

    async def result(self, stored: Stored, id: str) -> ToolResult:
        """Wait for the outcome of a call that another process runs, or read the one it has."""
        events = stored.events
        if not events or not events[-1].state.is_terminal:
            followed = self.follow(stored.key, id, len(events), is_known=bool(events))
            events = [*events, *[event async for event in followed]]
        return await self._with_output(read(id, events))

    async def _with_output(self, record: Record) -> ToolResult:
        """Read an output that was too big for the journal from its artifact, if it fits in memory."""
        if record.truncated and type(record.artifact) is str:
            data = await self._store.read_artifact(record.artifact, 0, _MAX_OUTPUT + 1)
            if len(data) <= _MAX_OUTPUT:
                text = data.decode(errors="replace")
                record.output = decode(data) if notes_of(record).get("artifact_type") == "json" else text
        return result_of(record)
