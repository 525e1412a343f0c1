"""Laws of a store that one process can check: appending, numbers, fences, reading."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any

from clicket.errors import ClicketError, NotFound, StoreUnavailable
from clicket.kernel import State
from clicket.model import rows_of
from clicket.model.ports import (
    Append,
    CacheUse,
    Duplicate,
    Keep,
    LimitsScans,
    OutcomeStats,
    Query,
    ScanEnd,
    Stale,
    Store,
    thread_counts_in,
)
from clicket.model.unit import Start
from clicket.testing.store_kit import (
    ALIVE,
    Laws,
    an_event,
    append,
    created,
    creation,
    ended,
    law,
    news,
    paged_ids,
    seqs,
)

__all__ = ["laws"]

laws = Laws()


@laws.opened(ALIVE)
async def events_come_back_as_they_were(store: Store) -> None:
    first = await created(store, "a")
    second = news(first, number=3)
    law.equal(await append(store, second), [None], "news of a known call are appended")
    (stored,) = await store.load("a")
    law.equal(stored.events, [*first.events, *second.events], "every value is exact, in order")
    law(stored.key == first.key != 0, "a creating append receives the key")
    law.equal((stored.fence, stored.claims), (1, 1), "fence and claims start at 1")
    for after in range(6):
        found = [event.seq for event in await store.events(stored.key, "a", after)]
        law.equal(found, [n for n in range(1, 5) if n > after], f"events after {after}")
    law.equal(await store.events(stored.key + 1000, "b", 0), [], "an unknown key has no events")


@laws.opened(ALIVE)
async def identity_is_caller_thread_and_id(store: Store) -> None:
    await created(store, "a")
    await created(store, "a", thread="u")
    await created(store, "a", caller="c")
    (error,) = await append(store, creation("a"))
    law(isinstance(error, Duplicate), f"creating a call twice is a Duplicate, not {error!r}")
    law.equal(len(await store.load("a")), 3, "a duplicate changes nothing")
    law.equal(len(await store.load("a", "u")), 1, "load by thread")
    law.equal(len(await store.load("a", caller="")), 2, "load by caller: an empty one is a caller, too")
    keys = [stored.key for stored in await store.load("a")]
    law.equal(keys, sorted(keys, reverse=True), "the newest first")
    law.equal(await store.load("missing"), [], "an unknown id is not an error")


@laws.opened(ALIVE)
async def a_document_can_forbid_a_creation(store: Store) -> None:
    """Alone, and among others in one iteration of the loop; whether the call waits, runs or has ended from its creation on."""
    await store.put_document("past", "é", b"1", None)
    known = await created(store, "known")
    stats = OutcomeStats(tool="tool", outcome="failed", error="", bucket=None, seconds=0.5, effect="failed", at=300.0)
    for group in (True, False):
        waits = creation("waits")
        runs = _start("runs")
        ends = creation("ends")
        waits.owned, waits.queue = False, "later"
        ends.state, ends.ended_at, ends.stats, ends.cache = State.FAILED, 300.0, stats, CacheUse("k", True)
        known = news(known)
        for change in (waits, runs, ends, known):
            change.unless = ("past", "é")
        others = [_start(f"{n} {group}") for n in range(3)]
        others[1].unless, others[2].unless = ("past", "e"), ("pas", "té")
        changes = [others[0], waits, runs, others[1], ends, others[2], known]
        for change in changes:
            change.group = group
        if group:
            answers = await append(store, *changes)
        else:
            answers = [error for change in changes for error in await append(store, change)]
        refused = [change.id for change, error in zip(changes, answers, strict=True) if isinstance(error, Duplicate)]
        law.equal(refused, ["waits", "runs", "ends"], f"the document is there: {answers}")
        law.equal(len([each for each in answers if each is None]), 4, "it forbids no other append")
        law.equal([await store.load(id) for id in refused], [[], [], []], "what was refused is not there")
    law.equal(await store.figures(), [], "nor is it counted")
    law.equal((await store.cache_stats()).hits, 0, "nor does it use the cache")
    law.equal(await store.claim_waiting(frozenset({"later"}), 9), [], "nor does it wait for a worker")
    await store.delete_document("past", "é")
    again = _start("runs")
    again.unless = ("past", "é")
    law.equal(await append(store, again), [None], "the document is gone")
    law.equal(await seqs(store, "runs"), [1, 2, 3, 4, 5, 6, 7], "the call is whole")


@laws.opened(ALIVE)
async def a_call_is_made_only_as_its_maker_is_known(store: Store) -> None:
    """By the number and the fence of the one that makes it, until that one ends; alone, and with what its owner appends at once."""
    maker = await created(store, "maker")

    def made(id: str, last: int, fence: int = 1) -> Append:
        change = _start(id) if "starts" in id else creation(id)
        change.maker = (maker.key, last, fence)
        return change

    (one, two) = (news(maker), news(news(maker)))
    answers = await append(
        store, made("early", 2), one, made("after one", 2), made("starts after one", 2), two, made("late", 2)
    )
    law.equal(
        [type(each) for each in answers], [Stale, *[type(None)] * 4, Stale], f"in the order of the appends: {answers}"
    )
    signal = Append(maker.call, 3, -1, news(two).unit, State.PENDING, key=maker.key, signal=True)
    law.equal(await append(store, signal), [None], "another process writes a signal")
    unread = made("starts unread", 4), made("unheard", 3), made("wrong fence", 4, 2)
    refused = await append(store, news(two), *unread)
    law.equal(
        [type(each) for each in refused],
        [Stale, Stale, Stale, Stale],
        "a signal may have the very number that its owner had for an event of its own, and the fence is its own",
    )
    answers = await append(store, news(news(two)), made("starts read", 5))
    law.equal(answers, [None, None], "its owner has written on top of the signal")
    ending = news(news(news(two)), state=State.COMPLETED, ended_at=200.0)
    answers = await append(store, ending, made("at the end", 6), made("gone", 1))
    law.equal([type(each) for each in answers], [type(None), Stale, Stale], "after its end it makes none")
    names = ("early", "late", "starts unread", "unheard", "wrong fence", "at the end", "gone")
    law.equal([await store.load(id) for id in names], [[]] * len(names), "what was refused is not there")


def _start(id: str) -> Append:
    """Creates a call that starts at once, as most do."""
    data = {"tool": "tool", "thread": "t"}
    return Append(creation(id).call, 0, 1, Start(data, {"n": 1}, 100.0, 1e-5, 1e-5, 1e-5, 100.1, 1), State.RUNNING)


@laws.opened(ALIVE)
async def an_append_needs_the_right_number_and_fence(store: Store) -> None:
    first = await created(store, "a")
    good = news(first)
    law.equal(await append(store, good), [None], "the right number and fence")
    for wrong in (good, news(good, number=2, fence=2), news(news(good))):
        (error,) = await append(store, wrong)
        law(isinstance(error, Stale), f"expect={wrong.expect} fence={wrong.fence} is Stale, not {error!r}")
    law.equal(await seqs(store, "a"), [1, 2], "a stale append changes nothing")
    (error,) = await append(store, news(creation("ghost")))
    law(isinstance(error, Stale), "news of a call that is not there are Stale")
    empty = Append(first.call, 2, 1, None, State.PENDING, key=first.key)
    law.equal(await append(store, empty), [None], "an empty append asks: am I up to date?")


@laws.opened(ALIVE)
async def of_two_writers_one_wins(store: Store) -> None:
    first = await created(store, "a")
    rivals = [news(first, state=state, ended_at=200.0) for state in (State.FAILED, State.TIMEOUT, State.CANCELLED)]
    answers = await append(store, *rivals)
    law.equal([type(a) for a in answers], [type(None), Stale, Stale], "the first one wins, the others are refused")
    (stored,) = await store.load("a")
    law.equal([event.state for event in stored.events], [State.PENDING, State.FAILED], "a call has one outcome")


@laws.opened(ALIVE)
async def appends_keep_their_order(store: Store) -> None:
    """A thousand appends in ten chains: each append is accepted only if those before it were applied first."""
    heads = [await created(store, f"c{n}") for n in range(10)]
    chains = [list(itertools.accumulate(range(100), lambda last, _: news(last), initial=head))[1:] for head in heads]
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
    law.equal(order, [(change.id, change.expect) for change in changes], "answered in the order they were handed over")
    for head in heads:
        law.equal(await seqs(store, head.id), list(range(1, 102)), "no gap")


@laws.opened(ALIVE)
async def answers_come_once_on_the_loop(store: Store) -> None:
    loop = asyncio.get_running_loop()
    calls: list[tuple[str, bool]] = []

    def done(change: Append, error: ClicketError | None) -> None:
        try:
            calls.append((change.id, asyncio.get_running_loop() is loop))
        except RuntimeError:
            calls.append((change.id, False))

    for change in (creation("a"), creation("a"), creation("b")):
        store.append(change, done)
    await created(store, "last")
    await store.renew()
    law.equal(calls, [("a", True), ("a", True), ("b", True)], "each append is answered once, on the event loop")


@laws.opened(ALIVE)
async def what_cannot_be_stored_harms_no_other(store: Store) -> None:
    poison = creation("poison")
    data = {"tool": "tool", "thread": "t", "text": "\ud800"}
    poison.unit = rows_of([an_event("poison", 1, "created", State.PENDING, data)])
    before, bad, after = await asyncio.wait_for(append(store, creation("a"), poison, creation("b")), 10.0)
    law.equal((before, after), (None, None), "the others are stored")
    law(bad is None or bool(await store.load("poison")) is False, "refused whole, or kept whole")
    await created(store, "c")


async def _numbers(store: Store, **wanted: Any) -> list[int]:
    return [int(stored.events[0].call_id[1:]) for stored in await store.history(Query(**wanted))]


@laws.opened(ALIVE)
async def history_is_filtered_newest_first(store: Store) -> None:
    for n in range(12):
        change = await created(store, f"c{n}", thread=f"t{n % 2}", tool="tool" if n % 3 else "other", at=100.0 + n)
        if n >= 8:
            await append(store, news(change, state=State.FAILED, ended_at=200.0))
    names = partial(_numbers, store)
    law.equal(await names(), list(range(11, -1, -1)), "newest first")
    law.equal(await names(thread="t1"), [11, 9, 7, 5, 3, 1], "filtered by thread")
    law.equal(await names(tool="other"), [9, 6, 3, 0], "filtered by tool")
    law.equal(await names(state=State.FAILED), [11, 10, 9, 8], "filtered by state")
    law.equal(await names(since=107.0), [11, 10, 9, 8, 7], "filtered by `since`")
    law.equal(await names(active=True, thread="t0"), [6, 4, 2, 0], "active ones of a thread")
    law.equal(await names(caller="nobody"), [], "filtered by caller")
    law.equal(await names(id_prefix="c1"), [11, 10, 1], "filtered by a prefix of the id")
    law.equal(await names(id_prefix="c%"), [], "a beginning is text, not a pattern")
    law.equal(await names(thread="t0' OR '1'='1"), [], "a filter is a value, not a query")
    law.equal(await names(limit=3), [11, 10, 9], "`limit` bounds the list")
    law.equal(await paged_ids(store, 5), [f"c{n}" for n in range(11, -1, -1)], "pages hold every call once")


@laws.opened(ALIVE)
async def history_is_filtered_by_content_and_in_either_order(store: Store) -> None:
    for n in range(12):
        change = creation(f"c{n}", thread=f"t{n % 2}", at=100.0 + n)
        metadata = {"user": f"u{n % 3}", "n": n, "odd": bool(n % 2), "text": "\"ü%'"}
        data = {"tool": "tool", "thread": f"t{n % 2}", "request_id": f"r{n // 4}", "metadata": metadata}
        change.unit = rows_of([an_event(f"c{n}", 1, "created", State.PENDING, data)])
        law.equal(await append(store, change), [None], "a call is stored")
        if n >= 6:
            code, state = [("tool_error", State.FAILED), ("timeout", State.TIMEOUT), ("", State.COMPLETED)][n % 3]
            more = {"error": {"code": code, "message": "", "type": ""}} if code else {"metadata": {"user": "late"}}
            end = an_event(f"c{n}", 2, "state_changed", state, more)
            last = Append(change.call, 1, change.fence, rows_of([end]), state, ended_at=200.0, key=change.key)
            law.equal(await append(store, last), [None], "a call ends")
    names = partial(_numbers, store)
    law.equal(await names(code="tool_error"), [9, 6], "filtered by error code")
    law.equal(await names(code="timeout"), [10, 7], "a code with a state of its own")
    law.equal(await names(code="timeout", state=State.FAILED), [], "a code that the state cannot have")
    law.equal(await names(code="no such code"), [], "a code that nothing has")
    law.equal(await names(request_id="r1"), [7, 6, 5, 4], "filtered by request id")
    law.equal(await names(metadata=(("user", "u1"),)), [10, 7, 4, 1], "filtered by metadata")
    law.equal(await names(metadata=(("user", "late"),)), [11, 8], "the outcome's metadata comes after the call's")
    law.equal(await names(metadata=(("user", "u0"), ("odd", True))), [9, 3], "all metadata must match")
    law.equal(await names(metadata=(("n", 1),)), [1], "a number is not a truth value")
    law.equal(await names(metadata=(("n", "10"),)), [10], "a text finds what is written so")
    law.equal(await names(metadata=(("text", "\"ü%'"),), limit=1), [11], "text is text, not a pattern")
    law.equal(await names(metadata=(("nothing", None),)), [], "a key that is not there has no value")
    law.equal(await names(until=104.0), [3, 2, 1, 0], "made before")
    law.equal(await names(since=102.0, until=104.0), [3, 2], "a span of time")
    law.equal(await names(id_contains="1"), [11, 10, 1], "filtered by a part of the id")
    law.equal(await names(id_contains="%"), [], "a part is text, not a pattern")
    law.equal(await names(ascending=True), list(range(12)), "oldest first")
    law.equal(await names(ascending=True, thread="t1", limit=2), [1, 3], "the oldest of a thread")
    law.equal(await names(ascending=True, since=109.5), [10, 11], "oldest first since")
    law.equal(await names(ascending=True, active=True), list(range(6)), "active ones, oldest first")
    law.equal(await names(ascending=True, state=State.FAILED), [6, 9], "filtered by state, oldest first")
    law.equal(await names(ascending=True, id_prefix="c1"), [1, 10, 11], "filtered by a prefix of the id, oldest first")
    law.equal(await names(ascending=True, request_id="r2", limit=2), [8, 9], "filtered by content, oldest first")
    for wanted in ({}, {"metadata": (("odd", True),)}, {"id_prefix": "c1"}):
        seen = await paged_ids(store, 2, ascending=True, **wanted)
        law.equal(seen, [f"c{n}" for n in await names(ascending=True, **wanted)], "pages hold every call once")


@laws.opened(ALIVE)
async def a_limited_search_ends_where_it_says(store: Store) -> None:
    if not isinstance(store, LimitsScans):
        return
    made = [await created(store, f"c{n}", thread=f"t{n % 2}", at=100.0 + n) for n in range(12)]

    async def ends(calls: int, **wanted: Any) -> ScanEnd | None:
        return await store.scan_end(Query(id_contains="x", **wanted), calls)

    law.equal(await ends(10), ScanEnd(key=made[2].key, created_at=102.0), "after this many calls, the newest first")
    law.equal(await ends(10, ascending=True), ScanEnd(key=made[9].key, created_at=109.0), "or the oldest first")
    law.equal(await ends(3, before=made[5].key), ScanEnd(key=made[2].key, created_at=102.0), "below a cursor")
    law.equal(
        await ends(3, after=made[5].key, ascending=True), ScanEnd(key=made[8].key, created_at=108.0), "or above one"
    )
    law.equal(await ends(13), None, "there are fewer calls")
    in_thread = await ends(3, thread="t1")
    law(in_thread is not None and in_thread.key in (made[7].key, made[9].key), "an index may leave calls out")


@laws.opened(ALIVE)
async def artifacts_are_kept_by_content(store: Store) -> None:
    data = bytes(range(256)) * 16
    name = f"sha256-{sha256(data).hexdigest()}"
    for _ in range(2):
        await store.put_artifact(name, [data[:1000], b"", data[1000:]])
    for start, end in ((0, None), (0, 10), (10, 20), (4000, 9000), (5, 5), (9000, None), (9000, 9001)):
        law.equal(await store.read_artifact(name, start, end), data[start:end], f"bytes {start} to {end}")
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


@laws.opened(ALIVE)
async def signals_of_outsiders_are_kept(store: Store) -> None:
    first = await created(store, "a")
    law.equal(await append(store, news(first, fence=-1, signal=True)), [None], "a signal needs no fence")
    (error,) = await append(store, news(first))
    law(isinstance(error, Stale), "the owner finds out with its next append")
    law.equal(await seqs(store, "a"), [1, 2], "the signal is an event")
    done = await ended(store, "b")
    late = news(done, state=State.COMPLETED, fence=-1)
    law.equal(await append(store, late), [None], "a late result is kept even after the end")
    (stored,) = await store.load("b")
    law.equal([event.seq for event in stored.events], [1, 2, 3], "events are numbered without a gap")
    law.equal(len(await store.history(Query(state=State.COMPLETED))), 1, "a late result does not change the outcome")
    law.equal(await store.history(Query(active=True, id_prefix="b")), [], "a call that ended stays ended")
    two = [news(late, state=State.COMPLETED, fence=-1) for _ in range(2)]
    answers = await append(store, *two)
    law.equal(
        [type(a) for a in answers], [type(None), Stale], "of two events behind the end with one number the first wins"
    )
    law.equal(await seqs(store, "b"), [1, 2, 3, 4], "the other one is not there")


@laws.opened(ALIVE)
async def a_call_that_ended_stays_as_it_ended(store: Store) -> None:
    """Its former owner may still write: a late result is kept, and changes nothing of the end."""
    first = await created(store, "a", at=100.0)
    end = news(first, state=State.FAILED, ended_at=200.0)
    law.equal(await append(store, end), [None], "a call ends")
    use = CacheUse("k", False, None)
    late = news(end, state=State.COMPLETED, waiting_for="approval", ended_at=300.0, cache=use)
    law.equal(await append(store, late), [None], "a late result is kept")
    law.equal(await append(store, news(late, state=State.RUNNING)), [None], "also one that says that the call runs")
    law.equal(await seqs(store, "a"), [1, 2, 3, 4], "as events")
    law.equal([call.id for call in await store.history(Query(state=State.FAILED))], ["a"], "the state stays")
    law.equal(await store.history(Query(active=True)), [], "it does not run again")
    (counts,) = await thread_counts_in(store, [("", "t")], 10)
    law.equal((counts.states, counts.last_at), ({"failed": 1}, 200.0), "it is counted as it ended")
    law.equal(await store.owned(), [], "no owner holds it")
    law.equal((await store.cache_stats()).misses, 0, "what comes after the end does not use the cache")
    step = await store.sweep(Keep(since=250.0), 10)
    law.equal((step.calls, await store.load("a")), (1, []), "the time of the end stays")


@laws.opened(ALIVE)
async def what_comes_for_a_removed_call_is_refused(store: Store) -> None:
    for owned in (True, False):
        end = await ended(store, "a")
        step = await store.sweep(Keep(calls=0), 10)
        law.equal(step.calls, 1, "the call is removed")
        change = news(end) if owned else news(end, fence=-1)
        (error,) = await append(store, change)
        law(isinstance(error, Stale), f"what comes for it is Stale, not {error!r}")
        law.equal(await store.history(Query()), [], "and leaves no call")


@laws.opened(ALIVE)
async def an_id_that_was_refused_can_be_removed(store: Store) -> None:
    end = await ended(store, "a")
    (error,) = await append(store, creation("a"))
    law(isinstance(error, Duplicate), "an identity is used once")
    law.equal(await store.events(end.key, "b", 0), [], "a key with another id is not a call")
    law.equal((await store.sweep(Keep(calls=0), 10)).calls, 1, "the call is removed")
    await created(store, "a")


@laws
async def a_closed_store_refuses(make: Callable[[], Store]) -> None:
    store = make()
    await store.open(ALIVE)
    first = await created(store, "a")
    await store.close()
    (error,) = await append(store, news(first))
    law(isinstance(error, StoreUnavailable), f"an append to a closed store is StoreUnavailable, not {error!r}")
    for what in (store.load("a"), store.history(Query()), store.events(first.key, "a", 0)):
        try:
            await what
        except StoreUnavailable:
            continue
        raise AssertionError("a closed store answered a read; it raises StoreUnavailable")
    await store.close()
