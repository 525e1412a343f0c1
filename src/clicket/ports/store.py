"""Where the journal lives. A store appends what the journal decided, or refuses it whole; it decides nothing itself.

Laws that every store keeps, and the contract suite checks:
 1. An append is atomic and takes effect only if the call's last number is `expect` and its fence is `fence`.
 2. `done` is called once per append, on the loop, after the append is as durable as the mode promises.
 3. Appends are applied in the order in which they were handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model import Event

__all__ = ["Append", "Done", "Duplicate", "Owner", "Query", "Stale", "Store", "Stored", "Sweep", "Unstorable"]


class Stale(ClicketError):
    """The call moved on since the writer looked: another process wrote to it."""

    code = "stale"


class Duplicate(ClicketError):
    """The identity (caller, thread, id) is taken."""

    code = "duplicate"


class Unstorable(ClicketError):
    """The events themselves cannot be written; trying again would not help."""

    code = "unstorable"


class Append(msgspec.Struct, gc=False):
    """Events of one call to be written as one unit, and the call's state after them."""

    id: str
    thread: str
    caller: str
    tool: str
    expect: int
    """The number of the last event that the writer knows; 0 creates the call."""
    fence: int
    """Must equal the stored fence: who lost the call to another owner can write no more. -1: a request by an outsider."""
    events: Sequence[Event]
    state: State
    created_at: float
    ended_at: float | None = None
    waiting_for: str | None = None
    cancel: bool = False
    """A request to cancel is among the events: the owner must hear of it."""
    artifacts: tuple[str, ...] = ()
    """Artifacts that the call names from now on; they live as long as it does."""
    key: int = 0
    """The store's own handle of the call; a creating append receives it."""
    token: Any = None
    """The writer's own mark, handed back untouched."""


Done = Callable[[Append, ClicketError | None], None]


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime that holds calls. Dead when its process is gone, or when it has not renewed itself for `lease` seconds."""

    host: str
    boot: str
    pid: int
    started: str
    """The process's start time as the kernel tells it, so that a reused pid is not taken for its predecessor."""
    lease: float


class Stored(msgspec.Struct, kw_only=True):
    """A call as the store has it."""

    key: int
    fence: int
    claims: int
    owner: int | None
    events: list[Event]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to list. Newest first; `before` is the key to continue below."""

    thread: str | None = None
    tool: str | None = None
    state: State | None = None
    since: float | None = None
    caller: str | None = None
    active: bool = False
    limit: int = 100
    before: int | None = None


class Sweep(msgspec.Struct, kw_only=True):
    """What a retention step removed."""

    calls: int = 0
    artifacts: int = 0
    bytes: int = 0
    more: bool = False


class Store(Protocol):
    """One place for calls, their events and their artifacts."""

    url: str
    durability: str

    async def open(self, owner: Owner) -> None:
        """Make the store ready and register its owner; refuse a corrupt, newer or foreign one by name."""
        ...

    async def close(self) -> None: ...

    def append(self, change: Append, done: Done) -> None: ...

    async def load(self, id: str, thread: str | None = None, caller: str | None = None) -> list[Stored]:
        """Every call of that id, the newest first; more than one when threads share it."""
        ...

    async def events(self, key: int, call_id: str, after: int) -> list[Event]: ...

    async def history(self, query: Query) -> list[Stored]: ...

    async def claim_orphans(self, tools: frozenset[str], limit: int) -> list[Stored]:
        """Take over calls of these tools whose owner is dead: new owner, next fence, one more claim."""
        ...

    async def renew(self) -> None:
        """Say that this owner lives."""
        ...

    async def requests(self) -> list[int]:
        """Keys of this owner's calls for which another process asked a cancel."""
        ...

    async def put_artifact(self, name: str, chunks: Sequence[bytes]) -> None:
        """Keep bytes under their content's name; the same name twice is one copy."""
        ...

    async def read_artifact(self, name: str, start: int, end: int | None) -> bytes:
        """A range of an artifact; `NotFound` when there is none."""
        ...

    async def sweep(self, before: float, limit: int) -> Sweep:
        """Remove up to `limit` calls that ended before `before`, and artifacts that nothing names any more."""
        ...

    async def size(self) -> int:
        """Bytes on disk, or an estimate of bytes in memory."""
        ...
