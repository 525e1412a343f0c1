"""Result cache and single flight: equal calls of tools that allow it run once. Others are served from the cache, or from the call that
is running.

Calls are equal if they have the same tool, version, arguments (in any spelling), scope and time window. Of equal calls at the same
time, in all processes, one leads and runs; the others are durable, hold no slot, and get its result. If it fails, each of them
runs by itself: failures are never shared.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec

from clicket.bridge import fulfil
from clicket.call import Call
from clicket.engine.shared_slots import SharedSlots
from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model.codec import canonical, decode, encode
from clicket.ports import CacheItem, CacheUse, Clock, Store
from clicket.tools import Tool

__all__ = ["CacheOptions", "Caching"]

logger = logging.getLogger("clicket.engine")

_TTL = {"code_interpreter": 1800.0, "deep_search": 7200.0, "file_operation": 600.0, "web_scraping": 900.0}
_WAIT_FIRST = 0.02
_WAIT_MOST = 0.25
_SWEEP_STEP = 200
_SAYS_SOMETHING = (State.COMPLETED, State.FAILED)


class CacheOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How results are cached in one runtime."""

    enabled: bool = True
    scope: Literal["caller", "thread"] = "caller"
    max_bytes: int = 64 * 1024 * 1024
    ttl: Mapping[str, float] = {}
    """Seconds by tool name, for tools with `cache=True`; `default` is for those that are not named."""

    def ttl_of(self, tool: Tool) -> float | None:
        """Seconds for which results of a tool may be served; None: never."""
        options = tool.options
        if not self.enabled or not options.cache or options.real_time or options.sensitive:
            return None
        if tool.traits.one_call_per_thread:  # it has a session: its output depends on more than its arguments
            return None
        if options.cache is not True:
            return float(options.cache)
        return self.ttl.get(tool.name) or _TTL.get(tool.name) or self.ttl.get("default") or 300.0


class _Flight:
    """Equal calls at one time: the one that runs for all, those that wait for it, and its result."""

    __slots__ = ("followers", "item", "leader")

    def __init__(self, leader: Call, followers: list[Call] | None = None) -> None:
        self.leader = leader
        self.followers = followers or []
        self.item: CacheItem | None = None


