"""Where the journal is stored. A store appends a unit of the journal whole, or refuses it; it makes no decisions of its own.

Laws that every store keeps, and the contract suite checks:
 1. An append is atomic and takes effect only if the call's last number is `expect` and its fence is `fence`.
 2. `done` is called once per append, on the loop, after the append is as durable as the mode promises.
 3. Appends are applied in the order of the `append` calls.
 4. A creating append that is answered with an error leaves no call behind, also if the error was a lost connection.
 5. Ownership is decided by the store's clock or the machine's boot clock, never by the date of a process.
 6. A call ends once. An append to an ended call adds its events and artifacts, and changes nothing else: not the state, not the time of
    the end, not what was counted. An append for a call that was removed is stale.
 7. A creating append that finds the identity free also finds every document that was written before the removal of the call that had it.
 8. A call that another one makes is created only while that one is as its owner knows it (`Append.maker`), and has an
    owner. After a signal its owner knows it once it has written on top of the signal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model import Event
from clicket.model.ports.bus import Bus
from clicket.model.ports.query import Query
from clicket.model.ports.queue import Backlog, TakenTokens
from clicket.model.ports.records import OutcomeStats, Records
from clicket.model.unit import Unit, events_in

__all__ = [
    "Append",
    "Artifacts",
    "CacheEntry",
    "CacheItem",
    "CacheStats",
    "CacheUse",
    "CachedResults",
    "CallIdentity",
    "CallRow",
    "Calls",
    "Capacity",
    "Done",
    "Duplicate",
    "Found",
    "Keep",
    "OnHint",
    "OnRemove",
    "Owner",
    "Ownership",
    "Presence",
    "Retention",
    "Stale",
    "Store",
    "Stored",
    "Sweep",
    "Unstorable",
]

_CLOCK_SLACK = 60.0
"""Seconds by which the clocks of two hosts may differ."""


class Stale(ClicketError):
    """The call, or the one that makes it (`Append.maker`), moved on since the writer looked: another process wrote to it."""

    code = "stale"


class Duplicate(ClicketError):
    """The identity (caller, thread, id) is taken, or the document is there that the creation names as `unless`."""

    code = "duplicate"


class Unstorable(ClicketError):
    """The events themselves cannot be written; trying again would not help."""

    code = "unstorable"


class CacheItem(msgspec.Struct, frozen=True, kw_only=True):
    """A result that equal calls get without running the tool. Times are seconds since the epoch."""

    key: str
    body: bytes
    """The output as JSON."""
    tags: tuple[str, ...]
    created_at: float
    expires_at: float
    accessed_at: float
    access_count: int = 0

    def is_fresh(self, now: float) -> bool:
        """May it be served? Not after its time, nor when the clock was set back to well before it was made."""
        return self.created_at - _CLOCK_SLACK <= now < self.expires_at


class CacheEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A cached result as it is listed, without its body. Times are seconds since the epoch."""

    key: str
    tool: str
    """Whose result it is; empty if no tag says so."""
    tags: tuple[str, ...]
    size: int
    """Bytes of the result."""
    created_at: float
    expires_at: float
    accessed_at: float
    access_count: int
    """How many calls it served."""

    @classmethod
    def of(
        cls,
        key: str,
        tags: Sequence[str],
        size: int,
        created_at: float,
        expires_at: float,
        accessed_at: float,
        access_count: int,
    ) -> CacheEntry:
        tool = next((tag.removeprefix("tool:") for tag in tags if tag.startswith("tool:")), "")
        return cls(
            key=key,
            tool=tool,
            tags=tuple(tags),
            size=size,
            created_at=created_at,
            expires_at=expires_at,
            accessed_at=accessed_at,
            access_count=access_count,
        )


class CacheUse(msgspec.Struct, frozen=True, gc=False):
    """How an ending call used the cache: whether it was served from it, and the result that it stores there."""

    key: str
    hit: bool
    item: CacheItem | None = None


