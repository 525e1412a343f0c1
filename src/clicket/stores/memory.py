"""`memory://`: the same laws as every store, for tests and for calls that need not outlive the process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from clicket import system
from clicket.errors import ClicketError, NotFound, StoreUnavailable
from clicket.model import Event
from clicket.model.figures import Figure
from clicket.model.ports import (
    Append,
    Audited,
    Backlog,
    Bus,
    CacheEntry,
    CacheStats,
    DocumentWrite,
    Done,
    Duplicate,
    Found,
    Keep,
    NoBus,
    OnHint,
    OnRemove,
    OutcomeStats,
    Owner,
    Presence,
    Query,
    Stale,
    Stored,
    StoredDocument,
    Sweep,
    TakenTokens,
    ToolHealth,
    picked,
)
from clicket.stores.memory_cache import MemoryCache
from clicket.stores.memory_call import CALL_SIZE
from clicket.stores.memory_call import MemoryCall as _Call
from clicket.stores.memory_queues import MemoryQueues, backlog_of
from clicket.stores.memory_records import MemoryRecords
from clicket.stores.memory_retention import over
from clicket.stores.memory_threads import places, scan_end, thread_counts
from clicket.stores.news import news_by_call

__all__ = ["MemoryStore"]

_MANY = 256


class MemoryStore:
    """Keeps at most `max_ended` finished calls; the oldest go first. It has one owner, which never dies."""

    def __init__(self, *, max_ended: int = 100_000) -> None:
        self.url, self.durability = "memory://", "none"
        self.on_hint: OnHint = lambda kind, key: None
        self.bus: Bus = NoBus()
        self.max_ended = max_ended
        self._last_key = 0
        self._calls: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        """The first call of each id."""
        self._same_id: dict[str, dict[tuple[str, str], _Call]] = {}
        """Calls by thread and caller, of each id that several threads or callers use."""
        self._ended: deque[int] = deque()
        """Keys of ended calls, the oldest end first."""
        self._active: dict[int, _Call] = {}
        """Calls that have not ended."""
        self._artifacts: dict[str, bytes] = {}
        self._uses: dict[str, int] = {}
        self._pins: dict[str, float] = {}
        self._unnamed: set[str] = set()
        """Put for calls that have not named them yet."""
        self._cache = MemoryCache()
        self._queues = MemoryQueues()
        self._kept = MemoryRecords(system.now)
        self._ended_stats: list[tuple[str, str, OutcomeStats]] = []
        """Outcomes that are not added up yet: that is done when somebody asks, or when there are many."""
        self._held: dict[str, int] = {}
        self._owner: Owner | None = None

    async def open(self, owner: Owner) -> None:
        self._owner = owner

    async def close(self) -> None:
        self._owner = None

    def _check_open(self) -> None:
        if self._owner is None:
            raise StoreUnavailable("memory:// is closed.")

    def append(self, change: Append, done: Done) -> None:
        if self._owner is None:
            done(change, StoreUnavailable("memory:// is closed."))
        else:
            done(change, self._create(change) if change.expect == 0 else self._update(change))

    def _create(self, change: Append) -> ClicketError | None:
        call = change.call
        unit = change.unit
        key = self._last_key + 1
        if change.maker is not None and not self._is_as(*change.maker):
            return Stale(f"the call that makes {change.id} was changed by another writer")
        if change.unless is not None and self._kept.document(*change.unless) is not None:
            return Duplicate(f"the document {change.unless} is there")
        made = _Call(
            call.id, call.thread, call.caller, call.tool, key, change.fence, change.state, call.created_at,
            0 if unit is None else unit.length, unit, call.priority, change.queue,
        )  # fmt: skip
        first = self._by_id.setdefault(call.id, made)
        if first is not made and not self._add_same_id(first, made):
            return Duplicate(f"the id {call.id!r} is taken in thread {call.thread!r}")
        change.key = self._last_key = key
        self._calls[key] = self._active[key] = made
        if change.waiting_for is not None:
            made.waiting_for = change.waiting_for
        if not change.owned:
            made.owned = False
        if change.artifacts:
            self._name(made, change)
        if change.ended_at is not None:
            self._close_off(made, change)
        return None

    def _is_as(self, key: int, last: int, fence: int) -> bool:
        """Is this call under way, and as its owner knows it?"""
        call = self._active.get(key)
        return call is not None and (call.last, call.fence) == (last, fence) and call.owned and not call.signalled

    def _add_same_id(self, first: _Call, made: _Call) -> bool:
        """Keep another call of an id. False: its thread and caller have one."""
        if first.thread == made.thread and first.caller == made.caller:
            return False
        calls = self._same_id.setdefault(made.id, {(first.thread, first.caller): first})
        return calls.setdefault((made.thread, made.caller), made) is made

    def _update(self, change: Append) -> ClicketError | None:
        call = self._calls.get(change.key)
        fence = change.fence
        unit = change.unit
        if (
            call is None
            or call.last != change.expect
            or (fence != call.fence and fence != -1)  # noqa: PLR1714  # no tuple
            or change.claim  # there are no messages, so none was offered
        ):
            return Stale(f"call {change.id} was changed by another writer")
        if unit is not None:
            call.last += unit.length
            if call.second_unit is None and call.first_unit is not None:
                call.second_unit = unit
            else:
                call.add(unit)
        if fence == -1:
            call.signalled = call.signalled or change.signal
        elif call.ended_at is None:
            call.state = change.state
            if call.waiting_for is not change.waiting_for:  # a write to a struct costs more than this look
                call.waiting_for = change.waiting_for
            if call.signalled:
                call.signalled = False
            if not change.owned:
                call.owned = False
            if change.queue:
                call.queue = change.queue
            if change.ended_at is not None:
                self._close_off(call, change)
        if change.artifacts:
            self._name(call, change)
        return None

    def _name(self, call: _Call, change: Append) -> None:
        for name, size in change.artifacts:
            if all(known != name for known, _ in call.artifacts):
                call.artifacts = (*call.artifacts, (name, size))
                self._uses[name] = self._uses.get(name, 0) + 1
                self._unnamed.discard(name)

    def _close_off(self, call: _Call, change: Append) -> None:
        call.ended_at = change.ended_at
        key = call.key
        active = self._active
        del active[key]
        self._ended.append(key)
        if len(self._calls) - len(active) > self.max_ended:
            self._remove(self._ended.popleft())
        if change.cache is not None:
            self._cache.use(change.cache, change.ended_at or 0.0)
        if change.stats is not None:
            self._ended_stats.append((call.caller, call.thread, change.stats))
            if len(self._ended_stats) >= _MANY:
                self._add_up()

    def _add_up(self) -> None:
        outcomes, self._ended_stats = self._ended_stats, []
        self._kept.count(outcomes)

    @property
    def _records(self) -> MemoryRecords:
        """Health and figures, with the calls that have ended so far."""
        if self._ended_stats:
            self._add_up()
        return self._kept

    def _remove(self, key: int) -> int:
        call = self._calls.pop(key)
        same = self._same_id.get(call.id)
        if same is None:
            del self._by_id[call.id]
        else:
            del same[call.thread, call.caller]
            self._by_id[call.id] = next(iter(same.values()))
            if len(same) == 1:
                del self._same_id[call.id]
        removed = 0
        for name, _ in call.artifacts:
            self._uses[name] -= 1
            if self._uses[name] == 0:
                del self._uses[name]
                if name not in self._pins and self._is_loose(name):
                    del self._artifacts[name]
                    removed += 1
        return removed

    def _is_loose(self, name: str) -> bool:
        """Is it there, without a call that names it or is about to?"""
        return name in self._artifacts and name not in self._uses and name not in self._unnamed

    # Reading.

    async def load(self, id: str, thread: str | None = None, caller: str | None = None) -> list[Stored]:
        self._check_open()
        first = self._by_id.get(id)
        same = self._same_id.get(id)
        if same is not None and thread is not None and caller is not None:
            first, same = same.get((thread, caller)), None
        return [
            c.stored()
            for c in ((first,) if same is None else reversed(same.values()))
            if c is not None and (thread is None or c.thread == thread) and (caller is None or c.caller == caller)
        ]

    async def events(self, key: int, call_id: str, after: int) -> list[Event]:
        self._check_open()
        call = self._calls.get(key)
        return call.events[after:] if call is not None and call.id == call_id else []

    news = news_by_call

    async def history(self, query: Query) -> list[Stored]:
        self._check_open()
        if query.by_content:
            return await picked(query, self.history)
        found: list[Stored] = []
        for call in self._calls.values() if query.ascending else reversed(self._calls.values()):
            if len(found) == query.limit:
                break
            if (
                (query.before is None or call.key < query.before)
                and (query.after is None or call.key > query.after)
                and (query.thread is None or call.thread == query.thread)
                and (query.tool is None or call.tool == query.tool)
                and (query.state is None or call.state is query.state)
                and (query.caller is None or call.caller == query.caller)
                and (query.since is None or call.created_at >= query.since)
                and (query.until is None or call.created_at < query.until)
                and (query.id_prefix is None or call.id.startswith(query.id_prefix))
                and (query.id_contains is None or query.id_contains in call.id)
                and (query.waiting_for is None or (call.waiting_for == query.waiting_for and call.ended_at is None))
                and not (query.active and call.ended_at is not None)
            ):
                found.append(call.stored())
        return found

    places, scan_end, thread_counts = places, scan_end, thread_counts

    # Ownership: there is one owner.

    async def renew(self) -> None:
        """There is no other owner."""

    async def owners(self) -> list[Presence]:
        self._check_open()
        return [] if self._owner is None else [Presence(id=1, owner=self._owner, alive=True, mine=True)]

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        return []

    async def claim_waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        self._check_open()
        unowned = (call for call in self._live() if not call.owned)
        return [call.claimed() for call in self._queues.in_fair_order(unowned, tools, limit)]

    async def claim(self, key: int) -> Stored | None:
        self._check_open()
        call = self._calls.get(key)
        return None if call is None or call.owned or call.ended_at is not None else call.claimed()

    async def owned(self) -> list[int]:
        self._check_open()
        return [call.key for call in self._live() if call.owned]

    async def hand_back(self, keys: Sequence[int]) -> None:
        self._check_open()
        for key in keys:
            if key in self._calls:
                self._calls[key].owned = False

    async def signals(self) -> list[int]:
        return [call.key for call in self._live() if call.owned and call.signalled]

    async def hold(self, name: str, count: int, capacity: int) -> bool:
        self._check_open()
        if count > capacity and count > self._held.get(name, 0):
            return False
        self._held[name] = count
        return True

    async def take(self, name: str, rate: float, burst: int, count: int) -> TakenTokens:
        self._check_open()
        return self._queues.take(name, rate, burst, count)

    async def backlog(self) -> list[Backlog]:
        self._check_open()
        return backlog_of(self._live())

    def _live(self) -> Iterator[_Call]:
        return iter(list(self._active.values()))

    # Artifacts.

    async def put_artifact(self, name: str, chunks: Sequence[bytes], *, keep_until: float | None = None) -> None:
        self._check_open()
        self._artifacts[name] = self._artifacts.get(name) or b"".join(chunks)
        if keep_until is None:
            self._unnamed.add(name)
        else:
            self._pins[name] = max(keep_until, self._pins.get(name, keep_until))

    async def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        self._check_open()
        if name not in self._artifacts:
            raise NotFound(f"there is no artifact {name!r}; it may have been swept with its call.")
        return self._artifacts[name][start:end]

    # Cached results.

    def cache_get(self, key: str, now: float, found: Found) -> None:
        found(self._cache.get(key, now), None)

    async def cache_clear(self, tag: str | None) -> int:
        self._check_open()
        return self._cache.clear(tag)

    async def cache_items(self, after: tuple[float, str], limit: int) -> list[CacheEntry]:
        self._check_open()
        return self._cache.items(after, limit)

    async def cache_remove(self, keys: Sequence[str]) -> int:
        self._check_open()
        return self._cache.remove(keys)

    async def cache_stats(self) -> CacheStats:
        self._check_open()
        return msgspec.structs.replace(self._cache.stats)

    async def cache_sweep(self, now: float, max_bytes: int, limit: int) -> Sweep:
        self._check_open()
        return self._cache.sweep(now, max_bytes, limit)

    # Retention.

    async def sweep(self, keep: Keep, limit: int, *, dry: bool = False, on_remove: OnRemove | None = None) -> Sweep:
        self._check_open()
        if keep.health_since is not None and not dry:
            self._records.forget_health(keep.health_since)
        swept = self._end_pins(system.now() if keep.now is None else keep.now, dry=dry)
        going = over((self._calls[key] for key in self._ended), keep)[: None if dry else limit]
        swept.more = not dry and len(going) == limit
        if on_remove is not None and going and not dry:
            keys = set(await on_remove([call.stored() for call in going]) or ())
            for call in going:
                call.kept = call.key in keys
            going = [call for call in going if not call.kept]
        for call in going:
            swept.calls += 1
            swept.bytes += call.weight
            if not dry and call.key in self._calls:
                swept.artifacts += self._remove(call.key)
        if swept.calls and not dry:
            self._ended = deque(key for key in self._ended if key in self._calls)
        return swept

    async def release(self, caller: str, thread: str) -> None:
        self._check_open()
        for call in self._calls.values():
            if call.kept and call.caller == caller and call.thread == thread:
                call.kept = False

    async def remove(self, keys: Sequence[int]) -> Sweep:
        self._check_open()
        ended = set(self._ended)
        swept = Sweep()
        for key in ended.intersection(keys):
            swept.calls += 1
            swept.bytes += self._calls[key].weight
            swept.artifacts += self._remove(key)
        self._ended = deque(key for key in self._ended if key in self._calls)
        return swept

    async def unpin(self, names: Sequence[str]) -> None:
        self._check_open()
        self._pins.update(dict.fromkeys(self._pins.keys() & set(names), 0.0))

    def _end_pins(self, now: float, *, dry: bool) -> Sweep:
        """What no call names goes with its pin; the rest goes with its last call."""
        swept = Sweep()
        for name in [name for name, until in self._pins.items() if until <= now]:
            if self._is_loose(name):
                swept.artifacts += 1
                swept.bytes += len(self._artifacts[name])
                if not dry:
                    del self._artifacts[name]
            if not dry:
                del self._pins[name]
        return swept

    # What is kept beside calls.

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        self._check_open()
        return self._records.tool_health(caller, thread)

    def tool_health_now(self, caller: str, thread: str, tool: str | None = None) -> list[ToolHealth] | None:
        return None if self._owner is None else self._records.tool_health(caller, thread)

    def health_stamp(self) -> int | None:
        return 0  # no other process writes here

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        self._check_open()
        return self._records.put_tool_health(caller, thread, health, expect)

    async def figures(self, caller: str | None = None) -> list[Figure]:
        self._check_open()
        return self._records.figures(caller)

    async def document(self, kind: str, key: str) -> StoredDocument | None:
        self._check_open()
        return self._kept.document(kind, key)

    def document_now(self, kind: str, key: str) -> tuple[StoredDocument | None] | None:
        return None if self._owner is None else (self._kept.document(kind, key),)

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        self._check_open()
        return self._kept.put_document(kind, key, body, expect)

    async def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        self._check_open()
        return self._kept.put_documents(writes)

    async def delete_document(self, kind: str, key: str) -> bool:
        self._check_open()
        return self._kept.delete_document(kind, key)

    async def documents(self, kind: str, *, after: str = "", limit: int = 1_000) -> list[StoredDocument]:
        self._check_open()
        return self._kept.documents(kind, after, limit)

    async def audit(self, bodies: Sequence[bytes]) -> None:
        self._check_open()
        self._kept.audit(bodies)

    async def audited(self, *, before: int | None = None, limit: int = 100) -> list[Audited]:
        self._check_open()
        return self._kept.audited(before, limit)

    async def size(self) -> int:
        return sum(len(data) for data in self._artifacts.values()) + CALL_SIZE * len(self._calls)
