"""The store port as a model: what every store answers, in dictionaries and loops. The specification in executable form.

`StoreModel` is the data that the processes of one store share. Its methods are synchronous and pure of everything but that data: `now` is
the store's clock, `me` the number of the asking owner. `ModelSession` implements `clicket.ports.Store` for one process over a model.

Not modelled: rows that another program damaged, sizes on disk, and where a limited search ends (`LimitsScans`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import TypeVar

import msgspec

from clicket.errors import ClicketError, NotFound, StoreUnavailable
from clicket.kernel import State
from clicket.model import Event, dump_unit, load_events
from clicket.model.ended import Ended, ended_from
from clicket.model.figures import Figure
from clicket.model.ports.bus import Hear
from clicket.ports import (
    SHARED_PLACE,
    Append,
    Audited,
    Backlog,
    Bus,
    CacheEntry,
    CacheItem,
    CacheStats,
    CacheUse,
    CallPlace,
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
    ThreadCounts,
    ThreadName,
    ToolHealth,
    Unstorable,
    health_after,
)

__all__ = ["ModelBus", "ModelSession", "StoreModel"]

T = TypeVar("T")
_ARTIFACT = re.compile(r"sha256-[0-9a-f]{64}")
_SLIP = 1e-9
"""Of a token: sums of floating-point numbers come a little short of a whole one."""


@dataclass(slots=True, kw_only=True)
class _Call:
    """A call as the model has it."""

    key: int
    id: str
    thread: str
    caller: str
    tool: str
    created_at: float
    priority: int
    state: State
    fence: int
    queue: str
    giver: int | None
    """The owner that created it for others to run; it gets a message with its events."""
    owner: int | None = None
    claims: int = 1
    waiting_for: str | None = None
    ended_at: float | None = None
    request: bool = False
    kept: bool = False
    """`on_remove` wanted it to stay: no sweep looks at it until `release`."""
    watched: bool = False
    """Another process has read its events: later ones are announced to all."""
    units: list[bytes] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    """The number of the first event of each unit."""
    last: int = 0
    artifacts: dict[str, int] = field(default_factory=dict)

    @property
    def is_free(self) -> bool:
        return self.owner is None and self.ended_at is None

    @property
    def size(self) -> int:
        return sum(map(len, self.units)) + sum(self.artifacts.values())

    def events(self) -> list[Event]:
        return [event for unit in self.units for event in load_events(self.id, unit)]

    def stored(self, taken_from: int | None = None) -> Stored:
        return Stored(
            key=self.key, fence=self.fence, claims=self.claims, owner=self.owner, events=self.events(), id=self.id,
            taken_from=taken_from,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _OwnerRow:
    owner: Owner
    renewed: float


class StoreModel:
    """What one server, or one file, holds.

    `claims_by_append`: whether an append may also claim its call, as in stores with a bus."""

    def __init__(self, *, claims_by_append: bool = True) -> None:
        self.claims_by_append = claims_by_append
        self.calls: dict[int, _Call] = {}
        """By key, in the order in which they were created."""
        self.identities: dict[tuple[str, str, str], int] = {}
        """Id, thread and caller, which are unique together, and the key."""
        self.erased: set[tuple[str, str, float]] = set()
        """Id, thread and end of calls that had ended in their creating append, and were erased."""
        self.swept: list[_Call] = []
        """What retention removed."""
        self.last_key = 0
        self.known: dict[int, _OwnerRow] = {}
        """Owners that are registered now."""
        self.facts: dict[int, Owner] = {}
        """All that ever were."""
        self.gone: set[int] = set()
        """Owners whose process is known to be gone."""
        self.slots: dict[str, dict[int, int]] = {}
        self.buckets: dict[str, tuple[float, float]] = {}
        """Tokens, and when there were so many."""
        self.artifacts: dict[str, bytes] = {}
        self.pins: dict[str, float] = {}
        self.promised: dict[str, set[int]] = {}
        """Artifacts without a pin that no call has named since, and the owners that put them."""
        self.cache: dict[str, CacheItem] = {}
        self.cache_counts: Counter[str] = Counter()
        self.health: dict[tuple[str, str], dict[str, ToolHealth]] = {}
        self.health_writes: Counter[int] = Counter()
        """How often each owner changed the health of a tool."""
        self.sums: dict[tuple[str, str, str, str, int | None], Figure] = {}
        self.documents: dict[tuple[str, str], StoredDocument] = {}
        self.log: list[Audited] = []
        self.sessions: dict[int, ModelSession] = {}
        """Open sessions by the numbers of their owners."""

    # Owners. A lease is judged by the store's clock alone.

    def register(self, owner: Owner, now: float) -> int:
        me = len(self.facts) + 1
        self.facts[me] = owner
        self.renew(me, now)
        return me

    def renew(self, me: int, now: float) -> None:
        """An owner that was given up is registered again. Every write of an owner also does this."""
        self.known[me] = _OwnerRow(owner=self.facts[me], renewed=now)

    def sign_off(self, me: int) -> None:
        """The owner leaves: its calls wait for another one, and it holds no slots."""
        self.hand_back([call.key for call in self.calls.values() if call.owner == me], me)
        self._give_up(me)

    def _give_up(self, id: int) -> None:
        self._free_slots(id)
        self.known.pop(id, None)
        for names in self.promised.values():
            names.discard(id)

    def _free_slots(self, id: int) -> None:
        for holders in self.slots.values():
            holders.pop(id, None)

    def declare_dead(self, id: int) -> None:
        """Its process is known to be gone: it is dead at once, whatever its lease."""
        self.gone.add(id)

    def is_dead(self, id: int, me: int, now: float) -> bool:
        """An owner never finds itself dead. One that is not registered is dead."""
        if id == me:
            return False
        row = self.known.get(id)
        return row is None or id in self.gone or now > row.renewed + row.owner.lease

    def owners(self, me: int, now: float) -> list[Presence]:
        return [
            Presence(id=id, owner=row.owner, alive=not self.is_dead(id, me, now), mine=id == me)
            for id, row in sorted(self.known.items())
        ]

    # Appending.

    def append(self, change: Append, me: int, now: float, *, again: bool = False) -> ClicketError | None:
        """Write a unit whole, or refuse it. None: it is written.

        `again`: the answer to this very append was lost, and the writer sends it a second time. If its events stand under their numbers,
        byte for byte, the first one was applied: that is the answer, and nothing is written or counted twice."""
        self.renew(me, now)
        try:
            body = b"" if change.unit is None else dump_unit(change.unit)
        except (UnicodeEncodeError, TypeError) as trouble:
            return Unstorable(f"call {change.id!a} cannot be stored: {trouble}")
        if change.expect == 0:
            error = self._create(change, body, me)
        elif change.claim:
            error = self._claim_by_append(change, body, me)
        else:
            error = self._update(change, body)
        if error is not None and again and self._stands(change, body, me):
            return None
        return error

    def _create(self, change: Append, body: bytes, me: int) -> ClicketError | None:
        its = change.call
        if change.maker is not None:
            key, last, fence = change.maker
            maker = self.calls.get(key)
            is_known = maker is not None and (maker.last, maker.fence) == (last, fence) and not maker.request
            if maker is None or not is_known or maker.owner is None or maker.ended_at is not None:
                return Stale(f"the call that makes {its.id} was changed by another writer")
        if self._find(its.id, its.thread, its.caller) is not None:
            return Duplicate(f"the id {its.id!r} is taken in thread {its.thread!r}")
        if change.unless is not None and self.document(*change.unless) is not None:
            return Duplicate(f"the document {change.unless} is there")
        self.last_key += 1
        change.key = self.last_key
        call = _Call(
            key=change.key, id=its.id, thread=its.thread, caller=its.caller, tool=its.tool, created_at=its.created_at,
            priority=its.priority, state=change.state, fence=change.fence, queue=change.queue or its.tool,
            giver=None if change.owned else me, owner=me, waiting_for=change.waiting_for,
        )  # fmt: skip
        self.calls[call.key] = call
        self.identities[call.id, call.thread, call.caller] = call.key
        self._add_events(call, change, body)
        self._decide(call, change)
        return None

    def _update(self, change: Append, body: bytes) -> ClicketError | None:
        call = self._call_of(change)
        if call is None or call.last != change.expect or change.fence not in (-1, call.fence):
            return _stale(change)
        self._add_events(call, change, body)
        if change.fence == -1:  # by another process: it adds events, and decides nothing
            call.request = call.request or change.signal
        elif call.ended_at is None:  # a late result adds events, and changes nothing of the end
            self._decide(call, change)
        return None

    def _claim_by_append(self, change: Append, body: bytes, me: int) -> ClicketError | None:
        call = self._call_of(change)
        if (
            not self.claims_by_append
            or call is None
            or not call.is_free
            or call.last != change.expect
            or call.fence != change.fence - 1
        ):
            return _stale(change)
        self._take(call, me)
        self._add_events(call, change, body)
        self._decide(call, change)
        return None

    def _call_of(self, change: Append) -> _Call | None:
        call, its = self.calls.get(change.key), change.call
        if call is None or (call.id, call.thread, call.caller) != (its.id, its.thread, its.caller):
            return None
        return call

    def _add_events(self, call: _Call, change: Append, body: bytes) -> None:
        if change.unit is not None:
            call.units.append(body)
            call.firsts.append(call.last + 1)
            call.last += change.unit.length
        for name, size in change.artifacts:
            call.artifacts.setdefault(name, size)
            self.promised.pop(name, None)

    def _decide(self, call: _Call, change: Append) -> None:
        """What the owner of a call that has not ended says of it."""
        call.state, call.waiting_for, call.request = change.state, change.waiting_for, False
        call.queue = change.queue or call.queue
        if not change.owned:
            call.owner = None
        if change.ended_at is not None:
            call.ended_at, call.owner = change.ended_at, None
            if change.stats is not None:
                self._count(call, change.stats)
            if change.cache is not None:
                self._use_cache(change.cache, change.ended_at)

    def _stands(self, change: Append, body: bytes, me: int) -> bool:
        """Is this very unit there already?"""
        its = change.call
        call = self._find(its.id, its.thread, its.caller) if change.expect == 0 else self._call_of(change)
        if call is None or not body or (change.expect + 1, body) not in zip(call.firsts, call.units, strict=True):
            return False
        if change.claim and (call.owner, call.fence) != (me, change.fence):
            return False
        change.key = call.key
        return True

    def erase(self, change: Append, me: int, now: float) -> bool:
        """Remove the call of a creating append that was answered with an error, although it may have been written: if it consists of
        exactly this unit. What its end counted is not counted any more."""
        self.renew(me, now)
        its = change.call
        call = self._find(its.id, its.thread, its.caller)
        if change.expect or call is None or change.unit is None or call.units != [dump_unit(change.unit)]:
            return False
        self._forget(call)
        if call.ended_at is not None:
            self.erased.add((call.id, call.thread, call.ended_at))
        if change.ended_at is not None and change.stats is not None:
            self._uncount(call, change.stats)
        return True

    def _forget(self, call: _Call) -> None:
        del self.calls[call.key], self.identities[call.id, call.thread, call.caller]

    def _find(self, id: str, thread: str, caller: str) -> _Call | None:
        return self.calls.get(self.identities.get((id, thread, caller), 0))

    # Reading.

    def load(self, id: str, thread: str | None, caller: str | None) -> list[Stored]:
        return [
            call.stored()
            for call in reversed(self.calls.values())
            if call.id == id and thread in (None, call.thread) and caller in (None, call.caller)
        ]

    def events(self, key: int, call_id: str, after: int, me: int) -> list[Event]:
        call = self.calls.get(key)
        if call is None or call.id != call_id:
            return []
        call.watched = call.watched or me not in (call.owner, call.giver)
        return [event for event in call.events() if event.seq > after]

    def news(self, known: Mapping[int, tuple[str, int]], me: int) -> dict[int, list[Event]]:
        found: dict[int, list[Event]] = {}
        for key, (id, last) in known.items():
            call = self.calls.get(key)
            if call is None or call.id != id:
                found[key] = []
            elif events := self.events(key, id, last, me):
                found[key] = events
        return found

    def history(self, query: Query) -> list[Stored]:
        found: list[Stored] = []
        for call in self.calls.values() if query.ascending else reversed(self.calls.values()):
            if len(found) < query.limit and _fits(call, query):
                found.append(call.stored())
        return found

    def ended(self, caller: str | None, tool: str | None, since: float, before: int | None, limit: int) -> list[Ended]:
        found = []
        for call in reversed(self.calls.values()):
            if (
                call.ended_at is not None
                and caller in (None, call.caller)
                and tool in (None, call.tool)
                and call.created_at >= since
                and (before is None or call.key < before)
            ):
                facts = ended_from(call.key, call.caller, call.tool, call.last, call.units)
                found.append(facts or Ended(call.key, call.caller, call.tool, "", "", None))
        return found[:limit]

    def places(self, before: int | None, limit: int) -> list[CallPlace]:
        below = [call for call in reversed(self.calls.values()) if before is None or call.key < before]
        return [CallPlace(call.key, call.caller, call.thread) for call in below[:limit]]

    def thread_counts(self, threads: Sequence[ThreadName], limit: int) -> list[ThreadCounts]:
        found = []
        for caller, thread in threads:
            calls = [c for c in reversed(self.calls.values()) if (c.caller, c.thread) == (caller, thread)][:limit]
            found.append(
                ThreadCounts(
                    states=dict(Counter(call.state.value for call in calls)),
                    newest=max((call.key for call in calls), default=0),
                    last_at=max((max(call.created_at, call.ended_at or 0.0) for call in calls), default=0.0),
                )
            )
        return found

    # Owning.

    def _take(self, call: _Call, me: int) -> Stored:
        """The next fence, one more claim; the new owner has read every request."""
        before, call.owner = call.owner, me
        call.fence += 1
        call.claims += 1
        call.request = False
        return call.stored(taken_from=before)

    def claim_orphans(self, queues: Collection[str], limit: int, me: int, now: float) -> list[Stored]:
        self.renew(me, now)
        live = [call for call in self.calls.values() if call.ended_at is None and call.owner is not None]
        holders = (
            {call.owner for call in live} | {id for names in self.slots.values() for id in names} | set(self.known)
        )
        dead = {id for id in holders if id is not None and self.is_dead(id, me, now)}
        orphans = [call for call in live if call.owner in dead and call.queue in queues]
        claimed = [self._take(call, me) for call in orphans[:limit]]
        for id in dead:
            self._free_slots(id)
            if not any(call.owner == id for call in live):
                self._give_up(id)
        return claimed

    def claim_waiting(
        self, queues: Collection[str], limit: int, last_caller: str, me: int, now: float
    ) -> tuple[list[Stored], str]:
        """The calls, and the caller that was served last: the next claim goes on after it."""
        self.renew(me, now)
        lines: dict[str, list[_Call]] = {}
        for call in self.calls.values():
            if call.is_free and call.queue in queues:
                lines.setdefault(call.caller, []).append(call)
        for line in lines.values():
            line.sort(key=lambda call: (-call.priority, call.key))
        callers = sorted(lines, key=lambda caller: (caller <= last_caller, caller))
        taken: list[_Call] = []
        while len(taken) < limit and any(lines.values()):
            for caller in callers:  # one call of each, then the second of each
                if lines[caller] and len(taken) < limit:
                    taken.append(lines[caller].pop(0))
        return [self._take(call, me) for call in taken], taken[-1].caller if taken else last_caller

    def claim(self, key: int, me: int, now: float) -> Stored | None:
        self.renew(me, now)
        call = self.calls.get(key)
        if call is None or call.ended_at is not None:
            return None
        return self._take(call, me) if call.owner is None or self.is_dead(call.owner, me, now) else None

    def owned(self, me: int) -> list[int]:
        return [call.key for call in self.calls.values() if call.owner == me and call.ended_at is None]

    def hand_back(self, keys: Iterable[int], me: int) -> list[int]:
        """The keys of the calls that have no owner from now on: of other owners' calls, and of ended ones, none."""
        owned = set(self.owned(me))
        given = [key for key in keys if key in owned]
        for key in given:
            self.calls[key].owner = None
        return given

    def signals(self, me: int) -> list[int]:
        return [key for key in self.owned(me) if self.calls[key].request]

    def hold(self, name: str, count: int, capacity: int, me: int, now: float) -> bool:
        self.renew(me, now)
        holders = self.slots.setdefault(name, {})
        before = holders.get(me, 0)
        if count > before and sum(holders.values()) - before + count > capacity:
            return False
        holders[me] = count
        if not count:
            del holders[me]
        return True

    def take(self, name: str, rate: float, burst: int, count: int, now: float) -> TakenTokens:
        tokens, at = self.buckets.get(name, (float(burst), now))
        tokens = min(float(burst), tokens + (now - at) * rate)
        granted = max(min(count, floor(tokens + _SLIP)), 0)
        left = tokens - granted
        if granted:
            self.buckets[name] = (left, now)
        return TakenTokens(granted, floor(left + _SLIP), 0.0 if left + _SLIP >= 1 else (1 - left) / rate)

    def backlog(self) -> list[Backlog]:
        found: dict[str, Backlog] = {}
        for call in self.calls.values():  # the oldest first
            if call.is_free:
                before = found.get(call.queue, Backlog(queue=call.queue, count=0, oldest_at=call.created_at))
                found[call.queue] = msgspec.structs.replace(before, count=before.count + 1)
        return [found[queue] for queue in sorted(found)]

    # Artifacts.

    def put_artifact(self, name: str, data: bytes, keep_until: float | None, me: int) -> None:
        if not _ARTIFACT.fullmatch(name):
            raise NotFound(f"{name!r} is not the name of an artifact")
        self.artifacts.setdefault(name, data)
        if keep_until is None:
            self.promised.setdefault(name, set()).add(me)
        else:
            self.pins[name] = max(keep_until, self.pins.get(name, keep_until))

    def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        if name not in self.artifacts:
            raise NotFound(f"there is no artifact {name!r}")
        return self.artifacts[name][start:end]

    def must_keep(self, name: str) -> bool:
        """A call names it, or a pin holds, or a call of a living owner is about to name it. Others may be removed by any sweep."""
        named = any(name in call.artifacts for call in self.calls.values())
        return named or name in self.pins or bool(self.promised.get(name))

    def _remove_loose_artifacts(self, names: Iterable[str]) -> tuple[int, int]:
        loose = [name for name in set(names) if name in self.artifacts and not self.must_keep(name)]
        return len(loose), sum(len(self.artifacts.pop(name)) for name in loose)

    # Cached results.

    def _use_cache(self, use: CacheUse, at: float) -> None:
        """What an ending call did: it was served, or it missed and may leave its result."""
        self.cache_counts["hits" if use.hit else "misses"] += 1
        known = self.cache.get(use.key)
        if use.hit and known is not None:
            self.cache[use.key] = msgspec.structs.replace(known, accessed_at=at, access_count=known.access_count + 1)
        if not use.hit and use.item is not None:
            self.cache[use.key] = msgspec.structs.replace(use.item, access_count=0)

    def cache_get(self, key: str, now: float) -> CacheItem | None:
        item = self.cache.get(key)
        return item if item is not None and item.is_fresh(now) else None

    def cache_clear(self, tag: str | None) -> int:
        return self.cache_remove([key for key, item in self.cache.items() if tag is None or tag in item.tags])

    def cache_remove(self, keys: Iterable[str]) -> int:
        return sum(self.cache.pop(key, None) is not None for key in keys)

    def cache_items(self, after: tuple[float, str], limit: int) -> list[CacheEntry]:
        found = sorted(self.cache.values(), key=lambda item: (item.expires_at, item.key))
        return [
            CacheEntry.of(
                i.key, i.tags, len(i.body), i.created_at, i.expires_at, i.accessed_at, i.access_count
            )
            for i in found
            if (i.expires_at, i.key) > after
        ][:limit]  # fmt: skip

    def cache_stats(self) -> CacheStats:
        counts = self.cache_counts
        return CacheStats(
            items=len(self.cache), bytes=self._cache_bytes(), hits=counts["hits"], misses=counts["misses"],
            evictions=counts["evictions"],
        )  # fmt: skip

    def _cache_bytes(self) -> int:
        return sum(len(item.body) for item in self.cache.values())

    def cache_sweep(self, now: float, max_bytes: int, limit: int) -> Sweep:
        swept = Sweep()
        in_order = sorted(self.cache.values(), key=lambda item: item.accessed_at)
        expired = [item for item in in_order if item.expires_at <= now]
        for item in expired + [item for item in in_order if item not in expired]:
            if swept.calls < limit and (item in expired or self._cache_bytes() > max_bytes):
                del self.cache[item.key]
                self.cache_counts["evictions"] += item not in expired
                swept.calls += 1
                swept.bytes += len(item.body)
        swept.more = swept.calls == limit
        return swept

    # Retention.

    def over(self, keep: Keep) -> list[_Call]:
        """The ended calls that break a bound, in the order of their ends. What is too old, or over a bound of its thread, does not count
        against the bounds of all."""
        ended = [call for call in self.calls.values() if call.ended_at is not None and not call.kept]
        ended.sort(key=lambda call: (call.ended_at or 0.0, call.key))
        going = {call.key for call in ended if keep.since is not None and (call.ended_at or 0.0) < keep.since}
        for thread in {call.thread for call in ended}:
            of_thread = [call for call in ended if call.thread == thread]
            going |= _first_over(of_thread, keep.thread_calls, keep.thread_bytes)
        going |= _first_over([call for call in ended if call.key not in going], keep.calls, keep.bytes)
        return [call for call in ended if call.key in going]

    def remove(self, keys: Iterable[int]) -> Sweep:
        """Remove calls, and the artifacts that only they named."""
        swept = Sweep()
        names: list[str] = []
        for key in keys:
            call = self.calls.get(key)
            if call is not None and call.ended_at is not None and not call.kept:
                self._forget(call)
                self.swept.append(call)
                names += call.artifacts
                swept.calls += 1
                swept.bytes += call.size
        swept.artifacts, _ = self._remove_loose_artifacts(names)
        return swept

    def end_pins(self, now: float, *, dry: bool) -> Sweep:
        """Pins that are over go. What no call names goes with its pin."""
        over = [name for name, until in self.pins.items() if until <= now]
        pins, artifacts = dict(self.pins), dict(self.artifacts)
        for name in over:
            del self.pins[name]
        number, size = self._remove_loose_artifacts(over)
        if dry:
            self.pins, self.artifacts = pins, artifacts
        return Sweep(artifacts=number, bytes=size)

    def unpin(self, names: Iterable[str]) -> None:
        self.pins.update({name: 0.0 for name in names if name in self.pins})

    def set_kept(self, keys: Iterable[int]) -> None:
        for key in keys:
            if key in self.calls:
                self.calls[key].kept = True

    def release(self, caller: str, thread: str) -> None:
        for call in self.calls.values():
            if (call.caller, call.thread) == (caller, thread):
                call.kept = False

    def forget_health(self, since: float) -> None:
        """Statuses that a person set stay."""
        for tools in self.health.values():
            for tool, health in list(tools.items()):
                if health.updated_at < since and health.status is None:
                    del tools[tool]

    # What is kept beside calls.

    def _count(self, call: _Call, stats: OutcomeStats) -> None:
        """What an outcome adds: to the figures always, to the health of its tool if it says something about it."""
        kind = (call.caller, stats.tool, stats.outcome, stats.error, stats.bucket)
        before = self.sums.get(kind)
        self.sums[kind] = Figure(
            caller=call.caller, tool=stats.tool, outcome=stats.outcome, error=stats.error, bucket=stats.bucket,
            count=(before.count if before else 0) + 1, seconds=(before.seconds if before else 0.0) + stats.seconds,
            least=min(before.least, stats.seconds) if before else stats.seconds,
            most=max(before.most, stats.seconds) if before else stats.seconds,
        )  # fmt: skip
        if stats.effect == "none" or not stats.tool:
            return
        for place in _places(call, stats):
            tools = self.health.setdefault(place, {})
            tools[stats.tool] = health_after(tools.get(stats.tool), stats)

    def _uncount(self, call: _Call, stats: OutcomeStats) -> None:
        """An outcome is counted no more: its call was erased. Times of health stay as they are."""
        kind = (call.caller, stats.tool, stats.outcome, stats.error, stats.bucket)
        figure = self.sums.pop(kind)
        if figure.count > 1:
            self.sums[kind] = msgspec.structs.replace(
                figure, count=figure.count - 1, seconds=figure.seconds - stats.seconds
            )
        if stats.effect == "none" or not stats.tool:
            return
        failed = int(stats.effect == "failed")
        for place in _places(call, stats):
            health = self.health[place].pop(stats.tool)
            if health.version > 1:
                self.health[place][stats.tool] = msgspec.structs.replace(
                    health, completions=health.completions - (1 - failed), failures=health.failures - failed,
                    consecutive_failures=max(health.consecutive_failures - failed, 0), version=health.version + 1,
                )  # fmt: skip

    def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        return list(self.health.get((caller, thread), {}).values())

    def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        tools = self.health.setdefault((caller, thread), {})
        if (tools[health.tool].version if health.tool in tools else 0) != expect:
            return False
        tools[health.tool] = msgspec.structs.replace(health, version=expect + 1)
        return True

    def figures(self, caller: str | None) -> list[Figure]:
        return [figure for figure in self.sums.values() if caller in (None, figure.caller)]

    def document(self, kind: str, key: str) -> StoredDocument | None:
        return self.documents.get((kind, key))

    def put_document(self, kind: str, key: str, body: bytes, expect: int | None, now: float) -> bool:
        known = self.document(kind, key)
        version = known.version if known else 0
        if expect not in (None, version):
            return False
        self.documents[kind, key] = StoredDocument(kind=kind, key=key, body=body, version=version + 1, updated_at=now)
        return True

    def put_documents(self, writes: Sequence[DocumentWrite], now: float) -> bool:
        for write in writes:
            known = self.document(write.kind, write.key)
            if (known.version if known else 0) != write.expect:
                return False
        for write in writes:
            self.put_document(write.kind, write.key, write.body, write.expect, now)
        return True

    def delete_document(self, kind: str, key: str) -> bool:
        return self.documents.pop((kind, key), None) is not None

    def documents_of(self, kind: str, after: str, limit: int) -> list[StoredDocument]:
        found = [self.documents[place] for place in sorted(self.documents) if place[0] == kind and place[1] > after]
        return found[:limit]

    def audit(self, bodies: Sequence[bytes], now: float) -> None:
        for body in bodies:
            self.log.append(Audited(number=len(self.log) + 1, at=now, body=body))

    def audited(self, before: int | None, limit: int) -> list[Audited]:
        return [entry for entry in reversed(self.log) if before is None or entry.number < before][:limit]

    def size(self) -> int:
        return sum(call.size for call in self.calls.values()) + sum(map(len, self.artifacts.values()))


