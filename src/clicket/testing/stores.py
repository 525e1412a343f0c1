"""The laws of `ports.store` as checks, for every store that ships here and for yours.

Each check takes a factory; every call of it gives another store object. For `store_contract` each may be a place of its own;
for `shared_store_contract` all must be doors to the same place, as two processes have them.

    @pytest.mark.parametrize("check", store_contract, ids=lambda check: check.__name__)
    async def test_my_store(check):
        await check(MyStore)
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

from clicket.errors import ClicketError, NotFound, StoreUnavailable
from clicket.kernel import State
from clicket.model import Event, EventType
from clicket.ports import Append, Duplicate, Owner, Query, Stale, Store

__all__ = ["Check", "shared_store_contract", "store_contract"]

Check = Callable[[Callable[[], Store]], Coroutine[Any, Any, None]]
_ANY_TOOL = frozenset({"tool"})

# Judged by their lease alone, as nobody on this host can look for their process: one lives, one is long dead.
ALIVE = Owner(host="alive.invalid", boot="", pid=1, started="", lease=3600.0)
DEAD = Owner(host="dead.invalid", boot="", pid=1, started="", lease=1e-9)


class _Law:
    """What a check may say of a store: an exception with the law's text when it is broken."""

    def __call__(self, held: bool, text: str) -> None:
        if not held:
            raise AssertionError(text)

    def equal(self, got: Any, wanted: Any, text: str) -> None:
        self(got == wanted, f"{text}: {got!r}, not {wanted!r}")


_law = _Law()


@asynccontextmanager
async def _opened(make: Callable[[], Store], owner: Owner = ALIVE) -> AsyncIterator[Store]:
    store = make()
    await store.open(owner)
    try:
        yield store
    finally:
        await store.close()


def _event(id: str, seq: int, kind: EventType, state: State, data: dict[str, Any] | None = None) -> Event:
    return Event(call_id=id, seq=seq, at=100.0 + seq, type=kind, state=state, data=data or {})


def _creation(id: str, *, thread: str = "t", caller: str = "", tool: str = "tool", at: float = 100.0) -> Append:
    created = _event(id, 1, "created", State.PENDING, {"tool": tool, "thread": thread, "n": 2**70, "text": "ü\n\"'"})
    return Append(id, thread, caller, tool, 0, 1, [created], State.PENDING, at)


def _news(
    change: Append, *, number: int = 1, state: State = State.PENDING, ended_at: float | None = None, **given: Any
) -> Append:
    """What comes after `change`: `number` more events."""
    last = change.events[-1].seq if change.events else change.expect
    kind: EventType = "note" if state is change.state else "state_changed"
    events = [_event(change.id, last + n, kind, state, {"n": n}) for n in range(1, number + 1)]
    values = {"fence": change.fence, "key": change.key, "created_at": change.created_at, **given}
    return Append(
        change.id,
        change.thread,
        change.caller,
        change.tool,
        last,
        events=events,
        state=state,
        ended_at=ended_at,
        **values,
    )


async def _append(store: Store, *changes: Append) -> list[ClicketError | None]:
    """Hand all changes over in one turn of the loop, and wait for each answer."""
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[ClicketError | None]] = [loop.create_future() for _ in changes]
    for change, answer in zip(changes, answers, strict=True):
        store.append(change, lambda _, error, f=answer: f.set_result(error))  # type: ignore[misc]  # twice would raise
    return list(await asyncio.gather(*answers))


async def _created(store: Store, id: str, **given: Any) -> Append:
    change = _creation(id, **given)
    _law.equal(await _append(store, change), [None], "a call with a new identity is created")
    return change


async def _ended(store: Store, id: str, at: float = 200.0, **given: Any) -> Append:
    """A call with an outcome."""
    change = _news(await _created(store, id), state=State.COMPLETED, ended_at=at, **given)
    _law.equal(await _append(store, change), [None], "the outcome is appended")
    return change


async def _seqs(store: Store, id: str) -> list[int]:
    return [event.seq for stored in await store.load(id) for event in stored.events]


async def events_come_back_as_they_were(make: Callable[[], Store]) -> None:
    async with _opened(make) as store:
        first = await _created(store, "a")
        second = _news(first, number=3)
        _law.equal(await _append(store, second), [None], "news of a known call are appended")
        (stored,) = await store.load("a")
        _law.equal(stored.events, [*first.events, *second.events], "every value is exact, in order")
        _law(stored.key == first.key != 0, "a creating append receives the key")
        _law.equal((stored.fence, stored.claims), (1, 1), "fence and claims start at 1")
        for after in range(6):
            told = [event.seq for event in await store.events(stored.key, "a", after)]
            _law.equal(told, [n for n in range(1, 5) if n > after], f"events after {after}")
        _law.equal(await store.events(stored.key + 1000, "b", 0), [], "an unknown key has no events")


