"""The cache of results: the keys of calls, what is stored of an ending call, and for how long. `single_flight` serves calls from it.

Calls are equal, and have the same key, if they have the same tool, version, arguments (in any spelling), caller, thread (if
`cache_scope` is `thread`), time window, and credentials.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from clicket.engine.live_call import Call
from clicket.kernel import State
from clicket.model.codec import canonical, encode
from clicket.model.config import CacheOptions
from clicket.model.ports import CachedResults, CacheItem, CacheUse, Clock
from clicket.tools import Tool

__all__ = ["Caching", "ttl_of"]

_TTL = {"code_interpreter": 1800.0, "deep_search": 7200.0, "file_operation": 600.0, "web_scraping": 900.0}
_SWEEP_STEP = 200


def ttl_of(cache: CacheOptions, tool: Tool) -> float | None:
    """Seconds for which results of a tool may be served; None: never."""
    options = tool.options
    if not cache.enabled or not options.cache or options.real_time or options.sensitive:
        return None
    if tool.traits.one_call_per_thread:  # it has a session: its output depends on more than its arguments
        return None
    if options.cache is not True:
        return float(options.cache)
    return cache.ttl.get(tool.name) or _TTL.get(tool.name) or cache.ttl.get("default") or 300.0


class Caching:
    def __init__(self, store: CachedResults, clock: Clock, options: CacheOptions) -> None:
        self.options = options
        self._store = store
        self._clock = clock
        self._ttls: dict[Tool, float | None] = {}
        self._added = 0

    def fit(self, call: Call) -> None:
        """Give a call its key, if its tool's results are cached. The hash is not keyed, so arguments with a secret get no key."""
        tool = call.required_tool()
        call.cache_key = None
        if tool.options.credentials and not call.credentials:  # which of them is not known yet
            return
        if tool.options.cache and call.secrets is None and self._ttl(tool) is not None:
            call.cache_key = self._key(call, tool)

    def exclude(self, call: Call) -> None:
        """The call has started before: it is neither served from the cache nor shared with its equals."""
        call.cache_key = None

    def _ttl(self, tool: Tool) -> float | None:
        if tool not in self._ttls:
            self._ttls[tool] = ttl_of(self.options, tool)
        return self._ttls[tool]

    def _key(self, call: Call, tool: Tool) -> str:
        options = tool.options
        by_thread = (options.cache_scope or self.options.scope) == "thread"
        window = None if options.time_window is None else self._clock.now() // options.time_window
        data = tool.data_version()
        version = f"{options.version} {data}" if data else options.version
        parts: list[Any] = [tool.name, version, call.arguments, call.caller, call.thread if by_thread else None, window]
        if call.credentials:  # what another account saw, or one that was revoked, is not served
            parts.append(list(call.credentials))
        return sha256(canonical(parts)).hexdigest()

    def use_of(self, call: Call, key: str) -> CacheUse:
        """How an ending call used the cache; the store writes it with the outcome."""
        if call.cached:
            return CacheUse(key, True)
        tool = call.tool
        partial = call.truncated or call.is_masked or call.tool_artifacts or call.files
        if tool is None or partial or call.outcome is not State.COMPLETED:
            return CacheUse(key, False)
        if not tool.is_cacheable(call.output):  # a completed call can report something that failed
            return CacheUse(key, False)
        ttl = self._ttl(tool)
        body = encode(call.output)
        if ttl is None or len(body) > self.options.max_bytes:
            return CacheUse(key, False)
        now = self._clock.now()
        tags = (f"tool:{tool.name}", *sorted(tool.options.tags))
        item = CacheItem(key=key, body=body, tags=tags, created_at=now, expires_at=now + ttl, accessed_at=now)
        self._added += len(body)
        return CacheUse(key, False, item)

    def needs_sweep(self) -> bool:
        """Has a quarter of the size limit been added since this was last true?"""
        if self._added <= self.options.max_bytes // 4:
            return False
        self._added = 0
        return True

    async def sweep(self) -> None:
        """Remove expired results, and those above the size limit, in small steps."""
        more = True
        while more:
            step = await self._store.cache_sweep(self._clock.now(), self.options.max_bytes, _SWEEP_STEP)
            more = step.more