def _stale(change: Append) -> Stale:
    return Stale(f"call {change.id} was changed by another writer")


def _places(call: _Call, stats: OutcomeStats) -> list[tuple[str, str]]:
    """The callers and threads under which an outcome changes the health of its tool."""
    return [(call.caller, call.thread), SHARED_PLACE] if stats.shared else [(call.caller, call.thread)]


def _first_over(ended: Sequence[_Call], calls: int | None, size: int | None) -> set[int]:
    """Keys of the first calls of a list, so many that the rest is within the bounds."""
    left, bytes_left = len(ended), sum(call.size for call in ended)
    over = set()
    for call in ended:
        if (calls is None or left <= calls) and (size is None or bytes_left <= size):
            break
        over.add(call.key)
        left, bytes_left = left - 1, bytes_left - call.size
    return over


def _fits(call: _Call, query: Query) -> bool:
    """A code is that of the error which ended the call, so it implies a state."""
    if query.by_content and not query.picks(call.events()):
        return False
    return (
        query.state in (None, call.state)
        and query.outcome in (None, call.state)
        and query.thread in (None, call.thread)
        and query.tool in (None, call.tool)
        and query.caller in (None, call.caller)
        and (query.since is None or call.created_at >= query.since)
        and (query.until is None or call.created_at < query.until)
        and (query.id_prefix is None or call.id.startswith(query.id_prefix))
        and (query.id_contains is None or query.id_contains in call.id)
        and (query.waiting_for is None or (call.waiting_for == query.waiting_for and call.ended_at is None))
        and (call.ended_at is None or not query.active)
        and (query.before is None or call.key < query.before)
        and (query.after is None or call.key > query.after)
    )