async def identity_is_caller_thread_and_id(make: Callable[[], Store]) -> None:
    async with _opened(make) as store:
        await _created(store, "a")
        await _created(store, "a", thread="u")
        await _created(store, "a", caller="c")
        (error,) = await _append(store, _creation("a"))
        _law(isinstance(error, Duplicate), f"creating a call twice is a Duplicate, not {error!r}")
        _law.equal(len(await store.load("a")), 3, "a duplicate changes nothing")
        _law.equal(len(await store.load("a", "u")), 1, "load by thread")
        _law.equal(len(await store.load("a", caller="")), 2, "load by caller: an empty one is a caller, too")
        keys = [stored.key for stored in await store.load("a")]
        _law.equal(keys, sorted(keys, reverse=True), "the newest first")
        _law.equal(await store.load("missing"), [], "an unknown id is no error")


async def an_append_needs_the_right_number_and_fence(make: Callable[[], Store]) -> None:
    async with _opened(make) as store:
        first = await _created(store, "a")
        good = _news(first)
        _law.equal(await _append(store, good), [None], "the right number and fence")
        for wrong in (good, _news(good, number=2, fence=2), _news(_news(good))):
            (error,) = await _append(store, wrong)
            _law(isinstance(error, Stale), f"expect={wrong.expect} fence={wrong.fence} is Stale, not {error!r}")
        _law.equal(await _seqs(store, "a"), [1, 2], "a stale append changes nothing")
        (error,) = await _append(store, _news(_creation("ghost")))
        _law(isinstance(error, Stale), "news of a call that is not there are Stale")
        empty = Append("a", "t", "", "tool", 2, 1, [], State.PENDING, 100.0, key=first.key)
        _law.equal(await _append(store, empty), [None], "an empty append asks: am I up to date?")


async def of_two_writers_one_wins(make: Callable[[], Store]) -> None:
    async with _opened(make) as store:
        first = await _created(store, "a")
        rivals = [_news(first, state=state, ended_at=200.0) for state in (State.FAILED, State.TIMEOUT, State.CANCELLED)]
        answers = await _append(store, *rivals)
        _law.equal([type(a) for a in answers], [type(None), Stale, Stale], "the first one wins, the others are told")
        (stored,) = await store.load("a")
        _law.equal([event.state for event in stored.events], [State.PENDING, State.FAILED], "one outcome")


async def appends_keep_their_order(make: Callable[[], Store]) -> None:
    """A thousand at once, in chains: each link is right only if those before it were applied before it."""
    async with _opened(make) as store:
        heads = [await _created(store, f"c{n}") for n in range(10)]
        chains = [
            list(itertools.accumulate(range(100), lambda last, _: _news(last), initial=head))[1:] for head in heads
        ]
        order: list[tuple[str, int]] = []
        changes = [change for links in zip(*chains, strict=True) for change in links]
        waiting = asyncio.get_running_loop().create_future()

        def done(change: Append, error: ClicketError | None) -> None:
            order.append((change.id, change.expect) if error is None else (repr(error), 0))
            if len(order) == len(changes):
                waiting.set_result(None)

        for change in changes:
            store.append(change, done)
        await waiting
        _law.equal(
            order, [(change.id, change.expect) for change in changes], "answered in the order they were handed over"
        )
        for head in heads:
            _law.equal(await _seqs(store, head.id), list(range(1, 102)), "no gap")


async def answers_come_once_on_the_loop(make: Callable[[], Store]) -> None:
    async with _opened(make) as store:
        loop = asyncio.get_running_loop()
        calls: list[tuple[str, bool]] = []

        def done(change: Append, error: ClicketError | None) -> None:
            try:
                calls.append((change.id, asyncio.get_running_loop() is loop))
            except RuntimeError:
                calls.append((change.id, False))

        for change in (_creation("a"), _creation("a"), _creation("b")):
            change.token = change
            store.append(change, done)
        await _created(store, "last")
        await store.renew()
        _law.equal(calls, [("a", True), ("a", True), ("b", True)], "one answer for each append, on the loop")


