"""`memory://`: the same laws as every store, for tests and for calls that need not outlive the process."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from clicket.errors import ClicketError, NotFound, StoreUnavailable
from clicket.kernel import State
from clicket.model import Event
from clicket.ports import Append, Done, Duplicate, Owner, Query, Stale, Stored, Sweep

__all__ = ["MemoryStore"]


class _Call(msgspec.Struct, eq=False, gc=False):
    id: str
    thread: str
    caller: str
    tool: str
    key: int
    fence: int
    state: State
    created_at: float
    ended_at: float | None
    events: list[Event]
    artifacts: tuple[str, ...] = ()


class MemoryStore:
    """Keeps at most `max_ended` finished calls; the oldest go first."""

    def __init__(self, *, max_ended: int = 100_000) -> None:
        self.url = "memory://"
        self.durability = "none"
        self.max_ended = max_ended
        self._keys = itertools.count(1)
        self._calls: dict[int, _Call] = {}
        self._by_id: dict[str, list[_Call]] = {}
        self._ended: dict[int, None] = {}
        self._artifacts: dict[str, bytes] = {}
        self._uses: dict[str, int] = {}
        self._is_open = False

    async def open(self, owner: Owner) -> None:
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailable("memory:// is closed.")

    def append(self, change: Append, done: Done) -> None:
        if not self._is_open:
            done(change, StoreUnavailable("memory:// is closed."))
        elif change.expect == 0:
            done(change, self._create(change))
        else:
            done(change, self._update(change))

    def _create(self, change: Append) -> ClicketError | None:
        found = self._by_id.get(change.id)
        if found is None:
            found = self._by_id[change.id] = []
        elif any(c.thread == change.thread and c.caller == change.caller for c in found):
            return Duplicate(f"the id {change.id!r} is taken in thread {change.thread!r}")
        change.key = key = next(self._keys)
        row = (change.id, change.thread, change.caller, change.tool, key, change.fence)
        call = self._calls[key] = _Call(*row, change.state, change.created_at, change.ended_at, list(change.events))
        found.append(call)
        if change.ended_at is not None:
            self._close_off(call, change)
        return None

    def _update(self, change: Append) -> ClicketError | None:
        call = self._calls.get(change.key)
        # Numbers start at 1 and have no gaps, so the count of events is the last number.
        if call is None or len(call.events) != change.expect or change.fence not in (call.fence, -1):
            return Stale(f"call {change.id} was changed by another writer")
        call.events += change.events
        if change.fence != -1:
            call.state = change.state
            if change.ended_at is not None:
                self._close_off(call, change)
        return None

    def _close_off(self, call: _Call, change: Append) -> None:
        call.ended_at = change.ended_at
        for name in change.artifacts:
            if name not in call.artifacts:
                call.artifacts = (*call.artifacts, name)
                self._uses[name] = self._uses.get(name, 0) + 1
        self._ended[call.key] = None
        if len(self._ended) > self.max_ended:
            self._remove(next(iter(self._ended)))

    def _remove(self, key: int) -> int:
        call = self._calls.pop(key)
        self._ended.pop(key, None)
        calls = self._by_id[call.id]
        calls.remove(call)
        if not calls:
            del self._by_id[call.id]
        removed = 0
        for name in call.artifacts:
            self._uses[name] -= 1
            if self._uses[name] == 0:
                del self._uses[name], self._artifacts[name]
                removed += 1
        return removed

    async def load(self, id: str, thread: str | None = None, caller: str | None = None) -> list[Stored]:
        self._check_open()
        calls = reversed(self._by_id.get(id, ()))
        return [
            _stored(c)
            for c in calls
            if (thread is None or c.thread == thread) and (caller is None or c.caller == caller)
        ]

    async def events(self, key: int, call_id: str, after: int) -> list[Event]:
        self._check_open()
        call = self._calls.get(key)
        return call.events[after:] if call else []

    async def history(self, query: Query) -> list[Stored]:
        self._check_open()
        found: list[Stored] = []
        for call in reversed(self._calls.values()):
            if len(found) == query.limit:
                break
            if (
                (query.before is None or call.key < query.before)
                and (query.thread is None or call.thread == query.thread)
                and (query.tool is None or call.tool == query.tool)
                and (query.state is None or call.state is query.state)
                and (query.caller is None or call.caller == query.caller)
                and (query.since is None or call.created_at >= query.since)
                and not (query.active and call.ended_at is not None)
            ):
                found.append(_stored(call))
        return found

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        return []

    async def renew(self) -> None:
        """Nobody else could look."""

    async def requests(self) -> list[int]:
        return []

    async def put_artifact(self, name: str, chunks: Sequence[bytes]) -> None:
        self._check_open()
        self._artifacts.setdefault(name, b"".join(chunks))

    async def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        self._check_open()
        if name not in self._artifacts:
            raise NotFound(f"there is no artifact {name!r}")
        return self._artifacts[name][start:end]

    async def sweep(self, before: float, limit: int) -> Sweep:
        self._check_open()
        swept = Sweep()
        for key in list(itertools.islice(self._ended, limit)):
            ended_at = self._calls[key].ended_at
            if ended_at is not None and ended_at < before:
                swept.artifacts += self._remove(key)
                swept.calls += 1
        swept.more = swept.calls == limit
        return swept

    async def size(self) -> int:
        return sum(len(data) for data in self._artifacts.values()) + 2_000 * len(self._calls)


def _stored(call: _Call) -> Stored:
    return Stored(key=call.key, fence=call.fence, claims=1, owner=None, events=list(call.events))