class ModelBus:
    """The bus of one session. `trouble` may be set: then none are sent."""

    name = "store"

    def __init__(self, session: ModelSession) -> None:
        self._session = session
        self.hear: Hear = lambda kind, key, body: None
        self.trouble: str | None = None

    @property
    def me(self) -> int:
        return self._session.me

    def post(self, kind: str, key: int, to: int = 0, body: bytes = b"", *, soon: bool = True) -> None:
        if self.trouble is None:
            self._session.post(kind, key, to, body)


class ModelSession:
    """One process of a store. `clock` is the clock of the store's server.

    `bus`: True for a store behind a network: processes send each other messages, an append may claim its call, and nothing is read
    without waiting. False for a file: processes get a hint that others wrote.

    A subclass makes answers late or loses them: every awaited question goes through `_ask`, every append through `_send`, and every notice
    through `post`. `_apply` does what an append does, and tells others."""

    def __init__(self, model: StoreModel, *, clock: Callable[[], float], bus: bool = True) -> None:
        self.url, self.durability = "model://", "process"
        self.on_hint: OnHint = lambda kind, key: None
        self.model = model
        self.clock = clock
        self.me = 0
        self.is_open = False
        self.has_bus = bus
        self.bus: Bus = ModelBus(self) if bus else NoBus()
        self._last_caller = ""
        self._queue: deque[tuple[Append, Done]] = deque()

    # The three ways out of the process.

    async def _ask(self, name: str, op: Callable[[], T]) -> T:
        """Ask the server. `name`: the method of the port."""
        self._check_open()
        return op()

    def _send(self, change: Append, done: Done) -> None:
        """Appends are applied in the order in which they are sent, and answered on the loop."""
        self._queue.append((change, done))
        asyncio.get_running_loop().call_soon(self._flush)

    def post(self, kind: str, key: int, to: int = 0, body: bytes = b"") -> None:
        """Send a message to one other process, or to all others (0)."""
        for number, other in list(self.model.sessions.items()):
            if other is not self and to in (0, number):
                asyncio.get_running_loop().call_soon(other.on_post, kind, key, body)

    def on_post(self, kind: str, key: int, body: bytes) -> None:
        """A message has arrived."""
        if self.is_open and body:
            self.bus.hear(kind, key, body)
        elif self.is_open:
            self.on_hint(kind, key)

    def _flush(self) -> None:
        if self._queue:  # else `close` was faster
            change, done = self._queue.popleft()
            done(change, self._apply(change))

    def _apply(self, change: Append, *, again: bool = False) -> ClicketError | None:
        was_live = not (found := self.model.calls.get(change.key)) or found.ended_at is None
        error = self.model.append(change, self.me, self.clock(), again=again)
        if error is None:
            failed = was_live and change.ended_at is not None and change.stats and change.stats.effect == "failed"
            self.model.health_writes[self.me] += change.stats is not None
            self._announce(change, failed=bool(failed))
        return error

    def _erase(self, change: Append) -> bool:
        return self.model.erase(change, self.me, self.clock())

    def _announce(self, change: Append, *, failed: bool) -> None:
        """The process that gave a call away gets its events; a worker gets the call that is meant for it; the rest are hints."""
        if not self.has_bus:
            self.post("any", 0)
            return
        key, post, ends = change.key, self.bus.post, change.ended_at is not None
        call = self.model.calls[key]
        unit = None if change.unit is None else msgspec.Raw(dump_unit(change.unit))
        if not change.owned and not ends:
            if change.to > 0 and change.expect == 0:
                offer = (change.id, change.fence, change.call.created_at, unit)
                post("work", key, change.to, msgspec.json.encode(offer))
            else:
                post("work", 0 if change.to else key, abs(change.to))
        elif call.giver not in (None, self.me) and unit is not None:
            post("events", key, call.giver or 0, msgspec.json.encode((change.id, unit)))
        if call.watched and change.expect:
            post("events", key)
        if change.signal:
            post("signal", key)
        if failed:
            post("health", 0)

    def _tell(self, kind: str, key: int = 0) -> None:
        """A hint to the other processes that something was written."""
        if self.has_bus:
            self.bus.post(kind, key)
        else:
            self.post("any", 0)

    def _check_open(self) -> None:
        if not self.is_open:
            raise StoreUnavailable("model:// is closed.", url=self.url)

    async def open(self, owner: Owner) -> None:
        self.is_open = True
        try:
            self.me = await self._ask("open", lambda: self.model.register(owner, self.clock()))
        except BaseException:
            self.is_open = False
            raise
        self.model.sessions[self.me] = self

    async def close(self) -> None:
        if not self.is_open:
            return
        while self._queue:
            self._flush()
        with contextlib.suppress(ClicketError):  # else its lease runs out
            await self._ask("close", lambda: self.model.sign_off(self.me))
        self._tell("work")
        self._tell("slot")
        self.is_open = False
        self.model.sessions.pop(self.me, None)

    def append(self, change: Append, done: Done) -> None:
        if self.is_open:
            self._send(change, done)
        else:
            done(change, StoreUnavailable("model:// is closed.", url=self.url))

    # Reading.

    async def load(self, id: str, thread: str | None = None, caller: str | None = None) -> list[Stored]:
        return await self._ask("load", lambda: self.model.load(id, thread, caller))

    async def events(self, key: int, call_id: str, after: int) -> list[Event]:
        return await self._ask("events", lambda: self.model.events(key, call_id, after, self.me))

    async def history(self, query: Query) -> list[Stored]:
        return await self._ask("history", lambda: self.model.history(query))

    async def news(self, known: Mapping[int, tuple[str, int]]) -> dict[int, list[Event]]:
        return await self._ask("news", lambda: self.model.news(known, self.me))

    async def ended(
        self, *, caller: str | None, tool: str | None, since: float, before: int | None, limit: int
    ) -> list[Ended]:
        return await self._ask("ended", lambda: self.model.ended(caller, tool, since, before, limit))

    async def places(self, before: int | None, limit: int) -> list[CallPlace]:
        return await self._ask("places", lambda: self.model.places(before, limit))

    async def thread_counts(self, threads: Sequence[ThreadName], limit: int) -> list[ThreadCounts]:
        return await self._ask("thread_counts", lambda: self.model.thread_counts(threads, limit))

    # Owning.

    async def renew(self) -> None:
        if self.is_open:
            await self._ask("renew", lambda: self.model.renew(self.me, self.clock()))

    async def owners(self) -> list[Presence]:
        return await self._ask("owners", lambda: self.model.owners(self.me, self.clock()))

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        found = await self._ask(
            "claim_orphans", lambda: self.model.claim_orphans(tools, limit, self.me, self.clock())
        )  # fmt: skip
        self._tell("slot")
        return found

    async def claim_waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        def claim() -> list[Stored]:
            found, self._last_caller = self.model.claim_waiting(tools, limit, self._last_caller, self.me, self.clock())
            return found

        return await self._ask("claim_waiting", claim)

    async def claim(self, key: int) -> Stored | None:
        return await self._ask("claim", lambda: self.model.claim(key, self.me, self.clock()))

    async def owned(self) -> list[int]:
        return await self._ask("owned", lambda: self.model.owned(self.me))

    async def hand_back(self, keys: Sequence[int]) -> None:
        for key in await self._ask("hand_back", lambda: self.model.hand_back(keys, self.me)):
            self._tell("work", key)

    async def signals(self) -> list[int]:
        return await self._ask("signals", lambda: self.model.signals(self.me)) if self.is_open else []

    async def hold(self, name: str, count: int, capacity: int) -> bool:
        def hold() -> tuple[bool, bool]:
            before = self.model.slots.get(name, {}).get(self.me, 0)
            return self.model.hold(name, count, capacity, self.me, self.clock()), count < before

        granted, freed = await self._ask("hold", hold)
        if freed:
            self._tell("slot")
        return granted

    async def take(self, name: str, rate: float, burst: int, count: int) -> TakenTokens:
        return await self._ask("take", lambda: self.model.take(name, rate, burst, count, self.clock()))

    async def backlog(self) -> list[Backlog]:
        return await self._ask("backlog", self.model.backlog)

    # Artifacts.

    async def put_artifact(self, name: str, chunks: Sequence[bytes], *, keep_until: float | None = None) -> None:
        data = b"".join(chunks)
        await self._ask("put_artifact", lambda: self.model.put_artifact(name, data, keep_until, self.me))

    async def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        return await self._ask("read_artifact", lambda: self.model.read_artifact(name, start, end))

    # Cached results.

    def cache_get(self, key: str, now: float, found: Found) -> None:
        """Answered before it returns, as from a file; a subclass may answer later."""
        if self.is_open:
            found(self.model.cache_get(key, now), None)
        else:
            found(None, StoreUnavailable("model:// is closed.", url=self.url))

    async def cache_clear(self, tag: str | None) -> int:
        return await self._ask("cache_clear", lambda: self.model.cache_clear(tag))

    async def cache_items(self, after: tuple[float, str], limit: int) -> list[CacheEntry]:
        return await self._ask("cache_items", lambda: self.model.cache_items(after, limit))

    async def cache_remove(self, keys: Sequence[str]) -> int:
        return await self._ask("cache_remove", lambda: self.model.cache_remove(keys))

    async def cache_stats(self) -> CacheStats:
        return await self._ask("cache_stats", self.model.cache_stats)

    async def cache_sweep(self, now: float, max_bytes: int, limit: int) -> Sweep:
        return await self._ask("cache_sweep", lambda: self.model.cache_sweep(now, max_bytes, limit))

    # Retention.

    async def sweep(self, keep: Keep, limit: int, *, dry: bool = False, on_remove: OnRemove | None = None) -> Sweep:
        """In steps, as real sweeps: other processes write between them."""
        now = self.clock() if keep.now is None else keep.now
        pins = await self._ask("sweep", lambda: self.model.end_pins(now, dry=dry))
        going = await self._ask("sweep", lambda: [(call.stored(), call.size) for call in self.model.over(keep)])
        if dry:
            size = pins.bytes + sum(size for _, size in going)
            return Sweep(calls=len(going), artifacts=pins.artifacts, bytes=size)
        step = [stored for stored, _ in going[:limit]]
        if on_remove is not None and step:
            kept = await on_remove(step) or ()
            await self._ask("sweep", lambda: self.model.set_kept(kept))
        swept = await self._ask("sweep", lambda: self.model.remove(stored.key for stored in step))
        if keep.health_since is not None:
            since = keep.health_since
            await self._ask("sweep", lambda: self.model.forget_health(since))
        return Sweep(
            calls=swept.calls, artifacts=swept.artifacts + pins.artifacts, bytes=swept.bytes + pins.bytes,
            more=len(step) == limit,
        )  # fmt: skip

    async def remove(self, keys: Sequence[int]) -> Sweep:
        def ended() -> list[int]:
            return [key for key in keys if key in self.model.calls and self.model.calls[key].ended_at is not None]

        return await self._ask("remove", lambda: self.model.remove(ended()))

    async def unpin(self, names: Sequence[str]) -> None:
        await self._ask("unpin", lambda: self.model.unpin(names))

    async def release(self, caller: str, thread: str) -> None:
        await self._ask("release", lambda: self.model.release(caller, thread))

    async def size(self) -> int:
        return await self._ask("size", self.model.size)

    # What is kept beside calls.

    async def time(self) -> float:
        return await self._ask("time", self.clock)

    async def tool_health(self, caller: str, thread: str) -> list[ToolHealth]:
        return await self._ask("tool_health", lambda: self.model.tool_health(caller, thread))

    def tool_health_now(self, caller: str, thread: str, tool: str | None = None) -> list[ToolHealth] | None:
        return None if self.has_bus or not self.is_open else self.model.tool_health(caller, thread)

    def health_stamp(self) -> int | None:
        if self.has_bus or not self.is_open:
            return None
        return self.model.health_writes.total() - self.model.health_writes[self.me]

    async def put_tool_health(self, caller: str, thread: str, health: ToolHealth, expect: int) -> bool:
        def put() -> bool:
            self.model.health_writes[self.me] += 1
            return self.model.put_tool_health(caller, thread, health, expect)

        written = await self._ask("put_tool_health", put)
        self._tell("health")
        return written

    async def figures(self, caller: str | None = None) -> list[Figure]:
        return await self._ask("figures", lambda: self.model.figures(caller))

    async def document(self, kind: str, key: str) -> StoredDocument | None:
        return await self._ask("document", lambda: self.model.document(kind, key))

    def document_now(self, kind: str, key: str) -> tuple[StoredDocument | None] | None:
        return None if self.has_bus or not self.is_open else (self.model.document(kind, key),)

    async def put_document(self, kind: str, key: str, body: bytes, expect: int | None) -> bool:
        return await self._ask("put_document", lambda: self.model.put_document(kind, key, body, expect, self.clock()))

    async def put_documents(self, writes: Sequence[DocumentWrite]) -> bool:
        return await self._ask("put_documents", lambda: self.model.put_documents(writes, self.clock()))

    async def delete_document(self, kind: str, key: str) -> bool:
        return await self._ask("delete_document", lambda: self.model.delete_document(kind, key))

    async def documents(self, kind: str, *, after: str = "", limit: int = 1_000) -> list[StoredDocument]:
        return await self._ask("documents", lambda: self.model.documents_of(kind, after, limit))

    async def audit(self, bodies: Sequence[bytes]) -> None:
        await self._ask("audit", lambda: self.model.audit(bodies, self.clock()))

    async def audited(self, *, before: int | None = None, limit: int = 100) -> list[Audited]:
        return await self._ask("audited", lambda: self.model.audited(before, limit))