async def what_cannot_be_stored_harms_no_other(make: Callable[[], Store]) -> None:
    async with _opened(make) as store:
        poison = _creation("poison")
        poison.events = [
            _event("poison", 1, "created", State.PENDING, {"tool": "tool", "thread": "t", "text": "\ud800"})
        ]
        before, bad, after = await asyncio.wait_for(_append(store, _creation("a"), poison, _creation("b")), 10.0)
        _law.equal((before, after), (None, None), "the others are stored")
        _law(bad is None or bool(await store.load("poison")) is False, "refused whole, or kept whole")
        await _created(store, "c")


async def history_is_filtered_newest_first(make: Callable[[], Store]) -> None:
    async with _opened(make) as store:
        for n in range(12):
            change = await _created(store, f"c{n}", thread=f"t{n % 2}", tool="tool" if n % 3 else "other", at=100.0 + n)
            if n >= 8:
                await _append(store, _news(change, state=State.FAILED, ended_at=200.0))

        async def names(**wanted: Any) -> list[int]:
            return [int(s.events[0].call_id[1:]) for s in await store.history(Query(**wanted))]

        _law.equal(await names(), list(range(11, -1, -1)), "newest first")
        _law.equal(await names(thread="t1"), [11, 9, 7, 5, 3, 1], "by thread")
        _law.equal(await names(tool="other"), [9, 6, 3, 0], "by tool")
        _law.equal(await names(state=State.FAILED), [11, 10, 9, 8], "by state")
        _law.equal(await names(since=107.0), [11, 10, 9, 8, 7], "since")
        _law.equal(await names(active=True, thread="t0"), [6, 4, 2, 0], "active ones of a thread")
        _law.equal(await names(caller="nobody"), [], "by caller")
        _law.equal(await names(limit=3), [11, 10, 9], "limit")
        seen: list[int] = []
        before: int | None = None
        while page := await store.history(Query(limit=5, before=before)):
            seen += [int(s.events[0].call_id[1:]) for s in page]
            before = page[-1].key
        _law.equal(seen, list(range(11, -1, -1)), "pages cover all, once")


async def artifacts_are_kept_by_content(make: Callable[[], Store]) -> None:
    async with _opened(make) as store:
        data = bytes(range(256)) * 16
        name = f"sha256-{sha256(data).hexdigest()}"
        for _ in range(2):
            await store.put_artifact(name, [data[:1000], b"", data[1000:]])
        for start, end in ((0, None), (0, 10), (10, 20), (4000, 9000), (5, 5), (9000, None), (9000, 9001)):
            _law.equal(await store.read_artifact(name, start, end), data[start:end], f"bytes {start} to {end}")
        hostile = (
            "sha256-" + "0" * 64,
            "",
            "../../etc/passwd",
            "/etc/passwd",
            "sha256-../../../x",
            name + "/..",
            name.upper(),
            "\0",
        )
        for missing in hostile:
            try:
                found = await store.read_artifact(missing, 0, None)
            except NotFound:
                continue
            raise AssertionError(f"an artifact named {missing!r} was found: {found[:50]!r}")


async def sweeping_goes_in_small_steps(make: Callable[[], Store]) -> None:
    async with _opened(make) as store:
        await _created(store, "active")
        for n in range(5):
            await _ended(store, f"c{n}", at=200.0 + n)
        step = await store.sweep(204.0, 3)
        _law.equal((step.calls, step.more), (3, True), "at most `limit` calls, and there may be more")
        _law.equal([await _seqs(store, f"c{n}") for n in range(4)], [[], [], [], [1, 2]], "the oldest go first")
        step = await store.sweep(204.0, 3)
        _law.equal((step.calls, step.more), (1, False), "the rest")
        _law.equal(await _seqs(store, "c4"), [1, 2], "what ended later stays")
        _law.equal(await _seqs(store, "active"), [1], "what has not ended stays")
        await _created(store, "c0")
        _law.equal(await _seqs(store, "c0"), [1], "a swept identity may be used again, with nothing left of the old")


async def requests_of_outsiders_are_kept(make: Callable[[], Store]) -> None:
    async with _opened(make) as store:
        first = await _created(store, "a")
        _law.equal(await _append(store, _news(first, fence=-1, cancel=True)), [None], "a request needs no fence")
        (error,) = await _append(store, _news(first))
        _law(isinstance(error, Stale), "the owner finds out with its next append")
        _law.equal(await _seqs(store, "a"), [1, 2], "the request is an event")
        ended = await _ended(store, "b")
        late = _news(ended, state=State.COMPLETED, fence=-1)
        _law.equal(await _append(store, late), [None], "a late result is kept even after the end")
        (stored,) = await store.load("b")
        _law.equal([event.seq for event in stored.events], [1, 2, 3], "without a gap")
        _law.equal(len(await store.history(Query(state=State.COMPLETED))), 1, "and the outcome stays")