class Caching:
    """`serve(call, output)` ends a call with a cached output; `run(call)` sends it on to be run; `keep(call)` makes it durable while
    it waits for its equal."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        slots: SharedSlots,
        options: CacheOptions,
        *,
        serve: Callable[[Call, Any], None],
        run: Callable[[Call], None],
        keep: Callable[[Call], None],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self.options = options
        self._store = store
        self._clock = clock
        self._slots = slots
        self._serve = serve
        self._run = run
        self._keep = keep
        self._spawn = spawn
        self._ttls: dict[Tool, float | None] = {}
        self._flights: dict[str, _Flight] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._weight = 0
        self._shared = store.durability != "none"
        self.closed = False

    def fit(self, call: Call) -> None:
        """Give a call its key, if its tool's results are cached. The hash is not keyed, so arguments with a secret get no key."""
        tool = call.required_tool()
        call.cache_key = None
        if tool.options.cache and call.secrets is None and self._ttl(tool) is not None:
            call.cache_key = self._key(call, tool)

    def exclude(self, call: Call) -> None:
        """The call has started before: it is neither served from the cache nor shared with its equals."""
        call.cache_key = None

    def _ttl(self, tool: Tool) -> float | None:
        if tool not in self._ttls:
            self._ttls[tool] = self.options.ttl_of(tool)
        return self._ttls[tool]

    def _key(self, call: Call, tool: Tool) -> str:
        options = tool.options
        by_thread = (options.cache_scope or self.options.scope) == "thread"
        window = None if options.time_window is None else self._clock.now() // options.time_window
        data = tool.data_version()
        version = f"{options.version} {data}" if data else options.version
        parts = [tool.name, version, call.arguments, call.caller, call.thread if by_thread else None, window]
        return sha256(canonical(parts)).hexdigest()

    # A new call.

    def enter(self, call: Call) -> None:
        """Serve a call, let it wait for its equal, or send it on."""
        key = call.cache_key
        assert key is not None
        flight = self._flights.get(key)
        if flight is not None:
            flight.followers.append(call)
            self._keep(call)
            return
        self._flights[key] = _Flight(call)
        self._store.cache_get(key, self._clock.now(), lambda item, error: self._looked_up(call, key, item, error))

    def _looked_up(self, call: Call, key: str, item: CacheItem | None, error: ClicketError | None) -> None:
        if not self._leads(call, key):
            return  # it ended meanwhile; `left` has resumed its followers
        if error is not None:
            logger.warning("the cache could not be read, so call %s runs: %s", call.id, error)
        if item is not None and self._offer(call, item):
            return
        if self._shared and error is None:
            self._spawn(self._lead(call, key))
        else:
            self._run(call)

    def _leads(self, call: Call, key: str) -> bool:
        flight = self._flights.get(key)
        return flight is not None and flight.leader is call and not call.ending

    def _offer(self, call: Call, item: CacheItem) -> bool:
        try:
            output = decode(item.body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            logger.warning("a cached result is not JSON, so call %s runs: %s", call.id, error)
            return False
        if call.cache_key in self._flights:
            self._flights[call.cache_key].item = item
        self._serve(call, output)
        return True

    async def _lead(self, call: Call, key: str) -> None:
        """Only one process runs it. The others wait for its result in the cache."""
        name, delay = f"flight:{key}", _WAIT_FIRST
        while self._leads(call, key):
            leads = False
            try:
                leads = await self._slots.take(name, 1)
                item = await self._get(key)
            except ClicketError as error:
                logger.warning("call %s runs without a check of other processes: %s", call.id, error)
                item, alone = None, True
            else:
                alone = leads
            if self._leads(call, key) and not (item is not None and self._offer(call, item)) and alone:
                call.flight = name if leads else None
                self._run(call)
                return
            if leads:
                self._slots.give(name)
            if self._leads(call, key):
                if not call.entry.durable:
                    self._keep(call)
                await self._pause(delay)
                delay = min(delay * 2, _WAIT_MOST)

    async def _get(self, key: str) -> CacheItem | None:
        answer: asyncio.Future[CacheItem | None] = asyncio.get_running_loop().create_future()
        self._store.cache_get(key, self._clock.now(), lambda item, error: fulfil(answer, item, error))
        return await answer

    async def _pause(self, delay: float) -> None:
        """Wait until a slot is free, or for a limited time."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        timer = self._clock.call_later(delay, fulfil, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.discard(waiter)

    def slot_freed(self) -> None:
        for waiter in self._waiting:
            fulfil(waiter)

    # A call ends.

    def use_of(self, call: Call) -> CacheUse | None:
        """How an ending call used the cache; the store writes it with the outcome."""
        key = call.cache_key
        if key is None:
            return None
        if call.cached:
            return CacheUse(key, True)
        if (
            call.outcome is not State.COMPLETED
            or call.truncated
            or call.is_masked
            or call.tool_artifacts
            or call.tool is None
        ):
            return CacheUse(key, False)
        if not call.tool.is_cacheable(call.output):  # a completed call can report something that failed
            return CacheUse(key, False)
        ttl = self._ttl(call.tool)
        body = encode(call.output)
        if ttl is None or len(body) > self.options.max_bytes:
            return CacheUse(key, False)
        now = self._clock.now()
        tags = (f"tool:{call.tool.name}", *sorted(call.tool.options.tags))
        item = CacheItem(key=key, body=body, tags=tags, created_at=now, expires_at=now + ttl, accessed_at=now)
        flight = self._flights.get(key)
        if flight is not None and flight.leader is call:
            flight.item = item
        self._weight += len(body)
        return CacheUse(key, False, item)

    def left(self, call: Call) -> None:
        """A call is over in this process. Its followers get its result; without a result each of them runs."""
        key = call.cache_key
        flight = self._flights.get(key) if key is not None else None
        if key is None or flight is None:
            return
        if flight.leader is not call:
            if call in flight.followers:
                flight.followers.remove(call)
            return
        del self._flights[key]
        self.slot_freed()  # its `_lead` may be waiting, and sees that it is over
        ran = call.flight is not None or call.slot
        if call.flight is not None:
            self._slots.give(call.flight)
            call.flight = None
        if self.closed:
            return
        followers = [follower for follower in flight.followers if not follower.ending]
        item = flight.item if call.ended and call.outcome is State.COMPLETED else None
        if item is not None and item.is_fresh(self._clock.now()):
            for follower in followers:
                if not self._offer(follower, item):
                    self._run(follower)
        elif followers and (item is not None or not (ran and call.ended and call.outcome in _SAYS_SOMETHING)):
            self._promote(key, followers)  # it was stopped, or its result is too old by now
        else:
            for follower in followers:
                self._run(follower)
        if self._weight > self.options.max_bytes // 4:
            self._weight = 0
            self._spawn(self.sweep())

    def _promote(self, key: str, followers: list[Call]) -> None:
        leader, *rest = followers
        self._flights[key] = _Flight(leader, rest)
        if self._shared:
            self._spawn(self._lead(leader, key))
        else:
            self._run(leader)

    async def sweep(self) -> None:
        """Remove expired results, and those above the size limit, in small steps."""
        more = True
        while more:
            step = await self._store.cache_sweep(self._clock.now(), self.options.max_bytes, _SWEEP_STEP)
            more = step.more