class CallIdentity(Protocol):
    """The fields of a call that never change. The journal's entry implements it."""

    @property
    def id(self) -> str: ...
    @property
    def thread(self) -> str: ...
    @property
    def caller(self) -> str: ...
    @property
    def tool(self) -> str: ...
    @property
    def created_at(self) -> float: ...
    @property
    def priority(self) -> int: ...


class CallRow(msgspec.Struct, frozen=True):
    """A `CallIdentity` without a journal entry."""

    id: str
    thread: str
    caller: str
    tool: str
    created_at: float
    priority: int = 0


class Append(msgspec.Struct):
    """A unit of events of one call, to be written whole or not at all, and the call's row after it.

    The garbage collector tracks it: the call that it is of refers to it while it is under way, and both must be freed when a loop ends
    before the store has answered."""

    call: CallIdentity
    expect: int
    """The number of the last event that the writer knows; 0 creates the call."""
    fence: int
    """Must equal the stored fence: an owner that lost the call can write no more. -1: a signal by another process, which adds events
    and changes nothing else of the call."""
    unit: Unit | None
    """None: there is nothing to write; the append checks that the writer is up to date, or names artifacts."""
    state: State
    ended_at: float | None = None
    stats: OutcomeStats | None = None
    """What the outcome adds to stats and to the tool's health; written in the same transaction."""
    key: int = 0
    """The store's own handle of the call; a creating append receives it."""
    waiting_for: str | None = None
    owned: bool = True
    """False: the call has no owner from now on; any process that has its tool may claim it."""
    signal: bool = False
    """A signal by another process (a cancel, an approval) is among the events: the owner gets a hint."""
    artifacts: tuple[tuple[str, int], ...] = ()
    """Artifacts that the call names from now on, with their sizes; they are kept as long as it is."""
    cache: CacheUse | None = None
    """Written in the same transaction as the outcome; without effect if the append does not end the call."""
    claim: bool = False
    """The append also claims the call: it is taken only if the call has no owner, its last number is `expect`, and its fence is the
    one before `fence`. A claim that is refused was lost to another process, and must not be appended again.
    A store without messages refuses it as stale."""
    to: int = 0
    """For a call that is left to other processes: the worker that gets a message of it; 0: all. Negative: the worker of that number
    gets a message without the call, because it may have no room."""
    queue: str = ""
    """The queue in which the call waits from now on while it has no owner. Empty: the one that it had, or the one of its tool's name."""
    unless: tuple[str, str] | None = None
    """Kind and key of a document. A creating append is refused as a duplicate if there is such a document; others do not look."""
    maker: tuple[int, int, int] | None = None
    """Key, last number and fence of the call that makes this one, as its owner knows it. A creating append is refused as stale if they are
    others by then, or if that call has ended: so what a call makes comes after all that its owner has handed over, and after nothing
    that another process wrote into it, and a former owner makes no more calls."""
    group: bool = True
    """Several calls are under way, so a store whose commits cost more than their rows collects the appends of one iteration of the loop
    into one commit. False: the append may be written, and `done` called, before `append` returns."""

    @property
    def id(self) -> str:
        return self.call.id

    @property
    def events(self) -> list[Event]:
        """Built at each access: for tests and rare reads."""
        return [] if self.unit is None else events_in(self.unit, self.call.id)

    @property
    def last(self) -> int:
        """The number of the call's last event after this append."""
        return self.expect if self.unit is None else self.expect + self.unit.length


Done = Callable[[Append, ClicketError | None], None]
Found = Callable[[CacheItem | None, ClicketError | None], None]
OnHint = Callable[[str, int], None]
"""`on_hint(kind, key)`: "events" of a call were written, "work" waits for an owner, a "signal" was written into an owned call, a
"slot" became free, a tool's "health" changed, or "any" of these. Only a hint, on the loop: it may be lost, come twice, or result from
this process's own writes."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime that holds calls. Dead when its process is gone, or when it has not renewed itself for `lease` seconds."""

    host: str
    boot: str
    pid: int
    started: str
    """The process's start time by the kernel, so that a reused pid is not taken for the old process."""
    lease: float


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """An owner as the store knows it."""

    id: int
    owner: Owner
    alive: bool
    mine: bool = False