async def a_closed_store_refuses(make: Callable[[], Store]) -> None:
    store = make()
    await store.open(ALIVE)
    first = await _created(store, "a")
    await store.close()
    (error,) = await _append(store, _news(first))
    _law(isinstance(error, StoreUnavailable), f"an append to a closed store is StoreUnavailable, not {error!r}")
    for what in (store.load("a"), store.history(Query()), store.events(first.key, "a", 0)):
        try:
            await what
        except StoreUnavailable:
            continue
        raise AssertionError("a closed store answered a read; it raises StoreUnavailable")
    await store.close()


async def what_was_written_is_there_for_others(make: Callable[[], Store]) -> None:
    async with _opened(make) as one, _opened(make) as two:
        first = await _created(one, "a")
        (stored,) = await two.load("a")
        _law.equal(stored.events, list(first.events), "another door sees it at once")
        _law.equal(await _append(two, _news(first, fence=-1, cancel=True)), [None], "an outsider asks to cancel")
        _law.equal(await one.requests(), [first.key], "the owner hears of it")
        _law.equal(await two.requests(), [], "others do not")
    async with _opened(make) as three:
        _law.equal(await _seqs(three, "a"), [1, 2], "a store that is opened again finds what was left")


async def live_owners_are_left_alone(make: Callable[[], Store]) -> None:
    async with _opened(make) as one, _opened(make) as two:
        first = await _created(one, "a")
        _law.equal(await two.claim_orphans(_ANY_TOOL, 10), [], "nobody takes a living owner's call")
        _law.equal(await one.claim_orphans(_ANY_TOOL, 10), [], "nor does it take its own")
        _law.equal(await _append(one, _news(first)), [None], "it goes on writing")


async def dead_owners_calls_are_claimed_once(make: Callable[[], Store]) -> None:
    async with _opened(make, DEAD) as dead, _opened(make) as one, _opened(make) as two:
        calls = [await _created(dead, f"c{n}", tool="tool" if n < 3 else "other") for n in range(4)]
        await _ended(dead, "ended")
        _law.equal(await one.claim_orphans(frozenset(), 10), [], "nothing for one without tools")
        claimed = await one.claim_orphans(_ANY_TOOL, 2)
        claimed += await two.claim_orphans(_ANY_TOOL, 10)
        _law.equal(
            [c.events[0].call_id for c in claimed], ["c0", "c1", "c2"], "each once, the oldest first, at most `limit`"
        )
        _law.equal({(c.fence, c.claims) for c in claimed}, {(2, 2)}, "the next fence, one more claim")
        (error,) = await _append(dead, _news(calls[0]))
        _law(isinstance(error, Stale), "who lost a call can write no more")
        _law.equal(await _append(one, _news(calls[0], fence=2)), [None], "the new owner can")
        _law.equal(
            await two.claim_orphans(frozenset({"other"}), 10) != [], True, "other tools' calls wait for who has them"
        )


async def handed_back_calls_are_claimed(make: Callable[[], Store]) -> None:
    async with _opened(make) as one:
        await _created(one, "a")
    async with _opened(make) as two:
        (claimed,) = await two.claim_orphans(_ANY_TOOL, 10)
        _law.equal(
            (claimed.fence, [e.seq for e in claimed.events]), (2, [1]), "a runtime that closed left it to the next"
        )


store_contract: Sequence[Check] = (
    events_come_back_as_they_were,
    identity_is_caller_thread_and_id,
    an_append_needs_the_right_number_and_fence,
    of_two_writers_one_wins,
    appends_keep_their_order,
    answers_come_once_on_the_loop,
    what_cannot_be_stored_harms_no_other,
    history_is_filtered_newest_first,
    artifacts_are_kept_by_content,
    sweeping_goes_in_small_steps,
    requests_of_outsiders_are_kept,
    a_closed_store_refuses,
)
shared_store_contract: Sequence[Check] = (
    what_was_written_is_there_for_others,
    live_owners_are_left_alone,
    dead_owners_calls_are_claimed_once,
    handed_back_calls_are_claimed,
)
