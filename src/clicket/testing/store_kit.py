"""Helpers of the checks of stores: opening a store, making events and appends, and `law`, which asserts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from typing import Any

import msgspec

from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model import Event, EventType, rows_of
from clicket.model.ports import Append, Owner, Query, Store

__all__ = [
    "ALIVE",
    "ANY_TOOL",
    "DEAD",
    "Check",
    "Identity",
    "Laws",
    "an_event",
    "append",
    "created",
    "creation",
    "ended",
    "law",
    "news",
    "opened",
    "paged_ids",
    "seqs",
]

Check = Callable[[Callable[[], Store]], Coroutine[Any, Any, None]]
ANY_TOOL = frozenset({"tool"})

# Their processes are not on this host, so only their leases count: ALIVE's is valid, DEAD's has expired.
ALIVE = Owner(host="alive.invalid", boot="", pid=1, started="", lease=3600.0)
DEAD = Owner(host="dead.invalid", boot="", pid=1, started="", lease=1e-9)


class Law:
    """Raises `AssertionError` with the text of the law that a store has broken."""

    def __call__(self, held: bool, text: str) -> None:
        if not held:
            raise AssertionError(text)

    def equal(self, got: Any, wanted: Any, text: str) -> None:
        self(got == wanted, f"{text}: {got!r}, not {wanted!r}")


law = Law()


@asynccontextmanager
async def opened(make: Callable[[], Store], owner: Owner = ALIVE) -> AsyncIterator[Store]:
    store = make()
    await store.open(owner)
    try:
        yield store
    finally:
        await store.close()


class Laws(list[Check]):
    """The checks of one module. `@laws` adds a check; `@laws.opened(ALIVE, DEAD)` also opens a store for each owner."""

    def __call__(self, check: Check) -> Check:
        self.append(check)
        return check

    def opened(self, *owners: Owner) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Check]:
        def add(check: Callable[..., Coroutine[Any, Any, None]]) -> Check:
            @wraps(check)
            async def run(make: Callable[[], Store]) -> None:
                async with AsyncExitStack() as stack:
                    await check(*[await stack.enter_async_context(opened(make, owner)) for owner in owners])

            return self(run)

        return add


def an_event(id: str, seq: int, kind: EventType, state: State, data: dict[str, Any] | None = None) -> Event:
    return Event(call_id=id, seq=seq, at=100.0 + seq, type=kind, state=state, data=data or {})


class Identity(msgspec.Struct):
    """The fields of a call that a store reads."""

    id: str
    thread: str = "t"
    caller: str = ""
    tool: str = "tool"
    created_at: float = 100.0
    priority: int = 0


def creation(
    id: str, *, thread: str = "t", caller: str = "", tool: str = "tool", at: float = 100.0, priority: int = 0
) -> Append:
    first = an_event(id, 1, "created", State.PENDING, {"tool": tool, "thread": thread, "n": 2**70, "text": "ü\n\"'"})
    return Append(Identity(id, thread, caller, tool, at, priority), 0, 1, rows_of([first]), State.PENDING)


def news(
    change: Append, *, number: int = 1, state: State = State.PENDING, ended_at: float | None = None, **given: Any
) -> Append:
    """An append that follows `change`, with `number` more events."""
    last = change.last
    kind: EventType = "note" if state is change.state else "state_changed"
    events = [an_event(change.id, last + n, kind, state, {"n": n}) for n in range(1, number + 1)]
    values = {"fence": change.fence, "key": change.key, **given}
    return Append(change.call, last, unit=rows_of(events) or None, state=state, ended_at=ended_at, **values)


async def append(store: Store, *changes: Append) -> list[ClicketError | None]:
    """Pass all changes to the store without yielding to the loop, and wait for each answer."""
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[ClicketError | None]] = [loop.create_future() for _ in changes]
    for change, answer in zip(changes, answers, strict=True):
        store.append(change, lambda _, error, f=answer: f.set_result(error))  # type: ignore[misc]  # twice would raise
    return list(await asyncio.gather(*answers))


async def created(store: Store, id: str, **given: Any) -> Append:
    change = creation(id, **given)
    law.equal(await append(store, change), [None], "a call with a new identity is created")
    return change


async def ended(store: Store, id: str, at: float = 200.0, **given: Any) -> Append:
    """A call with an outcome."""
    change = news(await created(store, id), state=State.COMPLETED, ended_at=at, **given)
    law.equal(await append(store, change), [None], "the outcome is appended")
    return change


async def seqs(store: Store, id: str) -> list[int]:
    return [event.seq for stored in await store.load(id) for event in stored.events]


async def paged_ids(store: Store, limit: int, *, ascending: bool = False, **wanted: Any) -> list[str]:
    """The ids of the calls that the history lists, read page by page."""
    ids: list[str] = []
    query = Query(limit=limit, ascending=ascending, **wanted)
    while page := await store.history(query):
        ids += [stored.id for stored in page]
        query = msgspec.structs.replace(query, **{"after" if ascending else "before": page[-1].key})
    return ids