class Stored(msgspec.Struct, kw_only=True, gc=False):
    """A call as the store has it."""

    key: int
    fence: int
    claims: int
    owner: int | None
    events: list[Event]
    id: str = ""
    taken_from: int | None = None
    """For a call that was just claimed: the owner that it was taken from. None: it had no owner."""
    damaged: str | None = None
    """Why its events cannot be read (then there are none): another program wrote into the store, or the disk damaged it. A claim
    sets such a call aside: its owner is 0 from then on, which is not an owner that could die or get signals."""


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on ended calls; None means no bound. Of those that break a bound, the first to end are removed first. What `since` or a
    bound of threads removes does not count against `calls` and `bytes`: a busy thread does not push out the calls of others."""

    since: float | None = None
    """Calls that ended before this time are removed."""
    calls: int | None = None
    bytes: int | None = None
    """Of events and artifacts together."""
    thread_calls: int | None = None
    thread_bytes: int | None = None
    health_since: float | None = None
    """Tool health that was not changed since this time is removed, except statuses that a person set. It counts neither as
    calls nor as bytes."""
    now: float | None = None
    """Pins that end by this time are over; None: the clock of this machine."""


OnRemove = Callable[[list["Stored"]], Awaitable[Collection[int] | None]]
"""Called with calls that a sweep is about to remove. If it raises, they stay. It returns the keys of those that must not be removed: the
store keeps them, and no sweep looks at them, until `release`."""


class Sweep(msgspec.Struct, kw_only=True):
    """What a retention step removed, or would remove."""

    calls: int = 0
    artifacts: int = 0
    bytes: int = 0
    more: bool = False


class CacheStats(msgspec.Struct, kw_only=True):
    """Counted by the store, so by all processes together, since the store was made."""

    items: int = 0
    bytes: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0


class Calls(Protocol):
    """Calls and their events."""

    def append(self, change: Append, done: Done) -> None: ...

    async def load(self, id: str, thread: str | None = None, caller: str | None = None) -> list[Stored]:
        """Every call of that id, the newest first; more than one when threads share it."""
        ...

    async def events(self, key: int, call_id: str, after: int) -> list[Event]:
        """The events after a number, of the call that has this key and this id; none if there is no such call."""
        ...

    async def history(self, query: Query) -> list[Stored]:
        """The calls that fit, in the query's order."""
        ...

    async def news(self, known: Mapping[int, tuple[str, int]]) -> dict[int, list[Event]]:
        """New events of several calls in one question: from the id and the last known number of each key, the events after it.
        Calls without new events are left out; a call that is not there any more has an empty list."""
        ...


class Ownership(Protocol):
    """Which process has which call."""

    async def renew(self) -> None:
        """Renew the lease of this owner. An owner that was taken for dead meanwhile is registered again."""
        ...

    async def owners(self) -> list[Presence]:
        """Every owner that the store knows."""
        ...

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        """Take over calls in the queues of these names whose owner is dead: new owner, next fence, one more claim. Dead owners lose
        their slots. The queue of a call has the name of its tool, unless an append named another."""
        ...

    async def claim_waiting(self, tools: frozenset[str], limit: int) -> list[Stored]:
        """Take calls in these queues that have no owner, from callers in turn: one call of each caller, beginning after the caller that
        this store took from last, then the second of each. Within a caller those of the highest priority first, then the oldest.
        However many calls of one caller wait, those of another are found."""
        ...

    async def claim(self, key: int) -> Stored | None:
        """Take this call, if it has not ended and has no owner or a dead one; else None."""
        ...

    async def owned(self) -> list[int]:
        """Keys of the calls that this owner holds and that have not ended."""
        ...

    async def hand_back(self, keys: Sequence[int]) -> None:
        """Calls of this owner have no owner from now on, and stay as they are."""
        ...

    async def signals(self) -> list[int]:
        """Keys of this owner's calls into which another process wrote a signal since they were claimed, or since their
        owner last appended: an append that is taken knows all that was written before it."""
        ...


class Capacity(Protocol):
    """Slots and tokens that all owners share, and the queues that wait for them."""

    async def hold(self, name: str, count: int, capacity: int) -> bool:
        """Hold `count` slots of a name that all owners share, if no more than `capacity` are held then; else change
        nothing. Fewer than before is always granted. A second request with the same count changes nothing."""
        ...

    async def take(self, name: str, rate: float, burst: int, count: int) -> TakenTokens:
        """Take up to `count` tokens of a bucket that all owners share. It holds `burst` tokens, and gets `rate` new ones a second, by
        the store's clock: in any time of `t` seconds no more than `burst + rate * t` are granted. 0 takes none, and only looks."""
        ...

    async def backlog(self) -> list[Backlog]:
        """The queues in which calls wait that have no owner, in the order of their names. Reads an index, not the calls."""
        ...


class Artifacts(Protocol):
    """Bytes under the hash of their content."""

    async def put_artifact(self, name: str, chunks: Sequence[bytes], *, keep_until: float | None = None) -> None:
        """Store bytes under the hash of their content; equal bytes are stored once.

        `keep_until` (seconds since the epoch) pins them: they stay at least until then, although no call names them. A later
        pin never shortens an earlier one. Without it a call is about to name them, and they stay as long as it does.
        """
        ...

    async def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        """A range of an artifact; `NotFound` when there is none."""
        ...


class CachedResults(Protocol):
    """Results that equal calls get. Appends write them."""

    def cache_get(self, key: str, now: float, found: Found) -> None:
        """Look a result up; `found` is called on the loop, before this returns if no waiting is needed. An expired result is not found."""
        ...

    async def cache_clear(self, tag: str | None) -> int:
        """Remove the results with that tag, or all; how many there were."""
        ...

    async def cache_items(self, after: tuple[float, str], limit: int) -> list[CacheEntry]:
        """Up to `limit` results whose (expires_at, key) is greater than `after`, in that order, also expired ones."""
        ...

    async def cache_remove(self, keys: Sequence[str]) -> int:
        """Remove the results with these keys; how many there were."""
        ...

    async def cache_stats(self) -> CacheStats: ...

    async def cache_sweep(self, now: float, max_bytes: int, limit: int) -> Sweep:
        """Remove up to `limit` results: expired ones, then the least recently used while there are over `max_bytes`
        (those count as evictions). `calls` counts them."""
        ...


class Retention(Protocol):
    """What is removed, and when."""

    async def sweep(self, keep: Keep, limit: int, *, dry: bool = False, on_remove: OnRemove | None = None) -> Sweep:
        """Remove pins that are over, up to `limit` ended calls that break a bound, and artifacts that nothing names or pins
        any more. `dry`: remove nothing, and count all that would be removed. No call is removed
        that `on_remove` was not called with before; it may be called several times, with a few calls each. Calls that `on_remove` wants to
        be kept count as neither calls nor bytes from then on."""
        ...

    async def release(self, caller: str, thread: str) -> None:
        """The calls of this thread that `on_remove` wanted to be kept are subject to sweeps again."""
        ...

    async def remove(self, keys: Sequence[int]) -> Sweep:
        """Remove those of these calls that have ended, whatever keeps them. What they name goes as it does with a sweep."""
        ...

    async def unpin(self, names: Sequence[str]) -> None:
        """The pins of these artifacts are over: the next sweep removes those that no call names."""
        ...

    async def size(self) -> int:
        """Bytes on disk, or an estimate of bytes in memory."""
        ...


class Store(Calls, Ownership, Capacity, Artifacts, CachedResults, Retention, Records, Protocol):
    """One place for calls, their events, their artifacts, cached results, and what is kept beside them."""

    url: str
    durability: str
    on_hint: OnHint
    """Set by the engine; a store that learns nothing of other processes never calls it."""
    bus: Bus
    """Between the processes that share the store. The store posts them when it has written; the engine posts its own, too."""

    async def open(self, owner: Owner) -> None:
        """Make the store ready and register its owner; refuse a corrupt, newer or foreign one by name."""
        ...

    async def close(self) -> None:
        """Write pending appends, release the calls that this owner still holds, and remove the owner."""
        ...
